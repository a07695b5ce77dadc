"""The cap of texts in another script, compared with its plain twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import find as kernel
from viking_kernels import node_scores
from viking_kernels.arrays import DENSE, DENSE_SHARE, FINAL, NODE
from viking_kernels.bounds import bound_scores
from viking_kernels.other_script import BEST_BY_WORDS, other_script_cap

from tests.kernels import naive
from tests.kernels.naive import texts_below
from tests.kernels.scored import Scored
from tests.kernels.trees import LARGE, World, build, search, shapes
from tests.tiers import examples
from vikingd.domain.text import HAN, LATIN, script_of
from vikingd.index.lexicon import tokens

score = st.floats(0.0, 1.0)


@pytest.mark.deep  # 5 s to compile
@examples(60)
@given(shapes)
@example(LARGE)
def test_the_cap_is_the_best_score_in_the_own_script(shape):
    """The cap is the best node score of the texts with the best words in the query's script."""
    world = build(shape)
    for _ in range(3):
        s = Scored(world)
        mean = s.centroids.raw.astype(float)
        lexical, _ = naive.score_scope(s.top, s.query.terms if s.query.use_lexical else {})
        wanted = naive.other_script_cap(s.top, s.query, mean, lexical)
        cap = other_script_cap(s.search)
        assert cap == pytest.approx(wanted, abs=1e-5)
        capped = s.search._replace(other_script=min(cap, 0.3))
        for text in texts_below(s.top):
            row = s.text_row[text.id]
            dense = naive.dense_score(text, s.query, mean)
            if s.compared.use_dense and text.vector is not None:
                assert node_scores.dense_score(row, s.search) == pytest.approx(dense, abs=1e-5)
            wanted = naive.text_score(text, s.query, mean, lexical[text.id], min(cap, 0.3))
            assert node_scores.text_score(row, capped) == pytest.approx(wanted, abs=1e-5)
        if s.scope.text_high > s.scope.text_low:
            share = naive.dense_weight(False, s.compared.use_dense, s.compared.use_lexical)
            bound_scores((share, 1.0 - share), capped)
            for row in range(s.scope.text_low, s.scope.text_high):
                if s.tree.texts.tombstoned[row] > s.scope.revision:
                    bound = s.scratch.code_scores[row - s.scope.text_low]
                    assert node_scores.text_score(row, capped) <= bound + 1e-6
    world.close()


@examples(200)
@given(score, score, st.one_of(score, st.just(math.inf)))
def test_a_capped_score_rises_with_dense_and_no_faster(one, other, cap):
    """A capped score is at most dense, rises with it, and at most as fast."""
    low, high = sorted((one, other))
    first, second = node_scores.capped(low, cap), node_scores.capped(high, cap)
    assert first == pytest.approx(naive.capped(low, cap), abs=1e-12)
    assert node_scores.OTHER_SCRIPT * low <= first <= low
    assert 0 <= second - first <= high - low + 1e-12
    assert high == low or second > first or high < 1e-300


def question(world: World, text: str) -> naive.Query:
    """Return the query whose vector `near` is about."""
    found, script = tokens.query_terms(text), script_of(text)
    terms = dict(zip(found.terms, found.weights.tolist(), strict=True))
    return naive.Query(np.frombuffer(near(world, script, 1.0), "<f4").astype(float), script, terms)


def near(world: World, script: int, cosine: float) -> bytes:
    """Return a vector whose centred cosine with a `question` is about this."""
    rest = math.sqrt(1 - cosine**2)
    direction = cosine * np.eye(world.dimension)[0] + rest * np.eye(world.dimension)[1]
    raw = world.prior[script] + 10 * direction
    return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()


@pytest.mark.parametrize(("cosine", "first"), [(0.7, "own"), (0.99, "other")])
@pytest.mark.parametrize("compacted", [False, True])
def test_the_page_that_answers_comes_before_one_in_another_script(compacted, cosine, first):
    """A text in another script comes first only if it is much nearer in meaning."""
    world = World(5)
    own = (HAN, "茶 冬天 港口 茶 冬天", near(world, HAN, 0.55))
    other = (LATIN, "coffee status", near(world, LATIN, cosine))
    world.commit([world.put("viking://own", False, [own]), world.put("viking://o", False, [other])])
    if compacted:
        world.compact()
    query = question(world, "茶 冬天")
    row = world.snapshot.find(f"viking://{'own' if first == 'own' else 'o'}")
    for method in (kernel.EXHAUSTIVE, kernel.BEST_FIRST, kernel.EXACT):
        found = search(world.snapshot, "viking://", query, method, alpha=1.0)
        assert found.rows[0] == -1 - row
        at = [*found.rows].index(-1 - world.snapshot.find("viking://o"))
        parts = found.parts[at]
        assert parts[NODE] == pytest.approx(
            node_scores.capped(parts[DENSE], found.other_script), abs=1e-6
        )
        assert parts[FINAL] == pytest.approx(parts[DENSE_SHARE] * parts[DENSE], abs=1e-6)
        assert parts[DENSE_SHARE] < 1
    world.close()


@pytest.mark.parametrize("better", [0, 1])
def test_ties_for_the_last_place_by_words_are_left_out(better):
    """Of more equal texts than count, none counts; the cap is that of the better ones."""
    world = World(6)
    raw = near(world, LATIN, 0.5)
    put = [
        world.put(f"viking://{i}", False, [(LATIN, "coffee", raw)])
        for i in range(BEST_BY_WORDS + 5)
    ]
    put += [world.put("viking://999", False, [(LATIN, "coffee coffee", raw)])] * better
    world.commit([*put, world.put("viking://x", False, [(HAN, "茶", near(world, HAN, 0.5))])])
    query = question(world, "coffee")
    found = search(world.snapshot, "viking://", query)
    assert math.isfinite(found.other_script) == bool(better)
    world.close()
