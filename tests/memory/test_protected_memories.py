"""Pinned memories, and those that Forget by criteria spares."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.memory.remember_helpers import (
    ADDED,
    LAMP,
    NOTES,
    NOW,
    REINFORCED,
    USER,
    content,
    recalled,
    said,
    verified,
)
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft, Entry
from vikingd.domain.search_query import SearchSession, SessionMessage
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.memory.memory_file_changes import Remembering
from vikingd.memory.memory_types import Salience, StoredEntry
from vikingd.memory.protected_memories import spared
from vikingd.memory_calls.forget import ForgetQuery, chosen, forgetting
from vikingd.models.embed.embed_settings import EmbedSettings

pytestmark = pytest.mark.stores

LATER = NOW + timedelta(days=9999)


def test_criteria_spare_what_only_an_id_forgets(client: MessageClient) -> None:
    """Profile, instructions, health and pinned memories stay, with reasons, until named by id."""
    client.remember("Severe peanut allergy.", uri=NOTES)
    client.remember("Saw a film.", uri=NOTES)
    client.remember("对青霉素过敏。", uri=NOTES)
    client.remember("The safe is behind the map.", uri=NOTES, pinned=True)
    client.remember("Runs at dawn.", uri=NOTES, section="Health")
    client.remember("Is called Ana.", "profile")
    client.remember("Answer in French.", "instructions")
    client.remember("Deploy on Mondays.", "rules", project="lamp")
    everything = {"older_than": LATER, "project": "lamp", "with_global": True}
    for dry_run in (True, False):
        reply = client.forget(dry_run=dry_run, **everything)
        assert [memory.content for memory in reply.forgotten] == ["Saw a film."]
        assert [(one.memory.content, one.reason) for one in reply.spared] == [
            ("Deploy on Mondays.", "it is in a file of instructions"),
            ("Answer in French.", "it is in a file of instructions"),
            ("Severe peanut allergy.", "it speaks of health: 'allergy'"),
            ("对青霉素过敏。", "it speaks of health: '青霉素'"),
            ("The safe is behind the map.", "it is pinned"),
            ("Runs at dawn.", "it is below a heading of health"),
            ("Is called Ana.", "it is in a file of profile"),
        ]
        assert [one.memory.pinned for one in reply.spared] == [*[False] * 4, True, False, False]
    everyone = [one.memory.id for one in reply.spared]
    assert [one.id for one in client.forget(*everyone).forgotten] == sorted(
        everyone, key=everyone.index
    )
    assert not client.forget(older_than=LATER, project="lamp", with_global=True).spared
    assert verified(client)


def test_a_pin_is_a_mark_in_the_file_and_no_part_of_the_text(client: MessageClient) -> None:
    """The mark stays when a memory is repeated, and is neither shown, compared nor indexed."""
    first = client.remember("The key is 4711.", uri=NOTES, pinned=True)
    assert content(client) == "# Notes\n\n- 📌 The key is 4711.\n"
    again = client.remember("the key is 4711", uri=NOTES, time=NOW + timedelta(days=900))
    assert (again.outcome, again.id, again.met) == (REINFORCED, first.id, "The key is 4711.")
    assert content(client) == "# Notes\n\n- 📌 the key is 4711\n"
    (found,) = client.recall("key", no_touch=True).results
    assert (found.content, found.pinned) == ("the key is 4711", True)
    assert recalled(client, "key 4711") == {"the key is 4711"}
    # An older wording changes nothing but the pin.
    off = client.remember("The key is 4711!", uri=NOTES, time=NOW, pinned=False)
    assert (off.id, content(client)) == (first.id, "# Notes\n\n- the key is 4711\n")
    client.remember("The key is 4711!", uri=NOTES, time=NOW, pinned=True)
    assert content(client) == "# Notes\n\n- 📌 the key is 4711\n"
    assert client.remember("📌 By hand.", uri=NOTES).outcome == ADDED
    assert client.remember("By hand!", uri=NOTES, time=NOW).outcome == REINFORCED
    assert client.remember("```py\nx = 1\n```", uri=NOTES, pinned=True).outcome == ADDED
    assert "- 📌\n  ```py\n  x = 1\n  ```\n" in content(client)
    assert recalled(client, "py") >= {"```py\nx = 1\n```"}
    assert verified(client)


def test_what_takes_the_place_of_a_pinned_memory_is_pinned(client: MessageClient) -> None:
    """A change that Extract writes keeps the pin, in the new wording and in the older one."""
    client.remember("The user lives in Paris.", "profile", pinned=True)
    session = SearchSession(messages=(SessionMessage("user", "I moved to Lyon."),))
    (moved,) = client.extract(session).memories
    text = content(client, f"{USER}/profile.md")
    assert f"- 📌 {moved.text}\n" in text
    assert text.endswith("## Earlier\n\n- 📌 The user lives in Paris.\n")
    assert moved.met == "The user lives in Paris."


def test_a_pin_by_hand_counts_and_survives_a_move(client: MessageClient) -> None:
    """A mark that a person writes is a pin; without it the memory keeps its counters."""
    client.put([Draft(NOTES, content="- 📌 tea\n- 📌\ufe0f rowing\n- chess\n")])
    assert [one.reason for one in client.forget(dry_run=True, older_than=LATER).spared] == [
        "it is pinned",
        "it is pinned",
    ]
    client.move(NOTES, f"{USER}/other.md")
    assert [memory.content for memory in client.forget(older_than=LATER).forgotten] == ["chess"]
    client.move(f"{USER}/other.md", f"{LAMP}/other.md")
    assert said(client, f"{LAMP}/other.md") == [("📌 tea", 0), ("📌\ufe0f rowing", 0)]


def test_what_is_pinned_while_criteria_are_looked_at_stays(tmp_path: Path) -> None:
    """A memory that is pinned after its selection is not forgotten."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    store = engine.writable_store
    store.put([prepare(Draft(NOTES, content="- tea\n- chess\n", time=1))]).result()
    query = ForgetQuery(now=9, older_than=5)
    tea, chess = found = chosen(engine, query, Salience()).memories
    store.rewrite([(NOTES, Remembering(NOTES, "", "tea", "", 1, 1, pinned=True))]).result()
    # Another memory of the text would have other counters; only the pin decides here.
    said = replace(tea.entry, reinforcement=1)
    forgotten = forgetting(query, [replace(tea, entry=said), chess])
    ids = [memory.entry.id for memory in found]
    store.rewrite_holders(ids, forgotten, require_all=False).result()
    assert forgotten.gone == {chess.entry.id}
    assert [one.passage for one in engine.store.memories_below(USER)] == ["📌 tea"]
    engine.close()


def test_a_mark_is_not_indexed() -> None:
    """The text to index of a pinned memory is that without the mark; elsewhere it is a text."""
    for uri, indexed in ((NOTES, "tea"), ("viking://resources/n.md", "📌 tea")):
        (text,) = prepare(Draft(uri, content="📌 tea")).texts
        assert text.text == indexed


@pytest.mark.parametrize(
    ("text", "section", "file"),
    [
        ("Takes insulin before meals", "", "notes.md"),
        ("Has been coeliac since 2010", "", "notes.md"),
        ("The doctor advised rest", "", "journal/2026-03-01.md"),
        ("Is blind in one eye", "", "entities.md"),
        ("DIABETES, type 1", "", "notes.md"),
        ("乳糖不耐受，不能喝牛奶", "", "notes.md"),
        ("每天早上吃降压药", "", "notes.md"),
        ("有哮喘", "", "notes.md"),
        ("Rests at noon", "Ana > Medical", "notes.md"),
        ("Rests at noon", "健康", "notes.md"),
        ("Peanuts", "Ana > Food allergies", "notes.md"),
        ("Peanuts", "", "food_allergies.md"),
        ("Peanuts", "", "food-allergies/2.md"),
        ("Rests at noon", "", "health.md"),
        ("Rests at noon", "", "health/2.md"),
        ("Rests at noon", "", "健康.md"),
        ("Rests at noon", "", "profile.md"),
        ("📌 Rests at noon", "", "notes.md"),
    ],
)
def test_health_is_told_by_file_heading_or_word(text: str, section: str, file: str) -> None:
    """A memory about health, in either language, is spared."""
    assert spared(StoredEntry(f"{USER}/{file}", Entry(1), 1, section, 0, len(text), text))


@pytest.mark.parametrize(
    "text",
    [
        "Prefers oolong to coffee",
        "Ship the beta on Friday",
        "The pillow is new",
        "Uses Painter for drawings",
        "Disable the flag after the release",
        "喜欢喝茶，不喜欢咖啡",
        "周五发布新版本",
        "Rests at noon 📌",
    ],
)
def test_other_memories_are_not_spared(text: str) -> None:
    """Words that only look like words of health spare nothing."""
    assert not spared(StoredEntry(NOTES, Entry(1), 1, "Plans", 0, len(text), text))


def test_bulk_forgetting_spares_names_of_several_words(client: MessageClient) -> None:
    """A heading and a file that speak of health among other words spare what is below them."""
    client.put(
        [
            Draft(NOTES, content="## Food allergies\n\n- Peanuts\n\n## Pastimes\n\n- Chess\n"),
            Draft(f"{USER}/food_allergies.md", content="- Sesame\n"),
        ]
    )
    reply = client.forget(older_than=LATER)
    assert [one.content for one in reply.forgotten] == ["Chess"]
    assert {one.memory.content for one in reply.spared} == {"Peanuts", "Sesame"}
