"""Finds in extreme worlds: few files, equal files, vectors near their centroid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import find as kernel
from viking_kernels.arrays import FINAL
from viking_kernels.walk import EXHAUSTED

from tests.kernels import naive
from tests.kernels.trees import NAMES, World, search
from tests.tiers import examples
from vikingd.index.snapshot import Snapshot


def ranked(snapshot: Snapshot, found: kernel.Found, k: int) -> list[tuple[float, str]]:
    """Return the k best as (score, URI)."""
    scores = found.parts[:, FINAL].tolist()
    uris = [snapshot.file_uri(int(row)) for row in found.rows]
    positive = [(s, u) for s, u in zip(scores, uris, strict=True) if s > 0]
    return sorted(positive, key=lambda c: (-c[0], c[1]))[:k]


def test_best_first_finds_the_best_early():
    """An outstanding match is found with few directories open, and the walk stops early."""
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
    """An empty tree, an empty directory and files without texts give no results."""
    world = World(2)
    if compacted:
        world.compact()
    query = naive.Query(np.ones(16), 1, {"status": 1.0})
    assert len(search(world.snapshot, world.root.uri, query).rows) == 0
    world.commit([world.put("viking://a", True, []), world.put("viking://a/b", False, [])])
    if compacted:
        world.compact()
    for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):
        found = search(world.snapshot, "viking://a", query, method)
        assert len(found.rows) == 0
        assert (found.icc, found.gate) == (1.0, 0.0)
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_equal_files_tie(compacted):
    """Equal files have equal scores, and all files that tie with the last are found."""
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
        for sample in (1.0, 1e-6):
            found = search(world.snapshot, "viking://", query, method, k=2, sample=sample)
            assert found.sample_files == (9 if sample == 1.0 else 0)
            assert len(found.rows) == 9
            assert len(set(found.parts[:, FINAL].tolist())) == 1
    world.close()


@examples(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-6, 1e-4, 1e-3, 1e-2]), st.booleans())
def test_vectors_next_to_their_mean(seed, spread, huge):
    """A scan of codes finds the exact best among vectors next to their centroid."""
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
    scanned = search(
        world.snapshot, "viking://a", query, kernel.EXHAUSTIVE, alpha=1.0, k=3, sample=1e-4
    )
    assert ranked(world.snapshot, scanned, 3) == ranked(world.snapshot, exact, 3)
    world.close()
