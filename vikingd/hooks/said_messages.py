"""The messages of a session, in pieces: from its transcript, or from the file of the hooks.

A place is a position in the file, in bytes, at the beginning of a line. A piece is determined by
its two places alone, so that it can be read again after a kill.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from vikingd.hooks.agent_events import Message
from vikingd.hooks.memory_texts import CLOSED, OPENED

MOST_MESSAGES = 30
"""The most messages of a piece. A commit writes at most 32 facts, so a piece should say no more."""

_MOST_CHARACTERS = 8_000  # of a message that count in a commit
_MOST_BYTES = 1 << 20  # of the texts of a piece
_MOST_LINE = 16 << 20  # bytes; a longer line has no words of a person
_BEFORE = 64 << 10  # bytes in front of a piece that are read for its context
_AHEAD = 86_400  # seconds; a time further in the future is dropped
_CONTEXT = 10  # messages in front of a piece

Read = Callable[[Mapping[str, Any]], Message | None]
"""A function that returns the message in a line; None for all other lines."""


class Piece(NamedTuple):
    """The messages of a session between two places, which are committed by one call.

    Attributes:
        messages: the messages, after some earlier ones that are only context.
        first: the number of the messages that are only context.
        end: the place after the last message.
    """

    messages: list[Message]
    first: int
    end: int


def next_end(path: str, place: int, read: Read) -> int:
    """Return the end of the piece that begins at a place; the place itself if there is no message.

    Lines without a message belong to the piece before or after them.

    Raises:
        OSError: the file cannot be read.
    """
    count = size = 0
    end = place
    for at, message in _lines(path, place, None, read):
        if message is not None:
            size += len(message.text.encode(errors="replace"))
            if count and (count == MOST_MESSAGES or size > _MOST_BYTES):
                break
            count += 1
        end = at
    return end


def piece_of(path: str, place: int, end: int, read: Read) -> Piece:
    """Return the messages between two places, and some before them.

    Raises:
        OSError: the file cannot be read.
    """
    start = max(place - _BEFORE, 0)
    before = [one for _, one in _lines(path, start, place, read, is_cut=start > 0) if one]
    new = [one for _, one in _lines(path, place, end, read) if one]
    context = before[-_CONTEXT:] if new else []
    return Piece([*context, *new], len(context), end)


def last_said(path: str, read: Read) -> str:
    """Return the last text of the assistant in a transcript; "" if its last 64 KiB have none."""
    start = max(os.stat(path).st_size - _BEFORE, 0)
    found = [one for _, one in _lines(path, start, None, read, is_cut=start > 0) if one]
    return next((one.text for one in reversed(found) if one.role == "assistant"), "")


def _lines(
    path: str, place: int, end: int | None, read: Read, *, is_cut: bool = False
) -> Iterator[tuple[int, Message | None]]:
    """Yield the end of each complete line between two places, and its message or None.

    Args:
        path: the file.
        place: the first byte.
        end: the position after the last byte; None: the end of the file.
        read: see Read.
        is_cut: the first byte is in the middle of a line, which is left out.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size  # a file that grows while it is read has an end, too
        file.seek(place)
        while place < size and (line := file.readline(_MOST_LINE)):
            is_long = False
            while not line.endswith(b"\n"):
                place += len(line)
                is_long = True
                if place >= size or not (line := file.readline(_MOST_LINE)):  # it is being written
                    return
            place += len(line)
            if end is not None and place > end:
                return
            if is_cut:
                is_cut = False
            else:
                yield place, None if is_long else _message(line, read)


def _message(line: bytes, read: Read) -> Message | None:
    try:
        record = json.loads(line)
        message = read(record) if isinstance(record, dict) else None
    except (ValueError, RecursionError):  # a line of another form
        return None
    if message is None:
        return None
    text = _without_memories(message.text)[:_MOST_CHARACTERS]
    text = "".join(one for one in text if one.isprintable() or one in "\n\t").strip()
    is_time = 0 < message.time < time.time() + _AHEAD
    return message._replace(text=text, time=message.time if is_time else 0.0) if text else None


def _without_memories(text: str) -> str:
    """Return a text without the memories that a hook added to it, see `memory_texts`.

    Nobody has said them here, so they must not be remembered as new statements.
    """
    while True:
        before, found, rest = text.partition(OPENED)
        if not found:
            return text
        text = before + rest.partition(CLOSED)[2]


def kept(record: Mapping[str, Any]) -> Message | None:
    """Return the message in a line that `SessionFiles.say` wrote."""
    role, text, stamp = (record.get(name) for name in Message._fields)
    if not (isinstance(role, str) and isinstance(text, str) and isinstance(stamp, int | float)):
        return None
    return Message(role, text, stamp)
