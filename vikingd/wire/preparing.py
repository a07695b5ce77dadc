"""Preparation of puts: checked and cut into texts, in slices that calls take in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from vikingd.domain.contexts import Prepared
from vikingd.domain.errors import Overloaded
from vikingd.ingest import prepare
from vikingd.ingest.masks import Masked
from vikingd.pb import contexts_pb2
from vikingd.wire.calls import Deadline, Pool, Threads, on
from vikingd.wire.messages import decode

INLINE_SIZE = 4 << 10
"""Of a put, see `decode.put_size`; what is no larger is gone through on the event loop."""

SMALL_SIZE = 64 << 10
"""Of a put; what is no larger does not queue with what is."""

_SLICE = 0.02  # seconds of processor time, after which another call has its turn
_RETRY_AFTER = 1.0


class _Lane:
    """A thread on which calls take turns, and a bound on what waits for it."""

    def __init__(self, pool: Pool, most_calls: int, most_bytes: int) -> None:
        self.pool = pool
        self._most = most_calls, most_bytes
        self._calls = self._bytes = 0

    @contextmanager
    def place(self, size: int) -> Iterator[None]:
        """Hold a place for a request of so many bytes; one alone always has one.

        Raises:
            Overloaded: there is none.
        """
        calls, size_now = self._calls + 1, self._bytes + size
        if self._calls and (calls > self._most[0] or size_now > self._most[1]):
            raise Overloaded(
                f"{self._calls:,} puts of {self._bytes:,} bytes wait to be prepared, at most "
                f"{self._most[0]:,} of {self._most[1]:,} bytes may; repeat the call later, or send "
                "fewer puts at a time",
                _RETRY_AFTER,
            )
        self._calls, self._bytes = calls, size_now
        try:
            yield
        finally:
            self._calls -= 1
            self._bytes -= size


class Preparing:
    """Prepares puts: tiny ones at once, small and large ones each on a thread of their own.

    A call does one slice, then goes to the end of its queue: a put waits for one slice of each call
    before it, never for all of another's contexts.
    """

    def __init__(self, threads: Threads) -> None:
        self._small = _Lane(threads.preparing_small, 1024, 32 << 20)
        self._large = _Lane(threads.preparing, 64, 64 << 20)

    async def contexts(
        self, request: contexts_pb2.PutRequest, dimension: int | None, deadline: Deadline
    ) -> list[Prepared | Masked]:
        """Return the contexts of a put, checked and cut into texts.

        Raises:
            InvalidField: naming the field as in the proto.
            DeadlinePassed: while they were cut.
            Overloaded: too much waits already.
        """
        size = decode.put_size(request)
        work = Slices(request, dimension, deadline)
        if size <= INLINE_SIZE:
            while not work.do_slice():
                pass
            return work.prepared
        lane = self._small if size <= SMALL_SIZE else self._large
        with lane.place(request.ByteSize()):
            while not await on(lane.pool, deadline, work.do_slice):
                pass
        return work.prepared


class Slices:
    """The preparation of one put, to be done slice by slice.

    Attributes:
        prepared: the contexts that are done.
    """

    def __init__(
        self, request: contexts_pb2.PutRequest, dimension: int | None, deadline: Deadline
    ) -> None:
        self.prepared: list[Prepared | Masked] = []
        self._drafts = decode.put_drafts(request, dimension)
        self._deadline = deadline

    def do_slice(self) -> bool:
        """Prepare contexts, at least one, until a slice is over; return whether all are done."""
        until = time.thread_time() + _SLICE
        for draft in self._drafts:
            self._deadline.left()
            whole = draft.update_mask is None
            self.prepared.append(prepare.prepare(draft) if whole else Masked.of(draft))
            if time.thread_time() >= until:
                return False
        return True
