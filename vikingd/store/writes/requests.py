"""Requests with an id: a repeated request gets the reply of the first one."""

from __future__ import annotations

from collections.abc import Callable

from vikingd.domain.changes import Committed, Once
from vikingd.domain.errors import InvalidField
from vikingd.store.writes.transaction import Transaction

MAX_REQUESTS = 100_000
"""The number of requests that are kept, the newest ones."""

MAX_AGE = 86_400_000_000
"""Microseconds for which a request is kept."""

_DROP = """
DELETE FROM requests WHERE time < ?
OR number <= (SELECT max(number) FROM requests) - ?
"""


def run_once(work: Transaction, once: Once | None, operation: Callable[[], Committed]) -> Committed:
    """Run an operation, unless a request with this id has run: then `reply` holds its reply.

    Raises:
        InvalidField: a different request had the id.
    """
    if once is None:
        return operation()
    db = work.use_tables()
    row = db.execute("SELECT digest, reply FROM requests WHERE id = ?", (once.id,)).fetchone()
    if row is not None:
        digest, kept = row
        if digest != once.digest:
            raise InvalidField(
                "request_id",
                f"{once.id!r} is the id of another request; give each request its own id",
            )
        if kept:
            return Committed(work.revision, reply=bytes(kept))
    done = operation()
    if reply := once.reply(done):
        db.execute(
            "INSERT INTO requests (id, digest, revision, reply, time) VALUES (?, ?, ?, ?, ?)",
            (once.id, once.digest, work.revision, reply, work.now),
        )
        db.execute(_DROP, (work.now - MAX_AGE, MAX_REQUESTS))
    return done
