"""The main kernels by themselves: `pytest benchmarks --benchmark-enable`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from viking_kernels import bm25, dense, find, hierarchy, select, texts, walk
from viking_kernels.arrays import SCRIPTS, Query, Scope, Terms
from viking_kernels.scope import tail_directories

from benchmarks import data
from vikingd import uri as uris
from vikingd.index.index import Index, IndexSettings
from vikingd.index.snapshot import Snapshot
from vikingd.index.tokens import query_terms
from vikingd.ingest.prepare import prepare
from vikingd.model import Draft, IndexedText, Upsert
from vikingd.text import LATIN

NOTHING_FORBIDDEN = np.zeros(0, np.uint8)
BATCH = 5000


class Prepared(NamedTuple):
    """A snapshot of a tree with a query that is bound to it."""

    snapshot: Snapshot
    scope: Scope
    query: Query
    terms: Terms


@pytest.fixture(scope="module", params=[10_000, 100_000])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A compacted index of so many nodes, and a question with text and vector."""
    tree = data.tree(request.param)
    index = Index(
        tmp_path_factory.mktemp("index"), "none", np.zeros((SCRIPTS, data.DIMENSION), np.float32),
        IndexSettings(minimum=tree.nodes * 2),
    )  # fmt: skip
    _fill(index, tree)
    index.compact()
    snapshot = index.snapshot
    scope, means, _ = snapshot.scope(0)
    asked = tree.queries(1)[0]
    words = query_terms(asked.text)
    vector = np.frombuffer(asked.vector, "<f4")
    query = dense.prepare(vector, LATIN, means, use_dense=True, use_lexical=True)
    return Prepared(snapshot, scope, query, snapshot.terms(words.hashes, words.weights))


def test_scan_int8(benchmark: BenchmarkFixture, prepared: Prepared) -> None:
    """own_of_base: every text of the scope from its codes."""
    p = prepared
    count = p.scope.text_high
    lexical, out = np.zeros(count, np.float32), np.zeros((2, count), np.float32)
    benchmark(
        texts.own_of_base, 0, count, p.snapshot.tree.texts, p.snapshot.vectors, p.query, lexical,
        p.scope, out,
    )  # fmt: skip
    assert out[0].max() > 0


def test_bm25(benchmark: BenchmarkFixture, prepared: Prepared) -> None:
    """score_scope: texts and directories that have the query's terms."""
    p = prepared
    tree = p.snapshot.tree
    inside = tail_directories(tree.directories, p.scope)
    out = np.zeros(p.scope.text_high, np.float32)
    dir_out = np.zeros(p.scope.dir_high, np.float32)

    def run() -> None:
        out[:] = 0
        dir_out[:] = 0
        bm25.score_scope(
            tree.directories.parent, tree.texts, p.snapshot.numbers, p.scope, inside, p.terms, out,
            dir_out,
        )  # fmt: skip

    benchmark(run)
    assert out.max() > 0


def test_propagate(benchmark: BenchmarkFixture, prepared: Prepared) -> None:
    """propagate: final scores of directories, parents before children."""
    p = prepared
    scores = np.random.default_rng(1).random((5, p.scope.dir_high), np.float32)
    parents = p.snapshot.tree.directories.parent
    benchmark(hierarchy.propagate, parents, p.scope, 0.5, 0.5, scores)


def test_contenders(benchmark: BenchmarkFixture, prepared: Prepared) -> None:
    """contenders: what may be among the ten best."""
    final = np.empty((2, prepared.scope.file_high), np.float32)
    final[0] = np.random.default_rng(1).random(final.shape[1], np.float32)
    final[1] = 0.001
    found = benchmark(select.contenders, final, NOTHING_FORBIDDEN, 10, 0.0)
    assert len(found) >= 10


@pytest.mark.parametrize("method", [find.EXHAUSTIVE, find.BEST_FIRST, find.EXACT])
def test_find(benchmark: BenchmarkFixture, prepared: Prepared, method: int) -> None:
    """find: all kernels in their order, by each method."""
    p = prepared
    plan = find.Plan(method, 0.0, -1.0, 16, walk.Limits(10, 8, 3, 512))
    found = benchmark(
        find.find, p.snapshot.tree, p.snapshot.vectors, p.snapshot.numbers, p.query, p.scope,
        p.terms, NOTHING_FORBIDDEN, np.zeros(0, np.int32), plan,
    )  # fmt: skip
    assert len(found.candidates) >= 10


def _fill(index: Index, tree: data.Tree) -> None:
    above = [
        Upsert(number, uri, True, "", {}, ())
        for number, uri in enumerate((*uris.ancestors(data.TOP)[1:],), start=2)
    ]
    index.apply(above, 1)
    changes: list[Upsert] = []
    for number, draft in enumerate(tree.drafts(), start=2 + len(above)):
        changes.append(_upsert(number, draft))
        if len(changes) == BATCH:
            index.apply(changes, number)
            changes = []
    index.apply(changes, tree.nodes + BATCH)


def _upsert(number: int, draft: Draft) -> Upsert:
    (text,) = prepare(draft).texts
    indexed = IndexedText(number, text.ordinal, text.script, text.text, text.vector, True)
    return Upsert(number, draft.uri, draft.is_directory, "", {}, (indexed,))
