"""Writes of links."""

from __future__ import annotations

from vikingd.domain.changes import Committed, Linked, Unlinked
from vikingd.domain.errors import InvalidField, NotFound
from vikingd.store.writes.transaction import Transaction


def link(work: Transaction, uri: str, other: str, reason: str) -> Committed:
    """Link two contexts; if they are linked already, replace the reason."""
    if uri == other:
        raise InvalidField("other_uri", "is the same context as uri; name two contexts")
    rows = work.use_tables().execute(
        "INSERT INTO links (a, b, reason, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (a, b) "
        "DO UPDATE SET reason = excluded.reason WHERE reason <> excluded.reason",
        (*_ends(work, uri, other), reason, work.now),
    )
    if rows.rowcount:
        work.emit(Linked(uri, other, reason))
    return Committed(work.revision)


def unlink(work: Transaction, uri: str, other: str) -> Committed:
    """Remove a link."""
    ends = _ends(work, uri, other)
    rows = work.use_tables().execute("DELETE FROM links WHERE a = ? AND b = ?", ends)
    if not rows.rowcount:
        raise NotFound(other, f"{uri} and {other} are not linked")
    work.emit(Unlinked(uri, other))
    return Committed(work.revision)


def _ends(work: Transaction, uri: str, other: str) -> tuple[int, int]:
    """Return the ids of two contexts, the smaller one first."""
    one, two = sorted((work.get(uri).id, work.get(other).id))
    return one, two
