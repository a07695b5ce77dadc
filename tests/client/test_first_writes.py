"""Writes in a few words, and the memories one by one, against a real daemon."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from vikingd.client import (
    AsyncClient,
    Client,
    Document,
    InvalidField,
    MemoryEntry,
    NotFound,
    Passage,
    PutOutcome,
    RevisionDiffers,
    Unreachable,
)

NOTES = "viking://resources/notes/"
PREFERENCES = "viking://user/memories/preferences.md"


def many(count: int) -> Iterator[Document]:
    """Yield documents."""
    return (Document(f"{NOTES}{i:04}.md", f"text {i}") for i in range(count))


def test_a_text_is_added_at_its_uri(typed: Client) -> None:
    """The text, its title, metadata and time are written at the URI."""
    when = datetime(2026, 5, 1, tzinfo=UTC)
    added = typed.add(
        "Oolong: 90 degrees.", at=f"{NOTES}tea.md", title="Tea", metadata={"n": 1}, time=when
    )
    assert (added.uri, added.outcome) == (f"{NOTES}tea.md", PutOutcome.CREATED)
    tea = typed.get(added.uri, min_revision=added.revision)
    assert (tea.content, tea.title, tea.metadata, tea.time) == (
        "Oolong: 90 degrees.",
        "Tea",
        {"n": 1},
        when,
    )
    assert typed.add("Oolong: 85.", at=added.uri).outcome is PutOutcome.UPDATED
    assert typed.get(added.uri).content == "Oolong: 85."


def test_a_text_in_a_directory_gets_a_name(typed: Client) -> None:
    """The name is of the first words and of the text; the same text is written once."""
    first = typed.add("How hot for oolong? 90 degrees, says Ana.", at=NOTES)
    assert first.uri.startswith(f"{NOTES}how-hot-for-oolong-90-degrees-")
    assert typed.add("How hot for oolong? 90 degrees, says Ana.", at=NOTES).uri == first.uri
    other = typed.add("How hot for oolong? 90 degrees, says Ben.", at=NOTES)
    assert other.uri != first.uri
    titled = typed.add("x" * 5000, at=NOTES, title="Tea: of/../the east")
    assert titled.uri.startswith(f"{NOTES}tea-of-the-east-")
    assert typed.add("乌龙茶要九十度", at=NOTES).uri.startswith(f"{NOTES}乌龙茶要九十度-")
    assert len(typed.add("word" * 900, at=NOTES).uri) < 100
    assert typed.add("?!", at=NOTES).uri.startswith(NOTES)
    assert len(list(typed.list(NOTES))) == 6


def test_many_documents_are_written_in_batches(typed: Client) -> None:
    """Any iterable is written; refused documents are in the summary, the others are written."""
    done: list[int] = []

    def given() -> Iterator[Document | dict[str, str]]:
        yield from many(230)
        yield Document("viking://nowhere/x.md", "x")
        yield {"uri": f"{NOTES}dict.md", "content": "x"}
        yield Document(f"{NOTES}0001.md", "again")

    summary = typed.put_many(given(), progress=done.append)
    assert (summary.created, summary.updated, summary.unchanged) == (231, 0, 0)
    assert [failure.uri for failure in summary.failed] == [
        f"{NOTES}0001.md",
        "viking://nowhere/x.md",
    ]
    assert "documents[232] has the URI of an earlier one" in summary.failed[0].reason
    assert summary.failed[1].reason.startswith("uri: must lie below")
    assert sum(done) == 233
    assert len(done) > 2
    assert summary.revision == typed.stats().revision
    assert typed.get(f"{NOTES}0001.md").content == "text 1"
    again = typed.put_many([*many(229), Document(f"{NOTES}0229.md", "new")])
    assert (again.updated, again.unchanged, again.failed) == (1, 229, [])
    assert typed.put_many([]).revision == 0


def nested(levels: int) -> dict[str, Any]:
    """Return an object within objects."""
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"in": inner}
    return inner


BAD = f"{NOTES}bad.md"


@pytest.mark.parametrize(
    "bad",
    [
        Document(BAD, "half \ud83d pair"),
        Document(f"{NOTES}\ud83d.md", "x"),
        Document(BAD, "x", metadata={"id": 2**60}),
        Document(BAD, "x", metadata={"\udc00": 1}),
        Document(BAD, "x", metadata={"when": {1, 2}}),
        Document(BAD, "x", metadata=nested(35)),
        Document(BAD, "x", metadata=nested(80)),
        Document(BAD, "x", metadata=nested(3000)),
        Document(BAD, "x", metadata={"n": float("nan")}),
        {"uri": BAD, "content": "x", "time": 10**30},
        Document(BAD, "x", expected_revision=-1),
        Document(BAD, "x", expected_revision=7),
        Document(BAD, title="x", update_mask="title"),
        Document(BAD, "x", update_mask="titles"),
        Document(BAD, "x", vector=b"123"),
        Document(BAD, "x" * (2 << 20) + "x"),
        Document(BAD, "x" * (5 << 20)),
        Document(BAD, "x" * 5000, passages=[Passage("", i, i + 1) for i in range(4097)]),
        Document(f"{NOTES}{'x' * 1100}.md", "x"),
        {"uri": BAD, "time": "yesterday"},
        {"uri": f"{BAD}/", "content": "x"},
    ],
    ids=range(21),
)
def test_a_document_that_cannot_be_written_fails_alone(
    typed: Client, bad: Document | dict[str, Any]
) -> None:
    """A document that no request can hold, or that the daemon refuses, is listed; others stay."""
    good = list(many(4))
    summary = typed.put_many([*good[:2], bad, *good[2:]])
    (failure,) = summary.failed
    assert failure.uri == (bad["uri"] if isinstance(bad, dict) else bad.uri)
    assert failure.reason
    assert "contexts[" not in failure.reason
    assert (summary.created, len(list(typed.list(NOTES)))) == (4, 4)


def test_a_put_may_write_what_it_can(typed: Client) -> None:
    """Without partial_success nothing is written; with it, the result names what was refused."""
    documents = [*many(2), Document("viking://nowhere/x.md", "x"), Document(BAD, title="\0")]
    with pytest.raises(InvalidField) as caught:
        typed.put(documents)
    assert caught.value.field_violations[0].field == "contexts[2].uri"
    assert not typed.exists(NOTES)
    result = typed.put(documents, partial_success=True)
    refused = [PutOutcome.REFUSED] * 2
    assert result.outcomes == (PutOutcome.CREATED, PutOutcome.CREATED, *refused)
    assert [(one.index, one.reason, one.field) for one in result.refusals] == [
        (2, "INVALID_FIELD", "uri"),
        (3, "INVALID_FIELD", "title"),
    ]
    assert result.refusals[1].message == "has a NUL character"
    assert result.revision == typed.stats().revision
    assert typed.put(documents[2:], partial_success=True).outcomes == tuple(refused)


def test_what_is_no_document_ends_put_many(typed: Client) -> None:
    """A wrong value raises with its place; nothing of its batch is written."""
    wrong: list[object] = [*many(3), "text"]
    with pytest.raises(TypeError, match=r"documents\[3\] is a str \('text'\)"):
        typed.put_many(wrong)  # type: ignore[arg-type]
    assert not typed.exists(NOTES)


def test_put_many_without_a_daemon_is_an_error() -> None:
    """An error that no document causes is raised; no document is blamed for it."""
    with Client("127.0.0.1:1", retries=False) as client, pytest.raises(Unreachable):
        client.put_many(many(3))


def test_the_progress_is_shown_on_stderr(daemon: str) -> None:
    """progress=True shows the finished documents on stderr and nothing on stdout."""
    text = f"""
from vikingd.client import Client, Document
documents = [Document(f"viking://resources/bar/{{i}}.md", "x") for i in range(7)]
Client({daemon!r}).put_many(documents, progress=True)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "7/7" in done.stderr
    assert done.stdout == ""


def test_an_update_writes_the_given_fields(typed: Client) -> None:
    """The given fields change; the others stay; an empty value removes one."""
    uri = typed.add("Oolong: 90.", at=f"{NOTES}tea.md", title="Tea", metadata={"n": 1}).uri
    typed.update(uri, content="Oolong: 85.", time="2026-05-01T00:00:00Z")
    tea = typed.get(uri)
    assert (tea.content, tea.title, tea.metadata) == ("Oolong: 85.", "Tea", {"n": 1})
    assert tea.time == datetime(2026, 5, 1, tzinfo=UTC)
    typed.update(uri, title="", metadata={}, abstract="Of tea.", overview="All of it.")
    tea = typed.get(uri)
    assert (tea.content, tea.title, tea.metadata) == ("Oolong: 85.", "", {})
    assert (tea.abstract, tea.overview) == ("Of tea.", "All of it.")
    with pytest.raises(RevisionDiffers):
        typed.update(uri, title="Old", expected_revision=tea.revision - 1)
    typed.update(uri, title="New", expected_revision=tea.revision)
    assert typed.get(uri).title == "New"
    with pytest.raises(NotFound):
        typed.update(f"{NOTES}none.md", title="x")


def test_a_listing_fails_where_it_is_called(typed: Client) -> None:
    """A listing of a missing directory raises at the call; any other is an iterator."""
    typed.add("Oolong.", at=f"{NOTES}tea.md")
    for call in (typed.list, typed.tree):
        with pytest.raises(NotFound):
            call("viking://resources/none")
    for ask in (typed.grep, typed.glob):
        with pytest.raises(NotFound):
            ask("x", "viking://resources/none")
    listed = typed.list(NOTES)
    assert next(listed).uri == f"{NOTES}tea.md"
    assert next(listed, None) is None


def remembered(client: Client) -> tuple[int, int]:
    """Remember two memories of one file, reinforce both, and return their ids."""
    go = client.remember("Plays go\nwith friends.", "preferences").id
    tea = client.remember("Likes tea.", "preferences", section="Drinks").id
    client.remember("Moon: the motor is new.", "tasks", project="moon")
    client.reinforce(go, tea, by=3)
    return go, tea


def test_memories_are_listed_one_by_one(typed: Client) -> None:
    """Entries have ids, texts, sections, kinds, times and counters; scope and kind choose."""
    go, tea = remembered(typed)
    typed.add("- Met Ben.\n", at="viking://users/ana/memories/journal/2026-05-01.md")
    first, second = typed.memories()
    assert (first.id, first.text, first.section) == (go, "Plays go\nwith friends.", "Preferences")
    assert (second.id, second.text, second.section) == (tea, "Likes tea.", "Preferences > Drinks")
    assert (second.uri, second.kind, second.reinforcement) == (PREFERENCES, "preferences", 3)
    assert second.time is not None
    assert abs((datetime.now(UTC) - second.time).total_seconds()) < 300
    assert [one.id for one in typed.memories(kind="Preferences").list()] == [go, tea]
    assert not list(typed.memories(kind="tasks"))
    [task] = typed.memories(project="moon")
    assert (task.text, task.kind) == ("Moon: the motor is new.", "tasks")
    [met] = typed.memories(user="ana")
    assert (met.text, met.kind) == ("Met Ben.", "journal")
    assert not list(typed.memories(user="ben"))
    with pytest.raises(ValueError, match="give one of them"):
        typed.memories(user="ana", project="moon")
    with pytest.raises(InvalidField, match=r"\.\."):
        list(typed.memories(user=".."))


def test_an_edited_memory_keeps_its_place_and_its_counters(typed: Client) -> None:
    """An edit replaces the text alone; the other memories keep their ids and counters."""
    go, tea = remembered(typed)
    before = {one.id: one for one in typed.memories()}
    edited = typed.memories().edit(go, "Plays shogi,\n\n  and go,\nwith friends.")
    assert edited == replace(before[go], id=edited.id, text="Plays shogi,\nand go,\nwith friends.")
    assert list(typed.memories()) == [edited, before[tea]]
    shorter = typed.memories().edit(edited, "Go.")
    assert [one.text for one in typed.memories()] == ["Go.", "Likes tea."]
    assert typed.get(PREFERENCES).content == "# Preferences\n\n- Go.\n\n## Drinks\n\n- Likes tea.\n"
    # The daemon goes on with the file as with any other.
    typed.remember("Reads books.", "preferences")
    by_text = {one.text: one for one in typed.memories()}
    assert by_text["Go."] == shorter
    assert by_text["Likes tea."] == before[tea]
    assert "Reads books." in by_text
    with pytest.raises(NotFound, match="no memory 987654"):
        typed.memories().edit(987_654, "x")


def test_an_edit_begins_again_after_another_write(
    typed: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of others between reading and writing is kept; endless ones end the edit."""
    go, _ = remembered(typed)
    memories = typed.memories()
    get, others = typed.get, iter(["Swims.", "Sings."])

    def disturbed(*args: object, **named: object) -> object:
        found = get(*args, **named)  # type: ignore[arg-type]
        if text := next(others, ""):
            typed.remember(text, "preferences")
        return found

    monkeypatch.setattr(typed, "get", disturbed, raising=False)
    edited = memories.edit(go, "Plays shogi.")
    assert edited.text == "Plays shogi."
    monkeypatch.undo()
    assert {"Swims.", "Sings.", "Plays shogi.", "Likes tea."} == {one.text for one in memories}
    others = (f"Number {i}." for i in range(1000))
    monkeypatch.setattr(typed, "get", disturbed, raising=False)
    with pytest.raises(RevisionDiffers):
        memories.edit(edited, "Plays chess.")


def test_memories_are_deleted_by_id_or_themselves(typed: Client) -> None:
    """Delete takes entries and ids; one that is missing changes nothing."""
    go, tea = remembered(typed)
    with pytest.raises(NotFound):
        typed.memories().delete(go, 987_654)
    first, second = typed.memories()
    gone = typed.memories().delete(first, second.id)
    assert {one.id for one in gone.forgotten} == {go, tea}
    assert not list(typed.memories())


def test_the_asynchronous_client_does_the_same(typed: Client) -> None:
    """Each of these calls works on AsyncClient too."""

    async def work() -> None:
        async with AsyncClient(typed.address) as client:
            added = await client.add("Oolong: 90 degrees.", at=NOTES)
            assert await client.exists(added.uri)
            assert not await client.exists(f"{NOTES}none.md")
            await client.update(added.uri, title="Tea")
            assert (await client.get(added.uri)).title == "Tea"
            done: list[int] = []
            summary = await client.put_many(many(150), progress=done.append)
            assert (summary.created, sum(done)) == (150, 150)
            go = (await client.remember("Plays go.", "preferences")).id
            await client.reinforce(go, by=2)
            edited = await client.memories().edit(go, "Plays shogi.")
            assert edited.reinforcement == 2
            entries: list[MemoryEntry] = [one async for one in client.memories()]
            assert entries == [edited]
            assert [one async for one in client.memories(kind="tasks").list()] == []
            await client.memories().delete(edited)
            assert [one async for one in client.memories()] == []
            with pytest.raises(InvalidField, match=r"\.\."):
                await anext(aiter(client.memories(user="..")))
            listed = client.list("viking://resources/none")
            with pytest.raises(NotFound):
                await anext(listed)

    asyncio.run(work())
