"""Plain twins of the kernels: node scores, the gate and final scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tests.kernels.naive.codes import quantize_rows
from tests.kernels.naive.dense import (
    clipped,
    direction_of,
    directory_dense,
    parts_of_code,
    raw_cosine,
    to_int8,
)
from tests.kernels.naive.tree import (
    BEST_BY_WORDS,
    CAP_SLOPE,
    CODES_TELL,
    DENSE_WEIGHT,
    F64,
    ICC_FULL,
    MANY_FILES,
    NEGLIGIBLE,
    OTHER_SCRIPT,
    PARENT_WEIGHT,
    SAMPLE_FILES,
    SCRIPTS,
    Directory,
    File,
    Query,
    Text,
    files_in,
    texts_below,
    walk,
)


def script_mismatch(script: int, query_script: int) -> bool:
    """Return whether two scripts differ; 0 is none."""
    return len({script, query_script} - {0}) == 2


def dense_weight(lexical_missing: bool, use_dense: bool, use_lexical: bool) -> float:
    """Return w; a missing part leaves all weight to the other one."""
    if not use_dense:
        return 0.0
    return 1.0 if lexical_missing or not use_lexical else DENSE_WEIGHT


def other_script_cap(
    top: Directory, query: Query, mean: F64, lexical: Mapping[int, float]
) -> float:
    """Return the best node score of the texts in the query's script with the best words."""
    texts = texts_below(top)
    own = [t for t in texts if not script_mismatch(t.script, query.script)]
    if not query.use_dense or query.vector is None or not query.use_lexical or own == texts:
        return math.inf
    by_words = sorted((lexical[t.id] for t in own), reverse=True)
    limit = by_words[BEST_BY_WORDS] if len(by_words) > BEST_BY_WORDS else 0.0
    scores = [text_score(t, query, mean, lexical[t.id]) for t in own if lexical[t.id] > limit]
    return max(scores, default=math.inf)


def capped(dense: float, cap: float) -> float:
    """Return the node score of a text in another script, which rises with dense."""
    return max(OTHER_SCRIPT * dense, min(dense, cap - CAP_SLOPE * (1 - dense)))


def dense_score(text: Text, query: Query, mean: F64) -> float:
    """Return the dense score of a text; 0 without a vector."""
    return raw_cosine(text, query, mean)


def next_run(scripts: Sequence[int], start: int, high: int, most: int) -> int:
    """Return the end of the run of equal scripts, of at most `most`."""
    same = itertools.takewhile(lambda s: s == scripts[start], scripts[start:high])
    return start + len(list(itertools.islice(same, most)))


def text_score(text: Text, query: Query, mean: F64, lexical: float, cap: float = math.inf) -> float:
    """Return the node score of a text."""
    missing = script_mismatch(text.script, query.script)
    w = dense_weight(missing, query.use_dense and query.vector is not None, query.use_lexical)
    dense = raw_cosine(text, query, mean)
    if missing:
        return w * capped(dense, cap)
    return w * dense + (1 - w) * lexical


def score_codes(
    text: Text,
    code: tuple[Sequence[int], float, float],
    query: Query,
    mean: F64,
    lexical: float,
    cap: float = math.inf,
) -> float:
    """Return the node score of a text from the code of its vector: (code, scale, residual norm).

    The vector itself is used if the error bound of the code is above CODES_TELL.

    """
    missing = script_mismatch(text.script, query.script)
    w = dense_weight(missing, query.use_dense and query.vector is not None, query.use_lexical)
    words = 0.0 if missing else lexical
    if w == 0 or text.vector is None:
        return (1 - w) * words
    above, square = parts_of_code(code[0], code[1], query, mean, text.script)
    if w * left_open(above, square, code[2], query, mean[text.script]) > CODES_TELL:
        return text_score(text, query, mean, lexical, cap)
    dense = clipped(above, square)
    return w * (capped(dense, cap) if missing else dense) + (1 - w) * words


def left_open(above: float, square: float, left: float, query: Query, mean: F64) -> float:
    """Return the error bound of a cosine from codes: dot / sqrt(square) with errors in both."""
    _, _, direction_left = to_int8(direction_of(query, mean[None].repeat(SCRIPTS, axis=0)))
    _, _, mean_left = to_int8(mean)
    above_off = direction_left + left * (1 + direction_left)
    square_off = 2 * (mean_left + left * (float(np.linalg.norm(mean)) + mean_left))
    if above + above_off <= 0:
        return 0.0
    if square_off > square / 2 or square - square_off <= NEGLIGIBLE**2:
        return 1.0
    return (above_off + (abs(above) + above_off) * square_off / square) / math.sqrt(square)


def code_of(text: Text) -> tuple[Sequence[int], float, float]:
    """Return the code of a text as `score_codes` takes it."""
    if text.vector is None:
        return [], 0.0, 0.0
    (code,), (scale,), (left,) = quantize_rows(text.vector[None])
    return code.tolist(), float(scale), float(left)


def text_score_from_code(
    text: Text, code: tuple[Sequence[int], float, float], query: Query, mean: F64, lexical: float
) -> float:
    """Return `score_codes` of a text of the tail."""
    return score_codes(text, code, query, mean, lexical)


def file_score(file: File, own: Mapping[int, float]) -> tuple[float, int]:
    """Return (node score, id of the best text, -1 none); the first of equal texts is the best."""
    best = max(file.texts, key=lambda text: own[text.id], default=None)
    return (own[best.id], best.id) if best else (0.0, -1)


def best_passages(file: File, own: Mapping[int, float], count: int) -> list[int]:
    """Return the ids of the best passages above 0; the first text of a file is its abstract."""
    able = [text for text in file.texts[1:] if own[text.id] > 0]
    return [text.id for text in sorted(able, key=lambda text: -own[text.id])[:count]]


def sample_directories(top: Directory, files: int, key: Mapping[int, int]) -> list[Directory]:
    """Return the directories whose hash is in the share of the sample."""
    share = 1.0 if files <= SAMPLE_FILES else SAMPLE_FILES / files
    return [d for d in walk(top) if share == 1.0 or key[d.id] / 2**64 < share]


def intraclass_correlation(groups: Iterable[Sequence[float]]) -> tuple[float, int, int]:
    """Return (ICC(1), files, groups with files); 1 if it is undefined."""
    filled = [group for group in groups if len(group)]
    total = sum(map(len, filled))
    if len(filled) < 2 or total == len(filled):
        return 1.0, total, len(filled)
    overall = sum(map(sum, filled)) / total
    means = [sum(group) / len(group) for group in filled]
    between = sum(len(g) * (m - overall) ** 2 for g, m in zip(filled, means, strict=True))
    within = sum((x - m) ** 2 for g, m in zip(filled, means, strict=True) for x in g)
    msb, msw = between / (len(filled) - 1), within / (total - len(filled))
    n0 = (total - sum(len(g) ** 2 for g in filled) / total) / (len(filled) - 1)
    if msb + (n0 - 1) * msw <= 1e-12:
        return 1.0, total, len(filled)
    return min(max((msb - msw) / (msb + (n0 - 1) * msw), 0.0), 1.0), total, len(filled)


def gate_of(icc: float) -> float:
    """Return the gate in float32, so that the order of the icc's sums cannot change it."""
    return 0.0 if (gate := float(np.float32(1 - icc / ICC_FULL))) < 1e-9 else gate


def parent_weight(gate: float, files_per_directory: float) -> float:
    """Return b, which falls with the number of files per directory."""
    return PARENT_WEIGHT * gate * min(1.0, MANY_FILES / max(1.0, files_per_directory))


def directory_scores(
    top: Directory, query: Query, mean: F64, lexical: Mapping[int, float]
) -> dict[int, tuple[float, float, float, float]]:
    """Return (dense, lexical, dense weight, node score) of directories by id."""
    direction = direction_of(query, mean)
    use_dense = query.use_dense and query.vector is not None
    out = {}
    for directory in walk(top):
        missing = all(script_mismatch(text.script, query.script) for text in texts_below(directory))
        missing = missing and query.script != 0
        w = dense_weight(missing, use_dense, query.use_lexical)
        dense = directory_dense(directory, direction, mean) if w > 0 else 0.0
        words = 0.0 if missing else lexical[directory.id]
        out[directory.id] = (dense, words, w, w * dense + (1 - w) * words)
    return out


def root_weight(top: Directory, parent_weight: float) -> float:
    """Return b for the children of the scope's root."""
    return parent_weight if top.abstract else 0.0


def parent_share(directory: Directory, weights: Sequence[float], top: Directory) -> float:
    """Return b for the children of a directory, of (b, b below the root, c)."""
    b, below_root, *_ = weights
    return {directory.id: b, top.id: below_root}[directory.id]


def propagate(
    top: Directory, own: Mapping[int, float], parent_weight: float, below_root: float
) -> dict[int, float]:
    """Return the final scores of directories by id."""
    final = {top.id: own[top.id]}
    for directory in walk(top):
        b = below_root if directory is top else parent_weight
        for child in directory.directories.values():
            final[child.id] = (1 - b) * own[child.id] + b * final[directory.id]
    return final


def rescore_exactly(top: Directory, directory: Directory) -> set[int]:
    """Return the ids of a directory and its ancestors, which get exact scores."""
    return {d.id for d in walk(top) if f"{directory.uri}/".startswith(f"{d.uri}/")} | {top.id}


def smooth(own: float, before: float, after: float, share: float) -> float:
    """Return the weighted mean of a score and of its neighbours that exist (not below 0)."""
    parts = [(1.0, own)] + [(share, x) for x in (before, after) if x >= 0]
    return sum(w * x for w, x in parts) / sum(w for w, _ in parts)


def neighbour_windows(file: File) -> tuple[int, int, int]:
    """Return the ids of a file, the previous one and the next one, -1 none."""
    ids = [-1, *(f.id for f in files_in(file.parent)), -1]
    at = ids.index(file.id)
    return ids[at], ids[at - 1], ids[at + 1]


def final_score(smoothed: float, above: float, weight: float, title: float) -> float:
    """Return the final score of a file, at most 1."""
    return min(1.0, (1 - weight) * smoothed + weight * above + title)


def finals_in(
    directory: Directory,
    own: Mapping[int, float],
    weights: tuple[float, float, float],
    titles: Mapping[int, float],
) -> dict[int, float]:
    """Return the final scores of files by id; `weights` are b, c, the directory's final score."""
    b, share, above = weights
    out = {}
    for file in files_in(directory):
        _, *around = neighbour_windows(file)
        parts = [(1.0, own[file.id])] + [(share, own[i]) for i in around if i >= 0]
        smoothed = sum(w * x for w, x in parts) / sum(w for w, _ in parts)
        out[file.id] = final_score(smoothed, above, b, titles[file.id])
    return out


def finals_below(
    top: Directory,
    own: Mapping[int, float],
    weights: tuple[float, float, float],
    above: Mapping[int, float],
    titles: Mapping[int, float],
) -> dict[int, float]:
    """Return the final scores of files below `top`; `weights` are b, b below the root, c."""
    out = {}
    for directory in walk(top):
        b = weights[1] if directory is top else weights[0]
        out |= finals_in(directory, own, (b, weights[2], above[directory.id]), titles)
    return out


def texts_of_files(files: Iterable[File]) -> list[int]:
    """Return the ids of the texts of files."""
    return [text.id for file in files for text in file.texts]
