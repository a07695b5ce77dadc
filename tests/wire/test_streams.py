"""The end of streams that nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from vikingd.domain.errors import DeadlinePassed, Stopping
from vikingd.wire import streams


class Unread:
    """A call whose caller reads nothing."""

    async def write(self, _: Any) -> None:
        """Wait for the caller."""
        await asyncio.Event().wait()


async def parts() -> AsyncIterator[str]:
    """Yield the parts of a stream."""
    yield "part"


def test_a_stream_that_nobody_reads_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose caller reads nothing for a time ends with the reason."""
    monkeypatch.setattr(streams, "UNREAD", 0.01)
    with pytest.raises(DeadlinePassed, match=r"read nothing of the stream for 0\.01 s"):
        asyncio.run(streams.Streams().send(parts(), Unread()))


def test_a_stop_ends_a_stream_that_nobody_reads() -> None:
    """A stop waits for no reader of a stream."""

    async def main() -> bool:
        made = streams.Streams()
        sending = asyncio.create_task(made.send(parts(), Unread()))
        await asyncio.sleep(0)
        is_left = await made.stop()
        with pytest.raises(Stopping):
            await sending
        return is_left

    assert not asyncio.run(main())
