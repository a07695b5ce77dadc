"""The consistency of a client's session over several processes, and several addresses."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from tests.nodes.reader_helpers import ROOT, note, serving, uris
from tests.patience import eventually
from tests.tiers import seeds
from vikingd.client import (
    Client,
    HistoryLost,
    InvalidField,
    ReadOnly,
    RevisionNotReached,
    TimedOut,
)
from vikingd.client.messages import MessageClient
from vikingd.client.session_points import KEY, SeenPoints
from vikingd.domain import errors
from vikingd.domain.contexts import Draft
from vikingd.pb.contexts_pb2 import GetRequest
from vikingd.pb.contexts_pb2_grpc import ContextsStub
from vikingd.store.history import History, Point
from vikingd.store.sqlite.sqlite_schema import DATABASE
from vikingd.wire.sessions import _check, points_of, text_of

HELD = "from vikingd.store.sqlite import sqlite_reader\nsqlite_reader._INTERVAL = 3600.0"
"""Code of a reader that follows no commit after its start."""

SLOW = "from vikingd.store.sqlite import sqlite_reader\nsqlite_reader._INTERVAL = 0.3"
PLENTY = 60.0  # seconds


def put(client: MessageClient, number: int) -> None:
    """Write a file through the process that writes; a reader before it refuses the call."""

    def is_written() -> bool:
        with suppress(ReadOnly):
            client.put([note(number)])
            return True
        return False

    eventually(is_written)


def test_a_session_sees_its_writes_and_never_goes_back(tmp_path: Path) -> None:
    """Each find of a session has all its writes, whichever process answers."""
    with (
        serving(tmp_path) as writer,
        serving(tmp_path, "--reader", changed=SLOW) as reader,
        MessageClient(f"{writer.address},{reader.address}", PLENTY) as client,
    ):
        for number in range(5):
            put(client, number)
            revisions = []
            for _ in range(4):  # by turns from both
                found = client.find(f"word{number}", limit=99)
                assert note(number).uri in uris(found)
                assert client.get(note(number).uri).context.content
                revisions.append(found.revision)
            assert revisions == sorted(revisions)


@pytest.mark.deep
def test_without_consistency_a_process_that_lags_answers_from_an_older_state(
    tmp_path: Path,
) -> None:
    """A session waits for a process that lags; without the option the answer is older."""
    with (
        serving(tmp_path) as writer,
        serving(tmp_path, "--reader", changed=HELD) as reader,
        MessageClient(f"{writer.address},{reader.address}", PLENTY, consistent=False) as plain,
        MessageClient(f"{writer.address},{reader.address}", 3.0) as client,
    ):
        put(plain, 1)
        answers = {tuple(uris(plain.find("word1"))) for _ in range(8)}
        assert answers == {(), (note(1).uri,)}
        assert client._seen.text == ""
        eventually(lambda: _wrote(client, 2))
        outcomes = set()
        for _ in range(8):
            try:
                assert note(2).uri in uris(client.find("word2"))
                outcomes.add("found")
            except (RevisionNotReached, TimedOut):  # TimedOut: on a busy machine
                outcomes.add("waited")
        assert outcomes == {"found", "waited"}


def _wrote(client: MessageClient, number: int) -> bool:
    with suppress(ReadOnly, RevisionNotReached):
        client.put([note(number)])
        return True
    return False


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("has_newer_writes", [False, True])
def test_a_lost_history_is_told_once(tmp_path: Path, *, has_newer_writes: bool) -> None:
    """After an older copy was restored, a session has one HistoryLost, and then a new session."""
    store, older = tmp_path / "store", tmp_path / "older"
    with serving(store) as daemon:
        address = daemon.address
        daemon.client.put([note(0)])
    shutil.copytree(store, older)
    with MessageClient(address, PLENTY) as client:
        with serving(store, "--listen", address):
            lost = max(client.put([note(number)]).revision for number in (1, 2))
        (store / DATABASE).unlink()
        for file in older.glob(f"{DATABASE}*"):
            shutil.copy(file, store)
        with serving(store, "--listen", address, "--accept-data-loss") as daemon:
            if has_newer_writes:
                for number in range(5, 9):
                    daemon.client.put([note(number)])
            newest = daemon.client.find("note").revision
            assert (newest > lost) == has_newer_writes
            with pytest.raises(HistoryLost) as told:
                client.find("word1")
            assert told.value.code is grpc.StatusCode.DATA_LOSS
            metadata = told.value.metadata
            assert (metadata["revision"], metadata["newest"]) == (str(lost), str(newest))
            assert note(1).uri not in uris(client.find("word1", limit=99))
            client.put([note(1)])
            assert note(1).uri in uris(client.find("word1", limit=99))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a daemon."""
    with serving(tmp_path) as daemon:
        yield daemon.address


def test_a_malformed_point_is_an_error_of_the_field(alone: str) -> None:
    """A malformed point is refused with its name, and nothing is written."""
    with grpc.insecure_channel(alone) as channel, MessageClient(alone, PLENTY) as client:
        stub = ContextsStub(channel)
        good = f"{'a' * 32}.{'b' * 16}.1"
        for text in ("x", "..", "a.b", f"{good}.1", f"{good}9" * 9, ",".join([good] * 17)):
            with pytest.raises(grpc.RpcError) as refused:
                stub.Get(GetRequest(uri="viking://"), metadata=((KEY, text),), timeout=PLENTY)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, text
            assert KEY in refused.value.details()
        client._seen._text = "x"
        with pytest.raises(InvalidField):
            client.put([note(1)])
        client._seen._text = ""
        assert not uris(client.find("word1"))
        _, call = stub.Get.with_call(GetRequest(uri="viking://"), timeout=PLENTY)
        assert KEY not in dict(call.trailing_metadata())
        _, call = stub.Get.with_call(
            GetRequest(uri="viking://"), metadata=((KEY, ""),), timeout=PLENTY
        )
        (point,) = points_of(call.trailing_metadata()) or ()
        assert point.revision > 0
        foreign = (KEY, text_of(point._replace(store="a" * 32)))
        with pytest.raises(grpc.RpcError) as lost:
            stub.Get(GetRequest(uri="viking://"), metadata=(foreign,), timeout=PLENTY)
        assert lost.value.code() is grpc.StatusCode.DATA_LOSS


def test_calls_go_on_when_one_of_several_addresses_ends(tmp_path: Path) -> None:
    """When one of two processes is killed, the other answers all calls."""
    with (
        serving(tmp_path) as writer,
        serving(tmp_path, "--reader") as reader,
        Client(f"{writer.address},{reader.address}", PLENTY) as client,
    ):
        eventually(lambda: len({client.stats().reader for _ in range(2)}) == 2)
        reader.kill()
        for number in range(10):
            client.put([Draft(f"{ROOT}/{number}.md", content=f"word{number} stays")])
            assert client.find(f"word{number}").resources


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("one:1,two:2", "one:1 is none: give one name"),
        ("127.0.0.1:1,two:2", "two:2 is none: give one name"),
        ("127.0.0.1:1,[::1]:2", "not both"),
        ("127.0.0.1:1,vikings://127.0.0.2:2", "before all addresses or none"),
        ("127.0.0.1:1,", "HOST:PORT"),
    ],
)
def test_several_addresses_that_do_not_fit_are_refused(address: str, fault: str) -> None:
    """A list of addresses that gRPC cannot use is refused with its reason."""
    with pytest.raises(ValueError, match=fault):
        Client(address)


def test_a_key_is_sent_to_no_plain_address_among_several() -> None:
    """One address of another machine in plain text is enough to refuse a key."""
    with pytest.raises(ValueError, match=r"10\.0\.0\.1"):
        Client("127.0.0.1:1,10.0.0.1:2", key="vk_x")


def _is_told(point: Point, told: tuple[Point, ...]) -> bool:
    return any(point[:2] == one[:2] and point.revision <= one.revision for one in told)


@pytest.mark.parametrize("seed", seeds(20, 500))
def test_overtaking_replies_keep_the_session(seed: int) -> None:
    """In any order of replies, epochs and losses, a reply has all that was seen before its call."""
    rng = random.Random(seed)
    history, seen = History("5", (("e0", 0),), 1), SeenPoints()
    known: set[Point] = set()  # points that the session saw and whose loss it was not told
    flying: list[tuple[str, set[Point], str, bool]] = []  # what was sent, known and replied
    for step in range(300):
        match rng.choice(("commit", "commit", "epoch", "lose", "call", "call", "arrive", "arrive")):
            case "commit":
                history = history._replace(revision=history.revision + 1)
            case "epoch":
                epochs = (*history.epochs, (f"{rng.getrandbits(32):x}", history.revision))
                history = history._replace(epochs=epochs)
            case "lose" if rng.random() < 0.2:
                revision = max(1, history.revision - rng.randrange(5))
                kept = tuple(epoch for epoch in history.epochs if epoch[1] < revision)
                kept = (*kept, (f"{rng.getrandbits(32):x}", revision))
                history = History("5", kept, revision)
            case "call":
                sent = seen.text
                before = set(known)
                try:
                    _check(history, points_of(((KEY, sent),)) or ())
                except errors.HistoryLost as error:
                    flying.append((sent, before, error.metadata["point"], True))
                else:
                    missing = [point for point in before if not history.contains(point)]
                    assert not missing, (seed, step)
                    answer = history.at(history.revision - (history.revision > 1 and not sent))
                    flying.append((sent, before, text_of(answer), False))
            case "arrive" if flying:
                sent, before, reply, is_lost = flying.pop(rng.randrange(len(flying)))
                if is_lost:
                    seen.lost(sent, reply)
                    told = points_of(((KEY, sent),)) or ()
                    known = {point for point in known - before if not _is_told(point, told)}
                else:
                    seen.replied(sent, ((KEY, reply),))
                    known |= set(points_of(((KEY, reply),)) or ())
