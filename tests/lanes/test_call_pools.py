"""The pools of threads of a daemon."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from vikingd.lanes.call_pools import CallDeadline, Threads


def test_an_iterator_that_ends_in_a_thread_fails_its_call() -> None:
    """A StopIteration, which no asyncio.Future takes, is an error of the call; it does not hang."""

    async def call() -> object:
        deadline = CallDeadline(Mock(**{"time_remaining.return_value": None}))
        ended = Threads().preparing.run(deadline, next, iter(()))
        return await asyncio.wait_for(ended, 60)

    with pytest.raises(RuntimeError, match="ran out of items"):
        asyncio.run(call())
