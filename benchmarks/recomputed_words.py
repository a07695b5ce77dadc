"""BM25 of documents, computed again for `recompute`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from vikingd.index.lexicon.tokens import UNCOUNTED, term_hash

K1, B = 1.2, 0.75


class Documents:
    """An inverted index of documents."""

    def __init__(self, documents: Sequence[Mapping[str, int]]) -> None:
        lengths = list(map(length_of, documents))
        average = max(1.0, sum(lengths) / max(1, len(documents)))
        self._norms = [K1 * (1 - B + B * length / average) for length in lengths]
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for i, document in enumerate(documents):
            for term, tf in document.items():
                self._postings[term].append((i, tf))

    def idf(self, term: str) -> float:
        """Return Lucene's idf of a term."""
        df = len(self._postings.get(term, ()))
        return math.log(1 + (len(self._norms) - df + 0.5) / (df + 0.5))

    def bm25(self, weights: Mapping[str, float]) -> list[float]:
        """Return Lucene's BM25 of each document, divided by the ideal: the sum of weight * idf."""
        scores = [0.0] * len(self._norms)
        ideal = 0.0
        for term, weight in weights.items():
            found = self._postings.get(term, [])
            gain = weight * self.idf(term)
            ideal += gain
            for i, tf in found:
                scores[i] += gain * tf / (tf + self._norms[i])
        return [score / ideal for score in scores] if ideal > 0 else scores


def length_of(document: Mapping[str, int]) -> int:
    """Return the number of terms of a document that count in its length."""
    return sum(tf for term, tf in document.items() if counts_in_length(term))


def counts_in_length(term: str) -> bool:
    """Return False for a part of a name, see `vikingd.index.lexicon.tokens`."""
    return term_hash(term) < UNCOUNTED
