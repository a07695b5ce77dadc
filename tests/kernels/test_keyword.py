"""Flat searches by words, compared with the plain ones."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import flat
from viking_kernels import scope as scopes
from viking_kernels.arrays import (
    COUNTS,
    TEXT_LENGTH,
    TEXTS,
    Terms,
)

from tests.kernels import naive
from tests.kernels.flat_helpers import (
    ALL,
    best,
    plain_scores,
    postings_of,
    rows_of,
    seeds,
    some,
)
from tests.kernels.trees import LARGE, build, shapes, terms_of
from tests.tiers import examples


@examples(25)
@given(shapes, st.sampled_from([1, 4, 1000]), st.booleans())
@example(LARGE, 5, True)
def test_searches_by_words_are_the_plain_ones(shape, k, filtered):
    """Searches by words equal the plain twin's, in base and tail and any scope."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, _ = world.scope_of(top)
    tree = snapshot.tree
    inside = scopes.tail_directories(tree.directories, scope)
    ids = snapshot.text_id.tolist()
    size = scope.file_high - scope.file_low + len(tree.files.directory) - scope.base_files
    allowed = (world.rng.random(size) < 0.6).astype(np.uint8) if filtered else ALL
    files = {
        scopes.row_at(at, scope.file_low, scope.file_high, scope.base_files)
        for at in range(size)
        if not filtered or allowed[at]
    }
    able = {
        ids[row] for row, file in enumerate(tree.texts.file.tolist()[: len(ids)]) if file in files
    }

    terms = terms_of(snapshot, query)
    counts = snapshot.counts(scope.root)
    rows, scores = flat.keyword_top(tree.texts, counts, scope, inside, terms, allowed, k)
    wanted = naive.keyword_top(top, query.terms, able, k)
    assert len(rows) == len(wanted)
    same_as_plain(ids, rows, scores, wanted)
    world.close()


def same_as_plain(ids, rows, scores, plain):
    """Compare the scores in order, and the texts except those that tie with the last."""
    np.testing.assert_allclose(scores, [score for _, score in plain], atol=2e-6)
    assert len(set(rows.tolist())) == len(rows)
    assert rows.tolist() == [r for _, r in sorted(zip((-scores).tolist(), rows.tolist()))]  # noqa: B905
    if plain:
        better = {key for key, score in plain if score > plain[-1][1] + 4e-6}
        assert better <= {ids[row] for row in rows.tolist()}


@some
@given(
    seeds,
    st.lists(st.sampled_from([0, 1, 30, 900, 9000, 19000]), min_size=1, max_size=8),
    st.sampled_from([1, 10, 200]),
    st.booleans(),
    st.booleans(),
)
@example(3, [5, 60, 700, 8000, 19000], 10, False, False)
def test_the_best_by_words_are_those_of_all(seed, dfs, k, some_dead, filtered):
    """The best by words are found over several windows, with common and rare terms."""
    rng = np.random.default_rng(seed)
    n = 40000
    length = rng.integers(5, 60, n).astype(np.int32)
    terms = postings_of(rng, n, dfs, length)
    low, high = sorted(rng.integers(0, n + 1, 2).tolist()) if rng.random() < 0.7 else (0, n)
    high = max(high, low + 1)
    texts, scope = rows_of(length, low, high)
    if some_dead:
        texts.tombstoned[low + 1 : high][rng.random(high - low - 1) < 0.3] = 1
    alive = texts.tombstoned[low:high] > 1
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = alive.sum(), length[low:high][alive].sum()
    allowed = (rng.random(high - low) < 0.3).astype(np.uint8) if filtered else ALL
    rows, scores = flat.keyword_top(texts, counts, scope, ALL, terms, allowed, k)
    exact = plain_scores(terms, length, low, high, texts.tombstoned)
    able = alive & (exact > 0)
    if filtered:
        able &= allowed == 1
    wanted = best(exact, k, np.flatnonzero(able).tolist())
    assert len(rows) == len(wanted)
    assert able[rows - low].all()
    np.testing.assert_allclose(scores, exact[wanted], atol=1e-6)
    np.testing.assert_allclose(scores, exact[rows - low], atol=1e-6)
    assert rows.tolist() == [r for _, r in sorted(zip((-scores).tolist(), rows.tolist()))]  # noqa: B905


def test_texts_with_the_same_words_are_in_order_of_rows():
    """Equal texts tie to the last bit and come in the order of rows."""
    rng = np.random.default_rng(2)
    n = 60000
    length = np.full(n, 20, np.int32)
    alike = np.sort(rng.choice(n, 40, replace=False))
    parts = [alike, np.union1d(alike, rng.choice(n, 3000)), np.arange(n), np.arange(n)]
    text = np.concatenate(parts).astype(np.int32)
    at = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    keys = np.arange(4, dtype=np.uint64)
    terms = Terms(
        keys,
        np.array([1, 1.1, 1.3, 1.7], np.float32),
        keys,
        at,
        text,
        np.full(len(text), 3, np.uint16),
        np.zeros(5, np.int64),
        text[:0],
        np.zeros(0, np.uint16),
    )
    texts, scope = rows_of(length)
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = n, length.sum()
    rows, scores = flat.keyword_top(texts, counts, scope, ALL, terms, ALL, 10)
    assert len(set(scores.tolist())) == 1
    assert rows.tolist() == alike[:10].tolist()


def test_a_term_that_was_passed_over_counts_again_later():
    """A term that a window skips counts again in a later one."""
    rng = np.random.default_rng(4)
    n = 60000
    length = rng.integers(5, 60, n).astype(np.int32)
    rare = np.concatenate([np.arange(0, 4000), np.arange(40000, 44000)])
    text = np.concatenate([rare, np.arange(n)]).astype(np.int32)
    tf = np.minimum(rng.geometric(0.5, len(text)), 9).astype(np.uint16)
    keys, none = np.arange(2, dtype=np.uint64), np.zeros(3, np.int64)
    at = np.array([0, len(rare), len(text)])
    terms = Terms(keys, np.ones(2, np.float32), keys, at, text, tf, none, text[:0], tf[:0])
    texts, scope = rows_of(length)
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = n, length.sum()
    exact = plain_scores(terms, length, 0, n, texts.tombstoned)
    for k in (1, 30):
        rows, scores = flat.keyword_top(texts, counts, scope, ALL, terms, ALL, k)
        np.testing.assert_allclose(scores, exact[best(exact, k, range(n))], atol=1e-6)
        np.testing.assert_allclose(scores, exact[rows], atol=1e-6)


def test_without_terms_nothing_is_found():
    """Nothing is found without terms, or without a text that has one."""
    texts, scope = rows_of([3, 4])
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = 2, 7
    none = postings_of(np.random.default_rng(0), 2, [], texts.length)
    empty = postings_of(np.random.default_rng(0), 2, [0, 0], texts.length)
    for terms in (none, empty):
        assert len(flat.keyword_top(texts, counts, scope, ALL, terms, ALL, 5)[0]) == 0
