"""Memories of several passages: one id, one state, found by each part."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
    said,
    series_of,
    verified,
)
from vikingd.client import Draft, Passage
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Entry
from vikingd.domain.text import approximate_tokens
from vikingd.ingest.passages import default_passages
from vikingd.memory.entries import added, clean
from vikingd.memory.memory_file_changes import Remembering
from vikingd.memory.memory_types import MemoryFile, Remembered, StoredEntry

pytestmark = pytest.mark.stores

LONG = "\n\n".join(
    f"Part {part} of the voyage begins. " + f"The crew of the boat rows on, day {part}. " * 12
    for part in range(9)
).replace("Part 7 of", "Marzipan was eaten in part 7 of")
LONG = clean(LONG)


def test_a_long_text_is_one_memory_that_each_part_finds(client: MessageClient) -> None:
    """A text of several passages has one id; a repeat reinforces it, and Forget takes it whole."""
    client.remember("before", uri=NOTES)
    assert approximate_tokens(LONG) > 900
    reply = client.remember(LONG, uri=NOTES)
    assert reply.outcome == ADDED
    client.remember("after", uri=NOTES)
    assert said(client) == [("before", 0), (LONG, 0), ("after", 0)]
    passages = client.get(NOTES).context.passages
    assert len(passages) > 5
    assert [p.HasField("memory") for p in passages] == [not p.continues for p in passages]
    found = client.recall("marzipan", no_touch=True, max_tokens=100_000).results[0]
    assert (found.id, found.content, found.truncated) == (reply.id, LONG, False)
    found = client.recall("boat crew", no_touch=True, max_tokens=100_000).results
    assert [memory.id for memory in found].count(reply.id) == 1
    part = client.recall("marzipan", no_touch=True, max_tokens=300).results[0]
    assert (part.id, part.truncated) == (reply.id, True)
    assert "Marzipan" in part.content
    assert part.content in LONG
    again = client.remember(LONG.replace("Part 3", "Part *3*"), uri=NOTES)
    assert (again.outcome, again.id, again.reinforcement) == (REINFORCED, reply.id, 1)
    assert known(client)[reply.id] == (LONG.replace("Part 3", "Part *3*"), 1)
    client.reinforce(reply.id, by=4, used=[reply.id])
    assert client.get(NOTES).context.reinforcement == 5
    assert [m.content for m in client.forget(reply.id).forgotten] == [
        LONG.replace("Part 3", "Part *3*")
    ]
    assert content(client) == "# Notes\n\n- before\n- after\n"
    assert not recalled(client, "marzipan")
    assert verified(client)


def test_a_long_text_is_compared_by_its_whole_wording(client: MessageClient) -> None:
    """Long texts with equal beginnings are two memories, which keep their states in every write."""
    one = client.remember(LONG, uri=NOTES)
    other = client.remember(f"{LONG} The end.", uri=NOTES)
    assert (other.outcome, one.id == other.id) == (ADDED, False)
    client.reinforce(other.id, by=3)
    client.remember("new", uri=NOTES)
    assert list(known(client).values()) == [(LONG, 0), (f"{LONG} The end.", 3), ("new", 0)]
    short = client.remember("short", uri=NOTES)
    client.forget(one.id)
    assert known(client)[other.id] == (f"{LONG} The end.", 3)
    assert known(client)[short.id] == ("short", 0)
    assert verified(client)


def test_a_long_text_repeats_only_its_whole_wording() -> None:
    """A long text does not replace one with another end, or one whose words alone are equal."""
    assert len(LONG) > 1500
    for old, new in ((LONG, f"{LONG} More."), (LONG, f"Please {LONG}"), ("A word.", LONG)):
        content, passages, _ = added("", old, "", "T")
        at = (passages[0].start, passages[0].end)
        one = StoredEntry(NOTES, Entry(7), 1, "", *at, content[slice(*at)])
        for passage in passages[1:]:
            one = one.continued(passage.start, passage.end, content)
        file = MemoryFile(NOTES, "", "", content, "T", {}, 1, (one,))
        for text, did in ((new, Remembered.ADDED), (old, Remembered.REINFORCED)):
            made = Remembering(NOTES, "T", text, "", 5, 5)
            made.prepare(series_of(file), {})
            assert made(series_of(file), lambda: 8)
            assert made.outcome is not None
            assert made.outcome.did is did


def test_a_large_text_is_not_written_anew_in_a_transaction() -> None:
    """If its next file was taken since the comparison, nothing is written: it is tried again."""
    made = Remembering(NOTES, "T", "word " * 10_000, "", 5, 5)
    made.prepare(series_of(None), {})
    taken = series_of(MemoryFile(NOTES, "", "", "- a\n", "T", {}, 1, ()))
    assert made(taken, lambda: 8) == []
    assert made.outcome is None
    made.prepare(taken, {})
    assert len(made(taken, lambda: 8)) == 1
    assert made.outcome is not None
    assert made.outcome.uri == f"{USER}/notes/2.md"


@pytest.mark.parametrize("end", ["", "\n\n```\nx = 1\n\n----\n```", "\n\n***", " ..."])
@pytest.mark.parametrize("file", ["", "- a\n- b\n", "1. a\r\n2. b\r\n", "words\n\n    code\n"])
def test_a_long_text_stands_in_any_file(client: MessageClient, file: str, end: str) -> None:
    """A long text is written, shown and removed whole, whatever it ends with."""
    if file:
        client.put([Draft(NOTES, content=file)])
    before = list(known(client).values())
    reply = client.remember(LONG + end, uri=NOTES)
    assert known(client)[reply.id][0].rstrip(" .*`-") == (LONG + end).rstrip(" .*`-")
    assert len(known(client)) == len(before) + 1
    client.forget(reply.id)
    assert list(known(client).values()) == before
    assert verified(client)


def test_a_long_block_of_code_is_one_memory(client: MessageClient) -> None:
    """Code between fences is kept whole, although a fence alone says nothing."""
    code = "```py\n" + "".join(f"row_{row} = column * {row}\n" for row in range(400)) + "```"
    for text in (code, f"---\n\n{code}\n\n===", f"Say:\n\n{code}"):
        reply = client.remember(text, uri=NOTES)
        assert known(client)[reply.id][0] == clean(text)
    client.remember(code, uri=NOTES, pinned=True)
    assert "- 📌\n  ```py\n  row_0" in content(client)
    client.forget(*known(client))
    assert known(client) == {}


def test_a_hand_edit_of_a_file_keeps_long_memories(client: MessageClient) -> None:
    """A long item of a written file is one memory; it keeps its state while its beginning stays."""
    indented = LONG.replace("\n", "\n  ").replace("\n  \n", "\n\n")
    client.put([Draft(NOTES, content=f"- a\n- {indented}\n- b\n")])
    assert said(client) == [("a", 0), (LONG, 0), ("b", 0)]
    _, long, _ = known(client)
    client.reinforce(long, by=2)
    client.put([Draft(NOTES, content=f"- b\n- {indented} And home.\n- c\n")])
    assert list(known(client).values()) == [("b", 0), (f"{LONG} And home.", 2), ("c", 0)]
    assert list(known(client))[1] == long
    client.put([Draft(NOTES, content=f"- {indented}\n")])
    assert known(client) == {long: (LONG, 2)}
    assert verified(client)


def test_pieces_that_were_memories_of_their_own_stay_so(client: MessageClient) -> None:
    """A long item that its writer cut into memories keeps them when the daemon cuts the file."""
    indented = LONG.replace("\n", "\n  ").replace("\n  \n", "\n\n")
    text = f"- a\n- {indented}\n"
    cut = [replace(one, continues=False) for one in default_passages(NOTES, text)]
    client.put([Draft(NOTES, content=text, passages=cut)])
    before = known(client)
    assert len(before) == len(cut)
    client.reinforce(*before, by=2)
    before = known(client)
    client.put([Draft(NOTES, content=f"- new\n{text}")])
    after = known(client)
    assert {one: after[one] for one in before} == before
    assert len(after) == len(before) + 1
    assert verified(client)


def test_a_long_memory_moves_and_comes_back(client: MessageClient) -> None:
    """A long memory keeps its id among resources and back."""
    reply = client.remember(LONG, uri=NOTES, time=NOW)
    client.move(NOTES, "viking://resources/n.md")
    client.move("viking://resources/n.md", f"{USER}/n.md")
    assert known(client, f"{USER}/n.md") == {reply.id: (LONG, 0)}
    assert verified(client)


def test_a_passage_that_continues_nothing_is_refused(client: MessageClient) -> None:
    """The first passage, and a passage outside of memories, continue no memory."""
    rest = Passage("", 4, 7, continues=True)
    for uri, cut in ((NOTES, [rest]), ("viking://resources/n.md", [Passage("", 0, 3), rest])):
        fields = refused(client.put, [Draft(uri, content="one two", passages=cut)])[1]
        assert fields == [f"contexts[0].passages[{len(cut) - 1}].continues"]


def test_a_text_as_large_as_a_file_has_a_file_of_its_own(client: MessageClient) -> None:
    """A text longer than a full file is one memory in the next file; one of 2 MiB is refused."""
    client.remember("before", uri=NOTES)
    words = "The crew rows the boat to the harbour again. "
    text = clean(words * 3_000)
    reply = client.remember(text, uri=NOTES)
    assert reply.uri == f"{USER}/notes/2.md"
    assert client.remember(text, uri=NOTES).reinforcement == 1
    client.remember("after", uri=NOTES)
    assert said(client) == [("before", 0)]
    assert known(client, reply.uri) == {reply.id: (text, 1)}
    assert said(client, f"{USER}/notes/3.md") == [("after", 0)]
    for longer in (words * 47_000, "line\n" * 40_000):
        assert refused(client.remember, longer, uri=NOTES)[1] == ["text"]
    client.forget(reply.id)
    assert known(client, reply.uri) == {}


def last_passage(client: MessageClient) -> str:
    """Return the text of the last passage of the notes."""
    context = client.get(NOTES).context
    return context.content[context.passages[-1].start : context.passages[-1].end]


def test_forgetting_what_a_long_memory_repeats_leaves_it_whole(client: MessageClient) -> None:
    """A short memory goes, and a long one that ends with its text keeps its id and its passages."""
    client.remember(LONG, uri=NOTES)
    end = last_passage(client)
    client.delete(NOTES)
    short = client.remember(end, uri=NOTES)
    long = client.remember(LONG, uri=NOTES)
    assert (short.outcome, long.outcome, last_passage(client)) == (ADDED, ADDED, end)
    before = len(client.get(NOTES).context.passages)
    assert [memory.content for memory in client.forget(short.id).forgotten] == [end]
    assert known(client) == {long.id: (LONG, 0)}
    assert len(client.get(NOTES).context.passages) == before - 1
    assert verified(client)


def test_long_memories_that_begin_alike_are_all_recalled(client: MessageClient) -> None:
    """Two long memories whose first passage is the same text, and is found, are both returned."""
    texts = {
        f"Marzipan for all.\n\n{LONG.replace('Marzipan', 'Bread')}{end}" for end in ("", " Z.")
    }
    for text in texts:
        client.remember(text, uri=NOTES)
    assert recalled(client, "marzipan") == {clean(text) for text in texts}


def test_a_very_long_memory_hides_no_short_one(client: MessageClient) -> None:
    """The passages of one memory take no places of others, however many of them are found."""
    client.remember(
        "\n\n".join(f"Part {i}. " + "harbour boat " * 100 for i in range(60)), uri=NOTES
    )
    assert len(client.get(NOTES).context.passages) > 60
    short = "The key of the house hangs on a nail beside the door that leads to the harbour."
    client.remember(short, uri=NOTES)
    assert short in recalled(client, "harbour boat", top_k=20)
