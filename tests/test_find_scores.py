"""The kernels' find against the plain one."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import files_below, walk
from trees import NAMES, World, build, search, shapes
from viking_kernels import find as kernel
from viking_kernels.scope import place
from viking_kernels.walk import EXHAUSTED

from vikingd.index.snapshot import Snapshot

few = settings(max_examples=30, deadline=None, print_blob=True)
alphas = st.sampled_from([-1.0, 0.0, 0.3, 1.0])


def files_of(snapshot: Snapshot, found: kernel.Found) -> list[int]:
    """Ids of the candidates."""
    return [int(snapshot.file_id[row]) for row in found.candidates]


def ranked(snapshot: Snapshot, found: kernel.Found, k: int) -> list[tuple[float, str]]:
    """The k best as (score, URI)."""
    scores = found.parts[:, 7].tolist()
    uris = [snapshot.file_uri(int(row)) for row in found.candidates]
    positive = [(s, u) for s, u in zip(scores, uris, strict=True) if s > 0]
    return sorted(positive, key=lambda c: (-c[0], c[1]))[:k]


def compare(
    world: World, top: naive.Directory, query: naive.Query, found: kernel.Found, plain: naive.Found
) -> None:
    """All parts of all scores."""
    snapshot, scope, _ = world.scope_of(top)
    weights = found.weights
    lexical, _ = naive.score_scope(top, query.terms if query.use_lexical else {})
    ids = files_of(snapshot, found)
    by_id = {file.id: file for file in files_below(top)}
    for i, key in enumerate(ids):
        parts = naive.parts_of_files(by_id[key], query, plain, lexical, weights, top)
        best = int(found.best_text[i])
        kept = int(snapshot.text_id[best]) if best >= 0 else -1
        if kept != plain.best[key]:  # two texts that are alike up to rounding
            assert plain.texts[kept] == pytest.approx(plain.texts[plain.best[key]], abs=1e-6)
            parts = (*found.parts[i, :3], *parts[3:])
        assert found.parts[i, 2:] == pytest.approx(parts[2:], abs=1e-5)
        assert found.parts[i, :2] == pytest.approx(parts[:2], abs=2e-5)
    for key in by_id.keys() - set(ids):
        assert plain.final[key] < 1e-5
    directories = {snapshot.find(d.uri): d.id for d in walk(top)}
    seen = set()
    for row, key in directories.items():
        assert row is not None
        at = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
        seen.add(at)
        expected = (*plain.directories[key], plain.directory_final[key])
        assert found.directories[:, at] == pytest.approx(expected, abs=1e-5)
    outside = [i for i in range(found.directories.shape[1]) if i not in seen]
    assert (found.directories[3, outside] == -1).all()


@few
@given(shapes, alphas)
def test_exact_scores_are_those_of_the_formulas(shape, alpha):
    """Every part of every score, below any directory, with base, tail and dead rows."""
    world = build(shape)
    for _ in range(2):
        top, query = world.random_directory(), world.query()
        found = search(world.snapshot, top.uri, query, alpha=alpha)
        plain = naive.find(top, query, world.prior.astype(float), None if alpha < 0 else alpha)
        assert found.icc == pytest.approx(plain.icc, abs=1e-4)
        plain = naive.find(
            top, query, world.prior.astype(float), None if alpha < 0 else alpha, found.gate
        )
        compare(world, top, query, found, plain)
        assert found.sample_files == len(files_below(top))
    world.close()


@few
@given(shapes, alphas)
def test_scores_from_codes_are_rescored(shape, alpha):
    """What the int8 scan proposes has exact scores; what it does not stays within its bound."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, _ = world.scope_of(top)
    found = search(snapshot, top.uri, query, kernel.EXHAUSTIVE, alpha=alpha)
    plain = naive.find(
        top, query, world.prior.astype(float), None if alpha < 0 else alpha, found.gate
    )
    compare(world, top, query, found, plain)
    rows = {int(snapshot.text_id[row]): row for row in range(len(snapshot.text_id))}
    for key, own in plain.texts.items():
        at = place(rows[key], scope.text_low, scope.text_high, scope.base_texts)
        score, bound = found.own_texts[:, at]
        assert abs(score - own) <= bound + 1e-5
    world.close()


@few
@given(shapes, alphas, st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.25]))
def test_candidates_hold_the_best(shape, alpha, k, threshold):
    """The k best above the threshold are among the candidates, with all that tie with the last."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    found = search(
        world.snapshot, top.uri, query, kernel.EXHAUSTIVE, alpha=alpha, k=k, threshold=threshold
    )
    plain = naive.find(
        top, query, world.prior.astype(float), None if alpha < 0 else alpha, found.gate
    )
    finals = sorted((s for s in plain.final.values() if s > threshold + 1e-5), reverse=True)
    last = finals[min(k, len(finals)) - 1] if finals else math.inf
    wanted = {key for key, s in plain.final.items() if s > threshold + 1e-5 and s >= last + 2e-6}
    tied = {key for key, s in plain.final.items() if s == last}
    ids = set(files_of(world.snapshot, found))
    assert wanted <= ids
    assert tied <= ids or len(wanted) >= k
    world.close()


@few
@given(shapes, alphas)
def test_nothing_is_ever_not_a_number(shape, alpha):
    """No NaN and no infinity, whatever the vectors; scores lie in [0, 1]."""
    world = build(shape)
    query = world.query()
    for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):
        found = search(world.snapshot, world.root.uri, query, method, alpha=alpha)
        for values in (found.parts, found.own_texts, found.directories):
            assert np.isfinite(values).all()
            assert (values <= 1 + 1e-6).all()
        assert (found.parts >= 0).all()
        assert 0 <= found.icc <= 1
        assert 0 <= found.gate <= 1
    world.close()


@few
@given(shapes, alphas)
def test_opening_every_directory_is_the_exhaustive_search(shape, alpha):
    """A walk that may open all gives the same candidates with the same parts, bit for bit."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    whole = search(world.snapshot, top.uri, query, kernel.EXHAUSTIVE, alpha=alpha)
    opened = search(world.snapshot, top.uri, query, kernel.BEST_FIRST, alpha=alpha)
    assert opened.stop == EXHAUSTED
    assert len(opened.opened) == len(set(opened.opened.tolist())) == len(list(walk(top)))
    assert (opened.icc, opened.gate) == (whole.icc, whole.gate)
    np.testing.assert_array_equal(opened.candidates, whole.candidates)
    np.testing.assert_array_equal(opened.best_text, whole.best_text)
    np.testing.assert_array_equal(opened.parts, whole.parts)
    world.close()


@few
@given(shapes, st.integers(0, 2**32 - 1))
def test_a_filter_leaves_the_scores_alone(shape, seed):
    """What a filter forbids is left out; the scores of the others are the same as without."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, _ = world.scope_of(top)
    size = scope.file_high - scope.file_low + len(snapshot.file_id) - scope.base_files
    allowed = np.random.default_rng(seed).integers(0, 2, size)
    for method in (kernel.EXHAUSTIVE, kernel.BEST_FIRST):
        free = search(snapshot, top.uri, query, method)
        bound = search(snapshot, top.uri, query, method, allowed=allowed.tolist())
        kept = [
            bool(allowed[place(int(row), scope.file_low, scope.file_high, scope.base_files)])
            for row in free.candidates
        ]
        np.testing.assert_array_equal(bound.candidates, free.candidates[kept])
        np.testing.assert_array_equal(bound.parts, free.parts[kept])
    world.close()


def test_best_first_finds_the_best_early():
    """With a handful of directories open, what stands out is found and the walk stops."""
    world = World(1)
    for i in range(60):
        uri = f"viking://resources-{i:02}"
        vector = world.vector(1) if i != 37 else np.eye(16, dtype="<f4")[3].tobytes()
        world.commit(
            [
                world.put(uri, True, [(1, "status", vector)]),
                *(world.put(f"{uri}/{name}", False, [(1, "codes", vector)]) for name in NAMES),
            ]
        )
    query = naive.Query(np.eye(16)[3], 1, {}, use_lexical=False)
    found = search(world.snapshot, world.root.uri, query, kernel.BEST_FIRST, k=3, limits=(2, 3, 20))
    best = ranked(world.snapshot, found, 7)
    assert {uri.rpartition("/")[0] for _, uri in best} == {"viking://resources-37"}
    assert len(found.opened) < 20
    assert found.stop != EXHAUSTED
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_scopes_without_anything(compacted):
    """An empty tree, an empty directory and files without texts match nothing and break nothing."""
    world = World(2)
    if compacted:
        world.compact()
    query = naive.Query(np.ones(16), 1, {"status": 1.0})
    assert len(search(world.snapshot, world.root.uri, query).candidates) == 0
    world.commit([world.put("viking://a", True, []), world.put("viking://a/b", False, [])])
    if compacted:
        world.compact()
    for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):
        found = search(world.snapshot, "viking://a", query, method)
        assert len(found.candidates) == 0
        assert (found.icc, found.gate) == (1.0, 0.0)
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_equal_files_tie(compacted):
    """Files that are alike have equal scores, and all that share the last place are candidates."""
    world = World(3)
    vector = world.vector(1)
    world.commit(
        [world.put("viking://a", True, [])]
        + [world.put(f"viking://a/{i}", False, [(1, "status", vector)]) for i in range(9)]
    )
    if compacted:
        world.compact()
    query = naive.Query(np.frombuffer(vector, "<f4").astype(float), 1, {"status": 1.0})
    for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):
        found = search(world.snapshot, "viking://", query, method, k=2)
        assert len(found.candidates) == 9
        assert len(set(found.parts[:, 7].tolist())) == 1
    world.close()


@settings(max_examples=20, deadline=None, print_blob=True)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-6, 1e-4, 1e-3, 1e-2]), st.booleans())
def test_vectors_next_to_their_mean(seed, spread, huge):
    """The codes' bound holds where next to nothing is left of a vector without its mean."""
    world = World(seed, dimension=16)
    rng = np.random.default_rng(seed)
    centre = np.eye(16)[5] if huge else rng.normal(size=16)
    raw = centre / np.linalg.norm(centre) + rng.normal(size=(60, 16)) * spread
    raw /= np.linalg.norm(raw, axis=1)[:, None]
    changes = [world.put("viking://a", True, [])]
    for i, row in enumerate(raw.astype("<f4")):
        changes.append(world.put(f"viking://a/f{i}", False, [(1, "codes", row.tobytes())]))
    world.commit(changes)
    world.compact()
    query = naive.Query(raw[7] + rng.normal(size=16) * 0.1, 1, {}, use_lexical=False)
    exact = search(world.snapshot, "viking://a", query, alpha=1.0)
    scanned = search(world.snapshot, "viking://a", query, kernel.EXHAUSTIVE, alpha=1.0, k=3)
    assert ranked(world.snapshot, scanned, 3) == ranked(world.snapshot, exact, 3)
    world.close()
