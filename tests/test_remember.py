"""Remember, Reinforce and Forget over the wire: where a memory goes, what it meets, what stays."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from reader_helpers import serving as on_store

from vikingd.answer.forget import ForgetQuery, chosen, forgetting
from vikingd.client import ClientError, Draft, Passage, RecallPath
from vikingd.client.messages import MessageClient
from vikingd.ctl.demo import serving
from vikingd.domain.model import Entry
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.prepare import prepare
from vikingd.memory.entries import shown
from vikingd.memory.model import Salience
from vikingd.memory.same import normalized
from vikingd.models.embed.provider import EmbedSettings
from vikingd.pb.memories_pb2 import (
    REMEMBER_OUTCOME_ADDED,
    REMEMBER_OUTCOME_REINFORCED,
    RememberResponse,
)

USER = "viking://user/memories"
LAMP = "viking://projects/lamp/memories"
NOTES = f"{USER}/notes.md"
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)
ADDED, REINFORCED = REMEMBER_OUTCOME_ADDED, REMEMBER_OUTCOME_REINFORCED


@pytest.fixture
def client(client: MessageClient) -> Iterator[MessageClient]:
    """A client of the daemon, whose index and store agree afterwards."""
    yield client
    assert verified(client)


def verified(client: MessageClient) -> bool:
    """Whether index and store agree."""
    report = client.verify()
    assert report.ok, list(report.problems)
    return report.ok


def known(client: MessageClient, uri: str = NOTES) -> dict[int, tuple[str, int]]:
    """Text and reinforcement of a file's entries by their ids, in order."""
    try:
        context = client.get(uri).context
    except ClientError:
        return {}
    return {
        p.memory.id: (shown(context.content[p.start : p.end]), p.memory.reinforcement)
        for p in context.passages
    }


def said(client: MessageClient, uri: str = NOTES) -> list[tuple[str, int]]:
    """Text and reinforcement of a file's entries, in order."""
    return list(known(client, uri).values())


def content(client: MessageClient, uri: str = NOTES) -> str:
    """The Markdown of a file."""
    return client.get(uri).context.content


def recalled(client: MessageClient, query: str, **how: Any) -> set[str]:
    """The memories that a search returns."""
    how = {"without": SEARCH, "no_touch": True, "max_tokens": 100_000, "top_k": 500} | how
    return {memory.content for memory in client.recall(query, **how).results}


def refused(call: Any, *args: Any, **fields: Any) -> tuple[str, list[str]]:
    """Why a call is refused, and the fields at fault."""
    with pytest.raises(ClientError) as error:
        call(*args, **fields)
    return error.value.message, [violation.field for violation in error.value.field_violations]


# Where a memory goes

PLACES = [
    ("preferences", "", f"{USER}/preferences.md"),
    ("preferences", "lamp", f"{LAMP}/preferences.md"),
    ("instructions", "", f"{USER}/instructions.md"),
    ("instructions", "lamp", f"{LAMP}/instructions.md"),
    ("tasks", "", f"{USER}/tasks.md"),
    ("tasks", "lamp", f"{LAMP}/TASKS.md"),
    ("entities", "", f"{USER}/entities.md"),
    ("entities", "lamp", f"{LAMP}/entities.md"),
    ("decisions", "", "viking://agent/memories/decisions.md"),
    ("decisions", "lamp", f"{LAMP}/agent/decisions.md"),
    ("patterns", "", "viking://agent/memories/patterns.md"),
    ("patterns", "lamp", f"{LAMP}/agent/patterns.md"),
    ("journal", "", f"{USER}/journal/2026-03-10.md"),
    ("journal", "lamp", f"{LAMP}/journal/2026-03-10.md"),
    ("any-other_name2", "", f"{USER}/any-other_name2.md"),
    ("any-other_name2", "lamp", f"{LAMP}/any-other_name2.md"),
]


@pytest.mark.parametrize(("kind", "project", "uri"), PLACES)
def test_a_memory_goes_to_the_file_of_its_kind(
    client: MessageClient, kind: str, project: str, uri: str
) -> None:
    """Which is made where it is new, with a heading, and is recalled in its scope at once."""
    for text in ("Harbour 港口 one.", "Harbour 港口 two."):
        reply = client.remember(text, kind, project=project, time=NOW)
        assert (reply.outcome, reply.uri, reply.reinforcement) == (ADDED, uri, 0)
        assert text in recalled(client, "harbour", project=project)
        assert text in recalled(client, "港口", project=project)
        assert uri in str(client.find("harbour"))
    title, *_ = content(client, uri).split("\n")
    name = uri.rpartition("/")[2].removesuffix(".md")
    heading = name if kind == "journal" else name.replace("_", " ").replace("-", " ").capitalize()
    assert title == f"# {heading}"
    assert [text for text, _ in said(client, uri)] == ["Harbour 港口 one.", "Harbour 港口 two."]
    other = "" if project else "lamp"
    assert not recalled(client, "harbour", project=other)


def test_a_memory_goes_to_the_file_of_its_kind_that_is_there(client: MessageClient) -> None:
    """The recall reads the same one."""
    client.put([Draft(f"{LAMP}/decisions.md", content="- old\n")])
    assert client.remember("new", "decisions", project="lamp").uri == f"{LAMP}/decisions.md"
    reply = client.recall("decision", project="lamp")
    assert [memory.content for memory in reply.results] == ["- old\n- new\n"]


def test_a_journals_day_is_that_of_the_callers_time_zone(client: MessageClient) -> None:
    """And of the time that is given."""
    for zone, day in (("", 10), ("Pacific/Kiritimati", 11), ("America/Los_Angeles", 10)):
        reply = client.remember(f"in {zone or 'UTC'}", "journal", time=NOW, time_zone=zone)
        assert reply.uri == f"{USER}/journal/2026-03-{day}.md"
    night = NOW.replace(hour=3)
    reply = client.remember("night", "journal", time=night, time_zone="America/Los_Angeles")
    assert reply.uri == f"{USER}/journal/2026-03-09.md"
    assert client.remember("now", "journal").uri.endswith(f"{datetime.now(UTC):%Y-%m-%d}.md")
    assert [p.memory.time.ToDatetime(UTC) for p in client.get(reply.uri).context.passages] == [
        night
    ]


def test_a_memory_goes_to_the_file_that_is_named(client: MessageClient) -> None:
    """Below any root of memories, in place of scope and kind."""
    for uri in (NOTES, f"{LAMP}/deep/中 文.md", "viking://agent/memories/case.md"):
        assert client.remember("said", uri=uri).uri == uri
        assert said(client, uri) == [("said", 0)]


def test_a_memory_goes_below_its_section(client: MessageClient) -> None:
    """A new one at the end, one that is there in its place, in both languages; all else stays."""
    client.remember("first", uri=NOTES)
    client.remember("绿茶", uri=NOTES, section="饮食")
    client.remember("rowing", uri=NOTES, section="Sport")
    client.remember("红茶", uri=NOTES, section="饮食")
    client.remember("second", uri=NOTES)
    assert content(client) == (
        "# Notes\n\n- first\n- second\n\n## 饮食\n\n- 绿茶\n- 红茶\n\n## Sport\n\n- rowing\n"
    )
    (found,) = client.recall("红茶", without=SEARCH).results[:1]
    assert (found.content, found.section) == ("红茶", "Notes > 饮食")


def test_a_file_written_by_hand_keeps_its_form(client: MessageClient) -> None:
    """Front matter, line ends, markers, paragraphs and comments, and what is known of each."""
    hand = (
        "---\r\ntitle: x\r\n---\r\nA paragraph.\r\n\r\n* star\r\n<!-- mine -->\r\n\r\nThe end.\r\n"
    )
    client.put([Draft(NOTES, content=hand, title="x", metadata={"k": 1}, overview="o")])
    before = known(client)
    client.reinforce(*before, by=3)
    reply = client.remember("two\nlines", uri=NOTES)
    assert content(client) == hand.replace("* star\r\n", "* star\r\n* two\r\n  lines\r\n")
    assert {i: known(client)[i] for i in before} == {
        i: (text, 3) for i, (text, _) in before.items()
    }
    client.forget(reply.id)
    assert content(client) == hand
    assert known(client) == {i: (text, 3) for i, (text, _) in before.items()}
    context = client.get(NOTES).context
    assert (context.overview, context.title, dict(context.metadata)) == ("o", "x", {"k": 1})


def test_passages_that_a_writer_cut_stay_entries(client: MessageClient) -> None:
    """Remembering and forgetting cut nothing anew."""
    cut = [Passage("", 0, 3, entry=Entry(0, 4)), Passage("", 4, 7), Passage("", 8, 13)]
    client.put([Draft(NOTES, content="one\ntwo\nthree\n", passages=cut)])
    reply = client.remember("four", uri=NOTES)
    assert said(client) == [("one", 4), ("two", 0), ("three", 0), ("four", 0)]
    client.forget(next(i for i, (text, _) in known(client).items() if text == "two"), reply.id)
    assert said(client) == [("one", 4), ("three", 0)]


def test_what_an_abstract_alone_said_stays_a_memory(client: MessageClient) -> None:
    """It becomes an entry as soon as there are others, or when it is said again."""
    for uri, text, there in (
        (NOTES, "Likes rowing.", [("Likes tea.", 2), ("Likes rowing.", 0)]),
        (f"{USER}/b.md", "likes tea", [("likes tea", 3)]),
    ):
        for there_already in list(client.list()):
            client.delete(there_already.uri)
        client.put([Draft(uri, abstract="Likes tea.")])
        (found,) = (m for m in client.recall("tea", no_touch=True).results if m.uri == uri)
        client.reinforce(found.id, by=2)
        client.remember(text, uri=uri)
        assert said(client, uri) == there
        assert next(iter(known(client, uri))) == found.id
    long = "A sentence of an abstract. " * 60
    client.put([Draft(f"{USER}/c.md", abstract=long)])
    assert refused(client.remember, "x", uri=f"{USER}/c.md")[1] == ["text"]


def test_a_short_text_that_is_cut_anew_keeps_what_is_known_of_it(client: MessageClient) -> None:
    """Its first piece has it."""
    client.put([Draft(NOTES, content="# T\n\nfirst words\n\n## S\n\nmore words\n")])
    ((one, _),) = known(client).items()
    client.reinforce(one, by=5)
    client.remember("new", uri=NOTES)
    assert said(client) == [("first words", 5), ("new", 0), ("more words", 0)]


# Said again


def test_what_is_said_again_is_reinforced(client: MessageClient) -> None:
    """Whatever its case, white space and punctuation; the newer wording stays under the old id."""
    wordings = [
        "Likes green tea.",
        "likes  GREEN tea",
        "**Likes green tea**!",
        "「Likes green tea」",
    ]
    first = client.remember(wordings[0], uri=NOTES, section="Drinks")
    for times, wording in enumerate(wordings[1:], start=1):
        reply = client.remember(wording, uri=NOTES)
        assert (reply.outcome, reply.id) == (REINFORCED, first.id)
        assert (reply.met, reply.similarity) == (wordings[times - 1], 1.0)
        assert reply.reinforcement == times
        assert known(client) == {first.id: (wording, times)}
    assert "## Drinks\n\n- 「Likes" in content(client)
    for wording in ("喜欢绿茶。", "喜欢绿茶！", "喜欢绿茶"):
        reply = client.remember(wording, uri=f"{USER}/zh.md")
    assert said(client, f"{USER}/zh.md") == [("喜欢绿茶", 2)]
    assert recalled(client, "绿茶") == {"喜欢绿茶"}


@pytest.mark.parametrize("year", [1, 9999])
def test_what_is_no_journal_may_be_said_in_any_year(client: MessageClient, year: int) -> None:
    """Only a journal has to know the day, which a time zone may shift out of the calendar."""
    said_at = datetime(year, 6, 1, tzinfo=UTC)
    for place in ({"memory_type": "notes"}, {"uri": f"{USER}/other.md"}):
        uri = client.remember("x", **place, time=said_at).uri
        (passage,) = client.get(uri).context.passages
        assert passage.memory.time.ToDatetime(UTC) == said_at


def test_an_older_time_replaces_no_newer_wording(client: MessageClient) -> None:
    """It counts, and the time stays that of the newest."""
    first = client.remember("Likes tea.", uri=NOTES, time=NOW)
    older = client.remember("LIKES TEA", uri=NOTES, time=NOW - timedelta(days=9))
    assert (older.outcome, older.id, older.reinforcement) == (REINFORCED, first.id, 1)
    assert said(client) == [("Likes tea.", 1)]
    (passage,) = client.get(NOTES).context.passages
    assert passage.memory.time.ToDatetime(UTC) == NOW
    client.remember("likes tea!", uri=NOTES, time=NOW + timedelta(days=1))
    assert said(client) == [("likes tea!", 2)]


def test_a_time_before_1970_is_one_like_others(client: MessageClient) -> None:
    """The newer of two such has its wording kept."""
    then = datetime(1950, 1, 1, tzinfo=UTC)
    client.remember("Was born.", uri=NOTES, time=then)
    client.remember("was born", uri=NOTES, time=then + timedelta(days=1))
    assert said(client) == [("was born", 1)]


def test_in_another_file_it_is_another_memory(client: MessageClient) -> None:
    """Only the same file is compared."""
    one, two = (client.remember("Likes tea.", uri=f"{USER}/{name}.md") for name in "ab")
    assert (one.outcome, two.outcome) == (ADDED, ADDED)
    assert one.id != two.id


@pytest.mark.parametrize("hand", ["Likes tea.\n", "# Likes tea\n", "- a\n\nLikes tea.\n\n- b\n"])
def test_what_stands_in_no_list_can_be_said_again(client: MessageClient, hand: str) -> None:
    """A paragraph becomes an entry; a heading stays and the reply says so."""
    client.put([Draft(NOTES, content=hand)])
    client.reinforce(*known(client), by=2)
    reply = client.remember("LIKES TEA!", uri=NOTES)
    assert (reply.outcome, reply.reinforcement) == (REINFORCED, 3)
    wording = "Likes tea" if hand.startswith("#") else "LIKES TEA!"
    assert (wording, 3) in said(client)
    assert bool(reply.degraded) == hand.startswith("#")
    assert wording in recalled(client, "tea")


def test_64_equal_calls_at_once_leave_one_entry(client: MessageClient) -> None:
    """One adds it, 63 reinforce it."""
    client.remember("something else", uri=NOTES)
    replies = at_once(client, ["Likes green tea."] * 64)
    assert sorted(reply.reinforcement for reply in replies) == list(range(64))
    assert [reply.outcome for reply in replies].count(ADDED) == 1
    assert len({reply.id for reply in replies}) == 1
    assert said(client) == [("something else", 0), ("Likes green tea.", 63)]


def test_64_different_calls_at_once_are_all_kept(client: MessageClient) -> None:
    """Each as an entry of its own, found as soon as it is answered."""
    texts = [f"Harbour note number {i}." for i in range(64)]
    replies = at_once(client, texts)
    assert len({reply.id for reply in replies}) == 64
    assert sorted(said(client)) == sorted((text, 0) for text in texts)
    assert recalled(client, "harbour") == set(texts)


def at_once(client: MessageClient, texts: list[str]) -> list[RememberResponse]:
    """What calls come to that begin together; each text is recalled right after its answer."""
    begin = threading.Barrier(len(texts))

    def remember(text: str) -> RememberResponse:
        begin.wait()
        reply = client.remember(text, uri=NOTES)
        assert text in recalled(client, text)
        return reply

    with ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(remember, texts))


def test_nothing_is_lost_where_others_put_the_same_file(client: MessageClient) -> None:
    """A put replaces what it was made of; what is remembered after it stays, and so do counters."""
    client.remember("kept", uri=NOTES)
    kept, done = next(iter(known(client))), threading.Event()
    client.reinforce(kept, by=7)

    def put_by_hand() -> None:
        number = 0
        while not done.is_set():
            number += 1
            client.put([Draft(f"{USER}/hand.md", content=f"- by hand {number}\n- kept too\n")])
            text = content(client)
            lines = [line for line in text.split("\n") if "kept" in line or "Notes" in line]
            client.put([Draft(NOTES, content="\n\n".join([*lines, f"by hand {number}"]))])

    with ThreadPoolExecutor(1) as pool:
        hand = pool.submit(put_by_hand)
        for number in range(40):
            reply = client.remember(f"kept {number}", uri=f"{USER}/hand.md")
            assert reply.outcome == ADDED
            again = client.remember("kept", uri=NOTES)
            assert (again.id, again.reinforcement) == (kept, 8 + number)
        done.set()
        hand.result()
    last = client.remember("the last", uri=NOTES)
    assert known(client)[kept] == ("kept", 47)
    assert last.id in known(client)


def test_an_edit_by_hand_keeps_what_is_known(client: MessageClient) -> None:
    """Of texts that are unchanged, also where their lines end or are indented otherwise."""
    client.remember("one\ntwo", uri=NOTES, time=NOW)
    client.remember("three", uri=NOTES, time=NOW)
    before = known(client)
    client.reinforce(*before, by=4)
    hand = content(client).replace("- three", "- three\n- by hand").replace("\n", "\r\n")
    client.put([Draft(NOTES, content=hand.replace("  two", "     two"))])
    assert said(client) == [("one\ntwo", 4), ("three", 4), ("by hand", 0)]
    assert list(known(client))[:2] == list(before)


def test_a_full_file_refuses_one_more(client: MessageClient) -> None:
    """By the number of its entries or by its size; nothing is changed."""
    client.put([Draft(NOTES, content="- entry\n" * 4096)])
    message, fields = refused(client.remember, "one more", uri=NOTES)
    assert (fields, "4,096 passages" in message) == (["text"], True)
    revision = client.stats().revision
    large = "- " + "中" * 300 + "\n"
    count = (2 << 20) // len(large.encode())
    client.put([Draft(f"{USER}/large.md", content=large * count)])
    message, fields = refused(client.remember, "文" * 300, uri=f"{USER}/large.md")
    assert (fields, "2,097,152 bytes" in message) == (["text"], True)
    assert client.stats().revision == revision + 1


# Reinforcing


def test_reinforcing_raises_each_by_as_much(client: MessageClient) -> None:
    """By one where nothing is said; the reply tells them in the request's order."""
    one, two = (client.remember(text, uri=NOTES).id for text in ("a", "b"))
    assert list(client.reinforce(two, one).reinforcements) == [1, 1]
    assert list(client.reinforce(two, by=5).reinforcements) == [6]
    assert list(client.reinforce(two, one, by=0).reinforcements) == [7, 2]
    assert said(client) == [("a", 2), ("b", 7)]


def test_a_memory_that_was_moved_away_is_none_until_it_is_back(client: MessageClient) -> None:
    """Among resources it is not recalled, reinforced or forgotten; back, it is what it was."""
    reply = client.remember("The harbour.", uri=NOTES)
    client.reinforce(reply.id, by=4)
    client.move(NOTES, "viking://resources/notes.md")
    assert not recalled(client, "harbour")
    for call in (client.reinforce, client.forget):
        message, fields = refused(call, reply.id)
        assert (message, fields) == (f"ids[0]: there is no memory {reply.id}", [])
    client.move("viking://resources/notes.md", f"{LAMP}/notes.md")
    assert known(client, f"{LAMP}/notes.md") == {reply.id: ("The harbour.", 4)}
    assert recalled(client, "harbour", project="lamp") == {"The harbour."}


# Forgetting


def test_forgetting_by_ids(client: MessageClient) -> None:
    """The right one of two equal texts goes, the others keep what is known; no id comes again."""
    client.put([Draft(NOTES, content="# T\n\n## A\n\n- x\n\n## B\n\n- y\n- y\n- z\n")])
    x, one, two, z = known(client)
    client.reinforce(two, by=5)
    client.reinforce(z, by=2)
    reply = client.forget(one)
    assert [(m.id, m.content, m.uri, m.section) for m in reply.forgotten] == [
        (one, "y", NOTES, "T > B")
    ]
    assert known(client) == {x: ("x", 0), two: ("y", 5), z: ("z", 2)}
    client.forget(x)
    assert known(client) == {two: ("y", 5), z: ("z", 2)}
    assert content(client) == "# T\n\n## A\n\n## B\n\n- y\n- z\n"
    client.forget(z, two)
    assert refused(client.get, NOTES)[0].endswith("does not exist")
    assert client.remember("x", uri=NOTES).id > z


def test_what_is_forgotten_is_returned_no_more(client: MessageClient) -> None:
    """Not by the request that follows, nor while others are answered."""
    for number in range(30):
        reply = client.remember(f"Harbour word{number}.", uri=NOTES)
        assert recalled(client, f"word{number}") == {f"Harbour word{number}."}
        assert len(client.forget(reply.id).forgotten) == 1
        assert not recalled(client, f"word{number}")
        assert f"word{number}" not in str(client.find(f"word{number}"))
        assert known(client) == {}


def test_one_of_several_texts_in_a_plain_file_goes_alone(client: MessageClient) -> None:
    """What looks like a heading there says something."""
    words = " word" * 250
    text = f"# one{words}\n\n# two{words}\n"
    client.put([Draft(f"{USER}/n.txt", content=text), Draft(f"{USER}/n.py", content=text)])
    for uri in (f"{USER}/n.txt", f"{USER}/n.py"):
        before = known(client, uri)
        client.forget(next(iter(before)))
        assert known(client, uri) == dict(list(before.items())[1:])
        client.forget(*known(client, uri))
        assert refused(client.get, uri)[0].endswith("does not exist")


def test_a_heading_that_is_a_memory_stays_where_others_go(client: MessageClient) -> None:
    """Only what is asked for goes."""
    client.put([Draft(NOTES, content="# A\n\n- x\n\n# Likes tea\n")])
    x, tea = known(client)
    client.forget(x)
    assert list(known(client)) == [tea]
    assert recalled(client, "tea") == {"Likes tea"}


@pytest.mark.parametrize("mute", ["", "***\n", "<!-- mine -->\n"])
def test_a_memory_that_is_an_abstract_goes_with_its_file(client: MessageClient, mute: str) -> None:
    """Whatever signs the file has."""
    client.put([Draft(NOTES, abstract="Likes tea.", content=mute)])
    (found,) = client.recall("tea", no_touch=True).results
    client.forget(found.id)
    assert not recalled(client, "tea")
    assert refused(client.get, NOTES)[0].endswith("does not exist")


def test_forgetting_leaves_an_abstract_that_a_put_gave(client: MessageClient) -> None:
    """One that came from the content is made anew."""
    other, text = f"{USER}/other.md", "- Likes tea.\n- Likes rowing.\n"
    client.put([Draft(NOTES, abstract="Pastimes, tea among them.", content=text)])
    client.put([Draft(other, content=text)])
    assert "tea" in client.get(other).context.abstract
    for uri in (NOTES, other):
        client.forget(next(iter(known(client, uri))))
        assert said(client, uri) == [("Likes rowing.", 0)]
    assert client.get(NOTES).context.abstract == "Pastimes, tea among them."
    assert "tea" not in client.get(other).context.abstract
    assert NOTES in str(client.find("pastimes"))


def test_forgetting_by_criteria(client: MessageClient) -> None:
    """By age, by salience, or what both apply to, in a scope; a dry run only tells."""
    texts = ("old weak", "old strong", "new weak", "new strong")
    for text in texts:
        days = 100 if "old" in text else 0
        reply = client.remember(text, uri=NOTES, time=NOW - timedelta(days=days))
        if "strong" in text:
            client.reinforce(reply.id, by=9)
    client.remember("old weak", "notes", project="lamp", time=NOW - timedelta(days=100))
    aged = {"older_than": NOW - timedelta(days=30)}
    weak = {"below_salience": 0.5, "now": NOW}

    def would(**criteria: Any) -> list[tuple[str, str]]:
        revision = client.stats().revision
        reply = client.forget(dry_run=True, **criteria)
        assert reply.revision == client.stats().revision == revision
        return [(m.uri, m.content) for m in reply.forgotten]

    assert would(**aged) == [(NOTES, "old weak"), (NOTES, "old strong")]
    assert would(**weak) == [(NOTES, "old weak"), (NOTES, "old strong"), (NOTES, "new weak")]
    assert would(**aged, below_salience=0.3, now=NOW) == [(NOTES, "old weak")]
    assert would(**aged, project="lamp") == [(f"{LAMP}/notes.md", "old weak")]
    assert len(would(**aged, project="lamp", with_global=True)) == 3
    assert would(older_than=NOW - timedelta(days=200)) == []
    scores = client.forget(dry_run=True, below_salience=1.0, now=NOW).forgotten
    assert all(0 <= memory.score < 1 for memory in scores)
    done = client.forget(**aged, below_salience=0.3, now=NOW)
    assert [m.content for m in done.forgotten] == ["old weak"]
    assert [text for text, _ in said(client)] == ["old strong", "new weak", "new strong"]
    assert said(client, f"{LAMP}/notes.md") == [("old weak", 0)]
    client.forget(older_than=NOW + timedelta(days=1))
    assert known(client) == {}


def test_what_criteria_forget_is_told_by_uri_and_place(client: MessageClient) -> None:
    """Whatever root it lies below, and also where it would only go."""
    files = (f"{USER}/a.md", f"{LAMP}/b.md", "viking://agent/memories/c.md")
    client.put([Draft(uri, content="- one\n- two\n") for uri in files])
    everything = {"older_than": NOW + timedelta(days=9999), "project": "lamp", "with_global": True}
    for dry_run in (True, False):
        forgotten = client.forget(dry_run=dry_run, **everything).forgotten
        assert [(m.uri, m.content) for m in forgotten] == [
            (uri, text) for uri in sorted(files) for text in ("one", "two")
        ]


def test_forgetting_what_is_old_leaves_what_is_said_again_and_misses_nothing_that_moves(
    client: MessageClient,
) -> None:
    """However the calls meet: what is acknowledged as said again later is there, or was told."""
    for turn in range(15):
        uri, other = f"{USER}/a{turn}.md", f"{USER}/b{turn}.md"
        long_ago = NOW - timedelta(days=999)
        moving = client.remember("moving", uri=uri, time=long_ago)
        old = client.remember("old", uri=other, time=long_ago)
        with ThreadPoolExecutor(3) as pool:
            again = pool.submit(client.remember, "Old!", uri=other)
            pool.submit(client.move, uri, f"{USER}/c{turn}.md").exception()
            gone = pool.submit(client.forget, older_than=NOW - timedelta(days=900)).result()
        forgotten = {memory.id for memory in gone.forgotten}
        there = {
            **known(client, uri),
            **known(client, other),
            **known(client, f"{USER}/c{turn}.md"),
        }
        assert (moving.id in forgotten) == (moving.id not in there)
        assert again.result().id in there or (
            old.id in forgotten
            and again.result().id == old.id
            and again.result().revision < gone.revision
        ), turn
        assert not (again.result().id in forgotten and again.result().outcome == REINFORCED)


def test_what_is_said_again_or_moves_while_criteria_are_looked_at(tmp_path: Path) -> None:
    """What was said again since stays, what moved goes where it is, and the others go."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    for name in ("again", "moved", "old"):
        draft = Draft(f"{USER}/{name}.md", content=f"- {name}\n", time=1)
        engine.put([prepare(draft)]).result()
    query = ForgetQuery(now=9, older_than=5)
    found = chosen(engine, query, Salience())
    again, moved, old = (memory.entry.id for memory in found)
    engine.reinforce([again], 1).result()
    engine.move(f"{USER}/moved.md", f"{USER}/elsewhere.md").result()
    forgotten = forgetting(query, found)
    engine.rewrite_holders([again, moved, old], forgotten, all_there=False).result()
    assert forgotten.gone == {moved, old}
    assert [stored.entry.id for stored in engine.store.memories_below(USER)] == [again]
    assert engine.verify().ok
    engine.close()


# Refusals

WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("remember", ("", "notes"), {}, "text"),
    ("remember", (" \n---\n", "notes"), {}, "text"),
    ("remember", ("a\0b", "notes"), {}, "text"),
    ("remember", ("word " * 400, "notes"), {}, "text"),
    ("remember", ("x",), {}, "memory_type"),
    ("remember", ("x", "Notes"), {}, "memory_type"),
    ("remember", ("x", "no/tes"), {}, "memory_type"),
    ("remember", ("x", "n" * 65), {}, "memory_type"),
    ("remember", ("x", "directory"), {}, "memory_type"),
    ("remember", ("x", "notes"), {"section": "A > B"}, "section"),
    ("remember", ("x", "notes"), {"section": "*A*"}, "section"),
    ("remember", ("x", "notes"), {"section": "a\nb"}, "section"),
    ("remember", ("x", "notes"), {"project": "a/b"}, "scope.project"),
    ("remember", ("x", "notes"), {"project": ".."}, "scope.project"),
    ("remember", ("x",), {"uri": "viking://resources/a.md"}, "uri"),
    ("remember", ("x",), {"uri": f"{USER}/a.txt"}, "uri"),
    ("remember", ("x",), {"uri": USER}, "uri"),
    ("remember", ("x",), {"uri": "notes.md"}, "uri"),
    ("remember", ("x",), {"uri": f"{USER}/directory.md"}, "uri"),
    ("remember", ("x",), {"uri": f"{USER}/kept.md/below.md"}, "uri"),
    ("remember", ("x",), {"uri": f"{USER}/open.md"}, "text"),
    ("remember", ("x", "journal"), {"time_zone": "Mars/Olympus"}, "time_zone"),
    ("remember", ("x", "journal"), {"time": datetime(1, 1, 2, tzinfo=UTC)}, "time"),
    ("reinforce", (), {}, "ids"),
    ("reinforce", (0,), {}, "ids[0]"),
    ("reinforce", (1 << 63,), {}, "ids[0]"),
    ("reinforce", (1, 1), {}, "ids[1]"),
    ("reinforce", (1,), {"by": 1_000_001}, "by"),
    ("reinforce", tuple(range(1, 1002)), {}, "ids"),
    ("forget", (), {}, "ids"),
    ("forget", (0,), {}, "ids[0]"),
    ("forget", (1, 2, 1), {}, "ids[2]"),
    ("forget", (1,), {"older_than": NOW}, "ids"),
    ("forget", tuple(range(1, 1002)), {}, "ids"),
    ("forget", (), {"below_salience": 0.0}, "below_salience"),
    ("forget", (), {"below_salience": 1.5}, "below_salience"),
    ("forget", (), {"below_salience": float("nan")}, "below_salience"),
    ("forget", (), {"below_salience": 0.5, "project": "a/b"}, "scope.project"),
    ("forget", (), {"below_salience": 0.5, "now": datetime(1, 1, 2, tzinfo=UTC)}, "now"),
]


@pytest.mark.parametrize(("call", "args", "fields", "field"), WRONG, ids=range(len(WRONG)))
def test_a_bad_request_is_refused_by_its_field(
    client: MessageClient, call: str, args: tuple[Any, ...], fields: dict[str, Any], field: str
) -> None:
    """And changes nothing."""
    client.put(
        [
            Draft(f"{USER}/kept.md", content="- kept\n"),
            Draft(f"{USER}/directory.md/x.md", content="- x\n"),
            Draft(f"{USER}/open.md", content="```\nnever closed\n"),
        ]
    )
    revision = client.stats().revision
    assert refused(getattr(client, call), *args, **fields)[1] == [field]
    assert client.stats().revision == revision


def test_an_id_that_is_not_there_is_not_found_and_nothing_is_changed(client: MessageClient) -> None:
    """Nor where others of the request are there."""
    reply = client.remember("said", uri=NOTES)
    for call in (client.reinforce, client.forget):
        with pytest.raises(ClientError) as error:
            call(reply.id, 987_654_321)
        assert error.value.reason == "NOT_FOUND"
        assert error.value.message == "ids[1]: there is no memory 987654321"
    assert known(client) == {reply.id: ("said", 0)}


# By meaning


@pytest.fixture(scope="module")
def thinking() -> Iterator[MessageClient]:
    """A client of a daemon with its embedder."""
    with serving("--provider", "e5", quiet=True) as where, MessageClient(where) as made:
        yield made


SAME = [
    ("The user likes green tea.", "The user really likes green tea."),
    ("Please keep answers short.", "Keep answers short"),
    ("The weekly review is on Friday.", "On Friday the weekly review is."),
    ("用户喜欢绿茶。", "用户很喜欢绿茶"),
]
OTHER = [
    ("Alice owes Bob 20 euros.", "Bob owes Alice 20 euros."),
    ("The user likes green tea.", "The user likes black tea."),
    ("The meeting is on Monday.", "The meeting is on Tuesday."),
    ("用户喜欢绿茶。", "用户不喜欢绿茶。"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_means_the_same_is_reinforced(thinking: MessageClient, one: str, other: str) -> None:
    """The reply says what it met and how near that is; the new wording is found by meaning."""
    uri = f"{USER}/same-{SAME.index((one, other))}.md"
    first = thinking.remember(one, uri=uri)
    reply = thinking.remember(other, uri=uri)
    assert (reply.outcome, reply.id, reply.reinforcement) == (REINFORCED, first.id, 1)
    assert reply.met == one
    assert 0.9 < reply.similarity <= 1
    assert known(thinking, uri) == {first.id: (other, 1)}
    assert not [*first.degraded, *reply.degraded]
    assert other in recalled(thinking, one)
    assert verified(thinking)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_is_near_but_another_fact_stays_apart(
    thinking: MessageClient, one: str, other: str
) -> None:
    """The reply names the near one; who asks for `exact` gets no comparison by meaning."""
    uri = f"{USER}/other-{OTHER.index((one, other))}.md"
    thinking.remember(one, uri=uri)
    reply = thinking.remember(other, uri=uri)
    assert (reply.outcome, reply.reinforcement) == (ADDED, 0)
    if reply.met:
        assert reply.met == one
        assert 0.9 < reply.similarity < 1
    assert said(thinking, uri) == [(one, 0), (other, 0)]
    assert verified(thinking)


def test_a_near_wording_is_named(thinking: MessageClient) -> None:
    """So that the caller may decide."""
    thinking.remember("Alice owes Bob 20 euros.", uri=f"{USER}/owes.md")
    reply = thinking.remember("Bob owes Alice 20 euros.", uri=f"{USER}/owes.md")
    assert reply.met == "Alice owes Bob 20 euros."
    assert 0.97 <= reply.similarity < 1


def test_an_exact_one_is_compared_by_its_wording(thinking: MessageClient) -> None:
    """And gets its vector behind the answer."""
    uri = f"{USER}/exact.md"
    thinking.remember("The user likes green tea.", uri=uri, exact=True)
    assert (
        thinking.remember("The user really likes green tea.", uri=uri, exact=True).outcome == ADDED
    )
    assert thinking.remember("the user likes GREEN tea", uri=uri, exact=True).outcome == REINFORCED
    deadline = time.monotonic() + 20
    while thinking.stats().embedder.backlog:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert verified(thinking)


def test_the_same_meaning_in_another_file_is_another_memory(thinking: MessageClient) -> None:
    """As with wordings."""
    thinking.remember("The user plays chess.", uri=f"{USER}/one.md")
    assert thinking.remember("The user plays chess!", uri=f"{USER}/two.md").outcome == ADDED


def test_many_wordings_of_one_meaning_at_once_leave_one_entry(thinking: MessageClient) -> None:
    """The comparison is made where the file is written."""
    uri = f"{USER}/at-once.md"
    texts = ["The user likes tea.", "The user really likes tea.", "The user enjoys tea."] * 4

    patient = thinking.with_timeout(120)  # all of them are embedded, on a machine that may be busy
    with ThreadPoolExecutor(len(texts)) as pool:
        replies = list(pool.map(lambda text: patient.remember(text, uri=uri), texts))
    assert not any(reply.degraded for reply in replies)
    assert [reply.outcome for reply in replies].count(ADDED) == 1
    ((_, times),) = said(thinking, uri)
    assert times == len(texts) - 1
    assert verified(thinking)


def test_the_threshold_can_be_configured(tmp_path: Path) -> None:
    """Then the cosine alone decides."""
    config = tmp_path / "config.toml"
    config.write_text("[recall]\nsame_meaning = 0.5\n")
    with (
        serving("--provider", "e5", "--config", str(config), quiet=True) as where,
        MessageClient(where) as client,
    ):
        client.remember("The user likes green tea.", uri=NOTES)
        reply = client.remember("The user likes black tea.", uri=NOTES)
        assert (reply.outcome, reply.met) == (REINFORCED, "The user likes green tea.")
        assert said(client) == [("The user likes black tea.", 1)]
        assert verified(client)


@pytest.mark.parametrize("threshold", [0.0, 0.9])
def test_without_its_embedder_a_daemon_remembers_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: float
) -> None:
    """Where it can't be reached, and where it is not known what means the same to its model."""
    config = tmp_path / "config.toml"
    config.write_text(
        f'[recall]\nsame_meaning = {threshold}\n[embedding]\nprovider = "openai"\n'
        'openai_model = "m"\nopenai_base_url = "http://127.0.0.1:1/v1"\ndimension = 8\n'
        "retries = 0\n"
    )
    monkeypatch.delenv("VIKINGD_EMBEDDING__PROVIDER", raising=False)
    with serving("--config", str(config), quiet=True) as where, MessageClient(where) as client:
        for text, outcome in (("Likes tea.", ADDED), ("likes TEA", REINFORCED)):
            reply = client.remember(text, uri=NOTES)
            assert reply.outcome == outcome
        first = client.remember("Likes rowing.", uri=NOTES)
        (note,) = first.degraded
        assert "wordings alone were compared" in note.detail
        assert ("can't be reached" if threshold else "recall.same_meaning") in note.detail
        assert "Likes rowing." in recalled(client, "rowing")
        assert verified(client)


def test_a_daemon_that_has_no_embedder_compares_wordings(client: MessageClient) -> None:
    """It was configured so, and says nothing of it."""
    client.remember("The user likes green tea.", uri=NOTES)
    reply = client.remember("The user really likes green tea.", uri=NOTES)
    assert (reply.outcome, list(reply.degraded), reply.met) == (ADDED, [], "")


# Restarts, readers


def test_a_restart_and_a_kill_keep_all_that_was_answered(tmp_path: Path) -> None:
    """Ids, wordings, counters and order; an id of what was forgotten is not given again."""
    with on_store(tmp_path) as daemon:
        for text in ("a", "b", "c", "A!", "d"):
            last = daemon.client.remember(text, uri=NOTES)
        daemon.client.forget(last.id)
        before = known(daemon.client)
        assert list(before.values()) == [("A!", 1), ("b", 0), ("c", 0)]
        daemon.kill()
    with on_store(tmp_path) as daemon:
        assert known(daemon.client) == before
        assert verified(daemon.client)
    with on_store(tmp_path) as daemon:
        assert known(daemon.client) == before
        assert daemon.client.remember("e", uri=NOTES).id > last.id
        assert verified(daemon.client)


def test_a_reader_recalls_and_refuses_to_remember(tmp_path: Path) -> None:
    """It counts no access and says so, and names its writer, also for what it can't know yet."""
    with on_store(tmp_path, "--writer-listen", "127.0.0.1:0") as writer:
        reply = writer.client.remember("The harbour.", uri=NOTES)
        with on_store(tmp_path, "--reader", "--writer-listen", writer.alone) as reader:
            found = reader.client.recall("harbour", min_revision=reply.revision)
            assert [memory.content for memory in found.results] == ["The harbour."]
            assert "accesses are not counted" in found.degraded[-1].detail
            client = reader.client
            for call, args in (
                (client.remember, ("x", "notes")),
                (client.reinforce, (reply.id,)),
                (client.forget, (reply.id,)),
                (client.forget, (987_654_321,)),
            ):
                with pytest.raises(ClientError) as error:
                    call(*args)
                assert error.value.reason == "READ_ONLY"
                assert writer.alone in error.value.message
            (would,) = client.forget(reply.id, dry_run=True).forgotten
            assert would.content == "The harbour."
            gone = writer.client.forget(reply.id)
            assert not client.recall("harbour", min_revision=gone.revision).results
        assert verified(writer.client)


# Any sequence of all of them

WORDINGS = ("Alpha tea.", "alpha TEA", "Beta tea", "Beta tea!", "γ 茶", "delta\ntea", "Epsilon tea")
NAMES = [f"{USER}/{name}.md" for name in "pqr"]
AWAY = "viking://resources/away.md"


def test_any_sequence_leaves_what_a_dict_would(tmp_path: Path) -> None:
    """Text and reinforcement of each entry, by file, through edits, moves, deletes and restarts."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    files: dict[str, dict[int, tuple[str, int]]] = {}
    seen: set[int] = set()
    for part in range(3):
        with on_store(tmp_path) as daemon:
            for _ in range(45):
                step(daemon.client, draw, files, seen)
            for uri in (*NAMES, AWAY):
                assert known(daemon.client, uri) == files.get(uri, {}), uri
            there = {text for uri in NAMES for text, _ in files.get(uri, {}).values()}
            assert recalled(daemon.client, "tea 茶") == there
            assert verified(daemon.client)
            if part % 2:
                daemon.kill()


def step(
    client: MessageClient,
    draw: random.Random,
    files: dict[str, dict[int, tuple[str, int]]],
    seen: set[int],
) -> None:
    """One call, and what a dict comes to by it."""
    uri = draw.choice(NAMES)
    there = files.get(uri, {})
    match draw.choice(
        ["remember", "remember", "remember", "reinforce", "forget", "hand", "move", "delete"]
    ):
        case "remember":
            text = draw.choice(WORDINGS)
            reply = client.remember(text, uri=uri)
            same = [i for i, (old, _) in there.items() if normalized(old) == normalized(text)]
            assert bool(same) == (reply.outcome == REINFORCED)
            if same:
                assert reply.id == same[0]
                there[same[0]] = (text, there[same[0]][1] + 1)
            else:
                assert reply.id > max(seen, default=0)
                seen.add(reply.id)
                files.setdefault(uri, there)[reply.id] = (text, 0)
        case "reinforce" if there:
            ids = draw.sample(list(there), draw.randint(1, len(there)))
            client.reinforce(*ids, by=2)
            there.update({i: (there[i][0], there[i][1] + 2) for i in ids})
        case "forget" if there:
            ids = draw.sample(list(there), draw.randint(1, len(there)))
            client.forget(*ids)
            for i in ids:
                del there[i]
            if not there:
                del files[uri]
        case "hand" if there:
            kept = draw.sample(list(there), draw.randint(1, len(there)))
            new = f"{draw.choice(WORDINGS[2:5])} by hand {len(seen)}"
            lines = [there[i][0].replace("\n", "\n  ") for i in kept]
            eol = draw.choice(["\n", "\r\n"])
            text = "".join(f"- {line}\n" for line in [*lines, new]).replace("\n", eol)
            client.put([Draft(uri, content=text)])
            added = set(known(client, uri)) - set(there)
            assert len(added) == 1
            assert min(added) > max(seen)
            seen.update(added)
            files[uri] = {i: there[i] for i in kept} | dict.fromkeys(added, (new, 0))
        case "move":
            target = draw.choice([*NAMES, AWAY])
            source = AWAY if AWAY in files and draw.random() < 0.5 else uri
            if source in files and target not in files:
                client.move(source, target)
                files[target] = files.pop(source)
        case "delete" if there and draw.random() < 0.3:
            client.delete(uri)
            del files[uri]
