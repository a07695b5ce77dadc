"""Commits of a session: the memories of its new messages, taken in the background."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from vikingd.client.errors import ClientError, DeadlinePassed, Stopping, TimedOut, Unreachable
from vikingd.client.extracted import ExtractedMemory, ExtractResult
from vikingd.domain.extract import ExtractSource
from vikingd.domain.search import SearchSession

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vikingd.client.session import Session

MOST = 200
"""New messages of one call; a commit of more makes several calls."""

CONTEXT = 10
"""Messages before the new ones that a call has too, as context."""

_UNSURE = (DeadlinePassed, Stopping, TimedOut, Unreachable)
"""Errors of a call that the daemon may have done."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One call of a commit: the arguments of `extract`, and its end in the whole session."""

    session: SearchSession
    first: int
    offset: int  # the number of messages of the session before the first one of the piece
    end: int
    options: dict[str, Any]
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `extract`, the same ones for each attempt."""
        return {"first": self.first, "request_id": self.request_id, **self.options}


class Commit:
    """The calls of one commit, in order.

    The messages up to now are read, but those of earlier commits. A call whose outcome is unknown
    is repeated first by the next commit, with the same name, so that it counts once.
    """

    def __init__(self, session: Session, options: dict[str, Any]) -> None:
        self._session = session
        self._options = {"time": datetime.now(UTC), **options}
        self._dropped = session.dropped
        self._messages = session.messages
        self._summary = session.summary
        self._results: list[ExtractResult] = []

    def pieces(self) -> Iterator[Piece]:
        """Yield each call to make; `done` or `failed` follows before the next one."""
        if (unsure := self._session.commits.unsure) is not None:
            yield unsure
        end = self._dropped + len(self._messages)
        while (start := max(self._session.committed, self._dropped)) < end:
            stop = min(start + MOST, end)
            begin = max(start - CONTEXT, self._dropped)
            some = self._messages[begin - self._dropped : stop - self._dropped]
            said = SearchSession(self._summary, some)
            yield Piece(said, start - begin, begin, stop, self._options)

    def done(self, piece: Piece, result: ExtractResult) -> None:
        """Note that a call succeeded."""
        self._session.commits.unsure = None
        self._session.committed = max(self._session.committed, piece.end)
        self._results.append(_moved(result, piece.offset))

    def failed(self, piece: Piece, error: BaseException) -> None:
        """Note that a call failed; its messages wait for the next commit."""
        is_sure = isinstance(error, ClientError) and not isinstance(error, _UNSURE)
        self._session.commits.unsure = None if is_sure else piece

    def result(self) -> ExtractResult:
        """Return the results of all calls as one."""
        if not self._results:
            return ExtractResult((), (), ExtractSource.NONE, "no message is new", 0)
        last = self._results[-1]
        if len(self._results) == 1:
            return last
        return replace(
            last,
            memories=tuple(memory for one in self._results for memory in one.memories),
            refused=tuple(refusal for one in self._results for refusal in one.refused),
            reason="; ".join(dict.fromkeys(one.reason for one in self._results)),
            degraded=tuple(dict.fromkeys(n for one in self._results for n in one.degraded)),
        )


class Running:
    """The commits of one connection that have not ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ends: set[Future[Any]] = set()

    def add(self, end: Future[Any]) -> None:
        """Add the future of a commit, until it is done."""
        with self._lock:
            self._ends.add(end)
        end.add_done_callback(self._remove)

    def all(self) -> list[Future[Any]]:
        """Return the futures of the running commits."""
        with self._lock:
            return list(self._ends)

    def _remove(self, end: Future[Any]) -> None:
        with self._lock:
            self._ends.discard(end)


def _moved(result: ExtractResult, by: int) -> ExtractResult:
    """Return a result whose evidence counts all messages of the session."""

    def moved(memory: ExtractedMemory) -> ExtractedMemory:
        return replace(memory, evidence=tuple(by + i for i in memory.evidence))

    refused = tuple(
        replace(one, evidence=tuple(by + i for i in one.evidence)) for one in result.refused
    )
    return replace(result, memories=tuple(map(moved, result.memories)), refused=refused)
