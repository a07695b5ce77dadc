"""client.commit: the new messages of a session, once each, in the background."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.memory.extract_helpers import (
    PREFERENCES,
    PROFILE,
    Asked,
    asking,
    note,
    noted,
    session,
    texts,
)
from tests.scripted import Reply
from vikingd.client import AsyncClient, Client, ClientError, ExtractSource, Session

SLOW = 1.0  # seconds


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:  # type: ignore[override]
    """Yield a daemon with a scripted model."""
    with asking(tmp_path_factory.mktemp("store"), VIKINGD_PLANNER__TIMEOUT="5") as made:
        yield made


@pytest.fixture
def asked(daemon: Asked) -> Asked:
    """Return the empty daemon, whose model notes nothing, with a new client."""
    daemon.clear()
    daemon.model.answer = lambda _: noted()
    daemon.model.requests.clear()
    return daemon


def read(asked: Asked) -> list[str]:
    """Return the new messages that the model was sent, in order."""
    found = []
    for request in asked.model.requests:
        told = json.loads(request.json["messages"][1]["content"])
        found += [one["content"] for one in told["messages"] if "context" not in one]
    return found


def test_a_commit_returns_at_once_and_reads_each_message_once(asked: Asked) -> None:
    """The future has the result; a second commit reads the new messages only."""
    said = session("one", "I love tea.")
    memory = note("preferences", "The user loves tea.", 1)
    asked.model.answer = lambda _: Reply(noted(memory).body, after=SLOW)
    began = time.monotonic()
    future = asked.client.commit(said)
    assert time.monotonic() - began < SLOW / 2
    assert texts(future.result(30)) == [("PREFERENCES", "ADDED", "The user loves tea.")]
    assert said.committed == 2
    asked.model.answer = lambda _: noted()
    said.add("assistant", "three")
    assert asked.client.commit(said).result(30).source is ExtractSource.MODEL
    assert asked.client.commit(said).result(30).reason == "no message is new"
    assert read(asked) == ["one", "I love tea.", "three"]
    assert asked.data()["messages"][0] == {
        "number": 0, "role": "user", "content": "one", "context": True
    }  # fmt: skip


def test_commits_at_once_never_read_a_message_twice(asked: Asked) -> None:
    """Commits from many threads run one after the other."""
    said = session()
    lock = threading.Lock()

    def turn(number: int) -> None:
        with lock:
            said.add("user", f"message {number}")
        asked.client.commit(said).result(60)

    threads = [threading.Thread(target=turn, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read(asked)) == sorted(f"message {i}" for i in range(12))
    assert said.committed == 12


def test_close_waits_for_the_commits(asked: Asked) -> None:
    """After close the memories are written."""
    memory = note("profile", "The user lives in Lyon.", 0)
    asked.model.answer = lambda _: Reply(noted(memory).body, after=SLOW)
    with Client(asked.client.address) as client:
        future = client.commit(session("I live in Lyon."))
        assert not future.done()
    assert future.done()
    assert "Lyon" in asked.client.get(PROFILE).content


def test_a_failed_commit_leaves_its_messages(asked: Asked) -> None:
    """The error is that of the future; the next commit reads the messages again."""
    said = session("I love tea.")
    with Client("127.0.0.1:1", timeout=2, retries=False) as nobody:
        failed = nobody.commit(said)
        with pytest.raises(ClientError):
            failed.result(30)
    assert said.committed == 0
    said.add("user", "I hate salt.")
    asked.client.commit(said).result(30)
    assert (read(asked), said.committed) == (["I love tea.", "I hate salt."], 2)


def test_a_refused_commit_leaves_its_messages(asked: Asked) -> None:
    """A bad option fails the commit, and the messages wait."""
    said = session("I love tea.")
    with pytest.raises(ClientError, match="time_zone"):
        asked.client.commit(said, time_zone="Mars/Base").result(30)
    assert (said.committed, read(asked)) == (0, [])
    asked.client.commit(said).result(30)
    assert (said.committed, read(asked)) == (1, ["I love tea."])


def test_a_commit_with_an_unknown_outcome_counts_once(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the reply is lost, the next commit repeats the same call first: it counts once."""
    memory = note("preferences", "The user loves tea.", 0)
    asked.model.answer = lambda _: noted(memory)
    said = session("I love tea.")
    client = Client(asked.client.address, retries=False)
    sent = client._send

    class Lost(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.DEADLINE_EXCEEDED

        def details(self) -> str:
            return "Deadline Exceeded"

        def trailing_metadata(self) -> tuple[()]:
            return ()

    from vikingd.client.client_errors import from_rpc_error

    def lose(rpc: object, request: object, method: object) -> object:
        sent(rpc, request, method)
        raise from_rpc_error(Lost())

    with monkeypatch.context() as patch:
        patch.setattr(client, "_send", lose)
        with pytest.raises(ClientError):
            client.commit(said).result(30)
    said.add("user", "Hello.")
    client.commit(said).result(30)
    client.close()
    assert said.committed == 2
    state = asked.client.get(PREFERENCES).passages[0].memory
    assert state is not None
    assert state.reinforcement == 0


def test_dropped_messages_are_counted(asked: Asked) -> None:
    """With keep=N the counts stay right, and the evidence counts all messages."""
    said = Session(keep=3)
    for i in range(5):
        said.add("user", f"message {i}")
    asked.client.commit(said).result(30)
    assert (said.committed, said.dropped, read(asked)) == (
        5, 2, ["message 2", "message 3", "message 4"]
    )  # fmt: skip
    said.add("user", "I love tea.")
    memory = note("preferences", "The user loves tea.", 2)
    asked.model.answer = lambda _: noted(memory)
    result = asked.client.commit(said).result(30)
    assert [one.evidence for one in result] == [(5,)]
    assert read(asked)[3:] == ["I love tea."]


def test_a_long_session_is_read_in_pieces(asked: Asked) -> None:
    """More new messages than one call takes are read by several calls."""
    said = session(*[f"message {i}" for i in range(450)])
    asked.client.commit(said).result(60)
    assert said.committed == 450
    assert read(asked) == [f"message {i}" for i in range(450)]


def test_a_file_keeps_the_number(asked: Asked, tmp_path: Path) -> None:
    """Saved and loaded, the session knows its committed messages; an older file has none."""
    file = tmp_path / "session.json"
    said = session("one", "two")
    said.save(file)
    assert "committed" not in json.loads(file.read_text())
    assert Session.load(file).committed == 0
    asked.client.commit(said).result(30)
    said.add("user", "three")
    said.save(file)
    again = Session.load(file)
    assert (again.committed, again.messages) == (2, said.messages)
    asked.client.commit(again).result(30)
    assert read(asked) == ["one", "two", "three"]
    kept = Session.load(file, keep=1)
    assert (kept.committed, kept.dropped) == (2, 2)
    for bad in (-1, 4, True, "2", 1.0):
        file.write_text(json.dumps({"messages": [], "committed": bad}))
        with pytest.raises(ValueError, match="committed"):
            Session.load(file)


def test_the_asynchronous_client_commits(asked: Asked) -> None:
    """A commit is a task; close waits for it; a cancelled one leaves its messages."""
    memory = note("profile", "The user lives in Lyon.", 0)
    said = session("I live in Lyon.")

    async def run() -> None:
        async with AsyncClient(asked.client.address) as client:
            gone = client.commit(said)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            assert said.committed == 0
            asked.model.answer = lambda _: Reply(noted(memory).body, after=SLOW)
            task = client.commit(said)
            assert not task.done()
        assert texts(task.result()) == [("PROFILE", "ADDED", "The user lives in Lyon.")]
        assert said.committed == 1

    asyncio.run(run())


@pytest.mark.deep
def test_a_commit_that_is_cancelled_during_its_call_is_repeated_first(asked: Asked) -> None:
    """The daemon may have done the call, so the next commit repeats it with its name."""
    memory = note("profile", "The user lives in Lyon.", 0)
    asked.model.answer = lambda _: Reply(noted(memory).body, after=SLOW)
    said = session("I live in Lyon.")

    async def run() -> None:
        async with AsyncClient(asked.client.address) as client:
            gone = client.commit(said)
            while not asked.model.requests:
                await asyncio.sleep(0.01)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
            first = said.commits.unsure
            assert first.arguments["request_id"]
            said.add("user", "Hello.")
            await client.commit(said)
            assert (said.commits.unsure, said.committed) == (None, 2)

    asyncio.run(run())
    state = asked.client.get(PROFILE).passages[0].memory
    assert state is not None
    assert state.reinforcement == 0
