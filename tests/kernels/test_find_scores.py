"""Comparisons of the kernels' find with its plain twin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import find as kernel
from viking_kernels.arrays import F32, FINAL, I32, NODE, decode_file
from viking_kernels.other_script import BEST_BY_WORDS
from viking_kernels.scope import place
from viking_kernels.walk import EXHAUSTED

from tests.kernels import naive
from tests.kernels.naive import files_below, walk
from tests.kernels.trees import LARGE, World, asked, build, room, search, shapes, terms_of
from tests.tiers import examples
from vikingd.domain.store_changes import Remove
from vikingd.index.snapshot import Snapshot

few = examples(30)
GATED = replace(LARGE, seed=6)  # its gate is open, though the sample has only half of its files
alphas = st.sampled_from([-1.0, 0.0, 0.3, 1.0])
samples = st.sampled_from([1.0, 0.5, 0.001])  # files outside the sample are scored from codes
WALKED = ("start_points", "opened", "rounds", "stop", "rescored")


def files_of(snapshot: Snapshot, found: kernel.Found) -> list[int]:
    """Return the ids of the files that were found."""
    return [int(snapshot.file_id[row]) for row in found.rows]


def compare_passages(
    snapshot: Snapshot, file: naive.File, rows: I32, scores: F32, own: Mapping[int, float]
) -> None:
    """Compare the best passages; rounding may decide the order of equal scores."""
    shown = [int(snapshot.text_id[row]) for row in rows if row >= 0]
    assert set(shown) <= {text.id for text in file.texts[1:]}
    assert len(set(shown)) == len(shown)
    assert scores[: len(shown)] == pytest.approx([own[key] for key in shown], abs=1e-5)
    assert not scores[len(shown) :].any()
    least = 1e-5 + (own[shown[-1]] if len(shown) == len(rows) else 0.0)
    assert {t.id for t in file.texts[1:] if own[t.id] > least} <= set(shown)
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)


def assert_same(one: kernel.Found, other: kernel.Found) -> None:
    """Compare two results bit for bit."""
    for name, value in one._asdict().items():
        np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)


def compare(
    world: World, top: naive.Directory, query: naive.Query, found: kernel.Found, plain: naive.Found
) -> None:
    """Compare all parts of all scores."""
    snapshot, scope, _ = world.scope_of(top)
    weights = found.weights
    assert np.lexsort((found.rows, -found.parts[:, FINAL])).tolist() == [*range(len(found.rows))]
    lexical, _ = naive.score_scope(top, query.terms if query.use_lexical else {})
    lexical, factor = naive.rescale_to_floor(top, lexical, query.script)
    assert found.floor_factor == pytest.approx(factor, rel=1e-5)
    ids = files_of(snapshot, found)
    by_id = {file.id: file for file in files_below(top)}
    for i, key in enumerate(ids):
        parts = naive.parts_of_files(by_id[key], query, plain, lexical, weights, top)
        best = int(found.best_text[i])
        kept = int(snapshot.text_id[best]) if best >= 0 else -1
        if kept != plain.best[key]:  # the two texts tie up to rounding
            assert plain.texts[kept] == pytest.approx(plain.texts[plain.best[key]], abs=1e-6)
            parts = (*found.parts[i, :3], *parts[3:])
        assert found.parts[i, 2:] == pytest.approx(parts[2:], abs=1e-5)
        assert found.parts[i, :2] == pytest.approx(parts[:2], abs=2e-5)
    for key in by_id.keys() - set(ids):
        assert plain.final[key] < 1e-5
    for i, key in enumerate(ids):
        shown = found.passages[i], found.passage_scores[i]
        compare_passages(snapshot, by_id[key], *shown, plain.texts)
    directories = {snapshot.find(d.uri): d.id for d in walk(top)}
    seen = set()
    for row, key in directories.items():
        assert row is not None
        at = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
        seen.add(at)
        expected = (*plain.directories[key], plain.directory_final[key])
        assert found.directories[:, at] == pytest.approx(expected, abs=1e-5)
    outside = [i for i in range(found.directories.shape[1]) if i not in seen]
    assert (found.directories[NODE, outside] == -1).all()


@few
@given(shapes, alphas)
@example(LARGE, -1.0)
def test_exact_scores_are_those_of_the_formulas(shape, alpha):
    """Every part of every exact score equals that of the plain twin, in any scope."""
    world = build(shape)
    for _ in range(2):
        top, query = world.random_directory(), world.query()
        found = search(world.snapshot, top.uri, query, alpha=alpha)
        plain = naive.find(top, query, world.prior.astype(float), None if alpha < 0 else alpha)
        # The sample is scored from int8 codes, and a variance among few files is small.
        assert found.icc == pytest.approx(plain.icc, abs=1e-3)
        plain = naive.find(
            top, query, world.prior.astype(float), None if alpha < 0 else alpha, found.gate
        )
        compare(world, top, query, found, plain)
        assert found.sample_files == len(files_below(top))
        assert found.files_per_directory == plain.files_per_directory
        assert found.other_script == pytest.approx(plain.cap, abs=1e-5)
    world.close()


@few
@given(shapes, alphas, samples)
@example(LARGE, 0.3, 0.5)
@example(GATED, -1.0, 0.5)
def test_scores_from_codes_are_rescored(shape, alpha, sample):
    """A scan of codes finds every file with a score, and returns exact scores."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    found = search(world.snapshot, top.uri, query, kernel.EXHAUSTIVE, alpha=alpha, sample=sample)
    plain = naive.find(
        top, query, world.prior.astype(float), None if alpha < 0 else alpha, found.gate
    )
    compare(world, top, query, found, plain)
    world.close()


@few
@given(shapes, samples)
@example(LARGE, 0.5)
@example(GATED, 0.5)
def test_all_own_scores_are_left_where_they_are_asked_for(shape, sample):
    """With `all_files`, every file has a node score within its error bound."""
    world = build(shape)
    world.compact()
    top, query = world.random_directory(), world.query()
    scratch, options = room(world.snapshot), {"k": 1, "sample": sample, "all_files": True}
    found = search(world.snapshot, top.uri, query, kernel.EXHAUSTIVE, scratch=scratch, **options)
    plain = naive.find(top, query, world.prior.astype(float), None, found.gate)
    _, scope, _ = world.scope_of(top)
    for file in files_below(top):
        row = decode_file(world.snapshot.find(file.uri))
        at = place(row, scope.file_low, scope.file_high, scope.base_files)
        score, error = float(scratch.file_scores[at]), float(scratch.file_errors[at])
        assert abs(score - plain.scores[file.id]) <= error + 1e-6
    world.close()


@few
@given(shapes, alphas, st.sampled_from([kernel.EXHAUSTIVE, kernel.BEST_FIRST]))
@example(LARGE, -1.0, kernel.BEST_FIRST)
def test_any_nodes_are_scored_after_a_find(shape, alpha, method):
    """Every node of the scope gets an exact score after a find, even if the find did not see it."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scratch = world.snapshot, room(world.snapshot)
    scope, centroids, _ = snapshot.scope(snapshot.find(top.uri))
    found = search(
        snapshot, top.uri, query, method, alpha=alpha, k=1, scratch=scratch, keeps_words=True
    )
    prior = world.prior.astype(float)
    plain = naive.find(top, query, prior, None if alpha < 0 else alpha, found.gate)
    contexts = [*walk(top), *files_below(top)]
    nodes = np.array([snapshot.find(context.uri) for context in contexts], np.int32)
    bundles = (snapshot.tree, snapshot.vectors, snapshot.stats, asked(query, centroids), scope)
    got = kernel.score_nodes(nodes, *bundles, found.weights, scratch)
    assert got == pytest.approx(naive.score_nodes(contexts, plain), abs=1e-5)
    kernel.forget(snapshot.tree.texts, scope, terms_of(snapshot, query), scratch)
    assert not scratch.lexical.any()
    assert not scratch.titles.any()
    world.close()


@few
@given(shapes, alphas, samples, st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.25]))
@example(LARGE, 0.3, 0.001, 3, 0.1)
@example(GATED, -1.0, 0.5, 5, 0.0)
@example(GATED, -1.0, 0.5, 20, 0.0)
def test_the_best_are_found(shape, alpha, sample, k, threshold):
    """The k best above the threshold are found, with all that tie with the last."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    whole = search(world.snapshot, top.uri, query, alpha=alpha, sample=sample)
    best = naive.best_rows(whole.parts[:, FINAL].tolist(), k, threshold)
    for method in (kernel.EXHAUSTIVE, kernel.EXACT):
        found = search(
            world.snapshot,
            top.uri,
            query,
            method,
            alpha=alpha,
            sample=sample,
            k=k,
            threshold=threshold,
        )
        for name in ("rows", "parts", "best_text", "passages", "passage_scores"):
            wanted = getattr(whole, name)[best]
            np.testing.assert_array_equal(getattr(found, name), wanted, err_msg=name)
        assert len(found.rows) <= found.rescored <= len(files_below(top))
    plain = naive.find(
        top, query, world.prior.astype(float), None if alpha < 0 else alpha, whole.gate
    )
    finals = sorted((s for s in plain.final.values() if s > threshold + 1e-5), reverse=True)
    last = finals[min(k, len(finals)) - 1] if finals else math.inf
    surely = max(last + 2e-6, threshold + 1e-5)
    ids = {key for key, score in plain.final.items() if score > surely}
    assert ids <= set(files_of(world.snapshot, found))
    world.close()


@few
@given(shapes, alphas, samples)
def test_a_threshold_is_kept_to_the_last_bit(shape, alpha, sample):
    """A file is found if its score is above the threshold by one bit, but not if it is equal."""
    world = build(shape)
    query = world.query()
    whole = search(world.snapshot, world.root.uri, query, alpha=alpha, sample=sample)
    finals = whole.parts[:, FINAL]
    for score in finals[:4].tolist():
        for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):
            for threshold in (float(np.nextafter(score, 0)), score):
                found = search(
                    world.snapshot,
                    world.root.uri,
                    query,
                    method,
                    alpha=alpha,
                    sample=sample,
                    threshold=threshold,
                )
                assert found.rows.tolist() == whole.rows[finals > threshold].tolist()
    world.close()


@few
@given(shapes, alphas, samples, st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
@example(LARGE, -1.0, 0.5, 3, 2, 7)
def test_a_walk_finds_the_best_of_what_it_saw(shape, alpha, sample, k, most, seed):
    """A walk finds the best files of opened directories, lexical matches and proposed texts."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, _, _ = world.scope_of(top)
    texts = naive.texts_below(top)
    ids = {int(key): row for row, key in enumerate(snapshot.text_id)}
    rng = np.random.default_rng(seed)
    near = [int(ids[texts[i].id]) for i in rng.integers(0, len(texts), 3)] if texts else []
    whole = search(snapshot, top.uri, query, alpha=alpha, sample=sample)
    found = search(
        snapshot,
        top.uri,
        query,
        kernel.BEST_FIRST,
        alpha=alpha,
        sample=sample,
        k=k,
        near=near,
        starts=1,
        limits=(1, 10**6, most),
        all_directories=seed % 2 == 0,
    )
    assert len(found.opened) <= most
    rows = whole.rows.tolist()
    at = [rows.index(row) for row in found.rows.tolist()]
    assert at == sorted(at)
    for name in ("parts", "best_text", "passages", "passage_scores"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[at], err_msg=name)
    _, scope, _ = world.scope_of(top)
    opened = set(found.opened.tolist())
    lexical, _ = naive.score_scope(top, query.terms if query.use_lexical else {})
    by_words = {key for key, score in lexical.items() if score > 0}
    if len(by_words) > BEST_BY_WORDS:
        by_words = set()
    last = found.parts[-1, FINAL] if len(found.rows) >= k else 0.0
    for file in files_below(top):
        position = place(
            int(snapshot.find(file.parent.uri)), scope.dir_low, scope.dir_high, scope.base_dirs
        )
        row = decode_file(snapshot.find(file.uri))
        mine = {text.id for text in file.texts}
        if position in opened or mine & by_words or {ids[key] for key in mine} & set(near):
            score = whole.parts[rows.index(row), FINAL] if row in rows else 0.0
            assert score < last or row in found.rows.tolist() or score == 0
    world.close()


@few
@given(shapes, alphas, samples)
@example(LARGE, 0.3, 0.001)
def test_a_scratch_may_hold_anything(shape, alpha, sample):
    """Content and size of a used scratch do not change the results."""
    world = build(shape)
    query = world.query()
    rubbish = ((0, np.inf), (0, 0.9), (7, np.nan), (300, -np.inf), (0, -0.5))
    for uri in {world.root.uri, world.random_directory().uri}:
        for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):

            def ask(more: int, left: float, uri: str = uri, method: int = method) -> kernel.Found:
                return search(
                    world.snapshot,
                    uri,
                    query,
                    method,
                    alpha=alpha,
                    sample=sample,
                    k=3,
                    limits=(1, 10**6, 2),
                    scratch=room(world.snapshot, more, left),
                )

            fresh = ask(0, 0.0)
            for more, left in rubbish:
                assert_same(ask(more, left), fresh)
    world.close()


@few
@given(shapes, alphas, samples)
@example(LARGE, 0.3, 0.001)
def test_a_scratch_is_used_again(shape, alpha, sample):
    """Queries of other scopes, methods, revisions and trees leave no trace in a scratch."""
    worlds = [build(shape), build(replace(shape, seed=shape.seed ^ 1, steps=(20, 9, 20)))]
    snapshots = []
    for world in worlds:
        old = world.snapshot
        top, query = world.random_directory(), world.query()
        snapshots.append((old, top.uri, query))
        world.step(9)
        snapshots.append((world.snapshot, world.random_directory().uri, world.query()))
        snapshots.append((old, "viking://", query))
    sizes = [
        max(len(room(snapshot, 0, 0.0)._asdict()[name]) for snapshot, _, _ in snapshots)
        for name in ("dir_tf", "best", "lexical")
    ]
    scratch = kernel.scratch(*sizes)
    for method in (kernel.EXHAUSTIVE, kernel.BEST_FIRST, kernel.EXACT):
        for snapshot, uri, query in snapshots:
            found = search(
                snapshot, uri, query, method, alpha=alpha, sample=sample, k=3, scratch=scratch
            )
            assert_same(
                found, search(snapshot, uri, query, method, alpha=alpha, sample=sample, k=3)
            )
    for world in worlds:
        world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_words_leave_no_trace(compacted):
    """A search by words leaves nothing in the scratch when texts are tombstoned or added."""
    world = World(6)
    text = (1, "status codes", b"")
    world.commit([world.put(f"viking://{i}", False, [text, text]) for i in range(6)])
    if compacted:
        world.compact()
    del world.root.files["1"]
    world.commit([Remove("viking://1"), world.put("viking://2", False, [text])])
    old = world.snapshot
    query = naive.Query(None, 1, {"status": 1.0, "code": 2.0, "nobody": 1.0}, use_dense=False)
    scratch = room(old)
    first = search(old, "viking://", query, scratch=scratch)
    assert len(first.rows) == 5
    assert (first.parts[:, 1] > 0).all()
    del world.root.files["3"]
    world.commit(
        [Remove("viking://3"), *(world.put(f"viking://n{i}", False, [text]) for i in range(9))]
    )
    assert_same(search(old, "viking://", query, scratch=scratch), first)
    later = search(world.snapshot, "viking://", query)
    assert len(later.rows) == 13
    world.close()


@few
@given(shapes, alphas, samples)
def test_nothing_is_ever_not_a_number(shape, alpha, sample):
    """Scores are finite and in [0, 1] for any vectors."""
    world = build(shape)
    query = world.query()
    for method in (kernel.EXHAUSTIVE, kernel.EXACT, kernel.BEST_FIRST):
        found = search(world.snapshot, world.root.uri, query, method, alpha=alpha, sample=sample)
        for values in (found.parts, found.passage_scores, found.directories):
            assert np.isfinite(values).all()
            assert (values <= 1 + 1e-6).all()
        assert (found.parts >= 0).all()
        assert 0 <= found.icc <= 1
        assert 0 <= found.gate <= 1
    world.close()


@few
@given(shapes, alphas, samples)
def test_opening_every_directory_is_the_exhaustive_search(shape, alpha, sample):
    """A walk that may open every directory gives the exhaustive results, bit for bit."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    whole = search(world.snapshot, top.uri, query, kernel.EXHAUSTIVE, alpha=alpha, sample=sample)
    opened = search(world.snapshot, top.uri, query, kernel.BEST_FIRST, alpha=alpha, sample=sample)
    assert opened.stop == EXHAUSTED
    assert len(opened.opened) == len(set(opened.opened.tolist())) == len(list(walk(top)))
    assert opened.scored_texts == whole.scored_texts
    assert_same(opened._replace(**{name: getattr(whole, name) for name in WALKED}), whole)
    world.close()


@few
@given(shapes, samples, st.integers(0, 2**32 - 1))
def test_a_filter_leaves_the_scores_alone(shape, sample, seed):
    """A filter removes files and changes no other score."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, _ = world.scope_of(top)
    size = scope.file_high - scope.file_low + len(snapshot.file_id) - scope.base_files
    allowed = np.random.default_rng(seed).integers(0, 2, size)
    for method in (kernel.EXHAUSTIVE, kernel.BEST_FIRST):
        free = search(snapshot, top.uri, query, method, sample=sample)
        bound = search(snapshot, top.uri, query, method, sample=sample, allowed=allowed.tolist())
        kept = [
            bool(allowed[place(int(row), scope.file_low, scope.file_high, scope.base_files)])
            for row in free.rows
        ]
        np.testing.assert_array_equal(bound.rows, free.rows[kept])
        np.testing.assert_array_equal(bound.parts, free.parts[kept])
    world.close()


def test_parents_of_many_files_count_less():
    """With 20 files per directory, parents count for 3 / 4 of what the gate leaves."""
    world = World(1)
    for name in ("a", "b"):
        world.commit([world.put(f"viking://{name}", True, world.random_texts(1))])
        texts = [world.random_texts(1) for _ in range(20)]
        world.commit([world.put(f"viking://{name}/{i}", False, one) for i, one in enumerate(texts)])
    query = replace(world.query(), vector=np.ones(world.dimension), use_dense=True)
    found = search(world.snapshot, "viking://", query)
    assert found.files_per_directory == 20
    assert found.gate > 0
    assert found.parent_weight == pytest.approx(naive.parent_weight(found.gate, 20))
    assert found.parent_weight == pytest.approx(0.5 * found.gate * 0.75)
    plain = naive.find(world.root, query, world.prior.astype(float), None, found.gate)
    compare(world, world.root, query, found, plain)
    world.close()
