"""Exports from a hostile daemon, which write nothing outside of the target."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from export_helpers import TOP

from vikingd.client import ClientError
from vikingd.client.messages import MessageClient
from vikingd.ctl.exporting import Exporter
from vikingd.pb import contexts_pb2, contexts_pb2_grpc


class _Hostile(contexts_pb2_grpc.ContextsServicer):
    """A daemon that returns any URIs."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.answers: dict[str, str] = {}

    def Tree(  # noqa: N802
        self, _: contexts_pb2.TreeRequest, __: grpc.ServicerContext
    ) -> contexts_pb2.TreeResponse:
        """Return the nodes; only the top is a directory."""
        return contexts_pb2.TreeResponse(
            contexts=[contexts_pb2.Context(uri=uri, is_directory=uri == TOP) for uri in self.nodes]
        )

    def Get(  # noqa: N802
        self, request: contexts_pb2.GetRequest, _: grpc.ServicerContext
    ) -> contexts_pb2.GetResponse:
        """Return a context with any URI."""
        uri = self.answers.get(request.uri, request.uri)
        return contexts_pb2.GetResponse(
            context=contexts_pb2.Context(uri=uri, is_directory=uri == TOP, content="mine")
        )


@pytest.fixture
def hostile() -> Iterator[tuple[_Hostile, str]]:
    """Yield a hostile daemon and its address."""
    servicer = _Hostile()
    server = grpc.server(ThreadPoolExecutor(2))
    contexts_pb2_grpc.add_ContextsServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize("form", ["out", "out.jsonl"])
@pytest.mark.parametrize(
    "nodes",
    [
        [TOP, "{}/taken"],
        [TOP, f"{TOP}/../../taken"],
        [TOP, f"{TOP}//taken"],
        [TOP, f"{TOP}/{{}}/taken"],
        [TOP, "viking://taken"],
        [TOP, f"{TOP}x/taken"],
        [TOP, f"{TOP}/a/"],
        [TOP, f"{TOP}/a\nb"],
        [TOP, ""],
        ["viking://user", f"{TOP}/a"],
        [f"{TOP}/a"],
        [],
    ],
)
def test_a_daemon_writes_nowhere_but_below_the_target(
    hostile: tuple[_Hostile, str], tmp_path: Path, nodes: list[str], form: str
) -> None:
    """An export refuses URIs outside of the requested subtree before it writes a file."""
    daemon, where = hostile
    target = tmp_path / "a" / "b"
    target.mkdir(parents=True)
    daemon.nodes = [node.replace("{}", str(tmp_path)) for node in nodes]
    with MessageClient(where) as client, pytest.raises(ClientError, match="the daemon"):
        Exporter(client, TOP).write(target / form, lambda _: None)
    assert [p for p in tmp_path.rglob("*") if not p.is_dir()] == []
    assert list(target.iterdir()) == []


def test_a_daemon_that_answers_with_another_context_is_not_believed(
    hostile: tuple[_Hostile, str], tmp_path: Path
) -> None:
    """An export refuses a reply whose URI differs from the requested URI."""
    daemon, where = hostile
    daemon.nodes = [TOP, f"{TOP}/a"]
    daemon.answers = {f"{TOP}/a": f"{TOP}/../../taken"}
    with MessageClient(where) as client, pytest.raises(ClientError, match="when asked for"):
        Exporter(client, TOP).write(tmp_path / "out", lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_daemon_that_names_a_context_twice_overwrites_nothing(
    hostile: tuple[_Hostile, str], tmp_path: Path
) -> None:
    """An export refuses a context below a file, and writes nothing."""
    daemon, where = hostile
    daemon.nodes = [TOP, f"{TOP}/a", f"{TOP}/a/b"]
    with MessageClient(where) as client, pytest.raises(ClientError, match=f"{TOP}/a/b: "):
        Exporter(client, TOP).write(tmp_path / "out", lambda _: None)
    assert list(tmp_path.iterdir()) == []
