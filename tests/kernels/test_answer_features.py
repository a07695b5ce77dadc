"""The features of answers for their confidence, compared with the plain ones."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given
from viking_kernels import find as kernel
from viking_kernels.answer_features import FIRST, cosines, features, known_share
from viking_kernels.arrays import FINAL
from viking_kernels.bm25 import ranges_of
from viking_kernels.scope import tail_directories

from tests.kernels import naive
from tests.kernels.trees import LARGE, asked, build, room, shapes, terms_of
from tests.tiers import examples


@examples(12)
@given(shapes)
@example(LARGE)
def test_known_terms_and_cosines_are_the_plain_ones(shape):
    """They equal the twins' in base and tail and any scope, for texts with and without vectors."""
    world = build(shape)
    for _ in range(4):
        top, query = world.random_directory(), world.query()
        snapshot, scope, centroids = world.scope_of(top)
        usual = world.rng.normal(size=snapshot.dimension).astype(np.float32)
        raw = asked(query, centroids)._replace(usual=usual)
        alive = np.flatnonzero(snapshot.tree.texts.tombstoned > scope.revision)
        rows = np.array([-1, *alive[world.rng.random(len(alive)) < 0.3]], np.int32)
        given_terms = terms_of(snapshot, query)
        found = features(snapshot.tree, snapshot.vectors, raw, scope, given_terms, rows)
        held = {t.id: t for t in naive.texts_below(world.root)}
        texts = [held[snapshot.text_id.item(row)] for row in rows.tolist() if row >= 0]
        wanted = naive.features(top, texts, query, usual)
        assert found[0] == wanted[0]
        np.testing.assert_allclose(found, wanted, atol=2e-6)
        inside = tail_directories(snapshot.tree.directories, scope)
        ranges = ranges_of(given_terms, scope)
        share = known_share(snapshot.tree.texts, scope, inside, given_terms, ranges)
        assert share == naive.known_share(top, query.terms)
        near = cosines(rows, raw, snapshot.vectors, scope.revision)
        np.testing.assert_allclose(near, naive.cosines(texts, query, usual), atol=2e-6)
    world.close()


@examples(6)
@given(shapes)
@example(LARGE)
def test_a_find_has_the_features_of_its_first_files(shape):
    """Those are FIRST, and all that tie with the last of them."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, centroids = world.scope_of(top)
    raw = asked(query, centroids)._replace(usual=np.ones(snapshot.dimension, np.float32))
    terms = terms_of(snapshot, query)
    plan = kernel.Plan(kernel.EXACT, 0.0, -1.0, 1, 1, False, 3 * FIRST, 1, 1, 8)
    given_arrays = snapshot.tree, snapshot.vectors, snapshot.stats
    found = kernel.find(*given_arrays, raw, scope, terms, plan, room(snapshot))
    finals = found.parts[:, FINAL]
    first = finals >= finals[min(FIRST, len(finals)) - 1] if len(finals) else slice(0)
    wanted = features(snapshot.tree, snapshot.vectors, raw, scope, terms, found.best_text[first])
    assert all(
        one == other or (math.isnan(one) and math.isnan(other))
        for one, other in zip((found.known, found.cosine, found.usual), wanted, strict=True)
    )
    world.close()
