"""Writes of memories and their counters; a repeated request gets the reply of the first one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from vikingd.domain.contexts import MAX_COUNTER, ContextType, Entry
from vikingd.domain.errors import InvalidField
from vikingd.domain.rights import Caller, Right
from vikingd.domain.store_changes import Committed, Once
from vikingd.domain.uri import context_type
from vikingd.memory.memory_file_series import Rewrite
from vikingd.memory.memory_types import Rewritten, check_ids
from vikingd.store.connection import Connection
from vikingd.store.damage import Damage
from vikingd.store.memory_series_reads import series
from vikingd.store.writes.context_writes import write
from vikingd.store.writes.memory_entry_writes import change_entries
from vikingd.store.writes.subtrees import delete
from vikingd.store.writes.transaction import Transaction

MAX_REQUESTS = 100_000
"""The number of newest requests with an id whose replies are kept."""

MAX_AGE = 86_400_000_000
"""The microseconds for which the reply to a request with an id is kept."""

_DROP = """
DELETE FROM requests WHERE time < ?
OR number <= (SELECT max(number) FROM requests) - ?
"""
_HOLDERS = """
SELECT entries.id, uri FROM entries
JOIN texts ON texts.id = text_id JOIN contexts ON contexts.id = context_id
WHERE entries.id IN (SELECT value FROM each_id(?))
"""


def run_once(work: Transaction, once: Once | None, operation: Callable[[], Committed]) -> Committed:
    """Run an operation, unless the caller has sent a request with this id before.

    For a repeated request nothing is run, and the result has the `reply` to the first request.

    Args:
        work: the open transaction.
        once: the id, the caller and the digest of the request; None: run it in any case.
        operation: the writes of the request.

    Raises:
        InvalidField: the caller has used the id for a different request.
    """
    if once is None:
        return operation()
    db = work.use_tables()
    row = db.execute("SELECT digest, reply FROM requests WHERE id = ?", (once.key,)).fetchone()
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
            "INSERT INTO requests (number, id, digest, revision, reply, time) "
            "VALUES ((SELECT coalesce(max(number), 0) + 1 FROM requests), ?, ?, ?, ?, ?)",
            (once.key, once.digest, work.revision, reply, work.now),
        )
        db.execute(_DROP, (work.now - MAX_AGE, MAX_REQUESTS))
    return done


def rewrite(work: Transaction, rewrites: Iterable[tuple[str, Rewrite]]) -> Committed:
    """Apply each rewrite, in order, to the memory file at its URI and that file's continuations.

    A later rewrite sees the changes of earlier ones.
    """
    db, counted = work.use_tables(), 0
    for uri, new in _changes(work, rewrites):
        if new.removed:
            delete(work, [uri])
        elif new.prepared is not None:
            write(work, [new.prepared])
            work.insert_rows()
        states = {entry.id: entry for entry in new.counters}
        if states:
            change_entries(db, states, partial(_with_counters, states))
        counted += len(new.counters)
    work.touched = work.touched or counted > 0
    return Committed(work.revision)


def _changes(
    work: Transaction, rewrites: Iterable[tuple[str, Rewrite]]
) -> Iterator[tuple[str, Rewritten]]:
    """Yield (URI of a series, changed file) for each file that a rewrite changes.

    The caller writes each file before the next one, so a rewrite sees the earlier changes.
    """
    for uri, change in rewrites:
        for new in change(series(work.use_tables(), uri), lambda: next(work.ids.entries)):
            yield uri, new


def rewrite_holders(
    work: Transaction, ids: Sequence[int], change: Rewrite, *, require_all: bool, caller: Caller
) -> Committed:
    """Apply a rewrite to each file that contains one of these memories.

    Files that the caller may not write stay as they are. With `require_all`, a missing memory or a
    file that may not be written raises an error, see `check_ids`.
    """
    holders = _holders(work.use_tables(), ids)
    if require_all:
        check_ids(ids, holders, caller)
    files = sorted(uri for uri in set(holders.values()) if caller.may(Right.WRITE, uri))
    return rewrite(work, [(uri, change) for uri in files])


def reinforce(
    work: Transaction, ids: Sequence[int], by: int, caller: Caller, used: Sequence[int] = ()
) -> Committed:
    """Add `by` to the reinforcement of memories, and return their new entries.

    One access is counted for each of these memories and for each memory in `used`.

    Raises:
        NotFound: a memory is missing, or may not be read.
        PermissionDenied: a memory may not be written.
    """
    db, strengthened = work.use_tables(), frozenset(ids)
    everyone = list(dict.fromkeys((*ids, *used)))
    holders = _holders(db, everyone)
    check_ids(ids, holders, caller)
    check_ids(used, holders, caller, Right.READ, "used")

    def reinforced(old: Entry) -> Entry:
        more = by if old.id in strengthened else 0
        return replace(
            old,
            reinforcement=min(old.reinforcement + more, MAX_COUNTER),
            access_count=min(old.access_count + 1, MAX_COUNTER),
        )

    found = {entry.id: entry for entry in change_entries(db, everyone, reinforced)}
    for entry_id in everyone:
        if entry_id not in found:
            raise Damage(f"memory {entry_id}", "its counters are not as they were written").error()
    work.touched = True
    return Committed(work.revision, entries=tuple(found[entry_id] for entry_id in ids))


def touch(work: Transaction, accesses: Mapping[int, int]) -> Committed:
    """Add counts of accesses, by memory id; missing memories are skipped."""

    def touched(old: Entry) -> Entry:
        return replace(old, access_count=min(old.access_count + accesses[old.id], MAX_COUNTER))

    count = len(change_entries(work.use_tables(), accesses, touched))
    work.touched = work.touched or count > 0
    return Committed(work.revision, count=count)


def _with_counters(states: Mapping[int, Entry], old: Entry) -> Entry:
    """Return the entry `old` with the counters and the time that `states` has for its id."""
    new = states[old.id]
    return replace(
        old, reinforcement=new.reinforcement, access_count=new.access_count, time=new.time
    )


def _holders(db: Connection, ids: Sequence[int]) -> dict[int, str]:
    """Return the URI of the file that contains each memory, by memory id; skip missing ones."""
    rows = db.execute(_HOLDERS, (json.dumps(ids),))
    return {i: uri for i, uri in rows if context_type(uri) is ContextType.MEMORY}
