"""Commits of a conversation: `extract` calls for its new messages, made in the background."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from vikingd.client.argument_checks import wrong_type
from vikingd.client.client_errors import (
    ClientError,
    DeadlinePassed,
    Stopping,
    TimedOut,
    Unreachable,
)
from vikingd.client.conversation import Session
from vikingd.client.extract_results import Episode, ExtractResult
from vikingd.client.multi_call_steps import Call, Steps
from vikingd.domain.extract import ExtractSource
from vikingd.domain.search_query import SearchSession

_NEW_MESSAGES = 200  # of one call; a commit of more makes several calls
_CONTEXT = 10  # messages before the new ones that a call has too

_UNSURE = (DeadlinePassed, Stopping, TimedOut, Unreachable)
"""The errors after which it is unknown whether the daemon has done the call."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The messages of a session that one `extract` call of a commit reads, with its arguments.

    Attributes:
        session: the messages of the call.
        arguments: the other arguments of `extract`, the same ones for each attempt.
        offset: the number of messages of the whole session before the first one of the call.
        end: the number of messages of the whole session up to the last one of the call.
    """

    session: SearchSession
    arguments: dict[str, Any]
    offset: int
    end: int


class Commit:
    """The calls of `extract` for the messages that no earlier commit has read, in order.

    A commit covers the messages that the session has when the commit is made. If the outcome of a
    call is unknown, the next commit first repeats the call. The repeated call has the same request
    id, so that the daemon counts both as one call.

    Args:
        session: the session.
        options: further arguments of `extract`. Arguments that are false, such as "", are not sent.
    """

    def __init__(self, session: Session, **options: Any) -> None:
        if not isinstance(session, Session):
            wanted = "a Session, which counts the messages that were read"
            raise wrong_type("session", session, wanted, "Session(messages=[...])")
        given = {name: value for name, value in options.items() if value}
        self._session = session
        self._options = {"time": datetime.now(UTC), **given}
        self._dropped = session.dropped
        self._messages = session.messages
        self._summary = session.summary

    def steps(self) -> Steps[ExtractResult]:
        """Make the calls, and return their joined results."""
        session = self._session
        results: list[ExtractResult] = []
        for piece in self._pieces():
            try:
                result: ExtractResult = yield Call("extract", (piece.session,), piece.arguments)
            except BaseException as error:  # after a cancellation, GeneratorExit
                is_sure = isinstance(error, ClientError) and not isinstance(error, _UNSURE)
                session.commits.unsure = None if is_sure else piece
                raise
            session.commits.unsure = None
            session.committed = max(session.committed, piece.end)
            results.append(_with_offset(result, piece.offset))
        if not results:
            return ExtractResult((), (), ExtractSource.NONE, "no message is new", 0)
        if len(results) == 1:
            return results[0]
        return replace(
            results[-1],
            memories=tuple(memory for one in results for memory in one.memories),
            refused=tuple(refusal for one in results for refusal in one.refused),
            reason="; ".join(dict.fromkeys(one.reason for one in results)),
            degraded=tuple(dict.fromkeys(note for one in results for note in one.degraded)),
            forgotten=tuple(memory for one in results for memory in one.forgotten),
            to_forget=tuple(request for one in results for request in one.to_forget),
            episode=_joined([one.episode for one in results if one.episode is not None]),
            not_taken=tuple(sentence for one in results for sentence in one.not_taken),
            not_taken_left_out=sum(one.not_taken_left_out for one in results),
        )

    def _pieces(self) -> Iterator[Piece]:
        if (unsure := self._session.commits.unsure) is not None:
            yield unsure
        session, end = self._session, self._dropped + len(self._messages)
        while (start := max(session.committed, self._dropped)) < end:
            stop = min(start + _NEW_MESSAGES, end)
            begin = max(start - _CONTEXT, self._dropped)
            some = self._messages[begin - self._dropped : stop - self._dropped]
            arguments = {"first": start - begin, "request_id": str(uuid.uuid4()), **self._options}
            yield Piece(SearchSession(self._summary, some, session.id), arguments, begin, stop)


def _with_offset(result: ExtractResult, by: int) -> ExtractResult:
    """Add `by` to all message indices of a result; they then count from the session's beginning."""

    def moved(one: Any) -> Any:
        return replace(one, evidence=tuple(by + i for i in one.evidence))

    episode = result.episode
    if episode is not None:
        turns = tuple(replace(turn, message=by + turn.message) for turn in episode.turns)
        episode = replace(episode, turns=turns)
    return replace(
        result,
        memories=tuple(map(moved, result.memories)),
        refused=tuple(map(moved, result.refused)),
        to_forget=tuple(replace(one, message=by + one.message) for one in result.to_forget),
        episode=episode,
        not_taken=tuple(replace(one, message=by + one.message) for one in result.not_taken),
    )


def _joined(episodes: Sequence[Episode]) -> Episode | None:
    """Join the episodes of several calls into one; None if there is none."""
    if not episodes:
        return None
    return replace(episodes[0], turns=tuple(turn for one in episodes for turn in one.turns))
