"""Separate threads for short and long queries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from vikingd.answer.query_planning import embed_in_share
from vikingd.lanes.call_pools import SHORT_TEXT, CallDeadline, Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Yield pools with one thread for queries."""
    pools = Threads(embedders=1)
    yield pools
    pools.shutdown()


def test_a_short_query_does_not_wait_for_long_ones(threads: Threads) -> None:
    """A short query is embedded before five earlier long queries."""
    go_on, embedded = threading.Event(), list[int]()

    def embed(text: str) -> None:
        assert len(text) <= SHORT_TEXT or go_on.wait(60)
        embedded.append(len(text))

    async def main() -> None:
        deadline = CallDeadline(Mock(**{"time_remaining.return_value": None}))
        long = [
            asyncio.create_task(embed_in_share(threads, deadline, embed, "x" * (SHORT_TEXT + 1)))
            for _ in range(5)
        ]
        await asyncio.sleep(0)
        await embed_in_share(threads, deadline, embed, "x" * SHORT_TEXT)
        go_on.set()
        await asyncio.gather(*long)

    asyncio.run(main())
    assert embedded == [SHORT_TEXT, *[SHORT_TEXT + 1] * 5]
