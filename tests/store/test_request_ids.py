"""Requests with an id: a repetition gets the reply of the first one."""

from __future__ import annotations

import sqlite3
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.store_helpers import WITHOUT_DIGESTS, opened
from tests.store.write_helpers import NOTES, put
from vikingd.client import (
    InvalidField,
)
from vikingd.client.messages import MessageClient
from vikingd.domain import errors
from vikingd.domain.contexts import Draft
from vikingd.domain.store_changes import Once
from vikingd.pb import memories_pb2
from vikingd.store import Store
from vikingd.store.sqlite.sqlite_schema import MIGRATIONS, connect
from vikingd.store.writes import memory_writes as memories

pytestmark = pytest.mark.stores


def once(name: str, digest: bytes = b"d") -> Once:
    """Return a request with an id, whose reply is its revision."""
    return Once(name, digest, lambda done: str(done.revision).encode())


def test_a_repeated_call_counts_once_also_after_a_restart(tmp_path: Path) -> None:
    """A repeated request gets the first reply; another one is refused; a failed one runs again."""
    with opened(tmp_path) as store:
        put(store, Draft(NOTES, content="- drinks tea\n"))
        (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
        ids = [entry.entry.id]
        with pytest.raises(errors.NotFound):
            store.reinforce([99], 1, once("a")).result()
        first = store.reinforce(ids, 1, once("a")).result()
    with opened(tmp_path) as store:
        again = store.reinforce(ids, 1, once("a")).result()
        assert again.reply == str(first.revision).encode()
        assert again.revision == first.revision
        with pytest.raises(errors.InvalidField, match="another request"):
            store.reinforce(ids, 2, once("a", b"e")).result()
        store.reinforce(ids, 1, once("b")).result()
        (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
        assert entry.entry.reinforcement == 2


def test_names_of_calls_are_dropped_by_number_and_by_age(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest requests are kept, up to a number and an age."""
    put(store, Draft(NOTES, content="- drinks tea\n"))
    (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    monkeypatch.setattr(memories, "MAX_REQUESTS", 3)
    for name in ("a", "b", "c", "d"):
        store.reinforce([entry.entry.id], 1, once(name)).result()
    assert store.reinforce([entry.entry.id], 1, once("b")).result().reply
    assert not store.reinforce([entry.entry.id], 1, once("a")).result().reply
    monkeypatch.setattr(memories, "MAX_AGE", -1)
    assert not store.reinforce([entry.entry.id], 1, once("e")).result().reply
    assert not store.reinforce([entry.entry.id], 1, once("d")).result().reply


def test_a_store_of_the_schema_before_opens(tmp_path: Path) -> None:
    """A store of an older schema keeps its data, and supports request ids after its migration."""
    with opened(tmp_path) as store:
        put(store, Draft(NOTES, content="- drinks tea\n"))
        (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    with closing(connect(tmp_path / "store.sqlite3")) as db:
        db.executescript(WITHOUT_DIGESTS)
        db.execute("DROP TABLE requests")
        db.execute("PRAGMA user_version = 2")
    with opened(tmp_path) as store:
        assert store.get(NOTES).content == "- drinks tea\n"
        store.reinforce([entry.entry.id], 1, once("a")).result()
        assert store.reinforce([entry.entry.id], 1, once("a")).result().reply
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_remember_and_reinforce_with_a_name_count_once(client: MessageClient) -> None:
    """Each repetition gets the same reply; without an id every call counts."""
    name = str(uuid.uuid4())
    first = client.remember("drinks tea", uri=NOTES, request_id=name)
    assert client.remember("drinks tea", uri=NOTES, request_id=name) == first
    reinforced = client.reinforce(first.id, by=2, request_id="r 1")
    assert reinforced.reinforcements == [2]
    assert client.reinforce(first.id, by=2, request_id="r 1") == reinforced
    assert client.reinforce(first.id, by=2).reinforcements == [4]
    assert client.reinforce(first.id, by=2).reinforcements == [6]
    said_again = client.remember("Drinks tea.", uri=NOTES)
    assert said_again.outcome == memories_pb2.REMEMBER_OUTCOME_REINFORCED
    for call in (
        lambda: client.remember("drinks milk", uri=NOTES, request_id=name),
        lambda: client.reinforce(first.id, by=3, request_id="r 1"),
        lambda: client.reinforce(first.id, request_id=name),
        lambda: client.reinforce(first.id, request_id="x" * 65),
        lambda: client.reinforce(first.id, request_id="\n"),
        lambda: client.remember("drinks tea", uri=NOTES, request_id="é"),
    ):
        with pytest.raises(InvalidField) as caught:
            call()
        assert [v.field for v in caught.value.field_violations] == ["request_id"]
    assert client.reinforce(first.id, by=1).reinforcements == [8]


def test_64_repetitions_at_once_count_once(client: MessageClient) -> None:
    """All of 64 concurrent repetitions get the same reply."""
    with ThreadPoolExecutor(16) as pool:
        replies = list(
            pool.map(lambda _: client.remember("t", uri=NOTES, request_id="same"), range(64))
        )
    assert all(reply == replies[0] for reply in replies)
    assert replies[0].outcome == memories_pb2.REMEMBER_OUTCOME_ADDED
