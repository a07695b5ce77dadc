"""The weighted search, compared with its plain twin."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import scope as scopes
from viking_kernels.weighted_search import FILE_WEIGHT, WeightedPlan, rank_in_files, weighted_top

from tests.kernels import naive
from tests.kernels.trees import LARGE, asked, build, room, shapes, terms_of
from tests.tiers import examples

NOWHERE = np.zeros(0, np.int32)


@examples(40)
@given(
    shapes,
    st.sampled_from([1, 4, 1000]),
    st.booleans(),
    st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.7, 0.3), (2.0, 5.0)]),
)
@example(LARGE, 5, True, (0.5, 0.5))
@example(LARGE, 20, False, (1.0, 0.0))
def test_the_best_of_a_tree_are_the_plain_ones(shape, k, filtered, weights):
    """The best texts of any scope equal those of the plain twin, with or without a filter."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, centroids = world.scope_of(top)
    tree = snapshot.tree
    ids = snapshot.text_id.tolist()
    size = scope.file_high - scope.file_low + len(tree.files.directory) - scope.base_files
    allowed = (world.rng.random(size) < 0.6).astype(np.uint8 if filtered else bool)
    files = {
        scopes.row_at(at, scope.file_low, scope.file_high, scope.base_files)
        for at in range(size)
        if not filtered or allowed[at]
    }
    able = {
        text for text, file in zip(ids, tree.texts.file.tolist(), strict=False) if file in files
    }
    if not filtered:
        allowed = np.zeros(0, np.uint8)

    compared = asked(query, centroids)._replace(
        use_dense=query.vector is not None, use_lexical=False
    )
    scratch = room(snapshot)
    rows, scores, parts = weighted_top(
        snapshot.tree,
        snapshot.vectors,
        snapshot.stats,
        compared,
        scope,
        terms_of(snapshot, query),
        WeightedPlan(*weights, k, NOWHERE, allowed),
        scratch,
    )
    wanted = naive.weighted_top(top, query, centroids.raw.astype(np.float64), weights, able, 10**6)
    plain = {text: one for text, *one in wanted}
    assert not scratch.lexical.any()
    assert len(rows) == min(k, len(wanted))
    np.testing.assert_allclose(scores, [one[1] for one in wanted[:k]], atol=2e-5)
    for row, score, (dense, lexical) in zip(rows.tolist(), scores, parts, strict=True):
        np.testing.assert_allclose([score, dense, lexical], plain[ids[row]], atol=2e-5)
    assert rows.tolist() == [r for _, r in sorted(zip((-scores).tolist(), rows.tolist()))]  # noqa: B905
    world.close()


@examples(40)
@given(shapes, st.sampled_from([(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)]))
@example(LARGE, (0.5, 0.5))
def test_rankings_in_files_are_the_plain_ones(shape, weights):
    """The ranking of some texts and those beside them equals that of the plain twin."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, centroids = world.scope_of(top)
    texts, ids = snapshot.tree.texts, snapshot.text_id.tolist()
    row_of = {text: row for row, text in enumerate(ids) if texts.tombstoned[row] > scope.revision}
    below = sorted(t.id for file in naive.files_below(top) for t in file.texts)
    chosen = [text for text in below if world.rng.random() < 0.3]
    compared = asked(query, centroids)._replace(
        use_dense=query.vector is not None, use_lexical=False
    )
    scratch = room(snapshot)
    near = np.array([row_of[text] for text in chosen], np.int32)
    given_scope = snapshot.tree, snapshot.vectors, snapshot.stats, compared, scope
    terms, every = terms_of(snapshot, query), np.zeros(0, np.uint8)
    plan = WeightedPlan(*weights, 1, near, every, other_script=0.75)
    rows, finals = rank_in_files(*given_scope, terms, plan, scratch)
    assert not scratch.lexical.any()
    keeps = WeightedPlan(*weights, 1, NOWHERE, every, keeps_words=True)
    weighted_top(*given_scope, terms, keeps, scratch)
    again = rank_in_files(*given_scope, terms, plan._replace(has_words=True), scratch)
    assert not scratch.lexical.any()
    np.testing.assert_array_equal(again[0], rows)
    np.testing.assert_array_equal(again[1], finals)
    means = centroids.raw.astype(np.float64)
    wanted = naive.rank_in_files(top, query, means, weights, set(chosen), 0.75, FILE_WEIGHT)
    assert sorted(rows.tolist()) == sorted(row_of[text] for text in wanted)
    plain = [wanted[ids[row]] for row in rows.tolist()]
    np.testing.assert_allclose(finals, plain, atol=2e-5)
    assert rows.tolist() == [r for _, r in sorted(zip((-finals).tolist(), rows.tolist()))]  # noqa: B905
    world.close()


def test_proposals_stand_for_the_whole_base():
    """Proposed rows replace the base; the tail is scored too, and tombstoned texts are left out."""
    world = build(LARGE)
    snapshot, scope, centroids = world.scope_of(world.root)
    tree = snapshot.tree
    query = next(q for q in iter(world.query, None) if q.vector is not None)
    every = asked(query, centroids)._replace(use_dense=True, use_lexical=False)

    def look(near, k):
        return weighted_top(
            tree,
            snapshot.vectors,
            snapshot.stats,
            every,
            scope,
            terms_of(snapshot, query),
            WeightedPlan(1.0, 0.0, k, near, np.zeros(0, np.uint8)),
            room(snapshot),
        )[0].tolist()

    best = look(NOWHERE, 10**4)
    base = [row for row in best if row < scope.base_texts]
    assert base
    assert len(best) > len(base)
    dead = np.flatnonzero(tree.texts.tombstoned[: scope.base_texts] <= scope.revision)[:3].tolist()
    some = base[::2]
    found = look(np.array(some + dead, np.int32), 10**4)
    assert found == [row for row in best if row >= scope.base_texts or row in some]
    world.close()
