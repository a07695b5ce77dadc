"""Rows about flat searches in this process, without a daemon: kernels and other engines."""

from __future__ import annotations

import math
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels import find as kernel
from viking_kernels.arrays import (
    COUNTS,
    DIRECTORIES,
    FILES,
    I32,
    NEVER,
    SCRIPTS,
    TEXT_LENGTH,
    TEXTS,
    Directories,
    Files,
    RawQuery,
    Scope,
    SubtreeStats,
    Terms,
    Texts,
    Tree,
    Vectors,
)
from viking_kernels.dense import code_centroids
from viking_kernels.flat import keyword_top
from viking_kernels.quantize import int4_axis, int4_room, quantize_int4, quantize_rows
from viking_kernels.simd import padded
from viking_kernels.weighted_search import WeightedPlan, weighted_top

from benchmarks.bench import QUERIES, Bench, recall
from benchmarks.measure import Row, interleaved, percentiles
from benchmarks.peer_adapters import F32, PEERS, TOP_K, Rows, load

KEYWORD_PEERS = ("bm25s", "tantivy")
_ALL = np.zeros(0, np.uint8)  # no row is excluded; also an empty tail
_NONE = np.zeros(0, np.int32)

Search = Callable[[int], Sequence[int]]
"""A function from the number of a query to its ten best rows."""


def scan_int8(bench: Bench) -> Iterator[Row]:
    """Measure the ten nearest vectors; the baseline is FAISS's flat index on one thread."""
    vectors = np.array(bench.tree.vectors)
    asked = np.array([np.frombuffer(q.vector, "<f4") for q in bench.tree.queries(QUERIES)])
    asked /= np.linalg.norm(asked, axis=1)[:, None]
    coded = int4_room(len(vectors), int4_axis(vectors))
    quantize_int4(vectors, coded)
    codes = np.zeros((len(vectors), padded(vectors.shape[1])), np.int8)
    scale, error = np.empty((2, len(vectors)), np.float32)
    quantize_rows(vectors, codes, scale, error)
    tree, stats, scope = one_directory(np.zeros(len(vectors), np.int32), vectors.shape[1])
    held = Vectors(
        codes,
        scale,
        error,
        vectors,
        codes[:0],
        scale[:0],
        error[:0],
        vectors[:0],
        np.zeros(len(vectors), np.int64),
        coded,
    )
    no_centroids = code_centroids(np.zeros((SCRIPTS, vectors.shape[1]), np.float32), coded.axis)
    no_terms = _Postings(["word"]).terms("")
    scratch = kernel.scratch(1, len(vectors), len(vectors))
    plan = WeightedPlan(1.0, 0.0, TOP_K, _NONE, _ALL)

    def search(i: int) -> Sequence[int]:
        question = RawQuery(asked[i % QUERIES], 0, True, False, no_centroids)
        rows, _, _ = weighted_top(tree, held, stats, question, scope, no_terms, plan, scratch)
        return rows.tolist()

    exact = asked.astype(np.float64) @ vectors.astype(np.float64).T
    faiss = PEERS["faiss"](Rows(vectors, [], [], np.ones(len(vectors), bool)), Path())
    others: dict[str, Search] = {"faiss": lambda i: faiss.vector(asked[i % QUERIES], 0)}
    yield from _compared(bench, "scan_int8", search, others, exact)


def keyword(bench: Bench) -> Iterator[Row]:
    """Measure the ten best texts by words; the baseline is the faster of bm25s and tantivy."""
    texts = [_words(bench.tree.text(node)) for node in range(bench.tree.nodes)]
    # Each word stands once, because the peers weight repeated words differently.
    queries = [_words(query.text) for query in bench.tree.queries(QUERIES)]
    asked = [" ".join(dict.fromkeys(query.split())) for query in queries]
    index = _Postings(texts)
    terms = [index.terms(text) for text in asked]
    tree, stats, scope = one_directory(index.length, 1)

    def search(i: int) -> Sequence[int]:
        question = terms[i % len(terms)]
        rows, _ = keyword_top(tree.texts, stats.counts[0], scope, _ALL, question, _ALL, TOP_K)
        return rows.tolist()

    with tempfile.TemporaryDirectory() as home:
        rows = Rows(np.zeros((0, 0), np.float32), texts, texts, np.ones(len(texts), bool))
        others: dict[str, Search] = {}
        for name in KEYWORD_PEERS:
            if peer := load(name, rows, Path(home)):
                others[name] = lambda i, peer=peer: peer.keyword(asked[i % len(asked)], 0)  # type: ignore[misc]
        exact = np.array([index.scores(text) for text in asked])
        yield from _compared(bench, "keyword", search, others, exact)


def _words(text: str) -> str:
    """Return the words of a text in lower case, without operators of tantivy's queries."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _compared(
    bench: Bench, name: str, search: Search, others: dict[str, Search], exact: npt.NDArray[Any]
) -> Iterator[Row]:
    """Yield a row; the fastest other engine is the baseline, and ratio is baseline / value."""
    best = np.argsort(-exact, axis=1, kind="stable")[:, :TOP_K]
    truth = [set(found[row[found] > 0].tolist()) for found, row in zip(best, exact, strict=True)]

    def reached(of: Search) -> float:
        return statistics.fmean(recall(set(of(i)), known) for i, known in enumerate(truth))

    ours, *taken = interleaved(bench.seconds, search, *others.values(), size=len(truth))
    shown = percentiles(ours)
    times = {other: float(np.median(t)) * 1e3 for other, t in zip(others, taken, strict=True)}
    fastest = min(times, key=times.__getitem__, default=None)
    baseline = times[fastest] if fastest else None
    yield Row(
        name,
        bench.tree.nodes,
        shown["p50"],
        "ms",
        baseline,
        baseline / shown["p50"] if baseline else None,
        reached(search),
        **shown,
        baseline_recall=reached(others[fastest]) if fastest else None,
        data=bench.data,
        remark=", ".join(f"{other} {taken:.3g} ms" for other, taken in times.items()),
    )


def one_directory(length: I32, dimension: int) -> tuple[Tree, SubtreeStats, Scope]:
    """Return a base segment of one directory, in which each text is a file of its own."""
    n = len(length)
    rows, zeros, none = np.arange(n, dtype=np.int32), np.zeros(n, np.int32), np.zeros(0, np.int32)
    never, root, nothing = np.full(n, NEVER), np.zeros(1, np.int32), np.full(1, -1, np.int32)
    directories = Directories(
        nothing,
        root + 1,
        np.array([0, n], np.int32),
        np.array([0, n], np.int32),
        never[:1],
        root,
        nothing,
        none,
        np.zeros(1, np.uint64),
    )
    following = np.append(rows[1:], nothing)[:n]
    files = Files(
        zeros, following, rows - 1, never, np.stack([rows, rows + 1], 1), np.full(n, -1, np.int32)
    )
    texts = Texts(rows, zeros, zeros.astype(np.uint8), length, zeros + 1, zeros, never.copy(), none)
    counts = np.zeros((1, COUNTS), np.int64)
    counts[0, [FILES, DIRECTORIES, TEXTS, TEXT_LENGTH]] = n, 1, n, length.sum()
    centroids, none_of = np.zeros((0, dimension), np.float32), np.zeros(0, np.float32)
    stats = SubtreeStats(
        root,
        counts,
        np.full((1, SCRIPTS), -1, np.int32),
        np.zeros(0, np.int64),
        centroids,
        np.zeros((0, padded(dimension)), np.int8),
        none_of,
        none_of,
        centroids,
    )
    return Tree(directories, files, texts), stats, Scope(0, 0, 1, 0, n, 0, n, 1, n, n, 1)


class _Postings:
    """An inverted index of the words between blanks, split as by the peers."""

    def __init__(self, texts: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        words = [[numbers.setdefault(w, len(numbers)) for w in text.split()] for text in texts]
        self._numbers = numbers
        self.length = np.array([len(text) for text in words], np.int32)
        at = np.repeat(np.arange(len(texts)), self.length)
        pairs = np.concatenate([np.array(text, np.int64) for text in words]) * len(texts) + at
        found, tf = np.unique(pairs, return_counts=True)
        term, text = np.divmod(found, len(texts))
        self._at = np.searchsorted(term, np.arange(len(numbers) + 1)).astype(np.int64)
        self._text, self._tf = text.astype(np.int32), tf.astype(np.uint16)
        self._keys = np.arange(len(numbers), dtype=np.uint64)

    def terms(self, query: str) -> Terms:
        """Return the postings of a query, without unknown words, as the peers do."""
        asked = sorted({self._numbers[word] for word in query.split() if word in self._numbers})
        return Terms(
            np.array(asked, np.uint64),
            np.ones(len(asked), np.float32),
            self._keys,
            self._at,
            self._text,
            self._tf,
            np.zeros(len(asked) + 1, np.int64),
            self._text[:0],
            self._tf[:0],
        )

    def scores(self, query: str) -> F32:
        """Return [texts] Lucene's BM25 (k1 1.2, b .75), divided by the ideal score."""
        scores = np.zeros(len(self.length), np.float64)
        norms = 1.2 * (0.25 + 0.75 * self.length / self.length.mean())
        ideal = 0.0
        for term in self.terms(query).key.tolist():
            low, high = self._at[term : term + 2].tolist()
            text, tf = self._text[low:high], self._tf[low:high]
            idf = math.log(1 + (len(scores) - (high - low) + 0.5) / (high - low + 0.5))
            scores[text] += idf * tf / (tf + norms[text])
            ideal += idf
        # Kernels and peers use fp32 too, so that equal texts tie.
        return (scores / max(ideal, 1e-9)).astype(np.float32)
