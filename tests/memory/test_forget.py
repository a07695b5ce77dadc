"""Reinforce and Forget over the wire, and refused requests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.memory.remember_helpers import (
    LAMP,
    NOTES,
    NOW,
    REINFORCED,
    USER,
    content,
    known,
    recalled,
    refused,
    said,
    verified,
)
from vikingd.client import ClientError
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.memory.memory_types import Salience
from vikingd.memory_calls.forget import ForgetQuery, chosen, forgetting
from vikingd.models.embed.embed_settings import EmbedSettings

pytestmark = pytest.mark.stores


@pytest.fixture
def client(client: MessageClient) -> Iterator[MessageClient]:
    """Yield a client of the daemon, and compare index and store afterwards."""
    yield client
    assert verified(client)


# Reinforcing


def test_reinforcing_raises_each_by_as_much(client: MessageClient) -> None:
    """Reinforce raises each memory by one or by the given amount, and replies in request order."""
    one, two = (client.remember(text, uri=NOTES).id for text in ("a", "b"))
    assert list(client.reinforce(two, one).reinforcements) == [1, 1]
    assert list(client.reinforce(two, by=5).reinforcements) == [6]
    assert list(client.reinforce(two, one, by=0).reinforcements) == [7, 2]
    assert said(client) == [("a", 2), ("b", 7)]


def test_a_memory_that_was_moved_away_is_none_until_it_is_back(client: MessageClient) -> None:
    """A memory among resources can't be recalled, reinforced or forgotten until it moves back."""
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
    """Forget removes only the given ids, keeps all other memories, and no id is used again."""
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
    """No later request returns a forgotten memory."""
    for number in range(30):
        reply = client.remember(f"Harbour word{number}.", uri=NOTES)
        assert recalled(client, f"word{number}") == {f"Harbour word{number}."}
        assert len(client.forget(reply.id).forgotten) == 1
        assert not recalled(client, f"word{number}")
        assert f"word{number}" not in str(client.find(f"word{number}"))
        assert known(client) == {}


def test_one_of_several_texts_in_a_plain_file_goes_alone(client: MessageClient) -> None:
    """In a plain file, a text that looks like a heading is a memory that can be forgotten."""
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
    """Forget removes a list item and keeps a heading that is itself a memory."""
    client.put([Draft(NOTES, content="# A\n\n- x\n\n# Likes tea\n")])
    x, tea = known(client)
    client.forget(x)
    assert list(known(client)) == [tea]
    assert recalled(client, "tea") == {"Likes tea"}


@pytest.mark.parametrize("mute", ["", "***\n", "<!-- mine -->\n"])
def test_a_memory_that_is_an_abstract_goes_with_its_file(client: MessageClient, mute: str) -> None:
    """A memory that is the abstract of a file is forgotten with the whole file."""
    client.put([Draft(NOTES, abstract="Likes tea.", content=mute)])
    (found,) = client.recall("tea", no_touch=True).results
    client.forget(found.id)
    assert not recalled(client, "tea")
    assert refused(client.get, NOTES)[0].endswith("does not exist")


def test_forgetting_leaves_an_abstract_that_a_put_gave(client: MessageClient) -> None:
    """Forget keeps an abstract that a Put gave, and derives any other abstract again."""
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
    """Forget selects memories by age, salience or both, in a scope; a dry run changes nothing."""
    texts = ("old weak", "old strong", "new weak", "new strong")
    for text in texts:
        days = 100 if "old" in text else 0
        reply = client.remember(text, uri=NOTES, time=NOW - timedelta(days=days))
        if "strong" in text:
            client.reinforce(reply.id, by=9)
    client.remember("old weak", "notes", project="lamp", time=NOW - timedelta(days=100))
    aged = {"older_than": NOW - timedelta(days=30)}
    weak = {"below_salience": 0.6, "now": NOW}

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
    """Forget by criteria names memories of all roots by URI and place, also in a dry run."""
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
    """A memory that is said again or moved during a Forget is either kept or named as forgotten."""
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
    """Memories that are reinforced after their selection stay; moved and other ones go."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    for name in ("again", "moved", "old"):
        draft = Draft(f"{USER}/{name}.md", content=f"- {name}\n", time=1)
        engine.writable_store.put([prepare(draft)]).result()
    query = ForgetQuery(now=9, older_than=5)
    found = chosen(engine, query, Salience()).memories
    again, moved, old = (memory.entry.id for memory in found)
    engine.writable_store.reinforce([again], 1).result()
    engine.writable_store.move(f"{USER}/moved.md", f"{USER}/elsewhere.md").result()
    forgotten = forgetting(query, found)
    engine.writable_store.rewrite_holders(
        [again, moved, old], forgotten, require_all=False
    ).result()
    assert forgotten.gone == {moved, old}
    assert [stored.entry.id for stored in engine.store.memories_below(USER)] == [again]
    assert engine.verify().ok
    engine.close()


# Refusals

WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("remember", ("", "notes"), {}, "text"),
    ("remember", (" \n---\n", "notes"), {}, "text"),
    ("remember", ("a\0b", "notes"), {}, "text"),
    ("remember", ("word " * 500_000, "notes"), {}, "text"),
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
    """A bad request is refused with its field and changes no memory."""
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
    """An unknown id is refused with NOT_FOUND, and the other ids of the request are unchanged."""
    reply = client.remember("said", uri=NOTES)
    for call in (client.reinforce, client.forget):
        with pytest.raises(ClientError) as error:
            call(reply.id, 987_654_321)
        assert error.value.reason == "NOT_FOUND"
        assert error.value.message == "ids[1]: there is no memory 987654321"
    assert known(client) == {reply.id: ("said", 0)}
