"""Calls that count once: their names in the tables, with the answers that they got."""

from __future__ import annotations

import sqlite3

from vikingd.domain.changes import Once
from vikingd.domain.errors import InvalidField

MAX_REQUESTS = 100_000
"""So many of the newest are known."""

MAX_AGE = 86_400_000_000
"""Microseconds for which one is known."""

_DROP = """
DELETE FROM requests WHERE time < ?
OR number <= (SELECT max(number) FROM requests) - ?
"""


def known_reply(db: sqlite3.Connection, once: Once) -> bytes:
    """The answer that this call got before; b"" where it is new.

    Raises:
        InvalidField: another call had its name.
    """
    row = db.execute("SELECT digest, reply FROM requests WHERE id = ?", (once.id,)).fetchone()
    if row is None:
        return b""
    digest, reply = row
    if digest != once.digest:
        raise InvalidField(
            "request_id",
            f"{once.id!r} is that of another call; give each one its own",
        )
    return bytes(reply)


def keep_reply(db: sqlite3.Connection, once: Once, reply: bytes, revision: int, now: int) -> None:
    """Keeps the answer of a call, and drops those that are too old or too many."""
    db.execute(
        "INSERT INTO requests (id, digest, revision, reply, time) VALUES (?, ?, ?, ?, ?)",
        (once.id, once.digest, revision, reply, now),
    )
    db.execute(_DROP, (now - MAX_AGE, MAX_REQUESTS))
