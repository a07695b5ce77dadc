"""The files of the hooks: a log, and the state of each session.

They are in `$XDG_STATE_HOME/vikingd`, else `~/.local/state/vikingd`, readable by the user alone.
KEY is the agent and the session, see `session_name`.

| file of `hooks/` | |
|---|---|
| `KEY.given` | the ids of the memories that the session was given, with the times |
| `KEY.said` | messages of an agent that has no transcript, as JSON lines |
| `KEY.progress` | the place up to which the messages are committed |
| `KEY.lock` | the lock of the process that commits |
| `pending/KEY.NUMBER` | an event after which messages may be uncommitted; removed when they are |
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from vikingd.hooks.agent_events import AgentEvent, Message
from vikingd.system.user_paths import user_log

MOST_LOG = 256 << 10
"""The most bytes of the log; a longer one becomes `hooks.log.1`, in place of the one before."""

KEPT = 30 * 86_400
"""The seconds without use after which the files of a session are removed."""

_AGAIN = 6 * 3600  # seconds after which a session may be given a memory again
_MOST_LINE = 500  # characters of a line of the log


def state_directory() -> str:
    """Return the directory of the hooks' files, which exists now.

    Raises:
        ValueError: the user has no home directory.
        OSError: it cannot be made.
    """
    directory = os.path.dirname(user_log())
    pending = os.path.join(directory, "hooks", "pending")
    if not os.path.isdir(pending):
        os.makedirs(os.path.dirname(directory), 0o700, exist_ok=True)
        for made in (directory, os.path.dirname(pending), pending):
            with suppress(FileExistsError):
                os.mkdir(made, 0o700)
    return directory


def log(text: str) -> None:
    """Write a line to the log; a failure to do so is ignored."""
    with suppress(OSError, ValueError):
        path = os.path.join(state_directory(), "hooks.log")
        with suppress(FileNotFoundError):
            if os.stat(path).st_size > MOST_LOG:
                os.replace(path, f"{path}.1")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        line = " ".join(text.split())[:_MOST_LINE]
        line = "".join(one if one.isprintable() else "?" for one in line)  # terminals obey some
        _append(path, f"{stamp} {os.getpid()} {line}\n")


class Pending(NamedTuple):
    """A session with messages to commit, with all that another process needs to commit them."""

    agent: str
    session: str
    project: str
    transcript: str  # "": the messages stand in the session's own file
    response: str = ""  # the last words of the assistant, which may not be in the transcript yet


def session_name(session: str) -> str:
    """Return the id of a session if it is short and plain, else a hash of it.

    It is the session's name in the daemon, and a part of the names of its files.
    """
    plain = session.replace("-", "").replace("_", "")
    if len(session) <= 64 and plain.isascii() and plain.isalnum():
        return session
    import hashlib  # it loads OpenSSL, which takes milliseconds

    return hashlib.sha256(session.encode(errors="replace")).hexdigest()[:32]


class SessionFiles:
    """The files of one session of an agent.

    Raises:
        ValueError: the user has no home directory.
        OSError: a directory cannot be made.
    """

    def __init__(self, agent: str, session: str) -> None:
        if not session:
            raise ValueError("the event names no session")
        self._set(f"{agent}.{session_name(session)}")

    @classmethod
    def of_key(cls, key: str) -> SessionFiles:
        """Return the files of a session by its key."""
        made = cls.__new__(cls)
        made._set(key)
        return made

    def _set(self, key: str) -> None:
        self.key = key
        self._directory = os.path.join(state_directory(), "hooks")
        self.said = self._path("said")
        self.lock = self._path("lock")

    def given(self) -> set[int]:
        """Return the ids of the memories that the session was given within the last hours."""
        found = set[int]()
        oldest = time.time() - _AGAIN
        with suppress(FileNotFoundError), open(self._path("given"), encoding="ascii") as file:
            for line in file:
                number, _, stamp = line.partition(" ")
                with suppress(ValueError):  # a line that was written in part
                    if float(stamp) > oldest:
                        found.add(int(number))
        return found

    def give(self, ids: Iterable[int]) -> None:
        """Record that the session was given these memories."""
        stamp = int(time.time())
        if lines := "".join(f"{one} {stamp}\n" for one in ids if one):
            _append(self._path("given"), lines)

    def forget_given(self) -> None:
        """Record that the model's context is empty, so that all memories may be given again."""
        with suppress(FileNotFoundError):
            os.unlink(self._path("given"))

    def say(self, message: Message) -> None:
        """Store a message of an agent without a transcript."""
        _append(self.said, json.dumps(message._asdict()) + "\n")

    def begin(self, place: int) -> None:
        """Record, for a new session, the place in the transcript where its messages begin."""
        with suppress(FileExistsError):
            file = os.open(self._path("progress"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="ascii") as opened:
                opened.write(json.dumps({"place": place}))

    def progress(self) -> dict[str, Any]:
        """Return the object that `keep` wrote: `place`, and the piece of an unfinished commit."""
        try:
            with open(self._path("progress"), encoding="utf-8") as file:
                found = json.load(file)
        except (FileNotFoundError, ValueError):
            return {"place": 0}
        return found if isinstance(found, dict) else {"place": 0}

    def keep(self, progress: Mapping[str, Any]) -> None:
        """Replace the progress file; after a kill it has either the old content or the new one."""
        self._put("progress", json.dumps(progress))

    def add_pending(self, event: AgentEvent, project: str) -> None:
        """Record that the session may have uncommitted messages."""
        one = Pending(event.agent, event.session, project, event.transcript, event.response)
        self._put(f"{time.time_ns()}-{os.getpid()}", json.dumps(one._asdict()), "pending")

    def _path(self, kind: str) -> str:
        return os.path.join(self._directory, f"{self.key}.{kind}")

    def _put(self, name: str, text: str, below: str = "") -> None:
        """Replace a file by a whole new one, which is first written under another name."""
        from vikingd.system.platform import sync  # it takes milliseconds, which no prompt waits for

        path = os.path.join(self._directory, below, f"{self.key}.{name}")
        made = os.path.join(self._directory, f"{self.key}.{os.getpid()}.new")
        file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
            opened.flush()
            sync(opened.fileno())
        os.replace(made, path)


def pending() -> dict[str, list[str]]:
    """Return the paths of pending events by the key of their session, the oldest first."""
    directory = os.path.join(state_directory(), "hooks", "pending")
    found: dict[str, list[str]] = {}
    for name in sorted(os.listdir(directory)):
        found.setdefault(name.rpartition(".")[0], []).append(os.path.join(directory, name))
    return found


def read_pending(path: str) -> Pending:
    """Return a pending event.

    Raises:
        OSError: another process has removed it.
        ValueError: the file is no pending event.
    """
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    try:
        return Pending(**found)
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from None


def remove_old() -> None:
    """Remove the files of sessions that were not used for long and have nothing to commit."""
    waiting = set(pending())
    directory = os.path.join(state_directory(), "hooks")
    oldest = time.time() - KEPT
    for entry in os.scandir(directory):
        if not entry.is_file() or entry.name.rpartition(".")[0] in waiting:
            continue
        with suppress(FileNotFoundError):
            if entry.stat().st_mtime < oldest:
                os.unlink(entry.path)


def _append(path: str, text: str) -> None:
    """Append to a file in one write, so that lines of several processes do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, text.encode(errors="replace"))
    finally:
        os.close(file)
