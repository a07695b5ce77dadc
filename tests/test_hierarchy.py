"""Scores over the tree, and the rows that they are read from."""

from __future__ import annotations

import itertools
from dataclasses import replace

import naive
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from naive import Directory, files_below, files_in, texts_below, walk
from trees import LARGE, Shape, World, build, compared, room, shapes, terms_of
from viking_kernels import bm25, hierarchy, texts
from viking_kernels import scope as scopes
from viking_kernels import walk as walks
from viking_kernels.arrays import NEVER, Files, Vectors
from viking_kernels.bounds import bound_scores
from viking_kernels.titles import score_titles

few = settings(max_examples=25, deadline=None, print_blob=True)
score = st.floats(0, 1, width=32)


class Scored:
    """A random tree with the arrays of one query over one scope, step by step."""

    def __init__(self, world: World, top: Directory | None = None) -> None:
        self.top, self.query = top or world.random_directory(), world.query()
        self.snapshot, self.scope, mean = world.scope_of(self.top)
        scope, tree = self.scope, self.snapshot.tree
        self.tree = tree
        self.inside = scopes.tail_directories(tree.directories, scope)
        self.compared = compared(self.query, mean)
        self.vectors = self.snapshot.vectors
        self.size = scope.dir_high - scope.dir_low + len(self.inside)
        self.scratch = room(self.snapshot)
        self.scratch.dir_lexical[: self.size] = 0
        self.scratch.sampled[: self.size] = 0
        terms = terms_of(self.snapshot, self.query)
        ranges = bm25.ranges_of(terms, scope)
        bm25.score_scope(
            tree, self.snapshot.numbers, scope, self.inside, terms, ranges, self.scratch
        )
        score_titles(tree.texts, scope, self.inside, terms, ranges, self.scratch.titles)
        hierarchy.directory_scores(
            tree.directories,
            self.snapshot.numbers,
            self.compared,
            scope,
            self.inside,
            False,
            self.scratch,
        )
        self.text_row = {int(key): row for row, key in enumerate(self.snapshot.text_id)}
        self.file_row = {f.id: -1 - int(self.snapshot.find(f.uri)) for f in files_below(self.top)}
        self.dir_row = {d.id: int(self.snapshot.find(d.uri)) for d in walk(self.top)}
        for row in self.dir_row.values():
            self.score(row, exact=True)

    def score(self, row: int, vectors: Vectors | None = None, *, exact: bool) -> int:
        """Own scores of a directory's files; the number of their texts."""
        bundles = (self.tree, vectors or self.vectors, self.compared, self.scope)
        if not exact and row < self.scope.base_dirs:
            low, high = self.tree.directories.texts[row : row + 2].tolist()
            texts.score_codes(low, high, *bundles, self.scratch)
        return walks.score_files(row, *bundles, exact, self.scratch)

    def own_of_text(self, key: int, *, exact: bool = True) -> tuple[float, float]:
        """Own score of a text, and how far it can be off."""
        row, bundles = self.text_row[key], (self.tree, self.vectors, self.compared)
        if exact:
            return texts.own_of_text(row, *bundles, self.scratch.lexical, self.scope), 0.0
        if row >= self.scope.base_texts:
            return texts.own_from_code(row, *bundles, self.scratch.lexical, self.scope)
        texts.score_codes(row, row + 1, *bundles, self.scope, self.scratch)
        own, bound = self.scratch.coded[:, 0].tolist()
        return own, bound

    def text_id(self, row: int) -> int:
        """The text of a row, -1 none."""
        return int(self.snapshot.text_id[row]) if row >= 0 else -1

    def text_at(self, key: int) -> int:
        """Position of a text."""
        s = self.scope
        return scopes.place(self.text_row[key], s.text_low, s.text_high, s.base_texts)

    def file_at(self, key: int) -> int:
        """Position of a file."""
        s = self.scope
        return scopes.place(self.file_row[key], s.file_low, s.file_high, s.base_files)

    def dir_at(self, key: int) -> int:
        """Position of a directory."""
        s = self.scope
        return scopes.place(self.dir_row[key], s.dir_low, s.dir_high, s.base_dirs)

    def own(self) -> dict[int, float]:
        """Own scores of the files by id."""
        return {key: float(self.scratch.own[0, self.file_at(key)]) for key in self.file_row}

    def titles(self) -> dict[int, float]:
        """What the titles of the files add, by id."""
        return {key: float(self.scratch.titles[self.file_at(key)]) for key in self.file_row}

    def own_in(self, directory: Directory) -> dict[int, float]:
        """Those of the files right in a directory."""
        return {f.id: float(self.scratch.own[0, self.file_at(f.id)]) for f in files_in(directory)}


@few
@given(shapes)
def test_rows_of_a_scope(shape):
    """Just the living ones below its directory, in the base and in the tail."""
    world = build(shape)
    s = Scored(world)
    snapshot, scope = s.snapshot, s.scope
    tail = [int(key) for key in snapshot.dir_id[scope.base_dirs :]]
    assert s.inside.tolist() == naive.tail_directories(tail, s.top)
    for row, key in enumerate(snapshot.dir_id.tolist()):
        if snapshot.tree.directories.died[row] > snapshot.revision:
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
@settings(max_examples=50, deadline=None)
def test_place_and_row_at_are_each_others_reverse(low, size, rest, position):
    """Base rows of the scope first, then the tail."""
    high = low + size
    base = high + rest
    row = scopes.row_at(position, low, high, base)
    assert row == naive.row_at(position, low, high, base)
    assert scopes.place(row, low, high, base) == naive.place(row, low, high, base) == position


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)), st.integers(1, 8))
@settings(max_examples=50, deadline=None)
def test_chains_skip_what_is_not_there(chain, alive, published):
    """The dead, and rows that a snapshot does not reach yet: the views end before them."""
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
        assert scopes.next_file(row, files, 5) == naive.next_file(chain, i, seen)
        assert scopes.previous_file(row, files, 5) == naive.previous_file(chain, i, seen)


@few
@given(shapes)
@example(LARGE)
def test_the_files_of_a_directory(shape):
    """By name; a range of rows where nothing has changed since the base, else along the chain."""
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
                count = scopes.list_files(row, range_, s.tree, s.scope, s.scratch.listed)
                assert s.scratch.listed[:count].tolist() == wanted
    world.close()


@few
@given(shapes)
@example(LARGE)
@example(Shape(5, (25, 25), 1, "latin", True))
def test_own_scores(shape):
    """Of texts from vectors and from codes, of directories."""
    world = build(shape)
    s = Scored(world)
    mean = naive.scope_means(s.top, world.prior.astype(float))
    terms = s.query.terms if s.query.use_lexical else {}
    lexical, words = naive.score_scope(s.top, terms)
    for text in texts_below(s.top):
        truth = naive.own_of_text(text, s.query, mean, lexical[text.id])
        own, bound = s.own_of_text(text.id)
        assert own == pytest.approx(truth, abs=1e-5)
        assert bound == 0
        own, bound = s.own_of_text(text.id, exact=False)
        assert abs(own - truth) <= bound + 1e-6
        assert bound <= naive.CODES_TELL + 1e-6  # else its vector is asked
        row = s.text_row[text.id]
        if text.vector is not None and np.linalg.norm(text.vector - mean[text.script]) > 0.5:
            codes, scale, left, at = s.vectors.base_codes, s.vectors.scale, s.vectors.error, row
            if row >= s.scope.base_texts:
                codes, scale, left = s.vectors[4:7]
                at -= s.scope.base_texts
            code = codes[at, : len(text.vector)].tolist(), float(scale[at]), float(left[at])
            told = naive.score_codes(text, code, s.query, mean, lexical[text.id])
            assert own == pytest.approx(told, abs=1e-3)
    for key, parts in naive.directory_scores(s.top, s.query, mean, words).items():
        got = s.scratch.directories[:4, s.dir_at(key)]
        assert got == pytest.approx(parts, abs=1e-5)
    outside = set(range(s.size)) - {s.dir_at(key) for key in s.dir_row}
    assert (s.scratch.directories[3, list(outside)] == -1).all()
    world.close()


@given(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=1, max_size=12), st.integers(1, 12))
@settings(max_examples=50, deadline=None, print_blob=True)
def test_runs_of_one_script(scripts, most):
    """As far as they go, and room reaches."""
    rows = np.array(scripts, np.uint8)
    for high in range(1, len(scripts) + 1):
        for start in range(high):
            got = texts.run_end(rows, start, high, most)
            assert got == naive.run_end(scripts, start, high, most)


@few
@given(shapes, st.booleans())
@example(LARGE, False)
@example(LARGE, True)
@example(Shape(0, (0, 0, 15, 3), 3, "latin", True), False)
def test_no_score_is_above_its_bound(shape, worst):
    """Of base texts, vectors that came late among them, be they coded as badly as can be.

    Where vectors are ordinary, and the query has one, the bound is above by no more than what codes
    leave out.
    """
    world = build(shape)
    s = Scored(world, world.root)
    for _ in range(3):
        means = naive.scope_means(s.top, world.prior.astype(float))
        for weights in ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (0.2, 0.7)):
            compare_bounds(s, means, weights, worst)
        s = Scored(world)
    world.close()


def compare_bounds(s: Scored, mean: naive.F64, weights: tuple[float, float], worst: bool) -> None:
    """The bounds of one query over one scope with the scores themselves."""
    query = s.query if s.compared.use_dense else replace(s.query, vector=None)
    lexical, _ = naive.score_scope(s.top, dict(s.query.terms))
    coded = s.vectors.base_int4
    if worst:
        square = (s.vectors.base_raw**2).sum(axis=1) - coded.along**2
        error = np.sqrt(np.maximum(square, 0)) + np.float32(1e-5)
        coded = coded._replace(scale=0 * coded.scale, error=error)
    vectors = s.vectors._replace(base_int4=coded)
    bound_scores(s.tree.texts, vectors, s.compared, weights, s.scope, s.scratch)
    for text in texts_below(s.top):
        row = s.text_row[text.id]
        if row >= s.scope.base_texts:
            continue
        own = naive.bound_scores(text, query, mean, lexical[text.id], weights)
        most = float(s.scratch.coded[0, row - s.scope.text_low])
        assert most >= own - 1e-6
        if text.vector is not None and s.compared.use_dense and not worst:
            left = float(np.linalg.norm(text.vector - mean[text.script]))
            off = float(coded.error[row]) + 0.05
            if left > 3 * off:
                assert most <= own + 4 * off / left


@few
@given(shapes, st.sampled_from([0.0, 0.3]), st.booleans(), st.data())
@example(LARGE, 0.3, True, None)
def test_settling_makes_scores_from_codes_exact(shape, weight, compacted, data):
    """Of a directory and all above it, whichever were settled before; others are left alone."""
    world = build(shape)
    if compacted:
        world.compact()
    s = Scored(world, world.root if compacted else None)
    weights, scores = (weight, weight / 2, 0.0), s.scratch.directories
    shared = (s.tree.directories.parent, s.scope, s.size, *weights[:2], s.scratch)
    hierarchy.propagate(*shared)
    exact = scores[:, : s.size].copy()
    numbers, dirs = s.snapshot.numbers, s.tree.directories
    hierarchy.directory_scores(dirs, numbers, s.compared, s.scope, s.inside, True, s.scratch)
    hierarchy.propagate(*shared)
    assert scores[3, : s.size] == pytest.approx(exact[3], abs=0.05)
    inside = exact[3] >= 0
    off = s.scratch.dir_off[: s.size] + 1e-6
    assert (abs(scores[4, : s.size] - exact[4]) <= off)[inside].all()
    below = list(walk(s.top))
    order = below[::-1] if data is None else data.draw(st.permutations(below))
    wanted = set()
    for directory in order:
        hierarchy.settle(
            s.dir_row[directory.id], weights, dirs, numbers, s.compared, s.scope, s.scratch
        )
        wanted |= naive.settle(s.top, directory)
        settled = {d.id for d in below if s.scratch.settled[s.dir_at(d.id)]}
        assert settled == wanted
        at = [s.dir_at(key) for key in settled]
        assert scores[:, at] == pytest.approx(exact[:, at], abs=1e-6)
    world.close()


@few
@given(shapes, st.booleans())
@example(LARGE, False)
def test_own_scores_of_files(shape, exact):
    """That of the best text, the largest bound, and no part of a file that has no text."""
    world = build(shape)
    s = Scored(world, world.root)
    scored = {t.id: s.own_of_text(t.id, exact=exact) for t in texts_below(s.top)}
    owns = {key: own for key, (own, _) in scored.items()}
    for file in files_below(s.top):
        row = s.file_row[file.id]
        if row < s.scope.base_files:
            low, high = s.tree.directories.texts[s.tree.files.directory[row] + np.arange(2)]
            texts.score_codes(
                int(low), int(high), s.tree, s.vectors, s.compared, s.scope, s.scratch
            )
        own, bound, best, count = texts.own_of_file(
            row, s.tree, s.vectors, s.compared, s.scope, not exact, s.scratch
        )
        wanted, text = naive.own_of_file(file, owns)
        assert own == pytest.approx(wanted, abs=1e-6)
        if s.text_id(best) != text:  # two that are alike up to rounding
            assert owns[s.text_id(best)] == pytest.approx(wanted, abs=1e-6)
        assert bound == pytest.approx(max((scored[t.id][1] for t in file.texts), default=0))
        assert count == len(file.texts)
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_of_equal_texts_the_first_is_the_best(compacted, exact):
    """In the base, where texts stand in order, and in the tail, whose chain leads back."""
    world = World(1)
    like, other = (1, "status of", world.vector(1)), (1, "", world.vector(1))
    contexts = [("viking://a", [other, like, like, other, like]), ("viking://b", [other, other])]
    world.commit([world.put(uri, False, items) for uri, items in contexts])
    if compacted:
        world.compact()
    snapshot, scope, means = world.scope_of(world.root)
    query = naive.Query(np.frombuffer(like[2], "<f4").astype(float), 1, {"status": 1.0})
    scratch, asked = room(snapshot), compared(query, means)
    texts.score_codes(0, scope.base_texts, snapshot.tree, snapshot.vectors, asked, scope, scratch)
    for file, text in ((world.root.files["a"], 1), (world.root.files["b"], 0)):
        _, _, best, _ = texts.own_of_file(
            -1 - snapshot.find(file.uri),
            snapshot.tree,
            snapshot.vectors,
            asked,
            scope,
            not exact,
            scratch,
        )
        assert int(snapshot.text_id[best]) == file.texts[text].id
    world.close()


@few
@given(shapes, st.integers(1, 4))
@example(LARGE, 2)
def test_the_best_passages_of_a_file(shape, count):
    """Those above 0, best first, of equal ones the first; no abstract; the rest is none."""
    world = build(shape)
    s = Scored(world, world.root)
    kept = {t.id: float(np.float32(s.own_of_text(t.id)[0])) for t in texts_below(s.top)}
    for file in files_below(s.top):
        rows, scores = np.full(count, 7, np.int32), np.full(count, np.nan, np.float32)
        texts.best_passages(
            s.file_row[file.id],
            s.tree,
            s.vectors,
            s.compared,
            s.scratch,
            s.scope,
            rows,
            scores,
        )
        wanted = naive.best_passages(file, kept, count)
        none = count - len(wanted)
        assert [s.text_id(row) for row in rows] == wanted + [-1] * none
        assert scores.tolist() == [kept[key] for key in wanted] + [0] * none
    world.close()


@few
@given(shapes, st.tuples(score, score, score), st.integers(0, 20000))
@example(LARGE, (0.5, 0.25, 0.2), 2000)
def test_final_scores(shape, weights, files):
    """Propagation down from the root, neighbours among files, the parts of each score."""
    world = build(shape)
    s = Scored(world)
    b, below, _ = weights
    parents = s.tree.directories.parent
    hierarchy.propagate(parents, s.scope, s.size, b, below, s.scratch)
    own_dirs = {key: float(s.scratch.directories[3, s.dir_at(key)]) for key in s.dir_row}
    above = naive.propagate(s.top, own_dirs, b, below)
    for key, final in above.items():
        assert s.scratch.directories[4, s.dir_at(key)] == pytest.approx(final, abs=1e-6)
    plain = files_below(s.top)
    positions = np.array([s.file_at(f.id) for f in plain], np.int32)
    trio = hierarchy.with_neighbours(positions, s.tree.files, s.scope)
    rows = {**s.file_row, -1: -1}
    assert trio.tolist() == [[rows[i] for i in naive.with_neighbours(f)] for f in plain]
    parts, best = hierarchy.parts_of_files(
        trio, s.tree.files.directory, s.tree.texts, s.scope, s.compared, weights, s.scratch
    )
    known = {f.id: s.text_id(int(s.scratch.best[s.file_at(f.id)])) for f in plain}
    found = naive.Found({}, {}, above, s.own(), known, s.titles(), {}, 0, 0)
    lexical = {t.id: float(s.scratch.lexical[s.text_at(t.id)]) for t in texts_below(s.top)}
    finals = naive.finals_below(s.top, s.own(), weights, above, s.titles())
    for i, file in enumerate(plain):
        wanted_parts = naive.parts_of_files(file, s.query, found, lexical, weights, s.top)
        assert parts[i] == pytest.approx(wanted_parts, abs=1e-6)
        assert parts[i, 8] == pytest.approx(finals[file.id], abs=1e-6)
        assert s.text_id(int(best[i])) == known[file.id]
    keys = {int(i): int(k) for i, k in zip(s.snapshot.dir_id, s.tree.directories.key, strict=True)}
    sample = hierarchy.sample_directories(
        s.tree.directories, files, len(s.dir_row), s.scope, s.inside
    )
    chosen = {s.dir_row[d.id] for d in naive.sample_directories(s.top, files, keys)}
    assert set(sample.tolist()) == chosen
    assert len(sample) == len(chosen)
    assert hierarchy.root_weight(s.snapshot.numbers, s.scope, b) == naive.root_weight(s.top, b)
    world.close()


@few
@given(shapes)
@example(LARGE)
def test_icc_is_that_of_an_analysis_of_variance(shape):
    """Of any part of the directories."""
    world = build(shape)
    s = Scored(world)
    directories = list(walk(s.top))
    for part in (directories, directories[1:], directories[::2], []):
        rows = np.array([s.dir_row[d.id] for d in part], np.int32)
        icc, count = hierarchy.intraclass_correlation(rows, s.tree, s.scope, s.scratch)
        own = s.own()
        groups = [[own[f.id] for f in files_in(d)] for d in part]
        assert icc == pytest.approx(naive.intraclass_correlation(groups), abs=1e-6)
        assert count == sum(map(len, groups))
    world.close()


@pytest.mark.parametrize("rubbish", [np.nan, np.inf, 0.5])
def test_what_does_not_count_is_not_read(rubbish):
    """Without a share of the neighbours, their own scores may never have been written."""
    world = World(4)
    text = (1, "status", world.vector(1))
    world.commit([world.put(f"viking://{name}", False, [text]) for name in "abc"])
    s = Scored(world)
    parents = s.tree.directories.parent
    hierarchy.propagate(parents, s.scope, s.size, 0.5, 0.5, s.scratch)
    middle = np.array([s.file_at(world.root.files["b"].id)], np.int32)
    trio = hierarchy.with_neighbours(middle, s.tree.files, s.scope)
    out = []
    for _ in range(2):
        parts, _ = hierarchy.parts_of_files(
            trio,
            s.tree.files.directory,
            s.tree.texts,
            s.scope,
            s.compared,
            (0.5, 0.5, 0.0),
            s.scratch,
        )
        out.append(parts.tolist())
        s.scratch.own[:, np.arange(s.scratch.own.shape[1]) != middle[0]] = rubbish
    assert out[0] == out[1]
    world.close()


@given(score, score | st.just(-1.0), score | st.just(-1.0), score)
@settings(max_examples=50, deadline=None)
def test_smoothing_is_a_weighted_mean(own, before, after, share):
    """Of the neighbours that are there."""
    got = hierarchy.smooth(own, before, after, share)
    assert got == pytest.approx(naive.smooth(own, before, after, share), abs=1e-12)
