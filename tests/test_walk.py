"""The best-first walk."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import files_in, walk
from test_hierarchy import Scored
from trees import build, shapes
from viking_kernels import hierarchy
from viking_kernels import walk as walks

few = settings(max_examples=25, deadline=None, print_blob=True)
NONE = np.zeros(0, np.uint8)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=1, max_size=20), st.data())
@settings(max_examples=50, deadline=None, print_blob=True)
def test_the_queue_gives_the_best_first(values, data):
    """Ties by position, whatever the order of coming and going."""
    final = np.array(values, np.float32)
    queue, count = np.empty(len(values), np.int32), 0
    plain: list[int] = []
    for position in data.draw(st.permutations(range(len(values)))):
        count = walks.push_queue(queue, count, position, final)
        plain = naive.push_queue(plain, position, values)
        if data.draw(st.booleans()):
            got, (wanted, plain) = walks.pop_queue(queue, count, final), naive.pop_queue(plain)
            count -= 1
            assert got == wanted
    while count:
        got, (wanted, plain) = walks.pop_queue(queue, count, final), naive.pop_queue(plain)
        count -= 1
        assert got == wanted


@few
@given(shapes)
def test_opening_a_directory(shape):
    """Its files get their own scores, its directories are queued once, its best are offered."""
    world = build(shape)
    s = Scored(world)
    tree, scope = s.tree, s.scope
    kept = {t.id: float(s.scores.own_texts[0, s.text_at(t.id)]) for t in naive.texts_below(s.top)}
    tail = {int(key) for key in s.snapshot.text_id[scope.base_texts :]}
    directories = list(walk(s.top))
    for part in (directories, directories[-1:], directories[::2]):
        rows = np.array([s.dir_row[d.id] for d in part], np.int32)
        found = walks.tail_texts_in(rows, tree.directories, tree.files, tree.texts, scope)
        ids = s.snapshot.text_id[found].tolist()
        assert sorted(ids) == sorted(naive.tail_texts_in(part, tail))
        fresh = s.scores._replace(
            own=np.zeros_like(s.scores.own), best=np.full_like(s.scores.best, -1),
            own_texts=np.zeros_like(s.scores.own_texts),
        )  # fmt: skip
        walks.open_directories(rows, tree, s.snapshot.vectors, s.compared, s.lexical, scope, fresh)
        for key, (own, _) in naive.open_directories(part, kept).items():
            value, bound = fresh.own[:, s.file_at(key)]
            assert abs(value - own) <= bound + 1e-6
    final = s.scores.directories[3]
    for directory in directories:
        queue, seen = np.empty(len(final), np.int32), np.zeros(len(final), np.uint8)
        children = list(directory.directories.values())
        for child in children[::2]:
            seen[s.dir_at(child.id)] = 1
        before = {child.id for child in children[::2]}
        row = s.dir_row[directory.id]
        for wanted in (naive.queue_children(directory, before), set()):
            count = walks.queue_children(row, tree.directories, scope, queue, 0, seen, final)
            assert set(queue[:count].tolist()) == {s.dir_at(key) for key in wanted}
        own = s.own()
        got = walks.best_in(row, tree.directories, tree.files, scope, s.scores.own)
        assert got == naive.best_in(own[f.id] for f in files_in(directory))
        values = [own[f.id] for f in files_in(directory)]
        exact = np.vstack([s.scores.own[0], np.zeros_like(s.scores.own[0])])
        top = np.empty(2, np.float32)
        held, changed = walks.offer_files(
            row, tree.directories, tree.files, scope, exact, NONE, top, 0
        )
        best, other = naive.offer_files([], values, 2)
        assert (sorted(top[:held].tolist()), changed) == (best, other)
    world.close()


@few
@given(shapes, st.sampled_from([0.0, 0.3, 0.5]), st.integers(1, 4), st.integers(1, 3),
       st.integers(1, 3), st.integers(1, 9))  # fmt: skip
def test_the_walk_is_the_plain_one(shape, weight, k, in_round, patience, most):
    """The same directories in the same order, and the same reason to stop."""
    world = build(shape)
    s = Scored(world)
    tree, scope = s.tree, s.scope
    hierarchy.propagate(tree.directories.parent, scope, weight, weight, s.scores.directories)
    final = s.scores.directories[4]
    weights = (weight, weight, 0.1)
    every = np.ones(len(final), np.uint8)  # sampled: their exact own scores stand there
    hierarchy.final_of_all_files(
        tree.directories, tree.files, scope, weights, s.scores.directories, s.scores.own,
        s.scores.final,
    )  # fmt: skip
    own = s.own()
    nodes = {
        s.dir_at(d.id): (
            float(final[s.dir_at(d.id)]),
            [s.dir_at(child.id) for child in d.directories.values()],
            [own[f.id] for f in files_in(d)],
            [float(s.scores.final[0, s.file_at(f.id)]) for f in files_in(d)],
        )
        for d in walk(s.top)
    }
    starts = [*sorted(nodes)[-2:], s.dir_at(s.top.id)]
    opened, rounds, stop, texts = walks.best_first(
        tree, s.snapshot.vectors, s.compared, s.lexical, scope, s.scores,
        (np.array(starts, np.int32), every, NONE, weights),
        walks.Limits(k, in_round, patience, most),
    )  # fmt: skip
    assert texts == 0
    wanted = naive.best_first(starts, nodes, weight, (k, in_round, patience, most))
    assert (opened.tolist(), rounds, stop) == wanted
    world.close()


@pytest.mark.parametrize("reason", ["CONVERGED", "EXHAUSTED", "LIMIT", "OUT_OF_REACH"])
def test_reasons_to_stop_are_told_apart(reason):
    """Each has a number of its own."""
    names = ("CONVERGED", "EXHAUSTED", "LIMIT", "OUT_OF_REACH")
    assert getattr(walks, reason) == names.index(reason)
