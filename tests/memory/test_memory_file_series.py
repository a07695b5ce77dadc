"""Memories beyond a full file: a series of files is one for all calls, and none is ever joined."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from benchmarks import remember as benchmark
from tests.memory.remember_helpers import (
    ADDED,
    NOTES,
    NOW,
    REINFORCED,
    USER,
    content,
    known,
    recalled,
    refused,
    verified,
)
from tests.memory.users_helpers import World, caller, opened
from vikingd.client import Draft, Passage, RecallPath
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft as Stored
from vikingd.domain.contexts import Entry
from vikingd.domain.errors import InvalidField
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.files import read_tree
from vikingd.ingest.import_remarks import Unreadable
from vikingd.ingest.passages import MAX_MARKDOWN_LINES, default_passages, split
from vikingd.memory.contradicted_memories import Changing
from vikingd.memory.memory_file_series import Key, Known, KnownFiles, Series
from vikingd.memory.memory_types import MemoryFile, Remembered, StoredEntry, is_earlier
from vikingd.memory.numbered_files import MOST_CHARACTERS, MOST_ENTRIES, file_of, number_of

pytestmark = pytest.mark.stores

SECOND, THIRD = f"{USER}/notes/2.md", f"{USER}/notes/3.md"


def items(first: int, last: int) -> str:
    """Return a list of numbered items."""
    return "".join(f"- item {number}\n" for number in range(first, last))


def full(client: MessageClient, uri: str = NOTES, first: int = 0, title: str = "Notes") -> None:
    """Put a file with as many entries as a file takes."""
    body = f"# {title}\n\n{items(first, first + MOST_ENTRIES)}"
    client.put([Draft(uri, content=body, title=title)])


# Large files


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("number", [4095, 4096])
def test_each_item_of_a_large_file_is_a_memory(client: MessageClient, number: int) -> None:
    """Up to the limit each item has its own id, and the next memory changes none of them."""
    client.put([Draft(NOTES, content=items(0, number))])
    before = known(client)
    assert [text for text, _ in before.values()] == [f"item {i}" for i in range(number)]
    chosen = list(before)[7]
    client.reinforce(chosen, by=3)
    added = client.remember("one more", uri=NOTES)
    assert (added.outcome, added.uri) == (ADDED, SECOND)
    assert known(client) == {**before, chosen: ("item 7", 3)}
    again = client.remember("Item 7!", uri=NOTES)
    assert (again.outcome, again.id, again.reinforcement) == (REINFORCED, chosen, 4)
    assert ["the older wording stays" in note.detail for note in again.degraded] == [True]
    assert known(client)[chosen] == ("item 7", 4)
    assert [memory.id for memory in client.forget(chosen).forgotten] == [chosen]
    assert list(known(client)) == [i for i in before if i != chosen]
    assert verified(client)


@pytest.mark.parametrize("number", [4097, 5000])
def test_a_put_beyond_the_limit_is_refused_and_changes_nothing(
    client: MessageClient, number: int
) -> None:
    """A memory file with too many items is refused with the limit and the remedy, also masked."""
    client.put([Draft(NOTES, content=items(0, 10))])
    before = known(client)
    client.reinforce(*before, by=2)
    expected = f"contexts[0].content: of {NOTES} has {number:,} memories, a file may have 4,096: "
    for fields in ({}, {"update_mask": ["content"]}):
        message, names = refused(client.put, [Draft(NOTES, content=items(0, number), **fields)])
        assert expected + "split it into several files" in message
        assert names == ["contexts[0].content"]
    assert dict.fromkeys(before, 2) == {i: times for i, (_, times) in known(client).items()}


def test_a_resource_with_many_items_is_still_joined(client: MessageClient) -> None:
    """A resource of any length has at most as many passages as the limit."""
    client.put([Draft("viking://resources/list.md", content=items(0, 5000))])


def test_an_import_names_a_memory_file_that_is_too_long(tmp_path: Path) -> None:
    """A folder with such a file is imported without it, and the report has the remedy."""
    (tmp_path / "long.md").write_text(items(0, 5000))
    (tmp_path / "short.md").write_text(items(0, 5))
    found = list(read_tree(tmp_path, USER))
    (left_out,) = (one for one in found if isinstance(one, Unreadable))
    assert "are 5,000, at most 4,096 are allowed: split the file into several" in left_out.reason
    assert any(one.uri.endswith("short.md") for one in found)


@pytest.mark.deep
def test_items_are_apart_even_if_the_markdown_is_not_parsed() -> None:
    """Markdown with too many lines for the parser keeps each unindented item apart."""
    lines = MAX_MARKDOWN_LINES + 1
    text = "# Title\n\nWords.\n\n- one\n- two\n  more\n\nEnd.\n1. three\n" + "\n" * lines
    found = [text[p.start : p.end] for p in split(text, "x.md", entries=True)]
    assert found == ["# Title\n\nWords.", "one", "two\n  more", "End.", "three"]
    many = items(0, lines)
    assert len(default_passages(NOTES, many)) == lines
    with pytest.raises(InvalidField, match="65,537 memories"):
        prepare(Stored(NOTES, content=many))


def test_a_file_whose_items_were_joined_stays_readable(client: MessageClient) -> None:
    """Two items in one passage, as former versions stored them, are one memory and stay so."""
    text = items(0, 2 * MOST_ENTRIES)
    starts = [i for i in range(len(text)) if text.startswith("item", i)]
    ends = [text.index("\n", start) for start in starts]
    pairs = [Passage("", a, b) for a, b in zip(starts[::2], ends[1::2], strict=True)]
    client.put([Draft(NOTES, content=text, passages=pairs)])
    before = known(client)
    assert len(before) == MOST_ENTRIES
    assert client.remember("one more", uri=NOTES).uri == SECOND
    first = next(iter(before))
    client.reinforce(first)
    client.forget(list(before)[1])
    assert known(client)[first] == ("item 0\n- item 1", 1)
    assert len(known(client)) == MOST_ENTRIES - 1


# Series


@pytest.mark.deep
def test_a_full_file_goes_on_in_the_next_one(client: MessageClient) -> None:
    """Each file takes as many entries as the limit; ids, order and sections stay."""
    replies = [
        client.remember(f"thing {i}", uri=NOTES, section="Odd" if i % 2 else "")
        for i in range(2 * MOST_ENTRIES + 3)
    ]
    assert [r.uri for r in replies[::MOST_ENTRIES]] == [NOTES, SECOND, THIRD]
    files = [known(client, uri) for uri in (NOTES, SECOND, THIRD)]
    assert [len(file) for file in files] == [MOST_ENTRIES, MOST_ENTRIES, 3]
    assert {i for file in files for i in file} == {r.id for r in replies}
    assert len({r.id for r in replies}) == len(replies)
    for uri in (NOTES, SECOND, THIRD):
        passages = client.get(uri).context.passages
        assert {p.section for p in passages} == {"Notes", "Notes > Odd"}
        assert client.get(uri).context.title == "Notes"
    assert verified(client)


def test_a_repeat_is_found_in_each_file(client: MessageClient) -> None:
    """A repeated memory is reinforced where it is, and takes the newer wording there."""
    full(client)
    full(client, SECOND, MOST_ENTRIES)
    last = client.remember("the last", uri=NOTES)
    assert last.uri == THIRD
    for number, uri in ((3, NOTES), (MOST_ENTRIES + 3, SECOND)):
        before = known(client, uri)
        reply = client.remember(f"Item {number}.", uri=NOTES)
        assert (reply.outcome, reply.uri, reply.id) == (REINFORCED, uri, list(before)[3])
        assert list(known(client, uri)) == list(before)
        assert known(client, uri)[reply.id] == (f"Item {number}.", 1)
    again = client.remember("The last!", uri=NOTES)
    assert (again.id, again.uri) == (last.id, THIRD)


def test_a_repeat_is_found_after_changes_by_others(client: MessageClient) -> None:
    """What a put, a move or a delete changed in an older file is compared as it is now."""
    full(client)
    full(client, SECOND, MOST_ENTRIES)
    assert client.remember("item 5", uri=NOTES).uri == NOTES
    client.put([Draft(NOTES, content=items(1, MOST_ENTRIES + 1).replace("item 5\n", "new\n"))])
    assert client.remember("New", uri=NOTES).uri == NOTES
    assert client.remember("item 5", uri=NOTES).uri == THIRD
    client.delete(SECOND)
    assert client.remember("item 200", uri=NOTES).uri == THIRD
    client.move(THIRD, SECOND)
    again = client.remember("Item 200", uri=NOTES)
    assert (again.outcome, again.uri) == (REINFORCED, SECOND)


def test_room_in_an_older_file_is_left(client: MessageClient) -> None:
    """Forgetting makes no older file grow again; an emptied last file is gone, and made again."""
    full(client)
    first, second, *_ = known(client)
    added = client.remember("more", uri=NOTES)
    client.forget(first)
    assert client.remember("even more", uri=NOTES).uri == SECOND
    client.forget(*known(client, SECOND))
    assert known(client, SECOND) == {}
    reply = client.remember("back in the first", uri=NOTES)
    assert (reply.outcome, reply.uri) == (ADDED, NOTES)
    assert reply.id > added.id
    assert client.remember("in the second", uri=NOTES).uri == SECOND
    client.forget(second)


def test_a_long_file_is_full_before_it_has_many_entries(client: MessageClient) -> None:
    """The characters of a file count, too, so that a file written by hand does not grow."""
    client.put([Draft(NOTES, content="- one\n\n" + "Words. " * (MOST_CHARACTERS // 7 + 1))])
    before = content(client)
    assert client.remember("two", uri=NOTES).uri == SECOND
    assert content(client) == before
    assert client.remember("One", uri=NOTES).uri == NOTES


def test_a_known_file_is_recalled_with_its_series(client: MessageClient) -> None:
    """The first path of a recall answers with all files in order, until the budget ends."""
    kind, uri = "preferences", f"{USER}/preferences.md"
    full(client, uri, title="Preferences")
    client.remember("Prefers tea.", kind)
    found = client.recall("my preferences", max_tokens=100_000)
    assert [m.uri for m in found.results] == [uri, f"{USER}/preferences/2.md"]
    assert {m.memory_type for m in found.results} == {"preferences"}
    assert "Prefers tea." in found.results[1].content
    cut = client.recall("my preferences", max_tokens=found.results[0].token_count + 3)
    assert len(cut.results) <= 2
    assert cut.total_tokens <= found.results[0].token_count + 3
    assert "cut to the budget" in cut.reason
    client.delete(uri)
    assert [m.uri for m in client.recall("my preferences").results] == [f"{USER}/preferences/2.md"]


def test_a_day_is_recalled_with_its_series(client: MessageClient) -> None:
    """The timeline has all files of a day, in their order, the newest day first."""
    today, day = NOW.date(), f"{USER}/journal/{NOW.date()}"
    yesterday = today - timedelta(days=1)
    client.put([Draft(f"{USER}/journal/{yesterday}.md", content="- the day before\n")])
    client.put([Draft(f"{day}/notes.md", content="- none of the journal\n")])
    full(client, f"{day}.md", title=str(today))
    for number in range(2, 11):
        full(client, f"{day}/{number}.md", number * MOST_ENTRIES, title=str(today))
    assert client.remember("happened today", "journal", time=NOW).uri == f"{day}/11.md"
    found = client.recall("what happened the past 2 days?", max_tokens=100_000, now=NOW)
    assert found.path == RecallPath.TIMELINE
    expected = [f"{day}.md", *(f"{day}/{number}.md" for number in range(2, 12))]
    assert [m.uri for m in found.results] == [*expected, f"{USER}/journal/{yesterday}.md"]


def test_forget_and_search_reach_each_file(client: MessageClient) -> None:
    """Memories of each file are found by a search, and forgotten by id one at a time."""
    full(client)
    added = client.remember("The harbour is closed.", uri=NOTES)
    assert "The harbour is closed." in recalled(client, "harbour")
    before = known(client)
    gone = client.forget(added.id, next(iter(before))).forgotten
    assert len(gone) == 2
    assert len(known(client)) == MOST_ENTRIES - 1
    assert known(client, SECOND) == {}
    assert verified(client)


def test_a_file_of_another_name_is_no_part(client: MessageClient) -> None:
    """Only files with a plain number from 2 on are parts of a series."""
    for name in ("1", "02", "x", "2/3", "0"):
        client.put([Draft(f"{USER}/notes/{name}.md", content="- apart\n")])
    assert client.remember("apart", uri=NOTES).uri == NOTES
    assert file_of(NOTES, 2) == SECOND
    assert [number_of(NOTES, u) for u in (NOTES, SECOND, f"{USER}/notes/12.md")] == [1, 2, 12]
    assert [number_of(NOTES, f"{USER}/{u}") for u in ("notes/02.md", "notes/2.txt", "x.md")] == [
        0,
        0,
        0,
    ]
    assert number_of("viking://user/memories/plain", "viking://user/memories/plain.d/2") == 2


# Changes of what is known


def in_files(*texts: list[str]) -> tuple[Series, dict[str, MemoryFile]]:
    """Return a series whose files have these entries, each with an id of its own."""
    ids, files = count(1), dict[str, MemoryFile]()
    for number, of_file in enumerate(texts, start=1):
        body, uri = (
            "# Notes\n\n" + "".join(f"- {text}\n" for text in of_file),
            file_of(NOTES, number),
        )
        entries = tuple(
            StoredEntry(uri, Entry(next(ids), time=1), i, p.section, p.start, p.end,
                        body[p.start : p.end])
            for i, p in enumerate(split(body, "x.md", entries=True), start=1)
        )  # fmt: skip
        files[uri] = MemoryFile(uri, "", "", body, "Notes", {}, 0, entries)
    keys = tuple((uri, Key(1, i, b"")) for i, uri in enumerate(files))
    return Series(NOTES, keys, files.get), files


def test_a_change_moves_contradicted_entries_within_their_files() -> None:
    """All contradicted entries of a series move below Earlier of their own files."""
    fill = [f"item {i}" for i in range(MOST_ENTRIES - 1)]
    series, files = in_files(
        ["The user lives in Oslo.", *fill], ["The user lives in Rome.", "Other."]
    )
    made = Changing(NOTES, "Notes", "The user lives in Lyon.", "", 2, 2)
    changes = made(series, count(1000).__next__)
    assert made.outcome is not None
    assert (made.outcome.did, made.outcome.uri) == (Remembered.REPLACED, SECOND)
    written = {one.prepared.draft.uri: one.prepared for one in changes if one.prepared}
    assert set(written) == {NOTES, SECOND}
    state = {
        uri: {
            entry.id: (is_earlier(text.section), made.draft.content[text.start : text.end])
            for ordinal, entry in made.entries.items()
            for text in made.texts
            if text.ordinal == ordinal
        }
        for uri, made in written.items()
    }
    assert state[NOTES].keys() == {one.entry.id for one in files[NOTES].entries}
    assert state[NOTES][1] == (True, "The user lives in Oslo.")
    assert state[SECOND] == {
        MOST_ENTRIES + 1: (True, "The user lives in Rome."),
        MOST_ENTRIES + 2: (False, "Other."),
        1000: (False, "The user lives in Lyon."),
    }


def test_a_full_file_does_not_grow_by_a_change() -> None:
    """The new answer to an entry of a full file goes to the next file, and the older one stays."""
    series, _ = in_files(
        ["The user lives in Oslo.", *(f"item {i}" for i in range(MOST_ENTRIES - 1))]
    )
    made = Changing(NOTES, "Notes", "The user lives in Lyon.", "", 2, 2)
    changes = made(series, count(1000).__next__)
    sizes = {one.prepared.draft.uri: len(one.prepared.entries) for one in changes if one.prepared}
    assert sizes == {NOTES: MOST_ENTRIES, SECOND: 1}


# Rights


def test_a_series_ends_where_the_right_to_write_does(tmp_path: Path) -> None:
    """A memory is refused if the caller may not write the next file, which stays hidden."""
    with opened(tmp_path) as world:
        fill(world)
        limited = caller(write=[NOTES])
        with pytest.raises(InvalidField, match=r"full and goes on in .*notes/2\.md, which the key"):
            world.remember(limited, "new", uri=NOTES)
        assert world.remember(limited, "item 3", uri=NOTES).outcome == REINFORCED
        whole = caller(write=[NOTES, f"{USER}/notes"])
        assert world.remember(whole, "secret", uri=NOTES).uri == SECOND
        with pytest.raises(InvalidField, match=r"goes on in .*notes/2\.md"):
            world.remember(limited, "secret", uri=NOTES)


def fill(world: World) -> None:
    """Put a full file."""
    world.put(NOTES, *(f"item {i}" for i in range(MOST_ENTRIES)))


# Known files


def test_known_files_take_a_bounded_space() -> None:
    """The files that were unused longest go first, and a file that is kept again counts once."""
    _, files = in_files(["one"], ["two"], ["three"])
    known = [Known(file) for file in files.values()]
    kept = KnownFiles(known[0].size + known[2].size)
    a, b, c = (Key(i, 1, b"") for i in range(3))
    kept.keep({a: known[0]})
    kept.keep({a: known[0], b: known[1]})
    kept.keep({a: known[0]})
    kept.keep({c: known[2]})
    assert kept.all().keys() == {a, c}


# The benchmark


@pytest.mark.deep
@pytest.mark.parametrize("sizes", [("3",), ("20", "300")])
def test_the_benchmark_measures_each_size(
    capsys: pytest.CaptureFixture[str], sizes: tuple[str, ...]
) -> None:
    """The benchmark prints a row for each number of entries, in both layouts."""
    for options in ([], ["--one-file"]):
        benchmark.main(["--entries", *sizes, "--rounds", "1", *options])
        _, *rows = capsys.readouterr().out.splitlines()
        assert [row.split()[0] for row in rows] == [*sizes]
