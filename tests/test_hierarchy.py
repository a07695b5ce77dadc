"""Scores over the tree, and the rows that they are read from."""

from __future__ import annotations

import itertools

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import files_below, files_in, texts_below, walk
from trees import World, build, compared, shapes, terms_of
from viking_kernels import bm25, hierarchy, texts
from viking_kernels import scope as scopes
from viking_kernels.arrays import NEVER, Files, Scores

few = settings(max_examples=25, deadline=None, print_blob=True)
score = st.floats(0, 1, width=32)


class Scored:
    """A random tree with the arrays of one query over one scope, step by step."""

    def __init__(self, world: World) -> None:
        self.top, self.query = world.random_directory(), world.query()
        self.snapshot, self.scope, mean = world.scope_of(self.top)
        scope, tree = self.scope, self.snapshot.tree
        self.tree = tree
        self.inside = scopes.tail_directories(tree.directories, scope)
        self.compared = compared(self.query, mean)
        d = scope.dir_high - scope.dir_low + len(self.inside)
        f = scope.file_high - scope.file_low + len(tree.files.directory) - scope.base_files
        t = scope.text_high - scope.text_low + len(tree.texts.file) - scope.base_texts
        self.scores = Scores(
            np.zeros((5, d), np.float32), np.zeros((2, t), np.float32),
            np.zeros((2, f), np.float32), np.zeros((2, f), np.float32), np.full(f, -1, np.int32),
        )  # fmt: skip
        self.lexical, words = np.zeros(t, np.float32), np.zeros(d, np.float32)
        if self.query.use_lexical:
            bm25.score_scope(
                tree.directories.parent, tree.texts, self.snapshot.numbers, scope, self.inside,
                terms_of(self.snapshot, self.query), self.lexical, words,
            )  # fmt: skip
        hierarchy.directory_scores(
            tree.directories, self.snapshot.numbers, self.compared, words, scope, self.inside,
            self.scores.directories,
        )  # fmt: skip
        self.text_row = {int(key): row for row, key in enumerate(self.snapshot.text_id)}
        self.file_row = {f.id: -1 - int(self.snapshot.find(f.uri)) for f in files_below(self.top)}
        self.dir_row = {d.id: int(self.snapshot.find(d.uri)) for d in walk(self.top)}
        rows = np.array([self.text_row[t.id] for t in texts_below(self.top)], np.int32)
        self.rows = np.sort(rows)
        texts.own_of_rows(
            self.rows, tree.texts, self.snapshot.vectors, self.compared, self.lexical, scope,
            self.scores.own_texts,
        )  # fmt: skip
        hierarchy.own_of_files(
            tree.texts, self.rows, scope, self.scores.own_texts, self.scores.own, self.scores.best
        )

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
        return {key: float(self.scores.own[0, self.file_at(key)]) for key in self.file_row}


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
    ids = snapshot.text_id[scopes.tail_texts(s.tree.texts, s.inside, scope)]
    assert ids.tolist() == naive.tail_texts(snapshot.text_id[scope.base_texts :].tolist(), s.top)
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
    files = Files(none, room["next"][:published], room["previous"][:published], died[:published],
                  none.reshape(0, 2), none)  # fmt: skip
    seen = {i for i in alive if i < published}
    for i, row in enumerate(chain):
        assert scopes.next_file(row, files, 5) == naive.next_file(chain, i, seen)
        assert scopes.previous_file(row, files, 5) == naive.previous_file(chain, i, seen)


@few
@given(shapes)
def test_own_scores(shape):
    """Of texts from vectors and from codes, of files, of directories."""
    world = build(shape)
    s = Scored(world)
    mean = naive.scope_means(s.top, world.prior.astype(float))
    terms = s.query.terms if s.query.use_lexical else {}
    lexical, words = naive.score_scope(s.top, terms)
    plain = naive.own_of_rows(texts_below(s.top), s.query, mean, lexical)
    for key, own in plain.items():
        assert s.scores.own_texts[0, s.text_at(key)] == pytest.approx(own, abs=1e-5)
    files = files_below(s.top)
    kept = {key: float(s.scores.own_texts[0, s.text_at(key)]) for key in plain}
    by_row = {
        key: kept[key] for key in sorted(kept, key=lambda key: s.text_row[key])
    }  # of equal ones the first
    for key, (own, best) in naive.own_of_files(files, by_row).items():
        at = s.file_at(key)
        assert s.scores.own[0, at] == np.float32(own)
        row = int(s.scores.best[at])
        assert (int(s.snapshot.text_id[row]) if row >= 0 else -1) == best
    for key, parts in naive.directory_scores(s.top, s.query, mean, words).items():
        got = s.scores.directories[:4, s.dir_at(key)]
        assert got == pytest.approx(parts, abs=1e-5)
    scope = s.scope
    coded = np.zeros_like(s.scores.own_texts)
    texts.own_of_base(
        scope.text_low, scope.text_high, s.tree.texts, s.snapshot.vectors, s.compared, s.lexical,
        scope, coded,
    )  # fmt: skip
    base = {key for key in plain if s.text_row[key] < scope.base_texts}
    truth = naive.own_of_base(texts_below(s.top), s.query, mean, lexical)
    for key in base:
        own, bound = coded[:, s.text_at(key)]
        assert abs(own - truth[key]) <= bound + 1e-5
    assert (coded[0, : scope.text_high - scope.text_low] == -1).sum() == (
        scope.text_high - scope.text_low - len(base)
    )
    own, best = np.zeros_like(s.scores.own), np.full_like(s.scores.best, -1)
    hierarchy.own_of_base_files(
        scope.text_low, scope.text_high, s.tree.texts, scope, coded, own, best
    )
    in_base = [f for f in files if f.texts and s.text_row[f.texts[0].id] < scope.base_texts]
    scores = {key: float(coded[0, s.text_at(key)]) for key in base}
    for key, (value, text) in naive.own_of_base_files(in_base, scores).items():
        assert own[0, s.file_at(key)] == np.float32(value)
        assert int(s.snapshot.text_id[best[s.file_at(key)]]) == text
    world.close()


@few
@given(shapes, st.tuples(score, score, score), st.integers(0, 20000))
def test_final_scores(shape, weights, files):
    """Propagation down from the root, neighbours among files, the parts of each score."""
    world = build(shape)
    s = Scored(world)
    b, below, share = weights
    parents = s.tree.directories.parent
    hierarchy.propagate(parents, s.scope, b, below, s.scores.directories)
    own_dirs = {key: float(s.scores.directories[3, s.dir_at(key)]) for key in s.dir_row}
    above = naive.propagate(s.top, own_dirs, b, below)
    for key, final in above.items():
        assert s.scores.directories[4, s.dir_at(key)] == pytest.approx(final, abs=1e-6)
    hierarchy.final_of_all_files(
        s.tree.directories, s.tree.files, s.scope, weights, s.scores.directories, s.scores.own,
        s.scores.final,
    )  # fmt: skip
    finals = naive.final_of_all_files(s.top, s.own(), weights, above)
    for key, final in finals.items():
        assert s.scores.final[0, s.file_at(key)] == pytest.approx(final, abs=1e-6)
    for directory in walk(s.top):
        again = np.zeros_like(s.scores.final)
        count = hierarchy.final_of_files(
            s.dir_row[directory.id], (b, share, 0.5), s.tree.directories, s.tree.files, s.scope,
            s.scores.own, again,
        )  # fmt: skip
        wanted = naive.final_of_files(directory, s.own(), (b, share, 0.5))
        assert count == len(wanted)
        for key, final in wanted.items():
            assert again[0, s.file_at(key)] == pytest.approx(final, abs=1e-6)
    plain = files_below(s.top)
    positions = np.array([s.file_at(f.id) for f in plain], np.int32)
    trio = hierarchy.with_neighbours(positions, s.tree.files, s.scope)
    rows = {**s.file_row, -1: -1}
    assert trio.tolist() == [[rows[i] for i in naive.with_neighbours(f)] for f in plain]
    parts, best = hierarchy.parts_of_files(
        trio, s.tree.files.directory, s.tree.texts, s.scope, s.compared, s.lexical, weights,
        s.scores,
    )  # fmt: skip
    texts_best = {f.id: int(s.scores.best[s.file_at(f.id)]) for f in plain}
    known = {k: int(s.snapshot.text_id[row]) if row >= 0 else -1 for k, row in texts_best.items()}
    found = naive.Found({}, {}, above, s.own(), known, {}, 0, 0)
    lexical = {t.id: float(s.lexical[s.text_at(t.id)]) for t in texts_below(s.top)}
    for i, file in enumerate(plain):
        wanted_parts = naive.parts_of_files(file, s.query, found, lexical, weights, s.top)
        assert parts[i] == pytest.approx(wanted_parts, abs=1e-6)
        assert best[i] == texts_best[file.id]
    some = np.array([s.file_row[f.id] for f in plain], np.int32)
    found_rows = hierarchy.texts_of_files(some, s.tree.files, s.tree.texts, s.scope)
    assert s.snapshot.text_id[found_rows].tolist() == naive.texts_of_files(plain)
    hierarchy.forget_files(some[::2], s.scope, s.scores)
    gone = [f.id for f in plain[::2]]
    offered = {key: (own, known[key]) for key, own in found.own.items()}
    for key, (own, text) in naive.forget_files(offered, gone).items():
        assert s.scores.own[0, s.file_at(key)] == np.float32(own)
        row = int(s.scores.best[s.file_at(key)])
        assert (int(s.snapshot.text_id[row]) if row >= 0 else -1) == text
    keys = {int(i): int(k) for i, k in zip(s.snapshot.dir_id, s.tree.directories.key, strict=True)}
    sample = hierarchy.sample_directories(
        s.tree.directories, files, len(s.dir_row), s.scope, s.inside
    )
    chosen = {s.dir_row[d.id] for d in naive.sample_directories(s.top, files, keys)}
    assert set(sample.tolist()) == chosen
    rows = hierarchy.files_of_directories(sample, s.tree.directories, s.tree.files, s.scope)
    sampled = [d for d in walk(s.top) if s.dir_row[d.id] in chosen]
    expected = {s.file_row[f.id] for f in naive.files_of_directories(sampled)}
    assert set(rows.tolist()) == expected
    assert len(rows) == len(expected)
    assert hierarchy.root_weight(s.snapshot.numbers, s.scope, b) == naive.root_weight(s.top, b)
    world.close()


@few
@given(shapes)
def test_icc_is_that_of_an_analysis_of_variance(shape):
    """Of any part of the directories."""
    world = build(shape)
    s = Scored(world)
    directories = list(walk(s.top))
    for part in (directories, directories[1:], directories[::2], []):
        rows = np.array([s.dir_row[d.id] for d in part], np.int32)
        icc, count = hierarchy.intraclass_correlation(
            rows, s.tree.directories, s.tree.files, s.scope, s.scores.own
        )
        own = s.own()
        groups = [[own[f.id] for f in files_in(d)] for d in part]
        assert icc == pytest.approx(naive.intraclass_correlation(groups), abs=1e-6)
        assert count == sum(map(len, groups))
    world.close()


@given(score, score | st.just(-1.0), score | st.just(-1.0), score)
@settings(max_examples=50, deadline=None)
def test_smoothing_is_a_weighted_mean(own, before, after, share):
    """Of the neighbours that are there."""
    got = hierarchy.smooth(own, before, after, share)
    assert got == pytest.approx(naive.smooth(own, before, after, share), abs=1e-12)
