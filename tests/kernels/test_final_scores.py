"""Scores over the tree, and the rows of a scope."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import final_scores, node_scores
from viking_kernels import scope as scopes
from viking_kernels.arrays import (
    DIRECTORY_FINAL,
    FINAL,
    NEVER,
    NODE,
    Files,
    Search,
    Weights,
    decode_file,
)
from viking_kernels.bounds import bound_scores

from tests.kernels import naive
from tests.kernels.naive import files_below, files_in, texts_below, walk
from tests.kernels.scored import Scored
from tests.kernels.trees import LARGE, Shape, World, build, compared, room, shapes
from tests.tiers import examples

few = examples(25)
score = st.floats(0, 1, width=32)


@few
@given(shapes)
def test_rows_of_a_scope(shape):
    """A scope has the living rows of its subtree, in base and tail."""
    world = build(shape)
    s = Scored(world)
    snapshot, scope = s.snapshot, s.scope
    tail = [int(key) for key in snapshot.dir_id[scope.base_dirs :]]
    assert s.inside.tolist() == naive.tail_directories(tail, s.top)
    for row, key in enumerate(snapshot.dir_id.tolist()):
        if snapshot.tree.directories.tombstoned[row] > snapshot.revision:
            got = scopes.directory_inside(row, s.inside, scope)
            assert got == naive.directory_inside(key, s.top)
    files = [
        *range(scope.file_low, scope.file_high),
        *range(scope.base_files, len(snapshot.file_id)),
    ]
    for row in s.file_row.values():
        at = scopes.place(row, scope.file_low, scope.file_high, scope.base_files)
        assert at == files.index(row)
    world.close()


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 30))
@examples(50)
def test_place_and_row_at_are_each_others_reverse(low, size, rest, position):
    """`place` and `row_at` are inverse; positions count base rows of the scope, then the tail."""
    high = low + size
    base = high + rest
    row = scopes.row_at(position, low, high, base)
    assert row == naive.row_at(position, low, high, base)
    assert scopes.place(row, low, high, base) == naive.place(row, low, high, base) == position


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)), st.integers(1, 8))
@examples(50)
def test_chains_skip_what_is_not_there(chain, alive, published):
    """Chains skip tombstoned rows and rows beyond the arrays of a snapshot."""
    room = {name: np.full(8, -1, np.int32) for name in ("next", "previous")}
    for a, b in itertools.pairwise(chain):
        room["next"][a], room["previous"][b] = b, a
    died = np.array([NEVER if i in alive else 3 for i in range(8)])
    none = np.zeros(0, np.int32)
    files = Files(
        none,
        room["next"][:published],
        room["previous"][:published],
        died[:published],
        none.reshape(0, 2),
        none,
    )
    seen = {i for i in alive if i < published}
    for i, row in enumerate(chain):
        for links, rest in ((files.next, chain[i:]), (files.previous, chain[i::-1])):
            assert scopes.living_file(row, links, files, 5) == naive.living_file(rest, seen)


@pytest.mark.deep
@few
@given(shapes)
@example(LARGE)
def test_the_files_of_a_directory(shape):
    """Files are listed by name, from a range of rows or along the chain."""
    world = build(shape)
    for compacted in (False, True):
        if compacted:
            world.compact()
        s = Scored(world, world.root)
        for directory in walk(s.top):
            row, at = s.dir_row[directory.id], s.dir_at(directory.id)
            unchanged = s.scratch.unchanged[at] == 1
            assert unchanged or not compacted
            chain = [f.id for f in files_in(directory)]
            wanted = [s.file_at(key) for key in naive.list_files(chain, set(chain))]
            for range_ in {False, unchanged}:
                count = scopes.list_files(row, range_, s.search)
                assert s.scratch.listed[:count].tolist() == wanted
    world.close()


@few
@given(shapes)
@example(LARGE)
@example(Shape(5, (25, 25), 1, "latin", True))
def test_own_scores(shape):
    """Node scores of texts and directories equal the twins', from vectors and from codes."""
    world = build(shape)
    s = Scored(world)
    mean = naive.scope_centroids(s.top, world.prior.astype(float))
    terms = s.query.terms if s.query.use_lexical else {}
    lexical, words = naive.score_scope(s.top, terms)
    for text in texts_below(s.top):
        truth = naive.text_score(text, s.query, mean, lexical[text.id])
        own, bound = s.text_score(text.id)
        assert own == pytest.approx(truth, abs=1e-5)
        assert bound == 0
        own, bound = s.text_score(text.id, exact=False)
        assert abs(own - truth) <= bound + 1e-6
        assert bound <= naive.CODES_TELL + 1e-6  # a larger bound needs the vector
        row = s.text_row[text.id]
        if text.vector is not None and np.linalg.norm(text.vector - mean[text.script]) > 0.5:
            v, at = s.vectors, row
            codes, scale, left = v.base_codes, v.scale, v.residual
            if row >= s.scope.base_texts:
                codes, scale, left = v.tail_codes, v.tail_scale, v.tail_residual
                at -= s.scope.base_texts
            code = codes[at, : len(text.vector)].tolist(), float(scale[at]), float(left[at])
            twin = naive.score_codes if row < s.scope.base_texts else naive.text_score_from_code
            told = twin(text, code, s.query, mean, lexical[text.id])
            assert own == pytest.approx(told, abs=1e-3)
    for key, parts in naive.directory_scores(s.top, s.query, mean, words).items():
        got = s.scratch.directories[:4, s.dir_at(key)]
        assert got == pytest.approx(parts, abs=1e-5)
    outside = set(range(s.size)) - {s.dir_at(key) for key in s.dir_row}
    assert (s.scratch.directories[NODE, list(outside)] == -1).all()
    world.close()


@given(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=1, max_size=12), st.integers(1, 12))
@examples(50)
def test_runs_of_one_script(scripts, most):
    """A run ends at another script or at the limit."""
    rows = np.array(scripts, np.uint8)
    for high in range(1, len(scripts) + 1):
        for start in range(high):
            run = node_scores.next_run(rows, start, high, most)
            assert run == (start, naive.next_run(scripts, start, high, most), scripts[start])


@few
@given(shapes, st.booleans())
@example(LARGE, False)
@example(LARGE, True)
@example(Shape(0, (0, 0, 15, 3), 3, "latin", True), False)
def test_no_score_is_above_its_bound(shape, worst):
    """No score of a base text exceeds its upper bound, even with the worst codes.

    With ordinary vectors, the bound exceeds the score by little more than the residual of the code.
    """
    world = build(shape)
    s = Scored(world, world.root)
    for _ in range(3):
        means = naive.scope_centroids(s.top, world.prior.astype(float))
        for weights in ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (0.2, 0.7)):
            compare_bounds(s, means, weights, worst)
        s = Scored(world)
    world.close()


def compare_bounds(s: Scored, mean: naive.F64, weights: tuple[float, float], worst: bool) -> None:
    """Compare the upper bounds of one query over one scope with the scores."""
    query = s.query if s.compared.use_dense else replace(s.query, vector=None)
    lexical, _ = naive.score_scope(s.top, dict(s.query.terms))
    coded = s.vectors.base_int4
    if worst:
        square = (s.vectors.base_raw**2).sum(axis=1) - coded.along**2
        error = np.sqrt(np.maximum(square, 0)) + np.float32(1e-5)
        coded = coded._replace(scale=0 * coded.scale, residual=error)
    vectors = s.vectors._replace(base_int4=coded)
    bound_scores(weights, s.search_of(vectors))
    for text in texts_below(s.top):
        row = s.text_row[text.id]
        if row >= s.scope.base_texts:
            continue
        own = naive.bound_scores(text, query, mean, lexical[text.id], weights)
        most = float(s.scratch.code_scores[row - s.scope.text_low])
        assert most >= own - 1e-6
        if text.vector is not None and s.compared.use_dense and not worst:
            left = float(np.linalg.norm(text.vector - mean[text.script]))
            off = float(coded.residual[row]) + 0.05
            if left > 3 * off:
                assert most <= own + 4 * off / left


@pytest.mark.deep
@few
@given(shapes, st.sampled_from([0.0, 0.3]), st.booleans(), st.data())
@example(LARGE, 0.3, True, None)
def test_settling_makes_scores_from_codes_exact(shape, weight, compacted, data):
    """Rescoring makes a directory and its ancestors exact, in any order, and changes no other."""
    world = build(shape)
    if compacted:
        world.compact()
    s = Scored(world, world.root if compacted else None)
    weights, scores = Weights(weight, weight / 2, 0.0), s.scratch.directories
    final_scores.propagate(s.size, weights, s.search)
    exact = scores[:, : s.size].copy()
    final_scores.directory_scores(s.inside, True, s.search)
    final_scores.propagate(s.size, weights, s.search)
    # The vectors of a hard directory nearly cancel, so codes of four bits miss its mean by more.
    assert scores[3, : s.size] == pytest.approx(exact[3], abs=0.2 if shape.hard else 0.05)
    inside = exact[3] >= 0
    off = s.scratch.dir_errors[: s.size] + 1e-6
    assert (abs(scores[4, : s.size] - exact[4]) <= off)[inside].all()
    below = list(walk(s.top))
    order = below[::-1] if data is None else data.draw(st.permutations(below))
    wanted = set()
    for directory in order:
        final_scores.rescore_exactly(s.dir_row[directory.id], weights, s.search)
        wanted |= naive.rescore_exactly(s.top, directory)
        settled = {d.id for d in below if s.scratch.is_exact[s.dir_at(d.id)]}
        assert settled == wanted
        at = [s.dir_at(key) for key in settled]
        assert scores[:, at] == pytest.approx(exact[:, at], abs=1e-6)
    world.close()


@few
@given(shapes, st.booleans())
@example(LARGE, False)
def test_own_scores_of_files(shape, exact):
    """A file has the score of its best text and the largest error bound of its texts."""
    world = build(shape)
    s = Scored(world, world.root)
    scored = {t.id: s.text_score(t.id, exact=exact) for t in texts_below(s.top)}
    owns = {key: own for key, (own, _) in scored.items()}
    for file in files_below(s.top):
        row = s.file_row[file.id]
        if row < s.scope.base_files:
            low, high = s.tree.directories.texts[s.tree.files.directory[row] + np.arange(2)]
            node_scores.score_codes(int(low), int(high), s.search)
        own, bound, best, count = node_scores.file_score(row, not exact, s.search)
        wanted, text = naive.file_score(file, owns)
        assert own == pytest.approx(wanted, abs=1e-6)
        if s.text_id(best) != text:  # the two texts tie up to rounding
            assert owns[s.text_id(best)] == pytest.approx(wanted, abs=1e-6)
        assert bound == pytest.approx(max((scored[t.id][1] for t in file.texts), default=0))
        assert count == len(file.texts)
    world.close()


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_of_equal_texts_the_first_is_the_best(compacted, exact):
    """The first of equal texts is the best, in the base and along the tail's reverse chain."""
    world = World(1)
    like, other = (1, "status of", world.vector(1)), (1, "", world.vector(1))
    contexts = [("viking://a", [other, like, like, other, like]), ("viking://b", [other, other])]
    world.commit([world.put(uri, False, items) for uri, items in contexts])
    if compacted:
        world.compact()
    snapshot, scope, means = world.scope_of(world.root)
    query = naive.Query(np.frombuffer(like[2], "<f4").astype(float), 1, {"status": 1.0})
    tree, vectors, stats = snapshot.tree, snapshot.vectors, snapshot.stats
    search = Search(tree, vectors, stats, compared(query, means), scope, room(snapshot))
    node_scores.score_codes(0, scope.base_texts, search)
    for file, text in ((world.root.files["a"], 1), (world.root.files["b"], 0)):
        row = decode_file(snapshot.find(file.uri))
        _, _, best, _ = node_scores.file_score(row, not exact, search)
        assert int(snapshot.text_id[best]) == file.texts[text].id
    world.close()


@few
@given(shapes, st.integers(1, 4))
@example(LARGE, 2)
def test_the_best_passages_of_a_file(shape, count):
    """The best passages above 0 come best first, without the abstract."""
    world = build(shape)
    s = Scored(world, world.root)
    kept = {t.id: float(np.float32(s.text_score(t.id)[0])) for t in texts_below(s.top)}
    for file in files_below(s.top):
        rows, scores = np.full(count, 7, np.int32), np.full(count, np.nan, np.float32)
        node_scores.best_passages(s.file_row[file.id], s.search, rows, scores)
        wanted = naive.best_passages(file, kept, count)
        none = count - len(wanted)
        assert [s.text_id(row) for row in rows] == wanted + [-1] * none
        assert scores.tolist() == [kept[key] for key in wanted] + [0] * none
    world.close()


@few
@given(shapes, st.tuples(score, score, score), st.integers(0, 20000))
@example(LARGE, (0.5, 0.25, 0.2), 2000)
def test_final_scores(shape, weights, files):
    """Final scores, neighbour windows, parts and the sample equal those of the plain twins."""
    world = build(shape)
    s = Scored(world)
    weights = Weights(*weights)
    b, below, *_ = weights
    final_scores.propagate(s.size, weights, s.search)
    own_dirs = {key: float(s.scratch.directories[NODE, s.dir_at(key)]) for key in s.dir_row}
    above = naive.propagate(s.top, own_dirs, b, below)
    for key, final in above.items():
        got = s.scratch.directories[DIRECTORY_FINAL, s.dir_at(key)]
        assert got == pytest.approx(final, abs=1e-6)
    plain = files_below(s.top)
    positions = np.array([s.file_at(f.id) for f in plain], np.int32)
    windows = final_scores.neighbour_windows(positions, s.tree.files, s.scope)
    rows = {**s.file_row, -1: -1}
    assert windows.tolist() == [[rows[i] for i in naive.neighbour_windows(f)] for f in plain]
    parts, best = final_scores.parts_of_files(windows, weights, s.search)
    known = {f.id: s.text_id(int(s.scratch.best[s.file_at(f.id)])) for f in plain}
    mean = s.centroids.raw.astype(float)
    found = naive.Found(
        *({}, {}, above, s.file_scores(), known, s.titles(), {}, 0, 0),
        *(np.inf, 0, mean),
    )
    lexical = {t.id: float(s.scratch.lexical[s.text_at(t.id)]) for t in texts_below(s.top)}
    finals = naive.finals_below(s.top, s.file_scores(), weights, above, s.titles())
    for i, file in enumerate(plain):
        wanted_parts = naive.parts_of_files(file, s.query, found, lexical, weights, s.top)
        assert parts[i] == pytest.approx(wanted_parts, abs=1e-6)
        assert parts[i, FINAL] == pytest.approx(finals[file.id], abs=1e-6)
        assert s.text_id(int(best[i])) == known[file.id]
    keys = {int(i): int(k) for i, k in zip(s.snapshot.dir_id, s.tree.directories.key, strict=True)}
    sample = final_scores.sample_directories(
        s.tree.directories, files, len(s.dir_row), s.scope, s.inside
    )
    chosen = {s.dir_row[d.id] for d in naive.sample_directories(s.top, files, keys)}
    assert set(sample.tolist()) == chosen
    assert len(sample) == len(chosen)
    assert final_scores.root_weight(s.snapshot.stats, s.scope, b) == naive.root_weight(s.top, b)
    for d in walk(s.top):
        got = final_scores.parent_share(s.dir_row[d.id], weights, s.scope)
        assert got == naive.parent_share(d, weights, s.top)
    world.close()


@few
@given(shapes)
@example(LARGE)
def test_icc_is_that_of_an_analysis_of_variance(shape):
    """The icc of any set of directories is that of an analysis of variance."""
    world = build(shape)
    s = Scored(world)
    directories = list(walk(s.top))
    for part in (directories, directories[1:], directories[::2], []):
        rows = np.array([s.dir_row[d.id] for d in part], np.int32)
        got = final_scores.intraclass_correlation(rows, s.search)
        own = s.file_scores()
        groups = [[own[f.id] for f in files_in(d)] for d in part]
        assert got == pytest.approx(naive.intraclass_correlation(groups), abs=1e-6)
    world.close()


def test_the_parent_counts_less_if_directories_are_large():
    """The weight of the parent falls with the files per directory, from 15 on."""
    for gate in (0.0, 0.4, 1.0):
        for files in (0.0, 1.0, 14.9, 15.0, 30.0, 1e6):
            got = final_scores.parent_weight(gate, files)
            assert got == pytest.approx(naive.parent_weight(gate, files))
    assert final_scores.parent_weight(1.0, 30.0) == 0.25


@pytest.mark.deep
@pytest.mark.parametrize("rubbish", [np.nan, np.inf, 0.5])
def test_what_does_not_count_is_not_read(rubbish):
    """Scores of neighbours without weight are not read."""
    world = World(4)
    text = (1, "status", world.vector(1))
    world.commit([world.put(f"viking://{name}", False, [text]) for name in "abc"])
    s = Scored(world)
    final_scores.propagate(s.size, Weights(0.5, 0.5, 0.0), s.search)
    middle = np.array([s.file_at(world.root.files["b"].id)], np.int32)
    windows = final_scores.neighbour_windows(middle, s.tree.files, s.scope)
    out = []
    for _ in range(2):
        parts, _ = final_scores.parts_of_files(windows, Weights(0.5, 0.5, 0.0), s.search)
        out.append(parts.tolist())
        s.scratch.file_scores[np.arange(len(s.scratch.file_scores)) != middle[0]] = rubbish
    assert out[0] == out[1]
    world.close()


@given(score, score, score, st.sampled_from([0.0, 0.03, 0.1]))
@examples(50)
def test_a_final_score_is_a_convex_combination_and_a_bonus(smoothed, parent, weight, title):
    """A final score is a convex combination plus a bonus, at most 1."""
    wanted = naive.final_score(smoothed, parent, weight, title)
    got = final_scores.final_score(smoothed, parent, weight, title)
    assert got == pytest.approx(wanted, abs=1e-12)
    assert got <= 1


@given(st.floats(0, 1) | st.sampled_from([0.25, 0.25 - 1e-12]))
@examples(50)
def test_the_gate_closes_as_the_icc_rises(icc):
    """The gate falls from 1 at an icc of 0 to 0 at an icc of a quarter."""
    assert final_scores.gate_of(icc) == pytest.approx(naive.gate_of(icc), abs=1e-12)


@pytest.mark.parametrize("icc", [0.01, 0.1, 0.2])
def test_a_gate_has_the_precision_of_float32(icc):
    """Iccs that differ in their last bits give the same gate, in the kernel and in its twin."""
    other = icc + 1e-15
    exact = 1 - icc / naive.ICC_FULL
    assert exact not in (1 - other / naive.ICC_FULL, np.float64(np.float32(exact)))
    wanted = float(np.float32(exact))
    assert {naive.gate_of(icc), naive.gate_of(other)} == {wanted}
    assert {final_scores.gate_of(icc), final_scores.gate_of(other)} == {wanted}


@given(score, score | st.just(-1.0), score | st.just(-1.0), score)
@examples(50)
def test_smoothing_is_a_weighted_mean(own, before, after, share):
    """Smoothing is a weighted mean over the existing neighbours."""
    got = final_scores.smooth(own, before, after, share)
    assert got == pytest.approx(naive.smooth(own, before, after, share), abs=1e-12)
