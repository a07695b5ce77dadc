"""A conversation, which a search reads besides its query."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from vikingd.client.argument_checks import described, wrong_type
from vikingd.client.value_conversion import When, micros_of, moment
from vikingd.domain.search_query import SESSION_ID, SearchSession, SessionMessage, id_of
from vikingd.pb import retrieval_pb2
from vikingd.system.regular_files import read_regular

_LARGEST = 64 << 20  # bytes of a file

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ROLES = ("user", "assistant", "system", "tool")


class Commits:
    """The queue of the commits of one session, which run one after the other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: Future[None] | None = None
        self.unsure: Any = None  # a call that the next commit repeats

    def begin(self) -> tuple[Future[None] | None, Future[None]]:
        """Add a commit to the queue.

        Return (the future of the commit before it or None, its own future). The caller waits for
        the former, and sets the latter when its own commit has ended.
        """
        with self._lock:
            before, self._last = self._last, Future()
            return before, self._last


class Session:
    """The conversation between a user and an agent.

        session = Session(summary="They plan a move to gRPC.")
        session.add("user", "Let us write that down properly.")
        client.search("Help me create an RFC document", session=session)

    Attributes:
        summary: the summary of the earlier part, which is not among the messages.
        id: the name of the session, under which its turns are kept.
        committed: the number of messages that commits have read, the dropped ones included.
        commits: the commits in progress, for `client.commit`.
    """

    def __init__(
        self,
        summary: str = "",
        messages: Iterable[SessionMessage | Mapping[str, Any]] = (),
        *,
        keep: int | None = None,
        id: str = "",  # noqa: A002
    ) -> None:
        """Begin a session.

        Args:
            summary: the summary of the conversation before the messages.
            messages: the messages in their order, also as dicts with role and content.
            keep: keep this many of the last messages; None: keep all.
            id: the name of the session, 1 to 64 letters, digits, "-" and "_"; "": a new name.

        Raises:
            ValueError: `keep` is below 1, the id has another form, or a message has no content or
                an unknown role.
        """
        if keep is not None and keep < 1:
            raise ValueError(f"keep must be at least 1, not {keep}")
        if id and not SESSION_ID.fullmatch(id):
            raise ValueError(f'id is {id[:64]!r}, not 1 to 64 letters, digits, "-" and "_"')
        self.summary = summary
        self.id = id or uuid.uuid4().hex[:16]
        self._keep = keep
        self._messages: list[SessionMessage] = []
        self._dropped = 0
        self.committed = 0
        self.commits = Commits()
        for i, message in enumerate(messages):
            try:
                self._add(_message(message))
            except (TypeError, ValueError) as error:
                raise type(error)(f"messages[{i}]: {error}") from None

    @property
    def messages(self) -> tuple[SessionMessage, ...]:
        """Return the messages in their order."""
        return tuple(self._messages)

    def add(self, role: str, content: str, time: When | None = None) -> None:
        """Add a message.

        Args:
            role: one of ROLES.
            content: the text of the message, not empty.
            time: the time at which it was said; None: now.

        Raises:
            ValueError: the role is unknown, the content is empty, or `time` is no time.
        """
        said = micros_of(datetime.now(UTC) if time is None else time)
        self._add(SessionMessage(role, content, said))

    def _add(self, message: SessionMessage) -> None:
        if message.role not in ROLES:
            raise ValueError(f"role is {message.role!r}, not one of {', '.join(ROLES)}")
        if not message.content.strip():
            raise ValueError("content is empty")
        self._messages.append(message)
        if self._keep is not None and len(self._messages) > self._keep:
            self._dropped += len(self._messages) - self._keep
            del self._messages[: -self._keep]

    @property
    def dropped(self) -> int:
        """Return the number of messages that `keep` dropped, all before `messages`."""
        return self._dropped

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, keep: int | None = None) -> Session:
        """Read a file from `save`: an object with `summary`, `messages` or both.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file holds no session; the message names the file and the fault.
        """
        return cls.loads(read_regular(path, _LARGEST), os.fspath(path), keep=keep)

    @classmethod
    def loads(
        cls, text: str | bytes, name: str = "the text", *, keep: int | None = None
    ) -> Session:
        """Read the text of a session file, as `save` writes it; `name` names the text in errors.

        Raises:
            ValueError: the text holds no session; the message has the name and the fault.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name} is not JSON: {error}") from None
        try:
            return cls._from_json(value, keep)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `{"id": ..., "summary": ..., "messages": [{"role": ..., "content": ...}]}`.

        A message has a `"time"` if it is known.

        `"committed"` is the number of these messages that commits have read, unless it is 0. The
        new file replaces the old one at once; a concurrent reader never sees a part of it.

        Raises:
            OSError: the file cannot be written.
        """
        messages = [_saved(one) for one in self._messages]
        value: dict[str, Any] = {"id": self.id, "summary": self.summary, "messages": messages}
        if committed := max(self.committed - self._dropped, 0):
            value["committed"] = committed
        text = json.dumps(value, ensure_ascii=False, indent=2)
        to = Path(path)
        part = to.with_name(f".{to.name}.{os.getpid()}.part")
        try:
            part.write_text(f"{text}\n", encoding="utf-8")
            part.replace(to)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def _from_json(cls, value: Any, keep: int | None) -> Session:
        _check_keys(value, {"id", "summary", "messages", "committed"}, "a session")
        summary, messages = value.get("summary", ""), value.get("messages", [])
        _check(isinstance(summary, str), "summary is no string")
        _check(isinstance(messages, list), "messages is no list")
        _check(isinstance(value.get("id", ""), str), "id is no string")
        session = cls(summary, keep=keep, id=value.get("id", ""))
        for i, message in enumerate(messages):
            try:
                _check_keys(message, {"role", "content", "time"}, "a message")
                for key in ("role", "content"):
                    _check(isinstance(message.get(key), str), f"{key} is no string, or not there")
                said = SessionMessage(message["role"], message["content"], _time(message))
                if not i and "id" not in value:  # each load of such a file gives the same one
                    session.id = id_of(said)
                session._add(said)
            except ValueError as error:
                raise ValueError(f"messages[{i}]: {error}") from None
        committed = value.get("committed", 0)
        _check(
            type(committed) is int and 0 <= committed <= len(messages),
            "committed is no number of its messages",
        )
        session.committed = committed
        return session


Conversation: TypeAlias = (
    Session | SearchSession | Mapping[str, Any] | Iterable[SessionMessage | Mapping[str, Any]]
)
"""A Session, the object that its file has, or messages: dicts with role and content."""

_CALLS = ("tool_use", "tool_call", "function")  # types of a call of a tool
_RESULT = "tool_result"
_EXAMPLE = '[{"role": "user", "content": "I moved to Lyon."}]'


def session_of(given: Conversation) -> Session | SearchSession:
    """Return a conversation as a session; each call with the same messages gives the same id.

    Raises:
        TypeError: it is no conversation.
        ValueError: a message has no content or an unknown role; the message names its place.
    """
    if isinstance(given, Session | SearchSession):
        return given
    if isinstance(given, Mapping):
        if "content" not in given:
            try:
                return Session._from_json({**given}, None)
            except ValueError as error:
                wanted = f"give a Session or a list of messages, such as {_EXAMPLE}"
                raise ValueError(f"session: {error}; {wanted}") from None
        given = [given]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong_type("session", given, "a Session or a list of messages", _EXAMPLE)
    session = Session(messages=given)
    if session.messages:
        session.id = id_of(session.messages[0])
    return session


def _message(given: SessionMessage | Mapping[str, Any]) -> SessionMessage:
    """Return a message; of a dict only role, content and time are used.

    The content may be a list of parts, as in the APIs of models; those with text are joined.
    """
    if isinstance(given, SessionMessage):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"it is {described(given)}; give a dict, such as {_EXAMPLE[1:-1]}")
    role, content, time = given.get("role"), given.get("content"), given.get("time")
    if isinstance(content, list | tuple):
        parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
        content = "\n".join(part for part in parts if isinstance(part, str)) or content
    if not isinstance(content, str) or not content:
        content = _calls(given.get("tool_calls") or content) or content
    for name, value in (("role", role), ("content", content)):
        if not isinstance(value, str):
            raise TypeError(f"{name} is {described(value)}; give text, such as {_EXAMPLE[1:-1]}")
    return SessionMessage(
        str(role), str(content), None if time is None else micros_of(time, "time")
    )


def _calls(given: object) -> str:
    """Return what a message without a text does with tools, as text; "" if it does nothing.

    The message keeps its place, since memories name the numbers of the messages they are from.
    """
    names = []
    for one in given if isinstance(given, list | tuple) else ():
        if not isinstance(one, Mapping):
            return ""
        if one.get("type") == _RESULT:
            return "has the result of a tool"
        if one.get("type") in _CALLS or "function" in one or "args" in one:
            function = one.get("function")
            named = function if isinstance(function, Mapping) else one
            names.append(str(named.get("name") or "a tool"))
    return f"calls {', '.join(names)}" if names else ""


def session_message(
    session: Session | SearchSession, messages: Iterable[SessionMessage]
) -> retrieval_pb2.SearchSession:
    """Return the protobuf message of a session with some of its messages."""
    return retrieval_pb2.SearchSession(
        summary=session.summary,
        messages=[
            retrieval_pb2.SessionMessage(
                role=message.role, content=message.content, time=moment(message.time)
            )
            for message in messages
        ],
        id=session.id,
    )


def _saved(message: SessionMessage) -> dict[str, str]:
    """Return a message in the form of a session file."""
    saved = {"role": message.role, "content": message.content}
    if message.time is not None:
        saved["time"] = (_EPOCH + timedelta(microseconds=message.time)).isoformat()
    return saved


def _time(message: Any) -> int | None:
    """Return the time of a message in a file; None without one."""
    time = message.get("time")
    _check(time is None or isinstance(time, str), "time is no string")
    return None if time is None else micros_of(time)


def _check_keys(value: Any, known: set[str], what: str) -> None:
    _check(isinstance(value, dict), f"{what} is an object, not {json.dumps(value)[:40]}")
    if more := sorted(value.keys() - known):
        raise ValueError(f"{what} has no {', '.join(map(repr, more))}")


def _check(holds: bool, fault: str) -> None:
    if not holds:
        raise ValueError(fault)
