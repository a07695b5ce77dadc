"""Plain twins of the kernels: whole searches, fusion and salience."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.kernels.naive.dense import cosines, raw_cosine, scope_centroids
from tests.kernels.naive.lexical import known_share, rescale_to_floor, score_scope, score_titles
from tests.kernels.naive.scores import (
    code_of,
    dense_score,
    dense_weight,
    directory_scores,
    file_score,
    final_score,
    finals_below,
    gate_of,
    intraclass_correlation,
    neighbour_windows,
    other_script_cap,
    parent_weight,
    propagate,
    root_weight,
    score_codes,
    script_mismatch,
    smooth,
    text_score,
)
from tests.kernels.naive.tree import (
    F64,
    NEIGHBOUR_WEIGHT,
    Directory,
    File,
    Query,
    Text,
    files_below,
    files_in,
    texts_below,
    walk,
)


@dataclass
class Found:
    """The result of a find, by id; `best` are texts."""

    texts: dict[int, float]
    directories: dict[int, tuple[float, float, float, float]]
    directory_final: dict[int, float]
    scores: dict[int, float]
    best: dict[int, int]
    titles: dict[int, float]
    final: dict[int, float]
    icc: float
    gate: float
    cap: float
    files_per_directory: float
    mean: F64


def parts_of_files(
    file: File,
    query: Query,
    found: Found,
    lexical: Mapping[int, float],
    weights: tuple[float, float, float],
    top: Directory,
) -> tuple[float, ...]:
    """Return the parts of a file's score in the order of arrays.DENSE to FINAL."""
    own = found.scores[file.id]
    known = {**found.scores, -1: -1.0}
    dense = words = w = 0.0
    for text in file.texts:
        if text.id == found.best[file.id]:
            missing = script_mismatch(text.script, query.script)
            w = dense_weight(
                missing, query.use_dense and query.vector is not None, query.use_lexical
            )
            words = 0.0 if missing else lexical[text.id]
            dense = (own - (1 - w) * words) / w if w else 0.0
            if missing and w:
                dense = dense_score(text, query, found.mean)
                w = own / dense if dense else w
    b = weights[1] if file.parent is top else weights[0]
    smoothed = smooth(*(known[i] for i in neighbour_windows(file)), weights[2])
    above = found.directory_final[file.parent.id]
    title = found.titles[file.id]
    final = final_score(smoothed, above, b, title)
    return dense, words, w, own, smoothed, above, b, title, *[0.0] * 6, final


def sampled_scores(
    top: Directory, query: Query, mean: F64, lexical: Mapping[int, float], cap: float
) -> list[list[float]]:
    """Return the node scores from codes of each directory's files, which give the gate."""
    coded = {
        t.id: score_codes(t, code_of(t), query, mean, lexical[t.id], cap) for t in texts_below(top)
    }
    return [[file_score(f, coded)[0] for f in files_in(d)] for d in walk(top)]


def find(
    top: Directory, query: Query, prior: F64, alpha: float | None = None, gate: float | None = None
) -> Found:
    """Score everything below `top`; `gate` replaces the computed one."""
    mean = scope_centroids(top, prior)
    terms = query.terms if query.use_lexical else {}
    lexical, directory_lexical = score_scope(top, terms)
    lexical, _ = rescale_to_floor(top, lexical, query.script)
    cap = other_script_cap(top, query, mean, lexical)
    texts = {t.id: text_score(t, query, mean, lexical[t.id], cap) for t in texts_below(top)}
    offered = {file.id: file_score(file, texts) for file in files_below(top)}
    own = {key: value[0] for key, value in offered.items()}
    groups = sampled_scores(top, query, mean, lexical, cap)
    icc, files, filled = intraclass_correlation(groups)
    per_directory = files / max(1, filled)
    told = gate_of(icc)
    used = told if gate is None else gate
    b, share = parent_weight(used, per_directory), NEIGHBOUR_WEIGHT * used
    if alpha is not None:
        b, share = 1 - alpha, 0.0
    directories = directory_scores(top, query, mean, directory_lexical)
    owns = {key: value[3] for key, value in directories.items()}
    above = propagate(top, owns, b, root_weight(top, b))
    titles = score_titles(top, terms)
    final = finals_below(top, own, (b, root_weight(top, b), share), above, titles)
    best = {key: value[1] for key, value in offered.items()}
    return Found(
        *(texts, directories, above, own, best, titles, final),
        *(icc, told, cap, per_directory, mean),
    )


def score_nodes(contexts: Iterable[Directory | File], found: Found) -> list[float]:
    """Return the final score of each context."""
    return [
        found.final[context.id] if isinstance(context, File) else found.directory_final[context.id]
        for context in contexts
    ]


def keyword_top(
    top: Directory, terms: Mapping[str, float], allowed: Collection[int], k: int
) -> list[tuple[int, float]]:
    """Return (id, score) of the k best texts above 0; the first of equal texts comes first."""
    scores, _ = score_scope(top, terms)
    able = [(t.id, scores[t.id]) for t in texts_below(top) if t.id in allowed]
    return sorted((p for p in able if p[1] > 0), key=lambda pair: -pair[1])[:k]


def keep_best(
    kept: Sequence[tuple[int, float]], row: int, score: float, k: int
) -> list[tuple[int, float]]:
    """Return (row, score) of the k best with one more, ties by row."""
    return sorted([*kept, (row, score)], key=lambda one: (-one[1], one[0]))[:k]


def is_inside(died: int, revision: int, *, in_base: bool, below_root: bool) -> bool:
    """Return whether a text is alive and in the scope."""
    return died > revision and (in_base or below_root)


def is_allowed(file: int, allowed: Collection[int] | None) -> bool:
    """Return whether a text belongs to a file that the filter allows; None allows all files."""
    return file >= 0 and (allowed is None or file in allowed)


def weighted_sum(
    text: Text, query: Query, mean: F64, lexical: float, weights: tuple[float, float]
) -> tuple[float, float, float]:
    """Return (v * dense + w * lexical, dense, lexical) of a text."""
    missing = script_mismatch(text.script, query.script)
    words = 0.0 if missing or weights[1] == 0 else lexical
    dense = raw_cosine(text, query, mean) if query.vector is not None else 0.0
    share = sum(weights) if missing else weights[0]
    return share * dense + weights[1] * words, dense, words


def bound_scores(
    text: Text, query: Query, mean: F64, lexical: float, weights: tuple[float, float]
) -> float:
    """Return the weighted sum itself, the lowest valid upper bound."""
    score, _, _ = weighted_sum(text, query, mean, lexical, weights)
    return score


def weighted_top(
    top: Directory,
    query: Query,
    mean: F64,
    weights: tuple[float, float],
    allowed: Collection[int],
    k: int,
) -> list[tuple[int, float, float, float]]:
    """Return (id, score, dense, lexical) of the k best texts above 0, ties in their order."""
    lexical, _ = score_scope(top, query.terms)
    found = []
    for text in texts_below(top):
        if text.id in allowed:
            one = weighted_sum(text, query, mean, lexical[text.id], weights)
            found.append((text.id, *one))
    return sorted((one for one in found if one[1] > 0), key=lambda one: -one[1])[:k]


def features(
    top: Directory, texts: Iterable[Text], query: Query, usual: F64
) -> tuple[float, float, float]:
    """Return the share of known terms, and the cosines with some texts and the usual vector."""
    return known_share(top, query.terms), *cosines(texts, query, usual)


def rank_in_files(
    top: Directory,
    query: Query,
    mean: F64,
    weights: tuple[float, float],
    chosen: Collection[int],
    other_script: float,
    share: float,
) -> dict[int, float]:
    """Return the final score of each chosen text and of those beside it, by id.

    Those beside are the passages of its file before and after it. `share` is that of the file.
    """
    lexical, _ = score_scope(top, query.terms)
    finals: dict[int, float] = {}
    for file in files_below(top):
        scores = {}
        for text in file.texts:
            score, _, _ = weighted_sum(text, query, mean, lexical[text.id], weights)
            is_other = script_mismatch(text.script, query.script)
            scores[text.id] = score * other_script if is_other else score
        if not file.texts:
            continue
        abstract, *passages = [text.id for text in file.texts]
        beside: dict[int, list[int]] = {abstract: []}
        for i, text_id in enumerate(passages):
            beside[text_id] = passages[max(0, i - 1) : i] + passages[i + 1 : i + 2]
        listed = {one for text in chosen if text in beside for one in (text, *beside[text])}
        best = max((scores[text] for text in listed), default=0.0)
        for text_id in listed - ({abstract} if passages else set()):
            near = [scores[one] for one in beside[text_id]]
            smoothed = (scores[text_id] + 0.2 * sum(near)) / (1 + 0.2 * len(near))
            finals[text_id] = (1 - share) * smoothed + share * best
    return finals


def rrf(
    lists: Sequence[Sequence[int]], weights: Sequence[float], k: float
) -> list[tuple[int, float]]:
    """Return (row, score) of all rows with a score above 0, best first, ties by row."""
    scores: dict[int, float] = {}
    for rows, weight in zip(lists, weights, strict=True):
        for rank, row in enumerate(rows):
            scores[row] = scores.get(row, 0.0) + weight / (k + rank + 1)
    return sorted(
        ((r, s) for r, s in scores.items() if s > 0), key=lambda pair: (-pair[1], pair[0])
    )


def rank(
    semantic: Sequence[float],
    known: Sequence[tuple[int, int, int | None]],
    weights: Sequence[float],
    now: int,
) -> tuple[list[int], list[list[float]]]:
    """Return (order, parts); `known` has reinforcements, accesses and time (None: missing)."""
    *of_parts, half_life = weights
    most_reinforced = max((r for r, _, _ in known), default=0)
    most_accessed = max((a for _, a, _ in known), default=0)
    parts = []
    for meaning, (reinforced, accessed, said_at) in zip(semantic, known, strict=True):
        recency = 0.0
        if said_at is not None:
            days = max(0, now - said_at) / (24 * 60 * 60 * 1_000_000)
            recency = math.exp(-math.log(2) / half_life * days)
        parts.append(
            [
                meaning,
                math.log(reinforced + 1) / math.log(most_reinforced + 2),
                recency,
                math.log(accessed + 1) / math.log(most_accessed + 2),
            ]
        )
    scores = [sum(w * p for w, p in zip(of_parts, one, strict=True)) for one in parts]
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i)), parts


def within_budget(tokens: Sequence[int], budget: int, limit: int, skip: bool) -> list[int]:
    """Return the numbers of the texts that fit a budget, best first."""
    taken: list[int] = []
    for i, one in enumerate(tokens):
        if len(taken) == limit:
            break
        if sum(tokens[j] for j in taken) + one <= budget:
            taken.append(i)
        elif not skip:
            break
    return taken
