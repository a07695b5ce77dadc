"""BM25 against its plain twin and against rank_bm25."""

from __future__ import annotations

import importlib.resources
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi
from viking_kernels import bm25
from viking_kernels import scope as scopes
from viking_kernels.arrays import Search
from viking_kernels.scope import place

from tests.kernels import naive
from tests.kernels.naive import texts_below, walk
from tests.kernels.trees import LARGE, World, build, compared, room, shapes, terms_of
from tests.tiers import examples
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.index.lexicon import tokens
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.files import read_tree


def scored(
    world: World, top: naive.Directory, query: naive.Query
) -> tuple[dict[int, float], dict[int, float], int, float]:
    """Return the scores of texts and directories by id, the count of matches, and the ideal."""
    snapshot, scope, means = world.scope_of(top)
    tree = snapshot.tree
    inside = scopes.tail_directories(tree.directories, scope)
    scratch = room(snapshot)
    held = (tree, snapshot.vectors, snapshot.stats)
    search = Search(*held, compared(query, means), scope, scratch)
    size = scope.dir_high - scope.dir_low + len(inside)
    scratch.dir_lexical[:size] = 0
    terms = terms_of(snapshot, query)
    ranges = bm25.ranges_of(terms, scope)
    count, ideal, _ = bm25.score_scope(search, inside, terms, ranges)
    texts, directories = scratch.lexical.copy(), scratch.dir_lexical[:size]
    size = scope.text_high - scope.text_low
    low, n = scope.text_low, len(terms.weight)
    base = {int(row) - low for a, b in ranges[:n] for row in terms.base_text[a:b]}
    tail = {int(row) - scope.base_texts + size for row in terms.tail_text[: terms.tail_from[n]]}
    scratch.lexical[scratch.lexical == 0] = 7  # `forget` keeps scores that no term can have set
    wanted = naive.forget(
        scratch.lexical.tolist(), base, tail, size, naive.is_crowded(ranges[:n].tolist(), size)
    )
    bm25.forget(terms, ranges, scope, scratch.lexical)
    assert scratch.lexical.tolist() == wanted
    assert not scratch.dir_tf.any()
    rows = {int(key): row for row, key in enumerate(snapshot.text_id)}
    by_text = {
        t.id: float(texts[place(rows[t.id], scope.text_low, scope.text_high, scope.base_texts)])
        for t in texts_below(top)
    }
    by_directory = {}
    for directory in walk(top):
        row = snapshot.find(directory.uri)
        assert row is not None
        at = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
        by_directory[directory.id] = float(directories[at])
    assert sum(by_text.values()) == pytest.approx(texts.sum(), abs=1e-4)
    assert sum(by_directory.values()) == pytest.approx(directories.sum(), abs=1e-4)
    return by_text, by_directory, count, ideal


@examples(25)
@given(shapes)
@example(LARGE)
def test_the_postings_of_a_scope(shape):
    """The postings of a scope are those of its base texts."""
    world = build(shape)
    query = world.query()
    for top in (world.root, world.random_directory()):
        snapshot, scope, _ = world.scope_of(top)
        terms = terms_of(snapshot, query)
        ranges = bm25.ranges_of(terms, scope)
        whole = [bm25.postings(terms, i) for i in range(len(terms.key))]
        told = [
            [
                [*zip(terms.base_text[a:b].tolist(), terms.base_tf[a:b].tolist(), strict=True)]
                for a, b in spans
            ]
            for spans in (whole, ranges.tolist())
        ]
        assert told[1] == naive.ranges_of(told[0], scope.text_low, scope.text_high)
        for size in (0, 15, 16, 17, 1000):
            pairs = ranges[1:3].tolist()
            got = bm25.is_crowded(ranges, 1, 1 + len(pairs), size)
            assert got == naive.is_crowded(pairs, size)
    world.close()


@examples(25)
@given(shapes)
@example(LARGE)
def test_scores_are_those_of_the_formula(shape):
    """Scores of texts and of directories follow the BM25 formula in any scope."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    by_text, by_directory, count, _ = scored(world, top, query)
    texts, directories = naive.score_scope(top, query.terms)
    assert by_text == pytest.approx(texts, abs=1e-6)
    assert by_directory == pytest.approx(directories, abs=1e-6)
    assert count == sum(len(set(text.terms) & query.terms.keys()) for text in texts_below(top))
    assert all(0 <= score < 1 for score in (*by_text.values(), *by_directory.values()))
    world.close()


@examples(25)
@given(shapes, st.sampled_from([1e-3, 0.1, 1.0]), st.sampled_from([0, 1, 2]))
@example(LARGE, 0.1, 2)
def test_the_best_by_words_is_lifted(shape, scale, script):
    """One factor rescales all scores; the best text without a script mismatch sets the factor."""
    world = build(shape)
    top = world.random_directory()
    snapshot, scope, _ = world.scope_of(top)
    tree = snapshot.tree
    rows = {int(key): row for row, key in enumerate(snapshot.text_id)}
    plain = {t.id: float(world.rng.choice([0.0, 0.1, 0.5, 0.9]) * scale) for t in texts_below(top)}
    lexical = np.zeros(len(rows) + 70, np.float32)
    at = {key: place(rows[key], scope.text_low, scope.text_high, scope.base_texts) for key in plain}
    for key, score in plain.items():
        lexical[at[key]] = score
    factor = bm25.rescale_to_floor(tree.texts, scope, script, lexical)
    wanted, told = naive.rescale_to_floor(top, plain, script)
    assert factor == pytest.approx(told, rel=1e-6)
    assert {key: lexical[at[key]] for key in plain} == pytest.approx(wanted, rel=1e-5)
    assert lexical.sum() == pytest.approx(sum(wanted.values()), rel=1e-4)
    world.close()


def test_a_term_that_nothing_has_lowers_every_score():
    """A query term that no text has counts in the ideal score with the largest idf."""
    world = World(0)
    world.commit([world.put(f"viking://{i}", False, [(1, "status", b"")]) for i in range(3)])
    alone = scored(world, world.root, naive.Query(None, 1, {"status": 1.0}))
    both = scored(world, world.root, naive.Query(None, 1, {"status": 1.0, "nobody": 1.0}))
    assert both[3] - alone[3] == pytest.approx(math.log(1 + 3.5 / 0.5))
    assert max(both[0].values()) < max(alone[0].values())
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_scores_are_rank_bm25s_but_for_the_form(compacted):
    """Scores of the demo tree equal those of rank_bm25 except for the idf and the factor k1 + 1."""
    world = World(0)
    changes = []
    folder = Path(str(importlib.resources.files("vikingd"))) / "demo_tree"
    for draft in read_tree(folder, uris.ROOT):
        assert isinstance(draft, Draft)
        for above in uris.ancestors(draft.uri):
            if above != uris.ROOT and not any(c.uri == above for c in changes):
                changes.append(world.put(above, True, []))
        texts = [(text.script, text.text, b"") for text in prepare(draft).texts]
        changes.append(world.put(draft.uri, draft.is_directory, texts))
    world.commit(changes)
    if compacted:
        world.compact()
    texts = texts_below(world.root)
    assert len(texts) > 20
    oracle = BM25Okapi([text.terms for text in texts], k1=bm25.K1, b=bm25.B)
    for words in ("how is a release deployed", "coffee", "错误 代码", "status code E4102 nobody"):
        found = tokens.query_terms(words)
        terms = dict(zip(found.terms, found.weights.tolist(), strict=True))
        by_text, _, _, ideal = scored(world, world.root, naive.Query(None, 0, terms))
        expected = np.zeros(len(texts))
        for term, weight in terms.items():
            df = sum(term in text.terms for text in texts)
            if df:
                of_term = oracle.get_scores([term]) / oracle.idf[term] / (bm25.K1 + 1)
                expected += weight * bm25.idf(len(texts), df) * of_term
        got = np.array([by_text[text.id] for text in texts]) * ideal
        np.testing.assert_allclose(got, expected, atol=1e-5)
    world.close()


@examples(25)
@given(shapes)
def test_postings_are_those_of_the_base(shape):
    """Each term has its postings of the base, and a term that the base lacks has none."""
    world = build(shape)
    world.compact()
    snapshot = world.snapshot
    plain = texts_below(world.root)
    keys = sorted(
        (tokens.term_hash(t), t) for t in {t for x in plain for t in x.terms} | {"nobody"}
    )
    weights = np.ones(len(keys), np.float32)
    terms = snapshot.terms(np.array([key for key, _ in keys], np.uint64), weights)
    for i, (_, term) in enumerate(keys):
        first, last = bm25.postings(terms, i)
        rows = terms.base_text[first:last].tolist()
        got = zip(rows, terms.base_tf[first:last].tolist(), strict=True)
        assert list(got) == naive.postings(plain, term)
    world.close()


@given(st.integers(0, 1000), st.integers(0, 1000))
@examples(50)
def test_idf_is_lucenes(documents, df):
    """The idf follows Lucene's formula and is above 0."""
    df = min(df, documents)
    assert bm25.idf(float(documents), float(df)) == pytest.approx(naive.idf(documents, df))
    assert bm25.idf(float(documents), float(df)) > 0


@given(st.floats(1, 1e4), st.integers(0, 10**4))
@examples(50)
def test_long_texts_saturate_later(average, length):
    """The length norm of a text is a level plus a slope for each of its terms."""
    level, slope = bm25.norm_of(average)
    wanted, steepness = naive.norm_of(average)
    assert level + slope * length == pytest.approx(wanted + steepness * length)


@given(st.lists(st.integers(0, 20), max_size=20), st.data())
@examples(50)
def test_lower_bound_is_the_first_place(values, data):
    """The lower bound is the first index whose value is not less than the wanted value."""
    values = sorted(values)
    low = data.draw(st.integers(0, len(values)))
    high = data.draw(st.integers(low, len(values)))
    wanted = data.draw(st.integers(-1, 21))
    found = bm25.lower_bound(np.array(values, np.int32), low, high, wanted)
    assert found == naive.lower_bound(values, low, high, wanted)
    assert Counter(values[low:found]) == Counter(v for v in values[low:high] if v < wanted)
