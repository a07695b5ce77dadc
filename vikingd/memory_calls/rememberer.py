"""Remember: compares one memory with the entries of its file, then writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import Committed, Once
from vikingd.engine import Engine
from vikingd.lanes.call_pools import FutureBridge, Threads
from vikingd.lanes.queues import Deadline
from vikingd.memory.memory_file_changes import Remembering
from vikingd.memory.memory_file_series import Key, Known, KnownFiles, Rewrite, Series

_T = TypeVar("_T")


class Rememberer:
    """Answers Remember."""

    def __init__(self, engine: Engine, threads: Threads) -> None:
        self._engine = engine
        self._threads = threads
        self._known = KnownFiles()
        self._writes = FutureBridge()

    async def answer(
        self,
        remembered: Remembering,
        once: Once | None,
        deadline: Deadline,
        reply: Callable[[Committed], _T | None],
        parse: Callable[[bytes], _T],
        *,
        names_file: bool,
    ) -> _T:
        """Write a memory and return the reply.

        Args:
            remembered: the memory and its file.
            once: the identity of the request; None without a request id.
            deadline: the deadline of the call.
            reply: makes the reply. It returns None if the file changed since the comparison; then
                the write is tried again.
            parse: makes the reply from the stored bytes, if the call is a repetition.
            names_file: True if the request names a file, False if it names a type of memory. The
                error names the field accordingly.

        Raises:
            InvalidField: the file cannot hold the memory.
        """
        while True:
            await self.prepare(remembered, deadline)
            deadline.left()
            try:
                done = await self.written([(remembered.uri, remembered)], once)
            except InvalidField as error:
                if error.field != "contexts[0].uri":
                    raise
                field = "uri" if names_file else "memory_type"
                raise InvalidField(field, f"{remembered.uri} {error.description}") from None
            if done.reply:
                return parse(done.reply)
            if (answer := reply(done)) is not None:
                return answer

    async def written(
        self, rewrites: Sequence[tuple[str, Rewrite]], once: Once | None
    ) -> Committed:
        """Write files of memories in one transaction: all or none."""
        return await self._writes.result(self._engine.writable_store.rewrite(rewrites, once))

    async def prepare(self, remembered: Remembering, deadline: Deadline) -> Mapping[Key, Known]:
        """Compare a memory with the entries of its series; return the entries by file key."""
        series, known = await self.series(remembered.uri, deadline)
        await self._threads.prepare(deadline, remembered.prepare, series, known)
        return known

    async def series(self, uri: str, deadline: Deadline) -> tuple[Series, Mapping[Key, Known]]:
        """Return a series: a memory file with its continuations.

        Args:
            uri: the URI of the first file.
            deadline: the deadline of the call.

        Returns:
            The series, and the entries of its files by key. Only files that changed since the last
            call are read.
        """
        threads, store = self._threads, self._engine.store
        kept = self._known.all()
        series = await threads.read(deadline, store.memory_series, uri, kept)
        known = await threads.prepare(deadline, _known, series, kept)
        self._known.keep(known)
        return series, known


def _known(series: Series, kept: Mapping[Key, Known]) -> dict[Key, Known]:
    """Return the entries of each file of a series, by the file's key.

    Files that are not in the cache `kept` are read.
    """
    found: dict[Key, Known] = {}
    for uri, key in series.files:
        if (known := kept.get(key)) is not None:
            found[key] = known
        elif (file := series.read(uri)) is not None:
            found[key] = Known(file)
    return found
