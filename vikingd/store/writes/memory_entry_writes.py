"""Writes of entries: the states of memories (counters and times). Each memory has one."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from vikingd.domain.checksums import ENTRY, checksum
from vikingd.domain.contexts import ContextType, Draft, Entry, Prepared, Text
from vikingd.domain.store_changes import Upsert
from vikingd.domain.text import without_layout
from vikingd.domain.uri import context_type
from vikingd.memory.memory_types import StoredEntry
from vikingd.store.connection import Connection
from vikingd.store.writes.transaction import Transaction

_ENTRIES = f"SELECT {ENTRY}, checksum FROM entries WHERE id IN (SELECT value FROM each_id(?))"


def holds_memories(draft: Draft) -> bool:
    """Return True if a draft is a file below a directory of memories."""
    return not draft.is_directory and context_type(draft.uri) is ContextType.MEMORY


def write_entries(
    work: Transaction,
    context: Prepared,
    upsert: Upsert,
    before: Sequence[StoredEntry],
    kept: int,
    time: int,
) -> None:
    """Write the entries of a file's texts. Unchanged texts keep their entries.

    Args:
        context: the file to write; its `entries` are those that the request gives.
        upsert: the file with the texts as they are written.
        before: the stored entries of the file.
        kept: the number of leading texts that have not changed.
        time: the time of new entries, in microseconds.
    """
    ended, entries = _assign(context, upsert, before, kept, (time, work.now))
    if ended:
        work.use_tables().executemany(
            "DELETE FROM entries WHERE text_id = ?", [(text_id,) for text_id in ended]
        )
    for text_id, entry in entries:
        add_entry(work, text_id, entry)


def add_entry(work: Transaction, text_id: int, entry: Entry) -> None:
    """Add a row for the entry of a text to the transaction; an entry with id 0 gets a new id."""
    if not entry.id:
        entry = replace(entry, id=next(work.ids.entries))
    row = (text_id, *_values(entry))
    work.rows["entries"].append((*row, checksum(*row)))


def change_entries(
    db: Connection, ids: Collection[int], change: Callable[[Entry], Entry]
) -> list[Entry]:
    """Replace entries, given by id, by what `change` returns for them; return the new entries.

    Missing and damaged entries are left out. Only counters and `time` are written.
    """
    changed: list[tuple[int, Entry]] = []
    for text_id, *values, kept in db.execute(_ENTRIES, (json.dumps(list(ids)),)).fetchall():
        if checksum(text_id, *values) == kept:
            changed.append((text_id, change(Entry(*values))))
    db.executemany(
        "UPDATE entries SET reinforcement = ?, access_count = ?, time = ?, checksum = ? "
        "WHERE id = ?",
        [
            (
                entry.reinforcement,
                entry.access_count,
                entry.time,
                checksum(text_id, *_values(entry)),
                entry.id,
            )
            for text_id, entry in changed
        ],
    )
    return [entry for _, entry in changed]


def _values(entry: Entry) -> tuple[object, ...]:
    """Return the columns of an entry in the order in which its checksum covers them."""
    return entry.id, entry.reinforcement, entry.access_count, entry.time, entry.created_at


def _assign(
    context: Prepared,
    upsert: Upsert,
    before: Sequence[StoredEntry],
    kept: int,
    times: tuple[int, int],
) -> tuple[list[int], list[tuple[int, Entry]]]:
    """Choose the entry of each text of a file: given, stored for an equal text, or new.

    `times` are (time, creation time) of new entries.

    Returns:
        (ids of texts whose stored entry is deleted, (text id, entry) pairs to write; new ones have
        id 0).
    """
    staying = {text.ordinal: text for text in upsert.texts[:kept]}
    stored_at = {stored.ordinal: stored.entry for stored in before if stored.ordinal in staying}
    rest_at = {  # ordinals of unchanged passages that continue a memory
        ordinal
        for stored in before
        for ordinal in range(stored.ordinal + 1, stored.ordinal + len(stored.spans))
        if ordinal in staying
    }
    continuing = {text.ordinal for text in context.texts if text.continues}
    rests = {
        without_layout(stored.passage[low - stored.start : high - stored.start])
        for stored in before
        for low, high in stored.spans[1:]
    }
    taken = {entry.id for entry in context.entries.values()}
    # Stored entries by the first passage and by the whole text of their memories, because another
    # version may have split a long memory at other places.
    loose: dict[str, deque[Entry]] = defaultdict(deque)
    for stored in before:
        if stored.ordinal not in staying:
            for said in {stored.head, stored.passage}:
                loose[without_layout(said)].append(stored.entry)
    whole = _long_memories(context)
    ended: list[int] = []
    written: list[tuple[int, Entry]] = []
    memories = [text for text in upsert.texts if text.ordinal or len(upsert.texts) == 1]
    # Passages that begin a memory choose an entry before those that continue one.
    for text in sorted(memories, key=lambda text: text.ordinal in continuing):
        passage = text.passage if text.ordinal else context.abstract
        known, given = stored_at.pop(text.ordinal, None), context.entries.get(text.ordinal)
        if text.ordinal in rest_at:
            if text.ordinal in continuing and given is None:
                continue
            ended.append(text.text_id)
        if known is not None:
            if given is None:
                continue
            ended.append(text.text_id)
        continues = text.ordinal in continuing and given is None
        if known is None and not (continues and without_layout(passage) in rests):
            for said in (passage, whole.get(text.ordinal, "")):
                of_text = loose[without_layout(said)]
                while known is None and of_text:
                    one = of_text.popleft()
                    known = None if one.id in taken else one
            taken |= {known.id} if known else set()
        if known is None and continues:
            written.append((text.text_id, Entry.of_rest(text.text_id, *times)))
            continue
        written.append((text.text_id, _merge(given, known, *times)))
    # What is left in `stored_at` is of the abstract of a file that has passages now.
    return ended + [staying[ordinal].text_id for ordinal in stored_at], written


def _long_memories(context: Prepared) -> dict[int, str]:
    """Return the text of each memory of several passages, by the ordinal of the first one."""
    whole: dict[int, str] = {}
    first: Text | None = None
    for text in context.texts:
        if not text.continues:
            first = text
        elif first is not None:
            whole[first.ordinal] = context.draft.content[first.start : text.end]
    return whole


def are_known(given: Mapping[int, Entry], stored: Sequence[StoredEntry]) -> bool:
    """Return True if writing these entries, given by ordinal, would neither change nor add one."""
    known = {one.ordinal: one.entry for one in stored}
    return all(
        ordinal in known and _merge(entry, known[ordinal], 0, 0) == known[ordinal]
        for ordinal, entry in given.items()
    )


def _merge(given: Entry | None, known: Entry | None, time: int, created_at: int) -> Entry:
    """Return an entry from the values that the request gives and the values that are stored.

    A value that is not given is taken from the stored entry. Each counter is the larger of the two,
    so that counts since the caller's read are kept. `time` and `created_at` are for a new entry.
    """
    if given is None:
        return known or Entry(time=time, created_at=created_at)
    known = known or Entry()
    return replace(
        given,
        id=given.id or known.id,
        reinforcement=max(given.reinforcement, known.reinforcement),
        access_count=max(given.access_count, known.access_count),
        time=next((t for t in (given.time, known.time) if t is not None), time),
        created_at=next(
            (t for t in (given.created_at, known.created_at) if t is not None), created_at
        ),
    )
