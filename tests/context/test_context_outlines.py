"""Overviews that are made of sources, in the tokens that passages leave."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import example, given

from tests.context.context_helpers import CAT, FOX, A, B, bodies, piece, plans, retrieved, some
from tests.store.store_helpers import put
from vikingd.answer.context_sources import ItemRef, Sources, built, pieces_named
from vikingd.context.deduplicated_parts import CONTENT, OVERVIEW, Piece
from vikingd.context.prompt_context import OUTLINED, BuiltContext, Plan, build
from vikingd.domain.answers import ReplyBudget
from vikingd.domain.contexts import Draft
from vikingd.domain.prompt_options import CitationStyle, DropReason
from vikingd.domain.rights import LOCAL
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

OUTLINE = "- Harbour: ships that wait for the tide.\n- Mill: millers that wait for the wind."
TOP = "viking://resources/drinks"


def contents(of: BuiltContext) -> list[tuple[str, str]]:
    """Return the cited passages."""
    cited = zip(of.citations, bodies(of), strict=True)
    return [(one.uri, body) for one, body in cited if one.level == CONTENT]


def overviews(of: BuiltContext) -> Counter[str]:
    """Return the sources that are summed up, with the number of their overviews."""
    return Counter(one.uri for one in of.citations if one.level == OVERVIEW)


@some
@given(retrieved, plans)
@example(
    [Piece(B, 0.0, overview=f"{FOX} "), piece(B, 0.25, "T"), Piece(B, 0.0), Piece(B, 0.0)],
    Plan(34, tokenizer="o200k_base", citation=CitationStyle.NONE, separator=""),
)
def test_an_outline_takes_no_token_from_a_passage(pieces: list[Piece], plan: Plan) -> None:
    """The passages are those without outlines, and outlines come when none is left out."""
    without = build(pieces, plan)
    outlined = build(pieces, plan, lambda _: OUTLINE)
    assert contents(outlined) == contents(without)
    # A source with an outline is in the context, so what it has of empty texts is not dropped.
    gained = overviews(outlined) - overviews(without)
    assert outlined.dropped == tuple(one for one in without.dropped if one.uri not in gained)
    assert outlined.used_tokens <= outlined.budget
    if outlined.text != without.text:
        assert plan.levels
        assert all(one.reason is not DropReason.BUDGET for one in without.dropped)


def test_the_best_sources_get_outlines_where_there_is_room() -> None:
    """A source that is whole, or has an overview, gets none; without room nobody is asked."""
    texts = [f"Ship {n} waits {n} days for the tide of the harbour." for n in range(9)]
    many = [piece(f"viking://r/{n}.md", 0.9 - n / 100, text) for n, text in enumerate(texts)]
    outlined = build(many, Plan(4000), lambda _: OUTLINE)
    shown = [one.uri for one in outlined.citations if one.level == OVERVIEW]
    assert shown == [one.uri for one in many[:OUTLINED]]
    assert outlined.text.startswith(f"[1] {texts[0]}\n\n[1] {OUTLINE}\n\n[2] {texts[1]}")
    asked: list[str] = []

    def outline_of(uri: str) -> str:
        asked.append(uri)
        return OUTLINE

    some_whole = [Piece(A, 0.9, content=FOX), piece(B, 0.8, CAT, overview="Given.")]
    assert OUTLINE not in build(some_whole, Plan(4000), outline_of).text
    assert OUTLINE not in build(many, Plan(60), outline_of).text
    assert OUTLINE not in build(many, Plan(4000, levels=False), outline_of).text
    assert asked == []


def test_directories_and_long_files_show_what_is_made_of_them(tmp_path: Path) -> None:
    """A named directory has its children; a passage of a long file the headings of the rest."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    steps = "\n\n".join(f"## Step {n}\n\nPour for {n} minutes. {FOX} {CAT}" for n in range(12))
    notes = "viking://user/memories/notes.md"
    drafts = [
        Draft(f"{TOP}/tea.md", content=steps),
        Draft(f"{TOP}/more/coffee.md", content="Coffee is roasted before it is ground."),
        Draft(notes, content=steps),
    ]
    put(engine.writable_store, *map(prepare, drafts))

    def context(*items: ItemRef) -> str:
        pieces = pieces_named(engine, items, LOCAL, ReplyBudget(1 << 20))
        return built(engine, Sources(pieces, (), (), 0, ReplyBudget(1 << 20)), Plan(2000)).text

    listed = context(ItemRef(TOP, 0, 0.5))
    assert "- more/: Coffee is roasted" in listed
    assert "- tea.md: " in listed
    assert "- Step 11: Pour" in context(ItemRef(f"{TOP}/tea.md", 2, 0.5))
    assert "- Step 11" not in context(ItemRef(notes, 2, 0.5))
    engine.close()
