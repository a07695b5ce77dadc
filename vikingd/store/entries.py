"""Entries of memory files in the tables: which text has which, and their counters."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vikingd.domain.changes import Upsert
from vikingd.domain.contexts import MAX_COUNTER, ContextType, Entry, Prepared
from vikingd.domain.text import without_layout
from vikingd.domain.uri import context_type
from vikingd.memory.model import StoredEntry, check_there

_HOLDERS = """
SELECT entries.id, uri FROM entries
JOIN texts ON texts.id = text_id JOIN contexts ON contexts.id = context_id
WHERE entries.id IN (SELECT value FROM json_each(?))
"""
_REINFORCE = """
UPDATE entries SET reinforcement = min(reinforcement + ?, ?)
WHERE id IN (SELECT value FROM json_each(?))
RETURNING id, reinforcement, access_count, time, created_at
"""


def assigned(
    context: Prepared,
    upsert: Upsert,
    before: Sequence[StoredEntry],
    in_place: int,
    time: int,
    now: int,
) -> tuple[list[int], list[tuple[int, Entry]]]:
    """The entries of a file's texts; those whose text is unchanged stay what they are.

    Args:
        context: with the entries that are given.
        upsert: the texts as they are written.
        before: the entries as they stood.
        in_place: so many texts at the beginning have their entries still.
        time: that of new ones; `now` is when they are written.

    Returns:
        (ids of texts whose entry goes, (text id, entry) of those to be written, id 0 for new ones).
    """
    staying = {text.ordinal: text for text in upsert.texts[:in_place]}
    there = {stored.ordinal: stored.entry for stored in before if stored.ordinal in staying}
    taken = {entry.id for entry in context.entries.values()}
    loose: dict[str, list[Entry]] = defaultdict(list)  # by their text
    for stored in before:
        if stored.ordinal not in staying and stored.entry.id not in taken:
            loose[without_layout(stored.passage)].append(stored.entry)
    ended: list[int] = []
    written: list[tuple[int, Entry]] = []
    held = [text for text in upsert.texts if text.ordinal or len(upsert.texts) == 1]
    for text in held:
        known, given = there.pop(text.ordinal, None), context.entries.get(text.ordinal)
        if known is not None:
            if given is None:
                continue
            ended.append(text.text_id)
        elif of_text := loose[without_layout(text.passage if text.ordinal else context.abstract)]:
            known = of_text.pop(0)
        written.append((text.text_id, _merged(given, known, time, now)))
    # What is left there is an abstract that stands for its file no longer.
    return ended + [staying[ordinal].text_id for ordinal in there], written


def stand_already(given: Mapping[int, Entry], stored: Sequence[StoredEntry]) -> bool:
    """Whether what is given of memories, by ordinal, says nothing else than what is known."""
    known = {one.ordinal: one.entry for one in stored}
    return all(
        ordinal in known and _merged(entry, known[ordinal], 0, 0) == known[ordinal]
        for ordinal, entry in given.items()
    )


def holders_of(db: sqlite3.Connection, ids: Sequence[int], *, all_there: bool) -> dict[int, str]:
    """The URIs of the files of memories by id, of those that are there.

    Raises:
        NotFound: they must be `all_there`, and one is not.
    """
    rows = db.execute(_HOLDERS, (json.dumps(ids),))
    there = {i: uri for i, uri in rows if context_type(uri) is ContextType.MEMORY}
    if all_there:
        check_there(ids, there)
    return there


def reinforced(db: sqlite3.Connection, ids: Sequence[int], by: int) -> list[Entry]:
    """Raises the reinforcement of memories; what they are then.

    Raises:
        NotFound: one is not there.
    """
    holders_of(db, ids, all_there=True)
    rows = db.execute(_REINFORCE, (by, MAX_COUNTER, json.dumps(ids))).fetchall()
    found = {entry_id: Entry(entry_id, *rest) for entry_id, *rest in rows}
    return [found[entry_id] for entry_id in ids]


def _merged(given: Entry | None, known: Entry | None, time: int, now: int) -> Entry:
    """What is given of an entry, else what is known of it; `time` and `now` for a new one.

    Counters only rise: what was counted since the writer read them stays counted.
    """
    if given is None:
        return known or Entry(time=time, created_at=now)
    known = known or Entry()
    return replace(
        given,
        id=given.id or known.id,
        reinforcement=max(given.reinforcement, known.reinforcement),
        access_count=max(given.access_count, known.access_count),
        time=next((t for t in (given.time, known.time) if t is not None), time),
        created_at=next((t for t in (given.created_at, known.created_at) if t is not None), now),
    )
