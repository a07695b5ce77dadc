"""The main kernels by themselves: `pytest benchmarks --benchmark-enable`."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from viking_kernels import bm25, dense, find, postings
from viking_kernels.arrays import I8, SCRIPTS, RawQuery, Scope, Scratch, Search, Terms
from viking_kernels.scope import tail_directories

from benchmarks import data
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.domain.store_changes import IndexedText, Upsert
from vikingd.domain.text import LATIN
from vikingd.index.index import Index
from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.tokens import query_terms
from vikingd.index.lexicon.vocabulary import Vocabulary
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.draft_preparation import prepare

BATCH = 5000


class Prepared(NamedTuple):
    """A snapshot of a tree with a query that is bound to it."""

    snapshot: Snapshot
    scope: Scope
    raw: RawQuery
    terms: Terms
    scratch: Scratch


@pytest.fixture(scope="module")
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A compacted index of so many nodes, and a question with text and vector."""
    tree = data.tree(request.param)
    index = Index(
        tmp_path_factory.mktemp("index"),
        "none",
        np.zeros((SCRIPTS, data.DIMENSION), np.float32),
        IndexSettings(compact_min=tree.nodes * 2),
    )
    _fill(index, tree)
    index.compact()
    snapshot = index.snapshot
    scope, centroids, _ = snapshot.scope(0)
    question = tree.queries(1)[0]
    words = query_terms(question.text)
    raw = RawQuery(np.frombuffer(question.vector, "<f4"), LATIN, True, True, centroids)
    terms = snapshot.terms(words.hashes, words.weights)
    scratch = find.scratch(*(len(rows.tombstoned) for rows in snapshot.tree))
    return Prepared(snapshot, scope, raw, terms, scratch)


def test_products(benchmark: BenchmarkFixture, prepared: Prepared) -> None:
    """products_int8: every row of codes with the query and with a centroid."""
    p = prepared
    query = dense.prepare(p.raw)
    total = benchmark(
        _all_products, p.snapshot.vectors.base_codes, query.code, p.raw.centroids.code
    )
    assert total != 0


def test_bm25(benchmark: BenchmarkFixture, prepared: Prepared) -> None:
    """score_scope: texts and directories that have the query's terms."""
    p = prepared
    tree, vectors, stats = p.snapshot.tree, p.snapshot.vectors, p.snapshot.stats
    search = Search(tree, vectors, stats, dense.prepare(p.raw), p.scope, p.scratch)
    inside = tail_directories(tree.directories, p.scope)

    def run() -> int:
        p.scratch.dir_lexical[:] = 0
        ranges = bm25.ranges_of(p.terms, p.scope)
        found, _, _ = bm25.score_scope(search, inside, p.terms, ranges)
        bm25.forget(p.terms, ranges, p.scope, p.scratch.lexical)
        return found

    assert benchmark(run) > 0


@pytest.mark.parametrize("method", [find.EXHAUSTIVE, find.BEST_FIRST, find.EXACT])
def test_find(benchmark: BenchmarkFixture, prepared: Prepared, method: int) -> None:
    """find: all kernels in their order, by each method."""
    p = prepared
    plan = find.Plan(method, 0.0, -1.0, 64, 3, False, 10, 8, 3, 512)
    found = benchmark(
        find.find,
        p.snapshot.tree,
        p.snapshot.vectors,
        p.snapshot.stats,
        p.raw,
        p.scope,
        p.terms,
        plan,
        p.scratch,
    )
    assert len(found.rows) >= 10


def test_terms(benchmark: BenchmarkFixture, nodes: int) -> None:
    """look_up, terms_of and grouped: from so many texts, whose words are known, to postings."""
    texts = [tokens.parts(draft.content) for draft in data.tree(nodes).drafts()]
    known = Vocabulary()
    known.hashes(texts)

    def run() -> int:
        terms, lengths = known.hashes(texts)
        return len(postings.grouped(terms, lengths, 0).packed)

    assert benchmark(run) > nodes


@numba.njit(nogil=True)
def _all_products(codes: I8, direction: I8, centroids: I8) -> int:
    total = 0
    for row in range(codes.shape[0]):
        along, across = dense.products_int8(codes, row, direction, 0, centroids, LATIN)
        total += along - across
    return total


def _fill(index: Index, tree: data.Tree) -> None:
    above = [
        Upsert(number, uri, True, "", "", {}, ())
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
    return Upsert(number, draft.uri, draft.is_directory, draft.title, "", {}, (indexed,))
