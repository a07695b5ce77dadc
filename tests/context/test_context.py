"""Budgets, levels, citations and repetition in built contexts."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.context.context_helpers import (
    CAT,
    FOX,
    IMPORT,
    OWL,
    RUNS,
    A,
    B,
    C,
    bodies,
    levels,
    piece,
    plain,
    plans,
    retrieved,
    scores,
    some,
)
from vikingd.context.cited_text import Cited
from vikingd.context.deduplicated_parts import MIN_REPEATED, Piece
from vikingd.context.prompt_context import BuiltContext, Dropped, Plan, build
from vikingd.context.text_cuts import LEFT_OUT
from vikingd.context.tokenizers import open_tokenizer
from vikingd.domain.errors import InvalidField
from vikingd.domain.prompt_options import CitationStyle, ContextOrder, DropReason
from vikingd.domain.text import approximate_tokens

# Budget


@some
@given(retrieved, plans, st.integers(0, 50))
def test_no_context_is_over_its_budget(pieces: list[Piece], plan: Plan, reserve: int) -> None:
    """A context fits its budget and reports the token count of its tokenizer."""
    plan = replace(plan, reserve_tokens=min(reserve, plan.max_tokens - 1))
    built = build(pieces, plan)
    assert built.budget == plan.max_tokens - plan.reserve_tokens
    assert built.used_tokens == open_tokenizer(plan.tokenizer).count(built.text) <= built.budget
    assert built.approximate is (plan.tokenizer == "approx")


@pytest.mark.parametrize("levels", [True, False])
def test_every_budget_is_kept_to_the_token(levels: bool) -> None:
    """A context fits every budget, even if the whole text has more tokens than its parts."""
    count = open_tokenizer("qwen3").count
    pieces = [
        Piece(f"viking://resources/{i:02}.md", 0.99 - i / 100, text=f"Note {i}.") for i in range(40)
    ]
    for budget in range(1, 400, 3):
        built = build(pieces, Plan(budget, tokenizer="qwen3", levels=levels))
        assert count(built.text) == built.used_tokens <= budget


@some
@given(retrieved, plans, st.integers(0, 200))
def test_more_budget_shows_more(pieces: list[Piece], plan: Plan, extra: int) -> None:
    """A larger budget keeps all sources, and at most one source gets a lower level."""
    small = build(pieces, plan)
    large = build(pieces, replace(plan, max_tokens=plan.max_tokens + extra))
    before, after = levels(small), levels(large)
    assert before.keys() <= after.keys()
    assert sum(after[uri] < level for uri, level in before.items()) <= 1


@some
@given(retrieved, plans)
def test_no_source_is_left_out_for_one_that_is_ranked_lower(
    pieces: list[Piece], plan: Plan
) -> None:
    """The shown sources are the best-ranked sources that have a text."""
    everything = build(pieces, replace(plan, max_tokens=10**6, order=ContextOrder.SCORE))
    ranked = list(dict.fromkeys(c.uri for c in everything.citations))
    shown = levels(build(pieces, plan)).keys()
    assert shown == set(ranked[: len(shown)])


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (Plan(0), "max_tokens"),
        (Plan(-5), "max_tokens"),
        (Plan(100, 100), "reserve_tokens"),
        (Plan(100, -1), "reserve_tokens"),
        (Plan(100, tokenizer="none"), "tokenizer"),
    ],
)
def test_a_plan_that_leaves_no_room_is_refused(plan: Plan, field: str) -> None:
    """An invalid budget, reserve or tokenizer is refused with the name of its field."""
    with pytest.raises(InvalidField) as refused:
        build([], plan)
    assert refused.value.field == field


def test_nothing_makes_an_empty_context() -> None:
    """A context without pieces, without texts or without room is empty."""
    assert build([], Plan(10)) == BuiltContext("", (), 0, 10, False, (), 0)
    assert build([piece(A, 1.0)], Plan(10)).dropped == (Dropped(A, "", DropReason.EMPTY),)
    assert build([piece(A, 1.0, FOX)], Plan(1)).dropped == (Dropped(A, "", DropReason.BUDGET),)


def test_a_budget_is_used_up() -> None:
    """A context of 2000 tokens leaves fewer than 40 tokens unused."""
    words = random.Random(3)
    pieces = [
        piece(
            f"viking://resources/{i}.md",
            1 - i / 100,
            " ".join(
                f"{' '.join(words.choice(FOX.split()) for _ in range(9))} {i}x{j}."
                for j in range(20)
            ),
        )
        for i in range(60)
    ]
    for with_levels in (True, False):
        built = build(pieces, Plan(2000, levels=with_levels))
        assert built.used_tokens > 1960


# Levels


def graded(n: int) -> list[Piece]:
    """Return sources with all levels, best first."""
    return [
        Piece(
            f"viking://resources/{i:02}.md",
            0.99 - i / 100,
            "",
            " ".join(f"Passage {i} {j} {FOX[:-1]} {j}." for j in range(12)),
            abstract=f"Abstract {i} of one line, which is short.",
            overview=" ".join(f"Overview {i} {j} {CAT[:-1]} {i}." for j in range(5)),
        )
        for i in range(n)
    ]


def test_a_small_budget_lists_what_there_is() -> None:
    """A small budget shows one abstract for each of the best sources."""
    built = build(graded(20), Plan(70))
    assert levels(built) == {f"viking://resources/{i:02}.md": 0 for i in range(5)}
    assert built.text.startswith("[1] Abstract 0 of one line, which is short.\n\n[2] Abstract 1 of")


def test_a_larger_budget_shows_the_best_more_fully() -> None:
    """A larger budget shows passages of the best, overviews of the next and more abstracts."""
    shown = list(levels(build(graded(60), Plan(900))).values())
    assert shown == sorted(shown, reverse=True)
    assert all(shown.count(level) >= least for level, least in ((2, 3), (1, 1), (0, 5)))


def test_ten_sources_are_listed_before_the_best_are_full() -> None:
    """Of many sources ten are listed; further ones follow when the passages of these are full."""
    for budget in (900, 1500, 2500, 3000, 6000):
        shown = list(levels(build(graded(60), Plan(budget))).values())
        assert len(shown) <= 10 or shown[:10] == [2] * 10, budget
    assert len(shown) > 20


def test_all_is_shown_in_full_when_there_is_room() -> None:
    """A budget with room for all passages shows them and drops nothing."""
    pieces = graded(20)
    built = build(pieces, Plan(100_000))
    assert bodies(built) == [p.text for p in pieces]
    assert (built.dropped, built.from_items) == ((), 20)


def test_what_is_shorter_than_its_abstract_is_shown_at_once() -> None:
    """A passage that is shorter than its abstract is shown, and its citation has level 2."""
    built = build([piece(C, 1.0, "Black coffee.", abstract=FOX), *graded(10)], Plan(60))
    assert (bodies(built)[0], built.citations[0].level) == ("Black coffee.", 2)


def test_without_an_abstract_the_beginning_of_the_passage_stands_for_it() -> None:
    """A source without an abstract shows the beginning of its passage, cut after a sentence."""
    pieces = [replace(p, abstract="", overview="") for p in graded(10)]
    built = build(pieces, Plan(330))
    assert levels(built)[pieces[4].uri] == 0
    assert pieces[4].text.startswith(bodies(built)[4])
    assert bodies(built)[4].endswith(".")


def test_without_levels_passages_fill_the_budget_best_first() -> None:
    """Without levels, the best passages fill the budget; the last is cut, the rest dropped."""
    pieces = graded(20)
    built = build(pieces, Plan(500, levels=False))
    *whole, last = bodies(built)
    assert whole == [p.text for p in pieces[: len(whole)]]
    assert pieces[len(whole)].text.startswith(last.rstrip(LEFT_OUT))
    assert built.dropped == tuple(
        Dropped(p.uri, "", DropReason.BUDGET) for p in pieces[len(whole) + 1 :]
    )


def test_a_context_without_a_passage_is_shown_by_the_most_that_is_at_hand() -> None:
    """A source without a passage shows its content, else its overview, else its abstract."""
    pieces = [
        Piece(A, 0.9, abstract=FOX, overview=CAT, content=OWL),
        Piece(B, 0.8, abstract=IMPORT, overview=f"{CAT} {RUNS}"),
        Piece(C, 0.7, abstract=f"{IMPORT}Twice."),
    ]
    built = build(pieces, Plan(1000))
    assert bodies(built) == [OWL, f"{CAT} {RUNS}", f"{IMPORT}Twice."]
    assert [c.level for c in built.citations] == [2, 1, 0]


# Citations


@some
@given(retrieved, plans)
def test_citations_are_where_they_say(pieces: list[Piece], plan: Plan) -> None:
    """Citations are in order, disjoint and behind their markers; a marker names one source."""
    built = build(pieces, plan)
    end = 0
    for c in built.citations:
        assert end <= c.start < c.end <= len(built.text)
        body, head = built.text[c.start : c.end], built.text[end : c.start]
        assert body == body.strip()
        assert c.marker in head
        assert c.uri in {p.uri for p in pieces}
        end = c.end
    assert end == len(built.text)
    names = {(c.marker, c.uri) for c in built.citations}
    if plan.citation is not CitationStyle.NONE:
        assert len({marker for marker, _ in names}) == len({uri for _, uri in names}) == len(names)


def test_markers_name_their_sources() -> None:
    """Markers are numbers in the order of the text, URIs, or absent."""
    pieces = [Piece(B, 0.9, "Guide > Set up", FOX), piece(A, 0.8, CAT), piece(B, 0.7, OWL)]
    texts = [build(pieces, Plan(1000, citation=c)).text for c in CitationStyle]
    assert texts == [
        f"Guide > Set up\n{FOX}\n\n{CAT}\n\n{OWL}",
        f"[1] Guide > Set up\n{FOX}\n\n[2] {CAT}\n\n[1] {OWL}",
        f"[{B}] Guide > Set up\n{FOX}\n\n[{A}] {CAT}\n\n[{B}] {OWL}",
    ]
    assert build(pieces, Plan(1000)).citations[0] == Cited(
        "[1]", B, "Guide > Set up", 2, 19, 80, 0, 0
    )


def test_a_heading_is_not_repeated() -> None:
    """A heading is left out if its passage begins with it or continues its section."""
    pieces = [
        Piece(A, 0.9, "def f()", "def f():\n    return 1", 0, 22),
        Piece(B, 0.8, "Birds", OWL, 0, len(OWL)),
        Piece(B, 0.7, "Birds", CAT, 500, 500 + len(CAT)),
    ]
    built = plain(pieces, order=ContextOrder.TREE)
    assert built.text == f"def f():\n    return 1\n\nBirds\n{OWL}\n\n{CAT}"


@some
@given(retrieved, plans, st.randoms(use_true_random=False))
@example([Piece(A, 0.0), Piece(A, 0.0), Piece(A, 0.0, overview=FOX)], Plan(1), random.Random(1))
def test_the_order_of_the_pieces_does_not_matter(
    pieces: list[Piece], plan: Plan, order: random.Random
) -> None:
    """The order of the given pieces does not change the context."""
    shuffled = list(pieces)
    order.shuffle(shuffled)
    assert build(shuffled, plan) == build(pieces, plan)


# Repetition


@some
@given(st.integers(1, 60), st.data())
def test_no_character_of_a_file_stands_twice(length: int, data: st.DataObject) -> None:
    """Overlapping ranges of a file show each character once, in the order of the file."""
    content = "".join(map(chr, range(0x4E00, 0x4E00 + length)))
    places = st.integers(0, length)
    ranges = data.draw(st.lists(st.tuples(places, places).map(sorted), max_size=6))
    known = data.draw(st.sampled_from([content, None]))
    pieces = [
        Piece(A, data.draw(scores), "", content[a:b], a, b, content=known if a < b else None)
        for a, b in ranges
    ]
    built = plain(pieces, order=data.draw(st.sampled_from(ContextOrder)))
    stands = "".join(bodies(built)).replace("\n", "")
    assert sorted(stands) == sorted({c for p in pieces for c in p.text})
    assert all(list(body) == sorted(body) for body in bodies(built) if "\n" not in body)


def test_passages_that_touch_are_one_with_one_citation() -> None:
    """Passages that overlap or touch are joined under one heading and one citation."""
    content = f"{FOX} {CAT}\n\n{OWL} {RUNS}"
    at = [content.index(s) for s in (FOX, CAT, OWL, RUNS)]
    for known in (content, None):
        pieces = [
            Piece(A, score, section, content[a:b], a, b, content=known)
            for score, section, a, b in (
                (0.9, "Zoo > Cats", at[1], at[2] - 2),
                (0.7, "Zoo > Dogs", 0, at[1] + 5),
                (0.6, "Zoo > Dogs", at[2], len(content)),
            )
        ]
        pieces.append(piece(B, 0.8, IMPORT, 0))
        for order in ContextOrder:
            built = plain(pieces, order=order)
            assert built.text == f"Zoo\n{content}\n\n{IMPORT}"
            assert [c.section for c in built.citations] == ["Zoo", ""]


def test_passages_with_text_between_them_stay_apart() -> None:
    """Passages with text between them stay apart, in the order of scores or of the file."""
    content = f"{FOX} {CAT} {OWL}"
    pieces = [
        Piece(A, 0.9, "", OWL, content.index(OWL), len(content), content=content),
        Piece(A, 0.8, "", FOX, 0, len(FOX), content=content),
    ]
    assert bodies(plain(pieces)) == [OWL, FOX]
    assert bodies(plain(pieces, order=ContextOrder.TREE)) == [FOX, OWL]


def test_equal_texts_stand_once() -> None:
    """Texts that differ only in white space are shown once."""
    pieces = [
        piece(A, 0.9, "Yes, do."),
        piece(B, 0.8, "Yes,\n  do."),
        piece(A, 0.7, FOX),
        piece(A, 0.6, FOX.replace(" ", "\n")),
    ]
    built = plain(pieces)
    assert bodies(built) == ["Yes, do.", FOX]
    assert built.dropped == (
        Dropped(B, "", DropReason.DUPLICATE),
        Dropped(A, "", DropReason.DUPLICATE),
    )
    assert built.from_items == 2


def test_a_duplicate_whose_source_is_summed_up_is_not_dropped() -> None:
    """A duplicate piece is not dropped if an abstract represents its source."""
    long = " ".join(f"{FOX[:-1]} of {n}." for n in range(40))
    pieces = [piece(A, 0.9, long, abstract=CAT), piece(A, 0.8, long), piece(B, 0.7, OWL)]
    built = build(pieces, Plan(30))
    assert levels(built) == {A: 0, B: 2}
    assert (built.dropped, built.from_items) == ((), 3)


def test_a_range_within_a_better_one_says_nothing_new() -> None:
    """A range inside a better range of the same file is dropped as a duplicate."""
    built = plain([piece(A, 0.9, f"{FOX} {CAT}", 10), piece(A, 0.8, CAT[:-9], 11 + len(FOX))])
    assert bodies(built) == [f"{FOX} {CAT}"]
    assert [d.reason for d in built.dropped] == [DropReason.DUPLICATE]


@pytest.mark.parametrize(("first", "again"), [(FOX, OWL), (IMPORT, RUNS)])
def test_a_sentence_that_stands_already_is_left_out(first: str, again: str) -> None:
    """A mark replaces a long sentence that is shown already; a short sentence may repeat."""
    wrapped = again[:7] + again[7:].replace(" ", "\n", 1)
    pieces = [
        piece(A, 0.9, f"{again} So it is. {first}"),
        piece(B, 0.8, f"{CAT} {wrapped} {first} So it is.\n\n{RUNS[::-1]}"),
    ]
    assert bodies(plain(pieces))[1] == f"{CAT} {LEFT_OUT} So it is.\n\n{RUNS[::-1]}"


def test_what_is_left_without_its_sentences_must_be_worth_a_place() -> None:
    """A passage with only a few words besides repeated sentences is dropped as a duplicate."""
    assert approximate_tokens("See also:") < MIN_REPEATED
    pieces = [piece(A, 0.9, f"{FOX} {CAT}"), piece(B, 0.8, f"See also:\n\n{CAT}\n\n{FOX}")]
    assert plain(pieces).dropped == (Dropped(B, "", DropReason.DUPLICATE),)


def test_code_keeps_lines_that_stand_elsewhere() -> None:
    """Fenced and indented code keeps its lines, even if another passage shows them."""
    line = "raise ValueError('the request has no body and no header either.')"
    code = [f"```\n{line}\n{FOX}\n```\n\nOne.", f"    {line}\n    {FOX}\n\nTwo."]
    built = plain([piece(C, 0.9, f"{FOX} {line}."), piece(A, 0.8, code[0]), piece(B, 0.7, code[1])])
    assert bodies(built)[1:] == [code[0], code[1].strip()]


@some
@given(
    st.lists(st.lists(st.sampled_from([FOX, CAT, OWL, IMPORT, RUNS, "Short one."])), max_size=6),
    st.data(),
)
def test_no_long_sentence_stands_twice_in_passages(
    found: list[list[str]], data: st.DataObject
) -> None:
    """No long sentence appears twice in the passages of different sources."""
    pieces = [
        piece(f"{A}{i}", data.draw(scores), " ".join(dict.fromkeys(said)))
        for i, said in enumerate(found)
    ]
    order, budget = data.draw(st.sampled_from(ContextOrder)), data.draw(st.integers(1, 300))
    long = {s for said in found for s in said} - {"Short one."}
    built = build(pieces, Plan(budget, levels=False, order=order))
    assert all(built.text.count(sentence) <= 1 for sentence in long)
    assert all(plain(pieces, order=order).text.count(sentence) == 1 for sentence in long)


def test_a_summary_says_what_better_ones_do_not() -> None:
    """A source whose abstract is shown already is represented by its text."""
    pieces = [
        piece(A, 0.9, f"{CAT} {CAT[:-1]} twice.", abstract=FOX),
        piece(B, 0.8, f"{OWL} {CAT[:-1]} again and again, more than the others.", abstract=FOX),
    ]
    assert build(pieces, Plan(40)).text == f"[1] {FOX}\n\n[2] {OWL}"
