"""Exports from a hostile daemon, which write nothing outside of the target."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, cycle, repeat
from pathlib import Path

import grpc
import pytest

from tests.client.export_helpers import TOP
from vikingd.client import AsyncClient, Client, ClientError, endless_listings
from vikingd.client.messages import MessageClient
from vikingd.ctl.export_command import Exporter
from vikingd.pb import contexts_pb2, contexts_pb2_grpc


class _Hostile(contexts_pb2_grpc.ContextsServicer):
    """A daemon that returns any URIs."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.answers: dict[str, str] = {}
        self.tokens: Iterator[str] = repeat("")

    def Tree(  # noqa: N802
        self, _: contexts_pb2.TreeRequest, __: grpc.ServicerContext
    ) -> contexts_pb2.TreeResponse:
        """Return the nodes, in each page the same; only the top is a directory."""
        return contexts_pb2.TreeResponse(
            contexts=[contexts_pb2.Context(uri=uri, is_directory=uri == TOP) for uri in self.nodes],
            next_page_token=next(self.tokens),
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


PAGES = {
    "the same token": (lambda: repeat("a"), [TOP]),
    "the same token of empty pages": (lambda: repeat("a"), []),
    "tokens by turns": (lambda: cycle("ab"), []),
    "new tokens for the same page": (lambda: map(str, count()), [TOP, f"{TOP}/a"]),
    "new tokens of empty pages": (lambda: map(str, count()), []),
}


@pytest.mark.parametrize("kind", PAGES)
def test_pages_without_progress_are_an_error(
    hostile: tuple[_Hostile, str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A listing of a server that pages for ever ends with an error, in every client."""
    monkeypatch.setattr(endless_listings, "MOST_EMPTY", 20)
    daemon, where = hostile
    tokens, daemon.nodes = PAGES[kind]

    async def read() -> None:
        async with AsyncClient(where) as client:
            async for _ in client.tree():
                pass

    for listing in (
        lambda: list(MessageClient(where).tree()),
        lambda: list(Client(where).tree()),
        lambda: Exporter(MessageClient(where), TOP),
        lambda: asyncio.run(read()),
    ):
        daemon.tokens = tokens()
        with pytest.raises(ClientError, match="NO_PROGRESS"):
            listing()


OF_GIT = (".git", ".GIT", ".git.", "git~1", ".gi\u200ct", ".git::$INDEX_ALLOCATION", "\uff0egit")


@pytest.mark.parametrize("name", [*OF_GIT, ".gitattributes", ".hg"])
def test_a_file_that_git_would_read_is_left_out(
    hostile: tuple[_Hostile, str], tmp_path: Path, name: str
) -> None:
    """An export writes nothing that configures git or hg, at any depth and by any name of it."""
    daemon, where = hostile
    hook, kept = f"{TOP}/a/{name}/hooks/post-checkout", f"{TOP}/kept.gitkeep"
    daemon.nodes = [TOP, hook, kept]
    with MessageClient(where) as client:
        exporter = Exporter(client, TOP)
        exporter.write(tmp_path / "out", lambda _: None)
    assert exporter.summary.left_out == [hook]
    assert [p.name for p in (tmp_path / "out").rglob("*")] == ["kept.gitkeep"]


@pytest.mark.parametrize("form", ["out", "out.jsonl"])
def test_no_export_goes_below_the_directory_of_git(
    hostile: tuple[_Hostile, str], tmp_path: Path, form: str
) -> None:
    """A target within .git is refused, also by a link."""
    daemon, where = hostile
    daemon.nodes = [TOP, f"{TOP}/a"]
    hooks = tmp_path / "checkout" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (tmp_path / "link").symlink_to(hooks)
    with MessageClient(where) as client:
        for target in (hooks, tmp_path / "link"):
            with pytest.raises(ClientError, match="git or hg"):
                Exporter(client, TOP).write(target / form, lambda _: None)
    assert list(hooks.iterdir()) == []
