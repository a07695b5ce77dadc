"""Plain twin of the kernel of the second stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tests.kernels.naive.dense import direction_of
from tests.kernels.naive.lexical import idf
from tests.kernels.naive.tree import F64, Directory, File, Query, Text, files_in, texts_below


class Ranked(NamedTuple):
    """A file after the first stage, with its best text and that text's scores."""

    file: File
    final: float
    text: Text | None
    words: float
    meaning: float


def adjust(
    first: Sequence[Ranked],
    scores: Mapping[int, float],
    top: Directory,
    query: Query,
    mean: F64,
    turns: Mapping[int, int],
    named: Collection[int],
    factors: Mapping[int, float],
) -> dict[int, tuple[float, ...]]:
    """Return (feedback, cover, agreement, reply, date, kind, score) of files by id.

    Args:
        first: the files by falling score.
        scores: node scores by file.
        turns: by text; twice the speaker, and 1 if it asks.
        named: files of the days that the query names.
        factors: of the files' kinds; a file without one has 1.
    """
    out = {}
    u = direction_of(query, mean) if query.use_dense and query.vector is not None else None
    units = {one.file.id: unit(one.text, mean) for one in first}
    m = mean_of_first(first, units)
    for file, final, _, words, meaning in first:
        x, feedback = units[file.id], 0.0
        if u is not None and x is not None:
            moved = u + 0.3 * m
            length = float(np.sqrt(1 + 0.6 * float(u @ m) + 0.09 * float(m @ m)))
            gain = max(0.0, float(x @ moved) / length) - max(0.0, float(x @ u))
            feedback = 0.25 * gate(file, 20, 60) * gain
        ranks = place_of(words, [one.words for one in first])
        ranks *= place_of(meaning, [one.meaning for one in first])
        added = (
            feedback,
            0.03 * covered(file, top, query.terms if query.use_lexical else {}),
            0.04 * gate(file, 10, 30) / ranks if words > 0 and meaning > 0 else 0.0,
            0.15 * asked_before(file, scores, turns),
            0.08 * (file.id in named),
        )
        score = final + sum(added)
        kind = (factors.get(file.id, 1.0) - 1.0) * score
        out[file.id] = (*added, kind, min(max(score + kind, 0.0), 1.0))
    return out


def gate(file: File, few: int, many: int) -> float:
    """Return 0 for a file of few terms, 1 for one of many, and a straight line between."""
    return min(max((sum(len(t.terms) for t in file.texts) - few) / (many - few), 0.0), 1.0)


def place_of(score: float, scores: Sequence[float]) -> int:
    """Return the rank of a score, from 1; scores that tie have the same."""
    return 1 + sum(other > score + 1e-6 for other in scores)


def mean_of_first(first: Sequence[Ranked], units: Mapping[int, F64 | None]) -> F64:
    """Return the mean of the best three files and of those that tie with the third; or 0."""
    least = first[min(3, len(first)) - 1].final - 1e-6 if first else 0.0
    vectors = [units[one.file.id] for one in first if one.final >= least]
    known = [x for x in vectors if x is not None]
    return np.mean(known, axis=0) if known else np.zeros(1)


def unit(text: Text | None, mean: F64) -> F64 | None:
    """Return the centred vector of a text in unit length; None if it has none."""
    if text is None or text.vector is None:
        return None
    x: F64 = text.vector - mean[text.script]
    length = float(np.linalg.norm(x))
    return x / length if length > 1e-4 else None


def covered(file: File, top: Directory, terms: Collection[str]) -> float:
    """Return the share of the terms, by their idf below `top`, that a file has."""
    documents = [set(text.terms) for text in texts_below(top)]
    rarity = {t: idf(len(documents), sum(t in words for words in documents)) for t in terms}
    has = {term for text in file.texts for term in text.terms}
    total = sum(rarity.values())
    return sum(rarity[t] for t in terms if t in has) / total if total else 0.0


def asked_before(file: File, scores: Mapping[int, float], turns: Mapping[int, int]) -> float:
    """Return the node score of the file before, if another speaker asks in it; else 0."""
    siblings = files_in(file.parent)
    at = siblings.index(file)
    if at == 0:
        return 0.0
    before = siblings[at - 1]
    asks = any(turns[text.id] & 1 for text in before.texts)
    speakers = [max((turns[t.id] >> 1 for t in one.texts), default=0) for one in (before, file)]
    return scores[before.id] if asks and all(speakers) and len(set(speakers)) == 2 else 0.0
