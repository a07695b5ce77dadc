"""Commits of sessions' new messages, by a process in the background.

Each piece of a session is committed once. Its start and end positions in the transcript are on disk
before the call, and its end is recorded as committed after the acknowledgement. If a process is
killed in between, the next one repeats the same call, and the daemon counts calls with one name
once.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from vikingd.hooks import daemon_memories, said_messages
from vikingd.hooks.said_messages import Read
from vikingd.hooks.session_files import (
    Pending,
    SessionFiles,
    log,
    pending,
    read_pending,
    remove_old,
)
from vikingd.hooks.unary_calls import INVALID_ARGUMENT, CallFailed, Connection

_CALL = 120.0  # seconds for a call; a model may propose the memories
_FLUSH = 5.0  # seconds in which an agent writes the last words into its transcript
_LOOK = 0.05  # seconds between two looks for them


def commit_pending(
    address: str,
    metadata: Mapping[str, str],
    read_of: Callable[[str], Read],
    first: str = "",
) -> None:
    """Commit the pending messages of each session, one session after another.

    A session whose messages cannot be committed now stays pending, and the log has the reason.

    Args:
        address: the daemon.
        metadata: headers of each call.
        read_of: a function that returns the function `message` of an agent.
        first: the key of the session that comes first. Its transcript may lack the last words yet.
    """
    from vikingd.system.platform import lock  # it takes milliseconds

    def connected() -> Connection:
        return Connection(address, metadata, time.monotonic() + _CALL)

    waiting = pending()
    for key in sorted(waiting, key=lambda one: one != first):
        try:
            files = SessionFiles.of_key(key)
            with open(files.lock, "ab", opener=_private) as held:
                if not lock(held.fileno(), wait=key == first):
                    continue  # another process commits this session
                os.utime(held.fileno())  # `remove_old` removes files by their age
                # Listed before the transcript is read: later events stay pending.
                if paths := pending().get(key, []):
                    one = read_pending(paths[-1])
                    read = read_of(one.agent)
                    _commit_session(connected, files, one, read, is_new=key == first)
                for path in paths:
                    os.unlink(path)
        except Exception as error:  # a failure must not stop the other sessions
            log(f"commit of session {key}: {type(error).__name__}: {error}")
    remove_old()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _commit_session(
    connected: Callable[[], Connection],
    files: SessionFiles,
    one: Pending,
    read: Read,
    *,
    is_new: bool,
) -> None:
    """Commit the new messages of a session, piece by piece."""
    path = one.transcript or files.said
    read = read if one.transcript else said_messages.kept
    if not os.path.isfile(path):  # a pipe or a device might never end
        if one.transcript:  # else the agent has said nothing
            log(f"commit of session {files.key}: {path} is no file, so there is nothing to read")
        return
    if is_new and one.response:
        _wait_for(path, one.response, read)
    progress = files.progress()
    if os.stat(path).st_size < progress["place"]:
        log(f"commit: {path} is shorter than it was; it is read from its beginning")
        progress = {"place": 0}
    daemon: Connection | None = None
    try:
        while True:
            if "end" not in progress:
                end = said_messages.next_end(path, progress["place"], read)
                if end == progress["place"]:
                    return
                zone = daemon_memories.time_zone()
                progress |= {"end": end, "now": time.time(), "zone": zone, "of": one.project}
                files.keep(progress)
            daemon = daemon or connected()
            daemon.deadline = time.monotonic() + _CALL
            _commit_piece(daemon, files, path, one, progress, read)
            progress = {"place": progress["end"]}
            files.keep(progress)
    finally:
        if daemon is not None:
            daemon.close()


def _commit_piece(
    daemon: Connection,
    files: SessionFiles,
    path: str,
    one: Pending,
    progress: dict[str, Any],
    read: Read,
) -> None:
    place, end = progress["place"], progress["end"]
    piece = said_messages.piece_of(path, place, end, read)
    if len(piece.messages) == piece.first:
        return
    name = hashlib.sha256(
        f"{one.agent}\n{one.session}\n{place}-{end}\n{progress}\n{piece}".encode(errors="replace")
    ).hexdigest()
    try:
        daemon_memories.commit(
            daemon,
            progress["of"],
            one.session,
            piece.messages,
            piece.first,
            progress["now"],
            progress["zone"],
            name,
        )
    except CallFailed as error:
        if error.status == INVALID_ARGUMENT:  # a project or a zone that the daemon does not take
            files.keep({"place": place})  # the next process asks anew
        raise


def _wait_for(path: str, words: str, read: Read) -> None:
    """Wait until a transcript has the last words of a session, which may come after the event."""
    end = time.monotonic() + _FLUSH
    while time.monotonic() < end:
        last = said_messages.last_said(path, read).strip()
        if last and (last in words or words.strip() in last):
            return
        time.sleep(_LOOK)
