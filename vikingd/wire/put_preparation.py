"""The preparation of Put calls: contexts are checked and cut into texts before the write."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft, Prepared
from vikingd.domain.errors import InvalidField, Overloaded
from vikingd.domain.store_changes import PutRefusal
from vikingd.ingest import draft_preparation
from vikingd.ingest.code.parser_process import Ahead, Ask, Request, is_parsed
from vikingd.ingest.masks import Masked
from vikingd.lanes.call_pools import CallDeadline, Pool, Threads
from vikingd.pb import contexts_pb2
from vikingd.wire.messages.put_request import PutReader, put_size

INLINE_SIZE = 4 << 10
"""The size of a put, see `put_size`, up to which the event loop prepares it."""

SMALL_SIZE = 64 << 10
"""The size of a put up to which it has its own thread and waits for no larger one."""

_GROUP, _GROUP_CHARACTERS = 16, 1 << 17
"""Contexts of a put, and the characters of their contents, that go to the parser together."""

_AHEAD = 2
"""Groups at the parser. It works on one while this process prepares another."""

_SLICE = 0.02  # seconds of processor time until another call has its turn
_RETRY_AFTER = 1.0


class _Lane:
    """A thread that calls use in turn, with a limit on the calls and bytes that wait for it."""

    def __init__(self, pool: Pool, most_calls: int, most_bytes: int) -> None:
        self.pool = pool
        self._most = most_calls, most_bytes
        self._calls = self._bytes = 0

    @contextmanager
    def place(self, size: int) -> Iterator[None]:
        """Within the block, count a request of `size` bytes as one that waits for the thread.

        A lane without other requests accepts any size.

        Raises:
            Overloaded: too many calls or bytes wait already.
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
    """Prepares the contexts of Put calls.

    Tiny puts are prepared on the event loop, unless they have source code, whose parser is another
    process. All other small puts share one thread, and all large ones share another. On a thread, a
    put works for about 20 ms of processor time and then goes to the end of the queue, so that no
    put waits for all contexts of another one.
    """

    def __init__(self, threads: Threads) -> None:
        self._small = _Lane(threads.preparing_small, 1024, 32 << 20)
        self._large = _Lane(threads.preparing, 64, 64 << 20)

    async def contexts(
        self, request: contexts_pb2.PutRequest, dimension: int | None, deadline: CallDeadline
    ) -> list[Prepared | Masked | PutRefusal]:
        """Return the contexts of a put, checked and cut into texts.

        Args:
            request: the request. With `partial_success`, an invalid context becomes a PutRefusal.
            dimension: the dimension of the store's vectors; None while the store has none.
            deadline: the deadline of the call.

        Returns:
            One item for each context of the request, in its order.

        Raises:
            InvalidField: a context is invalid; the error names the field as in the proto.
            DeadlinePassed: the deadline passed during the preparation.
            Overloaded: too many puts wait.
        """
        size = put_size(request)
        batch = PutBatch(request, dimension)
        if size <= INLINE_SIZE and not any(map(_is_parsed, request.contexts)):
            while not batch.do_slice(deadline):
                pass
            return batch.contexts
        lane = self._small if size <= SMALL_SIZE else self._large
        with lane.place(request.ByteSize()):
            while not await lane.pool.run(deadline, batch.do_slice, deadline):
                pass
        return batch.contexts


def _is_parsed(given: contexts_pb2.ContextInput) -> bool:
    return is_parsed(given.content, uris.name(given.uri))


class _Group(NamedTuple):
    """Contexts of a put that are read and not yet prepared, and the replies of the parser."""

    drafts: deque[Draft | InvalidField]
    ask: Ask


class PutBatch:
    """The contexts of one put, prepared one after the other.

    With `partial_success`, an invalid context becomes a PutRefusal; otherwise its error is raised.

    Attributes:
        contexts: the contexts that are prepared so far.
    """

    def __init__(self, request: contexts_pb2.PutRequest, dimension: int | None) -> None:
        self.contexts: list[Prepared | Masked | PutRefusal] = []
        self._groups: deque[_Group] = deque()
        self._read = 0  # contexts in groups so far
        self._reader = PutReader(request, dimension)
        self._count = len(request.contexts)
        self._is_partial = request.partial_success

    def do_slice(self, deadline: CallDeadline) -> bool:
        """Prepare contexts for about 20 ms, at least one; return True if all are done."""
        until = time.thread_time() + _SLICE
        while (i := len(self.contexts)) < self._count:
            deadline.left()
            while len(self._groups) < _AHEAD and self._read < self._count:
                self._groups.append(self._next_group())
            group = self._groups[0]
            self.contexts.append(self._prepared(i, group.drafts.popleft(), group.ask))
            if not group.drafts:
                self._groups.popleft()
            if time.thread_time() >= until:
                return False
        return True

    def _next_group(self) -> _Group:
        """Read the next drafts, and send their source code to the parser."""
        drafts: deque[Draft | InvalidField] = deque()
        requests: list[Request] = []
        characters = 0
        for i in range(self._read, min(self._read + _GROUP, self._count)):
            try:
                draft = self._reader.draft(i)
            except InvalidField as error:
                drafts.append(error)  # raised in its turn
                continue
            drafts.append(draft)
            if draft.update_mask is None:
                requests += draft_preparation.parser_requests(draft)
            characters += len(draft.content)
            if characters >= _GROUP_CHARACTERS:
                break
        self._read += len(drafts)
        return _Group(drafts, Ahead(requests).ask)

    def _prepared(
        self, i: int, draft: Draft | InvalidField, ask: Ask
    ) -> Prepared | Masked | PutRefusal:
        try:
            if isinstance(draft, InvalidField):
                raise draft
            if draft.update_mask is None:
                return draft_preparation.prepare(draft, ask)
            return Masked.of(draft)
        except InvalidField as error:
            if self._is_partial:
                return PutRefusal.of(i, error)
            raise error.below(f"contexts[{i}]") from None
