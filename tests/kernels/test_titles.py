"""The bonuses of titles, compared with their plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from viking_kernels import find as kernel
from viking_kernels import scope as scopes
from viking_kernels.arrays import F32, FINAL, I64, TITLE_BONUS, Scope, Terms, Texts, decode_file
from viking_kernels.bm25 import ranges_of
from viking_kernels.scope import place
from viking_kernels.titles import TITLE, forget_titles, score_titles

from tests.kernels import naive
from tests.kernels.naive import files_below
from tests.kernels.trees import LARGE, World, build, room, search, shapes, terms_of
from tests.tiers import examples


def scored(
    world: World, top: naive.Directory, query: naive.Query
) -> tuple[dict[int, float], float]:
    """Return (the bonus of each file by id, the sum of all bonuses)."""
    snapshot, scope, _ = world.scope_of(top)
    tree = snapshot.tree
    inside = scopes.tail_directories(tree.directories, scope)
    titles, terms = room(snapshot).titles, terms_of(snapshot, query)
    ranges = ranges_of(terms, scope)
    score_titles(tree.texts, scope, inside, terms, ranges, titles)
    written = titles.copy()
    check_forgetting(tree.texts, scope, terms, ranges, titles)
    rows = {file.id: decode_file(int(snapshot.find(file.uri))) for file in files_below(top)}
    places = (scope.file_low, scope.file_high, scope.base_files)
    return {key: float(written[place(row, *places)]) for key, row in rows.items()}, written.sum()


def check_forgetting(texts: Texts, scope: Scope, terms: Terms, ranges: I64, titles: F32) -> None:
    """Check that only the bonuses that a term can have changed are reset."""
    n, size = len(terms.weight), scope.file_high - scope.file_low
    places = (scope.file_low, scope.file_high, scope.base_files)
    in_base = [int(texts.file[row]) for a, b in ranges[n:] for row in terms.base_text[a:b]]
    in_tail = texts.file[terms.tail_text[terms.tail_from[n] :]].tolist()
    base = {file - scope.file_low for file in in_base if file >= 0}
    tail = {
        place(file, *places)
        for file in in_tail
        if file >= scope.base_files or scope.file_low <= file < scope.file_high
    }
    titles[titles == 0] = 7
    crowded = naive.is_crowded(ranges[n:].tolist(), size)
    wanted = naive.forget_titles(titles.tolist(), base, tail, size, crowded)
    forget_titles(texts, scope, terms, ranges, titles)
    assert titles.tolist() == wanted


@examples(50)
@given(shapes)
@example(LARGE)
def test_a_title_adds_the_square_of_what_the_query_has_of_it(shape):
    """The bonus of a title grows with the square of the share of its terms in the query."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    got, total = scored(world, top, query)
    wanted = naive.score_titles(top, query.terms)
    assert got == pytest.approx(wanted, abs=1e-7)
    assert total == pytest.approx(sum(got.values()), abs=1e-5)
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_the_title_that_a_file_has_now_counts(compacted):
    """A new title replaces the old one, which an older snapshot still has."""
    world = World(2)
    uri, text = "viking://a", [(1, "all about coffee", b"")]
    query = naive.Query(None, 1, {"status": 1.0, "code": 1.0})
    world.commit([world.put(uri, False, text, "Status codes")])
    if compacted:
        world.compact()
    before = world.snapshot
    world.commit([world.put(uri, False, text, "Status of the coffee response")])
    now, _ = scored(world, world.root, query)
    assert [*now.values()] == pytest.approx([TITLE / 18])
    for snapshot, title in ((before, TITLE), (world.snapshot, TITLE / 18)):
        scope, _, _ = snapshot.scope(0)
        titles, terms = room(snapshot).titles, terms_of(snapshot, query)
        inside = scopes.tail_directories(snapshot.tree.directories, scope)
        ranges = ranges_of(terms, scope)
        score_titles(snapshot.tree.texts, scope, inside, terms, ranges, titles)
        assert titles.sum() == pytest.approx(title)
    world.close()


def test_a_title_of_one_word_counts_half_for_a_longer_query():
    """One word of several adds half, even if it is the whole title; alone it adds all."""
    world = World(4)
    text = [(1, "all about coffee", b"")]
    world.commit([world.put("viking://a", False, text, "Status")])
    for terms, share in (("status",), 1.0), (("status", "code"), 0.5):
        query = naive.Query(None, 1, dict.fromkeys(terms, 1.0))
        got, _ = scored(world, world.root, query)
        assert [*got.values()] == pytest.approx([TITLE * share])
        assert got == pytest.approx(naive.score_titles(world.root, query.terms))
    world.close()


def test_of_two_alike_the_one_that_is_called_so_comes_first():
    """The file with the matching title comes first by every method; its score is at most 1."""
    world = World(3)
    same = np.eye(16)[1]
    text = [(1, "status codes status codes", same.astype("<f4").tobytes())]
    world.commit(
        [
            world.put("viking://x", False, text, "Coffee"),
            world.put("viking://y", False, text, "Status codes"),
        ]
    )
    query = naive.Query(same - world.prior[1], 1, {"status": 1.0, "code": 1.0})
    row = world.snapshot.find("viking://y")
    assert row is not None
    file = decode_file(row)
    for method in (kernel.EXHAUSTIVE, kernel.BEST_FIRST, kernel.EXACT):
        found = search(world.snapshot, "viking://", query, method, alpha=1.0)
        assert found.rows.tolist() == [file, *({0, 1} - {file})]
        assert found.parts[0, TITLE_BONUS] == pytest.approx(TITLE)
        assert found.parts[1, TITLE_BONUS] == 0
        best, other = found.parts[:2, FINAL]
        assert best == pytest.approx(min(1.0, other + TITLE), abs=1e-6)
    world.close()
