"""Failures of the tools: each says what is wrong and what to do, in words for a model."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import grpc
import pytest
from mcp import Client

from tests.daemons import serving
from tests.mcp.mcp_helpers import failed, in_process, run, told
from vikingd.client import AsyncClient, CreatedKey, Draft
from vikingd.client import Client as Daemon
from vikingd.client import client_errors as errors
from vikingd.mcp import failures, retrieval_tools
from vikingd.mcp.mcp_server import server

TEA = "viking://resources/tea.md"
KINDS = [
    kind
    for base in (errors.ClientError, errors.EmbedderFailed, errors.StoreFailed)
    for kind in base.__subclasses__()
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[str, CreatedKey]]:
    """Yield the address of a daemon with a file, and the key of its operator."""
    with serving("--provider", "none") as where:
        with Daemon(where) as first:
            operator = first.create_key(operator=True)
        with Daemon(where, key=operator.secret) as client:
            client.put([Draft(TEA, content="Oolong.")])
        yield where, operator


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_a_daemon_may_start_later_and_restart(times: int) -> None:
    """Without a daemon a call says how to start one, and works whenever there is one."""
    address = f"127.0.0.1:{free_port()}"

    asyncio.run(_restarts(address, times))


async def _restarts(address: str, times: int) -> None:
    async with in_process(address) as client:
        for _ in range(times):
            text = await failed(client, "find", query="tea")
            assert f"No daemon answers at {address}" in text
            assert "`vikingd serve`" in text
            daemon = serving("--provider", "none", "--listen", address)
            await asyncio.to_thread(daemon.__enter__)
            try:
                async with asyncio.timeout(5):
                    while (await client.call_tool("list", {})).is_error:
                        await asyncio.sleep(0.05)
            finally:
                await asyncio.to_thread(daemon.__exit__, None, None, None)


@pytest.mark.parametrize("key", ["", "vk_unknown_secretsecretsecret"])
def test_without_a_valid_key_a_call_says_where_the_key_goes(
    guarded: tuple[str, CreatedKey], key: str
) -> None:
    """A missing and a wrong key are told, with the places for the right one and no secret."""

    async def test(client: Client) -> None:
        text = await failed(client, "read", uri=TEA)
        assert "key" in text
        assert "VIKINGD_KEY_FILE" in text
        assert "Authorization: Bearer" in text
        assert "secretsecret" not in text

    run(test, guarded[0], key=key)


def test_a_call_without_the_right_says_so(guarded: tuple[str, CreatedKey]) -> None:
    """A key that may only read gets an error for a write, and other places do not exist for it."""
    where, operator = guarded
    with Daemon(where, key=operator.secret) as client:
        reader = client.create_key(read=["viking://resources"])

    async def test(client: Client) -> None:
        assert (await told(client, "read", uri=TEA))["content"] == "Oolong."
        text = await failed(client, "write", uri="viking://resources/new.md", content="New.")
        assert "right" in text
        assert reader.secret not in text
        text = await failed(client, "read", uri="viking://user/memories/tea.md")
        assert text.startswith("viking://user/memories/tea.md does not exist.")

    run(test, where, key=reader.secret)


def test_a_quota_is_told_with_its_seconds(guarded: tuple[str, CreatedKey]) -> None:
    """A limit of calls says how long to wait; a limit of contexts says that waiting is no use."""
    where, operator = guarded
    with Daemon(where, key=operator.secret) as client:
        slow = client.create_key(read=["viking://resources"], limits={"calls_per_second": 1})
        client.put_tenant("small", limits={"contexts": 2}, create=True)

    async def main() -> None:
        async with (
            AsyncClient(where, key=slow.secret, retries=False) as daemon,
            Client(server(lambda _: daemon, read_only=False)) as client,
        ):
            results = [await client.call_tool("read", {"uri": TEA}) for _ in range(10)]
            texts = [str(getattr(result.content[0], "text", "")) for result in results]
            assert any("seconds." in text and "Call again in" in text for text in texts)
        async with (
            AsyncClient(where, key=operator.secret, tenant="small") as daemon,
            Client(server(lambda _: daemon, read_only=False)) as client,
        ):
            many = "viking://resources/a/b/c/d.md"
            text = await failed(client, "write", uri=many, content="Too much.")
            assert "Waiting does not help" in text

    asyncio.run(main())


def test_a_missing_uri_names_the_nearest_directory(daemon: str, typed: Daemon) -> None:
    """A URI that does not exist is told with the nearest directory above it that does."""
    typed.put([Draft("viking://resources/drinks/tea.md", content="Oolong.")])

    async def test(client: Client) -> None:
        for uri, nearest in (
            ("viking://resources/drinks/wine.md", "viking://resources/drinks"),
            ("viking://resources/foods/x/y/z.md", "viking://resources"),
            ("viking://nowhere/x", "viking://"),
        ):
            text = await failed(client, "read", uri=uri)
            assert text == f"{uri} does not exist. The nearest directory is {nearest}: list it."
        below_a_file = await failed(client, "read", uri="viking://resources/drinks/tea.md/x/y")
        assert below_a_file.endswith("viking://resources/drinks/tea.md is a file.")
        text = await failed(client, "find", query="tea", target_uri="viking://resources/foods")
        assert "nearest directory is viking://resources:" in text
        text = await failed(client, "write", uri="viking://resources/notes/", content="Tea.")
        assert text == (
            "viking://resources/notes/ is a directory: "
            "name the file, such as viking://resources/notes/tea.md."
        )
        assert "Take the ids from recall" in await failed(client, "forget", ids=[999])

    run(test, daemon)


def test_what_models_write_all_the_same_is_taken(typed: Daemon) -> None:
    """An integer with a point, a list as JSON in a string and null for no value are understood."""

    async def test(client: Client) -> None:
        found = await told(
            client, "find", query="tea", limit=5.0, types='["resource"]', target_uri=None
        )
        assert len(found["results"]) == 1

    typed.put([Draft("viking://resources/a.md", content="Tea.")])
    run(test, typed.address)


def test_a_daemon_that_does_not_answer_is_told() -> None:
    """A call without an answer says how long it waited."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        async def test(client: Client) -> None:
            text = await failed(client, "find", query="tea")
            assert "no answer within 0.3 seconds" in text

        run(test, address, timeout=0.3)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_client_has_advice(kind: type[errors.ClientError]) -> None:
    """Each error becomes sentences; all but three, which tell it themselves, have advice."""

    async def main() -> None:
        async with AsyncClient("127.0.0.1:1", 0.2) as client:
            error = kind(grpc.StatusCode.UNKNOWN, "something happened")
            text = await failures.explained(error, client, ("uri",))
            assert text.endswith(".")
            assert "StatusCode" not in text
            if kind not in (errors.InvalidField, errors.NotFound, errors.RevisionDiffers):
                assert text != "something happened."

    asyncio.run(main())


def test_a_bug_shows_no_inner_words(
    daemon: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected exception reaches the log, and the model only as a bug."""

    def broken(*_: object) -> None:
        raise RuntimeError("the inner words")

    async def test(client: Client) -> None:
        text = await failed(client, "find", query="tea")
        assert "bug" in text
        assert "inner" not in text
        assert await told(client, "list")

    monkeypatch.setattr(retrieval_tools, "_fitted", broken)
    run(test, daemon)
    assert "the inner words" in caplog.text
