"""The small gRPC client of the hooks: against a real daemon, and against peers that lie."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests.daemons import serving
from vikingd.client.messages import MessageClient
from vikingd.hooks import wire_messages
from vikingd.hooks.unary_calls import CallFailed, Connection
from vikingd.hooks.wire_messages import MESSAGES, decoded, encoded, first
from vikingd.pb import contexts_pb2, memories_pb2, retrieval_pb2

FILES = (contexts_pb2, memories_pb2, retrieval_pb2)


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield the addresses of a daemon: of TCP, and of a unix socket."""
    path = f"unix:{tmp_path_factory.mktemp('run')}/socket"
    with serving("--provider", "none", "--listen", path) as where:
        yield where, path


def connection(address: str, seconds: float = 30) -> Connection:
    """Return a connection with a deadline."""
    return Connection(address, {}, time.monotonic() + seconds)


@pytest.mark.parametrize("name", [name for name in MESSAGES if not name.startswith("google")])
def test_the_table_of_messages_is_that_of_the_proto(name: str) -> None:
    """Each field has the number, the kind and the type of its descriptor."""
    of = next(getattr(file, name) for file in FILES if hasattr(file, name)).DESCRIPTOR
    for field, kind in MESSAGES[name].items():
        described = of.fields_by_name[field]
        if isinstance(kind, tuple):
            number, type_name = kind
            assert described.message_type.full_name.removeprefix("viking.retrieval.v1.") == (
                type_name
            )
        else:
            number = kind
            assert described.type in (
                FieldDescriptor.TYPE_STRING,
                FieldDescriptor.TYPE_BOOL,
                FieldDescriptor.TYPE_UINT32,
                FieldDescriptor.TYPE_UINT64,
                FieldDescriptor.TYPE_INT64,
                FieldDescriptor.TYPE_DOUBLE,
                FieldDescriptor.TYPE_ENUM,
            )
        assert described.number == number


def test_a_message_is_encoded_as_protobuf_does() -> None:
    """Text, numbers, lists, messages and times before 1970 have the bytes of protobuf."""
    values = {
        "session": {
            "messages": [
                {"role": "user", "content": "héllo 你好", "time": wire_messages.timestamp(-1.5)},
                {"role": "assistant", "content": "x" * 300},
            ],
            "id": "a",
        },
        "first": 70_000,
        "scope": {"with_global": True, "project": "p"},
        "time_zone": "",
    }
    expected = memories_pb2.ExtractRequest(
        session=retrieval_pb2.SearchSession(
            messages=[
                retrieval_pb2.SessionMessage(role="user", content="héllo 你好"),
                retrieval_pb2.SessionMessage(role="assistant", content="x" * 300),
            ],
            id="a",
        ),
        first=70_000,
        scope=memories_pb2.MemoryScope(with_global=True, project="p"),
    )
    expected.session.messages[0].time.FromMicroseconds(-1_500_000)
    found = memories_pb2.ExtractRequest.FromString(encoded("ExtractRequest", values))
    assert found == expected
    back = decoded("ExtractRequest", expected.SerializeToString())
    session = first(back, "session")
    assert wire_messages.seconds_of(session["messages"][0], "time") == -1.5
    assert first(session["messages"][0], "content") == "héllo 你好"


def test_bytes_that_are_no_message_are_a_value_error() -> None:
    """Random and cut bytes are decoded or refused, and nothing else happens."""
    chance = random.Random(50)
    whole = memories_pb2.RecallResponse(
        results=[memories_pb2.Memory(id=7, uri="viking://user/memories/a.md", score=0.25)]
    ).SerializeToString()
    assert first(decoded("RecallResponse", whole)["results"][0], "score") == 0.25
    for _ in range(500):
        data = bytearray(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            data.insert(chance.randrange(len(data) + 1), chance.randrange(256))
        with suppress(ValueError):
            decoded("RecallResponse", bytes(data))


def test_replies_over_tcp_and_a_unix_socket(listening: tuple[str, str]) -> None:
    """Several calls go over one connection, and a refusal has its status and words."""
    with MessageClient(listening[0]) as client:
        client.remember("Prefers oolong to coffee.", "preferences")
        expected = client.get("viking://user/memories/preferences.md").context.content
    for address in listening:
        daemon = connection(address)
        for _ in range(3):
            reply = daemon.call(
                "Contexts/Get",
                "GetRequest",
                "GetResponse",
                uri="viking://user/memories/preferences.md",
            )
            assert first(first(reply, "context"), "content") == expected
            with pytest.raises(CallFailed, match=r"NOT_FOUND: .*nothing") as failed:
                daemon.call(
                    "Contexts/Get",
                    "GetRequest",
                    "GetResponse",
                    uri="viking://user/memories/nothing.md",
                )
            assert failed.value.status == 5
        daemon.close()


@pytest.mark.deep
def test_requests_and_replies_larger_than_the_windows(listening: tuple[str, str]) -> None:
    """A request waits for the daemon's windows, and replies of 20 MB in all come whole."""
    long = "tea " * 200_000
    daemon = connection(listening[1])
    messages = [{"role": "user", "content": f"{i} {long[: 200 << 10]}"} for i in range(12)]
    daemon.call(
        "Memories/Extract",
        "ExtractRequest",
        "ExtractResponse",
        session={"messages": messages, "id": "long"},
    )
    with MessageClient(listening[0]) as client:
        client.put([contexts_pb2.ContextInput(uri="viking://resources/long.md", content=long)])
    for _ in range(25):
        reply = daemon.call(
            "Contexts/Get", "GetRequest", "GetResponse", uri="viking://resources/long.md"
        )
        assert first(first(reply, "context"), "content") == long
    daemon.close()


@pytest.mark.parametrize(
    "address", ["example.org:7716", "10.0.0.1:7716", "vikings://x:1", "", "user"]
)
def test_a_hook_calls_this_machine_alone(address: str) -> None:
    """Other addresses are refused before anything is sent."""
    with pytest.raises(ValueError, match="host of this machine"):
        connection(address)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """Return a header that no table keeps."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


OK = frame(1, 4, 1, header(b":status", b"200"))
REPLY = frame(0, 0, 1, b"\0\0\0\0\0")
END = frame(1, 5, 1, header(b"grpc-status", b"0"))
LIES = {
    "closes": b"",
    "no HTTP/2": b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"x" * 40_000,
    "a huge frame": b"\xff\xff\xff\0\0\0\0\0\1",
    "GOAWAY": frame(7, 0, 0, struct.pack(">II", 0, 2)),
    "RST_STREAM": frame(3, 0, 1, struct.pack(">I", 8)),
    "PUSH_PROMISE": frame(5, 4, 1, b"\0\0\0\2"),
    "no status and no message": frame(1, 5, 1, header(b":status", b"200")),
    "a status of failure": OK + REPLY + frame(1, 5, 1, header(b"grpc-status", b"13")),
    "half a message": OK + frame(0, 1, 1, b"\0\0\0\0\5ab"),
    "a compressed message": OK + frame(0, 0, 1, b"\1\0\0\0\0") + END,
    "two messages": OK + REPLY + REPLY + END,
    "headers that do not end": frame(1, 0, 1, b"\0") + frame(9, 0, 1, b"a" * 16_000) * 5,
    "broken headers": frame(1, 5, 1, b"\x00\x7f\xff\xff"),
    "a reply without an end": OK + frame(0, 0, 1, b"a" * 16_000) * 600,
    "a wrong padding": OK + frame(0, 9, 1, b"\xff"),
    "bytes that are no message": OK + frame(0, 0, 1, b"\0\0\0\0\2\x0a\x7f") + END,
}


@contextmanager
def peer(act: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the address of a server that does this with its one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                made, _ = server.accept()
                with made:
                    act(made)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
    thread.join()


def get(address: str, seconds: float = 30) -> object:
    """Make a call."""
    made = connection(address, seconds)
    try:
        return made.call("Contexts/Get", "GetRequest", "GetResponse", uri="viking://a")
    finally:
        made.close()


@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_lies(lie: str) -> None:
    """What is no daemon's reply is an error of the call, of the connection or of the value."""

    def act(made: socket.socket) -> None:
        made.recv(1 << 16)
        made.sendall(LIES[lie])
        made.shutdown(socket.SHUT_WR)
        while made.recv(1 << 16):
            pass

    with peer(act) as address, pytest.raises((CallFailed, OSError, ValueError)):
        get(address)


def test_a_true_reply_in_many_forms() -> None:
    """Padding, priorities, continued headers, pings and settings between the frames do no harm."""
    status = header(b"grpc-status", b"0")

    def act(made: socket.socket) -> None:
        made.recv(1 << 16)
        made.sendall(
            frame(4, 0, 0, struct.pack(">HI", 4, 1 << 20))
            + frame(6, 0, 0, b"12345678")
            + frame(7, 0, 0, struct.pack(">II", 1, 0))
            + frame(99, 0, 0, b"unknown")
            + frame(1, 0x2C, 1, b"\2" + b"\0" * 5 + b"\x88" + b"\0\0")
            + frame(0, 8, 1, b"\3" + b"\0\0\0\0\0" + b"\0\0\0")
            + frame(1, 1, 1, b"\x20" + status[:4])
            + frame(9, 4, 1, status[4:])
        )
        while made.recv(1 << 16):
            pass

    with peer(act) as address:
        assert get(address) == {}


def test_several_calls_at_once() -> None:
    """Replies may come in any order, and a call may be reset after its end."""
    status = header(b"grpc-status", b"16")

    def act(made: socket.socket) -> None:
        made.recv(1 << 16)
        made.sendall(
            frame(1, 5, 3, status)
            + frame(3, 0, 3, struct.pack(">I", 0))
            + OK
            + REPLY
            + frame(1, 5, 1, header(b"grpc-status", b"0"))
        )
        while made.recv(1 << 16):
            pass

    with peer(act) as address:
        made = connection(address)
        many = [{"uri": "viking://a"}, {"uri": "viking://b"}]
        first_reply, second = made.calls("Contexts/Get", "GetRequest", "GetResponse", many)
        made.close()
    assert first_reply == {}
    assert isinstance(second, CallFailed)
    assert second.status == 16


@pytest.mark.parametrize("sent", [b"", b"\0"], ids=["hangs", "drips"])
def test_a_peer_that_is_slow(sent: bytes) -> None:
    """The deadline holds for the whole call, whatever trickles in."""
    over = threading.Event()

    def act(made: socket.socket) -> None:
        made.sendall(frame(4, 0, 0, b"")[:-1])
        while not over.wait(0.02):
            made.sendall(sent)

    with peer(act) as address:
        try:
            with pytest.raises(TimeoutError):
                get(address, 0.3)
        finally:
            over.set()


def test_a_peer_that_reads_nothing() -> None:
    """A request that nobody reads ends at its deadline."""
    over = threading.Event()
    with peer(lambda _: bool(over.wait(60)) or None) as address:
        made = connection(address, 0.3)
        try:
            with pytest.raises(TimeoutError):
                made.call("Contexts/Get", "GetRequest", "GetResponse", uri="x" * (8 << 20))
        finally:
            over.set()
            made.close()


def test_nothing_listens(tmp_path: Path) -> None:
    """A missing socket and a closed port are errors of the system."""
    with pytest.raises(FileNotFoundError):
        connection(f"unix:{tmp_path}/none")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        connection(f"127.0.0.1:{port}")
