"""Cancelled calls of AsyncClient: the caller's own cancellation is raised, and the call ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import anyio
import httpx
import pytest

from tests.daemons import serving
from tests.metrics_helpers import free_address
from tests.patience import eventually
from vikingd.client import AsyncClient, Client, Document

SLOW = "(a|b|c)+.*zzz"


@pytest.fixture(scope="module")
def daemon() -> Iterator[tuple[str, str]]:
    """Yield the address of a daemon in which a grep takes long, and that of its metrics."""
    listen = free_address()
    options = ("--provider", "none", "--metrics-listen", listen)
    with serving(*options) as address, Client(address) as client:
        text = "abc " * 400
        client.put_many(Document(f"viking://resources/{i}.md", text) for i in range(1500))
        yield address, f"http://{listen}/metrics"


async def lines(client: AsyncClient) -> AsyncIterator[object]:
    """Yield what a slow grep finds."""
    async for match in client.grep(SLOW):
        yield match


async def drained(client: AsyncClient) -> None:
    """Wait for the end of a slow grep."""
    async for _ in lines(client):
        pass


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("delay", [0.005, 0.0, 0.001])
def test_a_scope_of_anyio_ends_quietly(daemon: tuple[str, str], delay: float) -> None:
    """The cancellation is that of the scope, for a call, its steps and the items of a listing."""

    async def main() -> None:
        async with AsyncClient(daemon[0]) as client:
            for work in (drained(client), many(client), finds(client)):
                with anyio.move_on_after(delay) as scope:
                    await work
                assert scope.cancelled_caught
            with pytest.raises(TimeoutError):
                with anyio.fail_after(delay):
                    await drained(client)
            assert (await client.stats()).version  # the client goes on

    anyio.run(main)


async def finds(client: AsyncClient) -> None:
    """Call without an end."""
    while True:
        await client.find("abc")


async def many(client: AsyncClient) -> None:
    """Write documents without an end, by calls of several steps."""
    while True:
        await client.put_many([Document("viking://resources/new.md", "New.")])


def test_a_task_group_of_anyio_is_cancelled(daemon: tuple[str, str]) -> None:
    """A call beside others in a group that is cancelled leaves no error."""

    async def main() -> None:
        async with AsyncClient(daemon[0]) as client, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(drained, client)
            await anyio.sleep(0.01)
            group.cancel_scope.cancel("enough")
        assert group.cancel_scope.cancelled_caught

    anyio.run(main)


def test_the_cancellations_of_asyncio_are_its_own(daemon: tuple[str, str]) -> None:
    """timeout, wait_for, a TaskGroup and cancel() with a message behave as with any awaitable."""

    async def failing() -> None:
        await asyncio.sleep(0.01)
        raise LookupError("the other task")

    async def main() -> None:
        async with AsyncClient(daemon[0]) as client:

            async def together() -> None:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(drained(client))
                    tasks.create_task(failing())

            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await drained(client)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(drained(client), 0.01)
            with pytest.raises(ExceptionGroup) as group:
                await together()
            assert [type(one) for one in group.value.exceptions] == [LookupError]
            task = asyncio.ensure_future(drained(client))
            await asyncio.sleep(0.01)
            task.cancel("mine")
            with pytest.raises(asyncio.CancelledError, match="mine"):
                await task
            while len(asyncio.all_tasks()) > 1:  # the ends of the calls themselves
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_cancelled_call_is_cancelled_in_the_daemon(daemon: tuple[str, str]) -> None:
    """The daemon counts the call as cancelled, soon after the caller is."""
    address, metrics = daemon

    def cancelled() -> float:
        text = httpx.get(metrics, trust_env=False).text
        found = [one for one in text.splitlines() if "Grep" in one and "CANCELLED" in one]
        return sum(float(one.rpartition(" ")[2]) for one in found if "_bucket" not in one)

    async def main() -> None:
        async with AsyncClient(address) as client:
            with anyio.move_on_after(0.02):
                await drained(client)

    def is_counted() -> bool:
        anyio.run(main)  # a busy daemon has not begun each call in time
        return cancelled() > before

    before = cancelled()
    eventually(is_counted)


def test_a_stream_is_cancelled(daemon: tuple[str, str]) -> None:
    """The parts of a backup end with the scope, too."""

    async def main() -> None:
        async with AsyncClient(daemon[0]) as client:
            with anyio.move_on_after(0.005) as scope:
                while True:
                    async for _ in client.backup():
                        await anyio.sleep(0)
            assert scope.cancelled_caught

    anyio.run(main)


def test_a_client_that_is_closed_during_a_call_says_so(daemon: tuple[str, str]) -> None:
    """A call in flight fails with an error, and is not taken for a cancellation."""

    async def main() -> None:
        client = AsyncClient(daemon[0])
        # A single grep may end before the client is closed.
        task = asyncio.gather(*(drained(client) for _ in range(30)))
        await asyncio.sleep(0.01)
        await client.close()
        with pytest.raises(ValueError, match="the client is closed"):
            await task

    asyncio.run(main())


def test_a_client_of_another_event_loop_says_what_to_do(daemon: tuple[str, str]) -> None:
    """The error names the event loop and both remedies, for calls, steps and listings."""

    async def made() -> AsyncClient:
        client = AsyncClient(daemon[0])
        await client.stats()
        return client

    async def used(client: AsyncClient) -> None:
        for call in (client.stats(), client.exists("viking://resources"), drained(client)):
            with pytest.raises(RuntimeError, match=r"another event loop.*make one in each.*Client"):
                await call
        for copy in (client.with_timeout(1), client.with_key("")):
            with pytest.raises(RuntimeError, match="another event loop"):
                await copy.stats()
        with suppress(RuntimeError):  # asyncio's, of the loop that is gone
            await client.close()

    asyncio.run(used(asyncio.run(made())))
