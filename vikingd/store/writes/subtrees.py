"""Deletes and moves of whole subtrees."""

from __future__ import annotations

from collections.abc import Sequence

from vikingd.domain.contexts import ContextType, Entry
from vikingd.domain.errors import AlreadyExists, InvalidField, TooLarge
from vikingd.domain.store_changes import Committed, Remove
from vikingd.domain.uri import ROOT, context_type, is_within, parent, parse, subtree_bounds
from vikingd.store.connection import Connection
from vikingd.store.damage import Damage
from vikingd.store.reads.empty_directories import EMPTY_DIRECTORY, IS_EMPTY
from vikingd.store.rows import links, refuse, upserts
from vikingd.store.writes.context_writes import make_directory
from vikingd.store.writes.description_writes import withdraw_above
from vikingd.store.writes.memory_entry_writes import add_entry
from vikingd.store.writes.place_checksums import IS_PAIR, SET_CHECKSUM, Place, checksums_after
from vikingd.store.writes.transaction import Transaction

MAX_MOVE = 20_000
MAX_DELETE = 50_000
"""The largest size that one call moves or deletes, see `_check_size`; it takes about 1 s."""

CHARACTERS = 2000
"""The number of characters that counts as much as a context or a passage."""

# UNION ALL makes two searches of the index; with OR, SQLite would scan the whole index.
_SUBTREE = """contexts.id IN (
    SELECT id FROM contexts WHERE tenant = 'default' AND uri = ?
    UNION ALL SELECT id FROM contexts WHERE tenant = 'default' AND uri >= ? AND uri < ?)"""
_COUNT = f"SELECT count(*) FROM contexts WHERE {_SUBTREE}"
# LIMIT ends the count early: a text with a long vector takes a page of its own.
_TEXTS = f"""
SELECT count(*), coalesce(sum("end" - "start"), 0) FROM (
    SELECT "start", "end" FROM contexts JOIN texts ON context_id = contexts.id
    WHERE {_SUBTREE} LIMIT ?)
"""
# After a move into a memory root: texts that are memories now and have no entry yet.
_WITHOUT_ENTRY = f"""
SELECT texts.id, contexts.time, contexts.created_at
FROM contexts JOIN texts ON context_id = contexts.id
WHERE {_SUBTREE} AND is_directory = 0 AND (ordinal > 0 OR NOT EXISTS (
    SELECT 1 FROM texts AS other WHERE other.context_id = contexts.id AND other.ordinal > 0))
AND NOT EXISTS (SELECT 1 FROM entries WHERE text_id = texts.id)
"""


def delete(
    work: Transaction,
    uris: Sequence[str],
    expected_revision: int | None = None,
    *,
    allow_missing: bool = False,
) -> Committed:
    """Delete contexts with everything below them; `count` of the result is their number.

    Raises:
        InvalidField: the root is among them.
        NotFound: a context is missing, and `allow_missing` is not set.
        RevisionDiffers: a context has another revision than expected.
        TooLarge: the subtrees are too large for one call.
    """
    existing = []
    for i, uri in enumerate(uris):
        if uri == ROOT:
            raise InvalidField(f"uris[{i}]", "is the root, which cannot be removed")
        if allow_missing and work.find(uri) is None:
            continue
        work.get(uri)
        work.check_revision(uri, expected_revision)
        existing.append(uri)
    db = work.use_tables()
    outermost: list[str] = []
    # Sorted by segments, the content of a directory directly follows it.
    for uri in sorted(existing, key=lambda uri: uri.split("/")):
        if not outermost or not is_within(uri, outermost[-1]):
            outermost.append(uri)
    _check_size(db, outermost, "removes", MAX_DELETE)
    removed = 0
    for uri in outermost:
        rows = db.execute(f"DELETE FROM contexts WHERE {_SUBTREE}", _bounds(uri))
        removed += rows.rowcount
        _record_removal(work, uri)
    withdraw_above(work, outermost)
    return Committed(work.revision, count=removed)


def remove_empty(work: Transaction, uris: Sequence[str]) -> Committed:
    """Delete the empty directories among these; `EmptyDirectoryReads` defines empty."""
    db = work.use_tables()
    removed = 0
    for uri in uris:
        sql = f"DELETE FROM contexts WHERE {IS_EMPTY} AND uri = ?"
        if db.execute(sql, (EMPTY_DIRECTORY, uri)).rowcount:
            _record_removal(work, uri)
            removed += 1
    return Committed(work.revision, count=removed)


def move(
    work: Transaction, source: str, destination: str, expected_revision: int | None = None
) -> Committed:
    """Rename a context with everything below it, and make missing directories above the new URI.

    Raises:
        InvalidField: a URI is a root or above one, or the destination is below the source.
        NotFound: the source does not exist.
        AlreadyExists: the destination exists.
        RevisionDiffers: the source has another revision than expected.
        TooLarge: the subtree is too large for one call.
    """
    if context_type(parent(source)) is ContextType.UNSPECIFIED:
        raise InvalidField("source_uri", f"{source} is a root or above one, and cannot be moved")
    if context_type(destination) is ContextType.UNSPECIFIED:
        raise InvalidField("destination_uri", f"{destination} is above the roots")
    if destination != source and is_within(destination, source):
        raise InvalidField("destination_uri", f"{destination} is below {source}")
    context = work.get(source)
    work.check_revision(source, expected_revision)
    is_root = context_type(parent(destination)) is ContextType.UNSPECIFIED
    if is_root and not context.is_directory:
        raise InvalidField("destination_uri", f"{destination} must be a directory")
    if work.find(destination):
        raise AlreadyExists(destination)
    db = work.use_tables()
    _check_size(db, [source], "moves", MAX_MOVE)
    rows = db.execute(f"SELECT uri FROM contexts WHERE {_SUBTREE}", _bounds(source))
    moved = [destination + uri[len(source) :] for (uri,) in rows]
    for uri in moved:
        parse(uri, "destination_uri")
    parent_id = make_directory(work, parent(destination), "destination_uri")
    work.insert_rows()

    def moved_to(old: Place) -> Place:
        above = parent_id if old.id == context.id else old.parent_id
        uri = destination + str(old.uri)[len(source) :]
        return old._replace(uri=uri, parent_id=above, revision=work.revision)

    after = checksums_after(db, _SUBTREE, _bounds(source), moved_to)
    db.execute(
        "UPDATE contexts SET uri = ? || substr(uri, CAST(? AS INTEGER)), revision = ?, "
        f"{SET_CHECKSUM} WHERE {IS_PAIR}",
        (destination, len(source) + 1, work.revision, after),
    )
    db.execute("UPDATE contexts SET parent_id = ? WHERE id = ?", (parent_id, context.id))
    if context_type(destination) is ContextType.MEMORY:
        rows = db.execute(_WITHOUT_ENTRY, _bounds(destination))
        for text_id, time, created_at in rows.fetchall():
            add_entry(work, text_id, Entry(time=time, created_at=created_at))
    _record_removal(work, source)
    rows = db.execute(
        f"SELECT id FROM contexts WHERE {_SUBTREE} ORDER BY uri", _bounds(destination)
    )
    ids = [context_id for (context_id,) in rows]

    def found(damage: Damage) -> None:  # older than the move: name the old URI
        refuse(damage._replace(uri=source + damage.uri[len(destination) :]))

    work.emit(*upserts(db, ids, found), *links(db, refuse, ids))
    withdraw_above(work, [source])
    return Committed(work.revision, count=len(moved))


def _record_removal(work: Transaction, uri: str) -> None:
    work.known.clear()
    work.use_tables().execute(
        "INSERT INTO removals (revision, uri) VALUES (?, ?)", (work.revision, uri)
    )
    work.emit(Remove(uri))


def _bounds(uri: str) -> tuple[str, str, str]:
    """Return the parameters of the SQL condition `_SUBTREE`."""
    return (uri, *subtree_bounds(uri))


def _check_size(db: Connection, uris: Sequence[str], what: str, most: int) -> None:
    """Raise TooLarge if subtrees are too large for one call. They must not overlap.

    Each context, each passage and each `CHARACTERS` characters count 1. One file is never too
    large.

    Args:
        db: a connection to the store.
        uris: the tops of the subtrees.
        what: the verb of the message, such as "moves".
        most: the limit.

    Raises:
        TooLarge: the count is above `most`.
    """
    contexts = size = 0
    for uri in uris:
        (count,) = db.execute(_COUNT, _bounds(uri)).fetchone()
        contexts, size = contexts + count, size + count
    if contexts > 1 and size <= most:
        for uri in uris:
            texts, characters = db.execute(_TEXTS, (*_bounds(uri), most)).fetchone()
            size += texts + int(characters) // CHARACTERS
            if size > most:
                break
    if contexts > 1 and size > most:
        more = (
            f" and at least {size - contexts:,} passages and long texts" if contexts < size else ""
        )
        raise TooLarge(
            f"{uris[0] if len(uris) == 1 else f'{len(uris):,} subtrees'} have {contexts:,} contexts"
            f"{more}, one call {what} at most {most:,} of these together: name their parts, one "
            "call after the other",
            contexts=str(contexts),
            limit=str(most),
        )
