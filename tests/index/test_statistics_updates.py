"""Subtree statistics after commits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import statistics_updates
from viking_kernels.arrays import SCRIPTS

from tests.kernels import naive
from tests.kernels.naive import walk
from tests.kernels.trees import build, shapes
from tests.tiers import examples


@examples(25)
@given(shapes)
def test_numbers_are_those_of_the_tree(shape):
    """Counts, lengths and centroids of every directory are those of the tree."""
    world = build(shape)
    snapshot = world.snapshot
    for directory in walk(world.root):
        row = snapshot.find(directory.uri)
        assert row is not None
        counts = snapshot.counts(row).tolist()
        assert counts == [*naive.count_nodes(directory), *naive.count_texts(directory)]
        for script in range(SCRIPTS):
            slot = int(snapshot.stats.centroid_slot[snapshot.stats.slot[row], script])
            count, total = naive.add_vectors(directory, script)
            assert (int(snapshot.stats.centroid_count[slot]) if slot >= 0 else 0) == count
            if slot >= 0:
                mean = naive.divide_sums(np.array([total * np.ones(16)]), [count])[0]
                np.testing.assert_allclose(snapshot.mean_row(slot), mean, atol=1e-6)
    world.close()


@examples(30)
@given(shapes, st.data())
def test_all_above_a_change_are_touched(shape, data):
    """All directories above a change are touched, each once, in ascending order."""
    world = build(shape)
    directories = list(walk(world.root))
    changed = data.draw(st.lists(st.sampled_from(directories)))
    snapshot = world.snapshot
    rows = np.array([snapshot.find(d.uri) for d in changed], np.int32)
    touched = statistics_updates.touched_directories(snapshot.tree.directories.parent, rows)
    ids = {-1 if row == 0 else int(snapshot.dir_id[row]) for row in touched}
    assert ids == naive.touched_directories(changed)
    assert touched.tolist() == sorted(set(touched.tolist()))
    world.close()


def test_sums_do_not_depend_on_their_order():
    """A sum has the same bits in any order; a value that is added and removed leaves no trace."""
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(40, 16)).astype(np.float32)
    ancestors = statistics_updates.Ancestors(
        np.array([-1, 0], np.int32), np.array([0, 1], np.int32)
    )
    slots = np.arange(2 * SCRIPTS, dtype=np.int32).reshape(2, SCRIPTS)
    results = []
    for order in (np.arange(40), rng.permutation(40)):
        sums, counts = np.zeros((16, 16), np.int64), np.zeros(16, np.int64)
        rows = np.array([(i % 2, 1, 1) for i in order], np.int32)
        statistics_updates.add_vectors(ancestors, slots, 0, sums, counts, rows, raw[order])
        out = np.empty((16, 16), np.float32)
        statistics_updates.divide_sums(sums, counts, out)
        results.append(out.tobytes())
        assert out[1] == pytest.approx(raw.mean(axis=0), abs=1e-6)
        rows[:, 1] = -1
        statistics_updates.add_vectors(ancestors, slots, 0, sums, counts, rows, raw[order])
        assert not sums.any()
        assert not counts.any()
        statistics_updates.divide_sums(sums, counts, out)
        assert not out.any()
    assert results[0] == results[1]
