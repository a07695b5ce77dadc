"""The best-first walk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import directory_scoring, final_scores
from viking_kernels import walk as walks
from viking_kernels.arrays import DIRECTORY_FINAL, Weights
from viking_kernels.bounds import bound_scores

from tests.kernels import naive
from tests.kernels.naive import files_in, walk
from tests.kernels.scored import Scored
from tests.kernels.trees import LARGE, Shape, World, build, shapes
from tests.tiers import examples

few = examples(25)
NONE = np.zeros(0, np.uint8)
NO_LIMITS = directory_scoring.Limits(1, 1, 1)
share = st.sampled_from([0.0, 0.2, 0.5, 1.0])
weights_of = st.tuples(share, share, share)


@pytest.mark.deep
@few
@given(shapes, st.booleans())
@example(LARGE, False)
def test_scoring_the_files_of_a_directory(shape, exact):
    """Files get node scores, error bounds and best texts; other directories do not change."""
    world = build(shape)
    s = Scored(world)
    scored = {t.id: s.text_score(t.id, exact=exact) for t in naive.texts_below(s.top)}
    owns = {key: own for key, (own, _) in scored.items()}
    for directory in walk(s.top):
        s.scratch.file_scores[:] = -7
        s.scratch.best[:] = -7
        wanted, texts = naive.score_files(directory, owns)
        assert s.score(s.dir_row[directory.id], exact=exact) == texts
        for file in files_in(directory):
            at, (own, _) = s.file_at(file.id), wanted[file.id]
            assert s.scratch.file_scores[at] == pytest.approx(own, abs=1e-6)
            bound = max((scored[t.id][1] for t in file.texts), default=0)
            assert s.scratch.file_errors[at] == pytest.approx(bound, abs=1e-9)
            best = s.text_id(int(s.scratch.best[at]))
            assert owns.get(best, 0.0) == pytest.approx(own, abs=1e-6)
        assert (s.scratch.best != -7).sum() == len(wanted)
    world.close()


@pytest.mark.deep
@few
@given(shapes)
@example(LARGE)
def test_the_texts_of_a_directory_from_their_codes(shape):
    """Only texts of the base are scored from codes, in order from place 0."""
    world = build(shape)
    world.compact()
    s = Scored(world, world.root)
    coded = {t.id: s.text_score(t.id, exact=False)[0] for t in naive.texts_below(s.top)}
    for directory in walk(s.top):
        s.scratch.code_scores[:] = -7
        row = s.dir_row[directory.id]
        directory_scoring.code_directory(row, s.search)
        wanted = naive.code_directory(directory, coded)
        assert s.scratch.code_scores[: len(wanted)] == pytest.approx(wanted, abs=1e-6)
        assert (s.scratch.code_scores[len(wanted) :] == -7).all()
    world.close()


@pytest.mark.deep
@few
@given(shapes)
def test_children_are_queued_once(shape):
    """Living child directories are queued, each once."""
    world = build(shape)
    s = Scored(world)
    sampled(s, 0.5)
    for directory in walk(s.top):
        s.scratch.seen[:] = 0
        children = list(directory.directories.values())
        for child in children[::2]:
            s.scratch.seen[s.dir_at(child.id)] = 1
        before = {child.id for child in children[::2]}
        row = s.dir_row[directory.id]
        for wanted in (naive.queue_children(directory, before), set()):
            count = walks.queue_children(row, 0, s.search)
            assert set(s.scratch.queue[:count].tolist()) == {s.dir_at(key) for key in wanted}
            assert count == len(wanted)
    world.close()


def sampled(s: Scored, weight: float) -> None:
    """Propagate the final scores of directories, and mark all files as scored."""
    final_scores.propagate(s.size, Weights(weight, weight, 0.0), s.search)
    s.scratch.sampled[:] = 1


@pytest.mark.deep
@few
@given(shapes, weights_of, st.integers(1, 4))
@example(LARGE, (0.5, 0.2, 0.2), 3)
def test_opening_a_directory(shape, weights, k):
    """Opening a directory gives its files final scores and keeps the k best."""
    world = build(shape)
    s = Scored(world)
    weights = Weights(*weights)
    b, below, share, *_ = weights
    for fresh in (False, True):
        sampled(s, b)
        best, top = directory_scoring.none_yet(k), naive.none_yet(k)[1]
        owns = {t.id: s.text_score(t.id)[0] for t in naive.texts_below(s.top)}
        if fresh:  # scored while the directory is opened
            s.scratch.sampled[:] = 0
            s.scratch.file_scores[:] = np.nan
        for directory in walk(s.top):
            row = s.dir_row[directory.id]
            above = float(s.scratch.directories[DIRECTORY_FINAL, s.dir_at(directory.id)])
            at = (below if directory is s.top else b, share, above)
            got = directory_scoring.open_directory(
                s.dir_at(directory.id),
                row,
                s.search,
                directory_scoring.Opening(weights, True, False, NO_LIMITS, NONE, best),
            )
            changed, own, texts = naive.open_directory(directory, owns, at, s.titles(), top, k)
            assert got[1:] == (pytest.approx(own, abs=1e-6), texts if fresh else 0)
            finals = naive.finals_in(directory, s.scores_in(directory), at, s.titles())
            top, _ = naive.offer_files(top, finals.values(), k)
            kept = sorted(best.top[: best.held[0]].tolist())
            assert kept == pytest.approx(top, abs=1e-6)
            near = [x for x in finals.values() if top and abs(x - top[0]) < 1e-6]
            assert got[0] == changed or near  # rounding may decide
    world.close()


@pytest.mark.deep
@few
@given(
    shapes, weights_of, st.integers(1, 4), st.integers(0, 2**32 - 1), st.booleans(), st.booleans()
)
@example(LARGE, (0.5, 0.2, 0.2), 3, 1, False, False)
@example(LARGE, (0.5, 0.2, 0.2), 3, 1, False, True)
@example(Shape(824773, (1, 25), 0, "latin", False), (0.0, 1.0, 0.2), 1, 1, False, False)
def test_candidates_hold_all_that_can_be_among_the_best(shape, weights, k, seed, filtered, coded):
    """Candidates hold all files that can be among the best, for any error within its bound.

    With codes, some directories are skipped and are scored only afterwards.
    """
    world = build(shape)
    if coded:
        world.compact()
    s = Scored(world, world.root if coded else None)
    weights = Weights(*weights)
    rng = np.random.default_rng(seed)
    sampled(s, weights.parent)
    s.scratch.sampled[:] = 0 if coded else 1
    size = len(s.scratch.file_scores)
    s.scratch.titles[:] = rng.choice([0.0, 0.0, 0.02, 0.3], size)
    allowed = rng.integers(0, 2, size).astype(np.uint8) if filtered else NONE
    for bounds in ((0.0,), (0.0, 0.0, 0.0, 0.3), (0.0, 0.03, 0.2), (0.1, 1.0)):
        s.scratch.file_scores[:] = rng.choice([0.0, 0.25, 0.5, 0.75], size)
        s.scratch.file_errors[:] = rng.choice(bounds, size)
        error = rng.choice(bounds, s.scope.base_texts).astype(np.float32)
        vectors, best = s.vectors._replace(residual=error), directory_scoring.none_yet(k)
        count = directory_scoring.open_all(
            s.size,
            s.search_of(vectors),
            directory_scoring.Opening(weights, False, not coded, NO_LIMITS, allowed, best),
        )
        for row in s.dir_row.values() if coded else ():  # some directories were skipped
            s.score(row, vectors, exact=False)
        value, off = s.scratch.file_scores.astype(float), s.scratch.file_errors.astype(float)
        least, most = value - off, value + off
        if coded:
            reach = np.full(s.size, np.inf, np.float32)
            share = naive.dense_weight(False, s.compared.use_dense, s.compared.use_lexical)
            both = (share, 1.0 - share)
            # A file's range has the best score and the largest error, of two texts perhaps.
            of_codes = {key: sum(s.text_score(key, vectors, exact=False)) for key in s.text_row}
            bound_scores(both, s.search_of(vectors))
            of_text = {
                key: min(of_codes[key], s.scratch.code_scores[row])
                for key, row in s.text_row.items()
            }
            for f in naive.files_below(s.top):
                told = max((of_text[t.id] for t in f.texts), default=0)
                most[s.file_at(f.id)] = min(most[s.file_at(f.id)], told)
        files = naive.files_below(s.top)
        assert count == (sum(len(f.texts) for f in files) if coded else 0)
        ranges = {}
        for d in walk(s.top):
            own = {f.id: (least[s.file_at(f.id)], most[s.file_at(f.id)]) for f in files_in(d)}
            above = float(s.scratch.directories[DIRECTORY_FINAL, s.dir_at(d.id)])
            b = weights[1] if d is s.top else weights[0]
            ranges |= naive.ranges_in(d, own, (b, weights[2], above), s.titles())
        if coded:
            counted = directory_scoring.bound_directories(weights, s.search, reach)
            assert counted == count
            highest = {key: high for key, (_, high) in ranges.items()}
            further = np.full(s.size, np.inf, np.float32)
            s.scratch.dir_errors[:] = 0.1
            directory_scoring.bound_directories(weights, s.search, further)
            for key, high in naive.bound_directories(highest, walk(s.top)).items():
                told = reach[s.dir_at(key)]
                assert told >= high - 1e-6 or high == 0
                more = 0.1 * weights[1 if key == s.top.id else 0]
                assert further[s.dir_at(key)] == pytest.approx(min(1.0, told + more), abs=1e-5)
            s.scratch.dir_errors[:] = 0
        if filtered:
            ranges = {key: span for key, span in ranges.items() if allowed[s.file_at(key)]}
        floor = best.top[0] if best.held[0] == k else 0
        reach = dict(
            zip(
                s.scratch.candidates[: best.candidates[0]].tolist(),
                s.scratch.upper_bounds[: best.candidates[0]].tolist(),
                strict=True,
            )
        )
        assert len(reach) == best.candidates[0]
        for key in ranges:
            assert reach.get(s.file_at(key), 1.0) >= min(1.0, ranges[key][1]) - 1e-6
        able = {at for at, most in reach.items() if most >= floor}
        assert {s.file_at(key) for key in naive.open_all(ranges, k)} <= able
        if bounds == (0.0,) and not coded:
            loose = {key: (low - 1e-6, high + 1e-6) for key, (low, high) in ranges.items()}
            assert able <= {s.file_at(key) for key in naive.open_all(loose, k)}
    world.close()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("directories", "rounds"), [(30, 5), pytest.param(100, 120, marks=pytest.mark.deep)]
)
def test_the_best_are_found_where_most_directories_are_passed_over(directories, rounds):
    """The best file is found by its codes, although most directories are skipped."""
    world = World(5)
    below = [f"viking://{i}" for i in range(directories)]
    put = [world.put(uri, True, world.random_texts(1)) for uri in below]
    put += [world.put(f"{uri}/{j}", False, world.random_texts(1)) for uri in below for j in "1234"]
    world.commit(put)
    world.compact()
    opened = 0
    for _ in range(rounds):
        s = Scored(world, world.root)
        sampled(s, 0.5)
        s.scratch.sampled[:] = 0
        finals = {}
        for d in walk(s.top):
            at = (0.5, 0.2, float(s.scratch.directories[DIRECTORY_FINAL, s.dir_at(d.id)]))
            finals |= naive.finals_in(d, s.scores_in(d), at, s.titles())
        s.scratch.file_scores[:] = np.nan
        best = directory_scoring.none_yet(1)
        directory_scoring.open_all(
            s.size,
            s.search,
            directory_scoring.Opening(Weights(0.5, 0.5, 0.2), False, False, NO_LIMITS, NONE, best),
        )
        found = s.scratch.candidates[: best.candidates[0]].tolist()
        most = max(finals.values())
        best_found = max((finals[key] for key in finals if s.file_at(key) in found), default=0.0)
        assert best_found == pytest.approx(most, abs=1e-6)
        opened += int((~np.isnan(s.scratch.file_scores[: len(finals)])).sum())
    assert opened < rounds * len(finals) / 2
    world.close()


@few
@given(
    shapes,
    st.sampled_from([0.0, 0.3, 0.5]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 9),
)
@example(LARGE, 0.5, 3, 2, 2, 9)
def test_the_walk_is_the_plain_one(shape, weight, k, in_round, patience, most):
    """The walk has the order, the rounds and the stop reason of its plain twin."""
    world = build(shape)
    s = Scored(world)
    sampled(s, weight)
    final = s.scratch.directories[DIRECTORY_FINAL]
    weights = Weights(weight, weight, 0.1)
    own, titles = s.file_scores(), s.titles()
    nodes = {}
    for d in walk(s.top):
        above = float(final[s.dir_at(d.id)])
        finals = naive.finals_in(d, own, (weight, 0.1, above), titles).values()
        nodes[s.dir_at(d.id)] = (
            above,
            [s.dir_at(child.id) for child in d.directories.values()],
            [own[f.id] + titles[f.id] for f in files_in(d)],
            np.array([*finals], np.float32).tolist(),
        )
    starts = [*sorted(nodes)[-2:], s.dir_at(s.top.id)]
    best = directory_scoring.none_yet(k)
    opened, rounds, stop, texts = walks.best_first(
        np.array(starts, np.int32),
        s.search,
        directory_scoring.Opening(
            weights, False, False, directory_scoring.Limits(in_round, patience, most), NONE, best
        ),
    )
    assert texts == 0
    wanted = naive.best_first(starts, nodes, weight, (k, in_round, patience, most))
    assert (s.scratch.opened[:opened].tolist(), rounds, stop) == wanted
    world.close()


@pytest.mark.deep  # 17 s to compile
@few
@given(shapes, st.sampled_from([0.0, 0.5]), st.integers(1, 3))
@example(LARGE, 0.5, 3)
def test_a_walk_scores_what_it_opens_from_codes(shape, weight, k):
    """A walk scores only the files that it opens, and offers the best of them."""
    world = build(shape)
    s = Scored(world)
    sampled(s, weight)
    own, final = s.file_scores(), s.scratch.directories[DIRECTORY_FINAL]
    s.scratch.sampled[:] = 0
    s.scratch.file_scores[:] = np.nan
    weights, best = Weights(weight, weight, 0.1), directory_scoring.none_yet(k)
    start = np.array([s.dir_at(s.top.id)], np.int32)
    opened, _, _, texts = walks.best_first(
        start,
        s.search,
        directory_scoring.Opening(
            weights, False, False, directory_scoring.Limits(2, 10**6, 3), NONE, best
        ),
    )
    order = s.scratch.opened[:opened].tolist()
    seen = [d for d in walk(s.top) if s.dir_at(d.id) in order]
    assert len(seen) == opened <= 3
    assert texts == sum(len(f.texts) for d in seen for f in files_in(d))
    finals = {}
    for d in seen:
        at = (weight, 0.1, float(final[s.dir_at(d.id)]))
        finals |= naive.finals_in(d, own, at, s.titles())
    floor = best.top[0] if best.held[0] == k else 0
    pairs = zip(s.scratch.candidates, s.scratch.upper_bounds, strict=True)
    able = {int(at) for at, most in [*pairs][: best.candidates[0]] if most >= floor}
    ranges = {key: (x, x) for key, x in finals.items() if x > 1e-6}
    kept = naive.open_all({key: (x + 1e-6, y) for key, (x, y) in ranges.items()}, k)
    assert {s.file_at(key) for key in kept} <= able
    world.close()


@pytest.mark.parametrize("reason", ["CONVERGED", "EXHAUSTED", "LIMIT", "OUT_OF_REACH"])
def test_reasons_to_stop_are_told_apart(reason):
    """Each stop reason has its own number."""
    names = ("CONVERGED", "EXHAUSTED", "LIMIT", "OUT_OF_REACH")
    assert getattr(walks, reason) == names.index(reason)
