"""A conversation, which a search reads beside its query."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import Any

from vikingd.domain.search_query import SessionMessage
from vikingd.system.regular_files import read_regular

_LARGEST = 64 << 20  # bytes of a file

ROLES = ("user", "assistant", "system", "tool")


class Commits:
    """The commits of one session, which run one after the other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: Future[None] | None = None
        self.unsure: Any = None  # a call that the next commit repeats

    def begin(self) -> tuple[Future[None] | None, Future[None]]:
        """Return the end of the commit before, or None, and the end of a new commit, to be set."""
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
        committed: the number of messages that commits have read, the dropped ones included.
        commits: the commits in progress, for `client.commit`.
    """

    def __init__(
        self,
        summary: str = "",
        messages: Iterable[SessionMessage] = (),
        *,
        keep: int | None = None,
    ) -> None:
        """Begin a session.

        Args:
            summary: the summary of the conversation before the messages.
            messages: the messages in their order.
            keep: keep this many of the last messages; None: keep all.

        Raises:
            ValueError: `keep` is below 1, or a message has no content or an unknown role.
        """
        if keep is not None and keep < 1:
            raise ValueError(f"keep must be at least 1, not {keep}")
        self.summary = summary
        self._keep = keep
        self._messages: list[SessionMessage] = []
        self._dropped = 0
        self.committed = 0
        self.commits = Commits()
        for message in messages:
            self.add(message.role, message.content)

    @property
    def messages(self) -> tuple[SessionMessage, ...]:
        """Return the messages in their order."""
        return tuple(self._messages)

    def add(self, role: str, content: str) -> None:
        """Add a message.

        Args:
            role: one of ROLES.
            content: the text of the message, not empty.

        Raises:
            ValueError: the role is unknown, or the content is empty.
        """
        if role not in ROLES:
            raise ValueError(f"role is {role!r}, not one of {', '.join(ROLES)}")
        if not content.strip():
            raise ValueError("content is empty")
        self._messages.append(SessionMessage(role, content))
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
        """Read the text of such a file; `name` is its name in errors.

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
        """Write `{"summary": ..., "messages": [{"role": ..., "content": ...}]}`.

        `"committed"` is the number of these messages that commits have read, unless it is 0. The
        new file replaces the old one at once; a concurrent reader never sees a part of it.

        Raises:
            OSError: the file cannot be written.
        """
        messages = [{"role": one.role, "content": one.content} for one in self._messages]
        value: dict[str, Any] = {"summary": self.summary, "messages": messages}
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
        _check_keys(value, {"summary", "messages", "committed"}, "a session")
        summary, messages = value.get("summary", ""), value.get("messages", [])
        _check(isinstance(summary, str), "summary is no string")
        _check(isinstance(messages, list), "messages is no list")
        session = cls(summary, keep=keep)
        for i, message in enumerate(messages):
            try:
                _check_keys(message, {"role", "content"}, "a message")
                for key in ("role", "content"):
                    _check(isinstance(message.get(key), str), f"{key} is no string, or not there")
                session.add(message["role"], message["content"])
            except ValueError as error:
                raise ValueError(f"messages[{i}]: {error}") from None
        committed = value.get("committed", 0)
        _check(
            type(committed) is int and 0 <= committed <= len(messages),
            "committed is no number of its messages",
        )
        session.committed = committed
        return session


def _check_keys(value: Any, known: set[str], what: str) -> None:
    _check(isinstance(value, dict), f"{what} is an object, not {json.dumps(value)[:40]}")
    if more := sorted(value.keys() - known):
        raise ValueError(f"{what} has no {', '.join(map(repr, more))}")


def _check(holds: bool, fault: str) -> None:
    if not holds:
        raise ValueError(fault)
