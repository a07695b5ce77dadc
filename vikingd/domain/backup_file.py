"""The file of a backup: a database that SQLite opens, and a label in its last line.

The label holds the size of the database and its SHA-256, so that damage is found. This module needs
no package of the server: `vikingctl backup` checks the bytes that it received.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from vikingd.domain.errors import StoreDamaged

CHUNK = 1 << 20
_MARK = b"\nvikingd-backup "
_MAX_LABEL = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Label:
    """The last line of a backup: its numbers of contexts and texts, and the digest of its bytes."""

    revision: int  # of the store
    contexts: int  # how many
    texts: int  # how many
    size: int  # of the database in bytes; the label follows it
    sha256: str  # of the database

    def line(self) -> bytes:
        """Return the label as the last line of a backup file."""
        return _MARK + json.dumps(asdict(self)).encode() + b"\n"


def check_bytes(
    file: BinaryIO, path: Path, advance: Callable[[int], None] = lambda _: None
) -> Label:
    """Check the bytes of a complete backup by their hash, and return its label.

    Args:
        file: the open backup.
        path: the path of the backup, for errors.
        advance: called with the number of bytes after each read.

    Raises:
        StoreDamaged: the file is no backup, or it is damaged.
        OSError: the file cannot be read.
    """
    label = _label(file, path)
    if not read_database(file, label, lambda data: advance(len(data))):
        raise bad(path, "its bytes do not match their hash")
    return label


def read_database(file: BinaryIO, label: Label, take: Callable[[bytes], object]) -> bool:
    """Call `take` with each part of the database in a backup.

    Return True if the SHA-256 of the database is that of the label.
    """
    digest, left = hashlib.sha256(), label.size
    file.seek(0)
    while left and (data := file.read(min(CHUNK, left))):
        digest.update(data)
        left -= len(data)
        take(data)
    return digest.hexdigest() == label.sha256


def _label(file: BinaryIO, path: Path) -> Label:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _MAX_LABEL))
    tail = file.read()
    at = tail.rfind(_MARK)
    try:
        if at < 0:
            raise ValueError
        label = Label(**json.loads(tail[at + len(_MARK) :]))
        fits = label.line() == tail[at:] and label.size == length - len(tail) + at
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise bad(path, "it has no valid label in its last line, so it may be incomplete")
    return label


def bad(path: Path, why: str) -> StoreDamaged:
    """Return the error for a file that is no valid backup."""
    return StoreDamaged(f"{path} is not a valid backup: {why}; use another one")
