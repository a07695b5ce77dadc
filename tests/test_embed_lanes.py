"""Threads for queries: a short one never waits for a long one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from vikingd.wire.calls import Deadline, Threads
from vikingd.wire.embedding import SHORT, in_share


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Pools with one thread for queries."""
    pools = Threads(embedders=1)
    yield pools
    pools.shutdown()


def test_a_short_query_does_not_wait_for_long_ones(threads: Threads) -> None:
    """However many of these wait already."""
    go_on, embedded = threading.Event(), list[int]()

    def embed(text: str) -> None:
        assert len(text) <= SHORT or go_on.wait(60)
        embedded.append(len(text))

    async def main() -> None:
        deadline = Deadline(Mock(**{"time_remaining.return_value": None}))
        long = [
            asyncio.create_task(in_share(threads, deadline, embed, "x" * (SHORT + 1)))
            for _ in range(5)
        ]
        await asyncio.sleep(0)
        await in_share(threads, deadline, embed, "x" * SHORT)
        go_on.set()
        await asyncio.gather(*long)

    asyncio.run(main())
    assert embedded == [SHORT, *[SHORT + 1] * 5]
