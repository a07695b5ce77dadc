"""Remember over the wire: files, sections and repeated memories."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.memory.remember_helpers import (
    ADDED,
    LAMP,
    NOTES,
    NOW,
    REINFORCED,
    SEARCH,
    USER,
    content,
    known,
    recalled,
    said,
    verified,
)
from vikingd.client import Draft, Passage
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Entry
from vikingd.pb.memories_pb2 import (
    RememberResponse,
)

pytestmark = pytest.mark.stores


@pytest.fixture
def client(client: MessageClient) -> Iterator[MessageClient]:
    """Yield a client of the daemon, and check afterwards that index and store agree."""
    yield client
    assert verified(client)


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
    """A memory goes to the file of its type, which is made with a heading if it is missing."""
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
    """An existing file of the type gets the new memory, and a recall reads the same file."""
    client.put([Draft(f"{LAMP}/decisions.md", content="- old\n")])
    assert client.remember("new", "decisions", project="lamp").uri == f"{LAMP}/decisions.md"
    reply = client.recall("decision", project="lamp")
    assert [memory.content for memory in reply.results] == ["- old\n- new\n"]


def test_a_journals_day_is_that_of_the_callers_time_zone(client: MessageClient) -> None:
    """The day of a journal is that of the given time in the caller's time zone."""
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
    """A given URI below any root of memories replaces scope and type."""
    for uri in (NOTES, f"{LAMP}/deep/中 文.md", "viking://agent/memories/case.md"):
        assert client.remember("said", uri=uri).uri == uri
        assert said(client, uri) == [("said", 0)]


def test_a_memory_goes_below_its_section(client: MessageClient) -> None:
    """A memory goes to the end of its section, and a new section to the end of the file."""
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
    """Front matter, line ends, paragraphs, comments and states of entries stay as they are."""
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
    """Remember and Forget keep the passages that a writer gave."""
    cut = [Passage("", 0, 3, entry=Entry(0, 4)), Passage("", 4, 7), Passage("", 8, 13)]
    client.put([Draft(NOTES, content="one\ntwo\nthree\n", passages=cut)])
    reply = client.remember("four", uri=NOTES)
    assert said(client) == [("one", 4), ("two", 0), ("three", 0), ("four", 0)]
    client.forget(next(i for i, (text, _) in known(client).items() if text == "two"), reply.id)
    assert said(client) == [("one", 4), ("three", 0)]


def test_what_an_abstract_alone_said_stays_a_memory(client: MessageClient) -> None:
    """An abstract without content becomes an entry when a memory is added or repeated."""
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
    client.remember("x", uri=f"{USER}/c.md")
    assert said(client, f"{USER}/c.md") == [(long.strip(), 0), ("x", 0)]


def test_a_short_text_that_is_cut_anew_keeps_what_is_known_of_it(client: MessageClient) -> None:
    """The first entry keeps the state of a passage that is cut into several."""
    client.put([Draft(NOTES, content="# T\n\nfirst words\n\n## S\n\nmore words\n")])
    ((one, _),) = known(client).items()
    client.reinforce(one, by=5)
    client.remember("new", uri=NOTES)
    assert said(client) == [("first words", 5), ("new", 0), ("more words", 0)]


# Repeated memories


def test_what_is_said_again_is_reinforced(client: MessageClient) -> None:
    """Form does not matter, nor the first letter's case; the newer wording keeps the old id."""
    wordings = [
        "Likes green tea.",
        "likes  green tea",
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
    """A memory outside a journal may have a time in any year."""
    said_at = datetime(year, 6, 1, tzinfo=UTC)
    for place in ({"memory_type": "notes"}, {"uri": f"{USER}/other.md"}):
        uri = client.remember("x", **place, time=said_at).uri
        (passage,) = client.get(uri).context.passages
        assert passage.memory.time.ToDatetime(UTC) == said_at


def test_an_older_time_replaces_no_newer_wording(client: MessageClient) -> None:
    """A repetition with an older time is counted, but changes neither wording nor time."""
    first = client.remember("Likes tea.", uri=NOTES, time=NOW)
    older = client.remember("likes tea!", uri=NOTES, time=NOW - timedelta(days=9))
    assert (older.outcome, older.id, older.reinforcement) == (REINFORCED, first.id, 1)
    assert said(client) == [("Likes tea.", 1)]
    (passage,) = client.get(NOTES).context.passages
    assert passage.memory.time.ToDatetime(UTC) == NOW
    client.remember("likes tea!", uri=NOTES, time=NOW + timedelta(days=1))
    assert said(client) == [("likes tea!", 2)]


def test_a_time_before_1970_is_one_like_others(client: MessageClient) -> None:
    """Times before 1970 are compared like later ones."""
    then = datetime(1950, 1, 1, tzinfo=UTC)
    client.remember("Was born.", uri=NOTES, time=then)
    client.remember("was born", uri=NOTES, time=then + timedelta(days=1))
    assert said(client) == [("was born", 1)]


def test_in_another_file_it_is_another_memory(client: MessageClient) -> None:
    """Equal memories of two files are two entries."""
    one, two = (client.remember("Likes tea.", uri=f"{USER}/{name}.md") for name in "ab")
    assert (one.outcome, two.outcome) == (ADDED, ADDED)
    assert one.id != two.id


@pytest.mark.parametrize("hand", ["Likes tea.\n", "# Likes tea\n", "- a\n\nLikes tea.\n\n- b\n"])
def test_what_stands_in_no_list_can_be_said_again(client: MessageClient, hand: str) -> None:
    """A repeated paragraph becomes an entry; a repeated heading stays and the reply is degraded."""
    client.put([Draft(NOTES, content=hand)])
    client.reinforce(*known(client), by=2)
    reply = client.remember("likes tea!", uri=NOTES)
    assert (reply.outcome, reply.reinforcement) == (REINFORCED, 3)
    wording = "Likes tea" if hand.startswith("#") else "likes tea!"
    assert (wording, 3) in said(client)
    assert bool(reply.degraded) == hand.startswith("#")
    assert wording in recalled(client, "tea")


def test_64_equal_calls_at_once_leave_one_entry(client: MessageClient) -> None:
    """One of 64 equal concurrent calls adds the memory, and 63 reinforce it."""
    client.remember("something else", uri=NOTES)
    replies = at_once(client, ["Likes green tea."] * 64)
    assert sorted(reply.reinforcement for reply in replies) == list(range(64))
    assert [reply.outcome for reply in replies].count(ADDED) == 1
    assert len({reply.id for reply in replies}) == 1
    assert said(client) == [("something else", 0), ("Likes green tea.", 63)]


@pytest.mark.deep_after(1)
def test_64_different_calls_at_once_are_all_kept(client: MessageClient) -> None:
    """Each memory is an entry and is found as soon as its call is answered."""
    texts = [f"Harbour note number {i}." for i in range(64)]
    replies = at_once(client, texts)
    assert len({reply.id for reply in replies}) == 64
    assert sorted(said(client)) == sorted((text, 0) for text in texts)
    assert recalled(client, "harbour") == set(texts)


def at_once(client: MessageClient, texts: list[str]) -> list[RememberResponse]:
    """Return the replies of concurrent calls; each text is recalled right after its reply."""
    begin = threading.Barrier(len(texts))

    def remember(text: str) -> RememberResponse:
        begin.wait()
        reply = client.remember(text, uri=NOTES)
        assert text in recalled(client, text)
        return reply

    with ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(remember, texts))


@pytest.mark.deep_after(1)
def test_nothing_is_lost_where_others_put_the_same_file(client: MessageClient) -> None:
    """Memories that are added after a put stay, and counters outlive every put."""
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
    """Unchanged texts keep their states, also with other line ends or indentation."""
    client.remember("one\ntwo", uri=NOTES, time=NOW)
    client.remember("three", uri=NOTES, time=NOW)
    before = known(client)
    client.reinforce(*before, by=4)
    hand = content(client).replace("- three", "- three\n- by hand").replace("\n", "\r\n")
    client.put([Draft(NOTES, content=hand.replace("  two", "     two"))])
    assert said(client) == [("one\ntwo", 4), ("three", 4), ("by hand", 0)]
    assert list(known(client))[:2] == list(before)
