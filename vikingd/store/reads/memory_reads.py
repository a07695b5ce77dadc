"""Reads of memories."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from itertools import groupby
from operator import itemgetter

from vikingd.domain.contexts import Entry
from vikingd.domain.uri import subtree_bounds
from vikingd.memory.memory_file_series import Key, Series
from vikingd.memory.memory_types import MemoryFile, StoredEntry
from vikingd.store.memory_series_reads import read_series, series
from vikingd.store.reads.database_reads import DatabaseReads, revision_of
from vikingd.store.rows import memory_file

_ENTRIES = """
SELECT context_id, uri, entries.id, reinforcement, access_count, entries.time, entries.created_at,
    ordinal, section, "start", "end"
FROM contexts JOIN texts ON context_id = contexts.id JOIN entries ON text_id = texts.id
WHERE tenant = 'default'
"""
_HOLDING = """
SELECT context_id FROM texts JOIN entries ON text_id = texts.id
WHERE entries.id IN (SELECT value FROM each_id(?))
"""
# For each passage that continues a memory: the memories before it in its file, the nearest last.
_HEADS = """
SELECT rest.id, entries.id, reinforcement, access_count, entries.time, entries.created_at
FROM texts AS rest JOIN texts ON texts.context_id = rest.context_id
    AND texts.ordinal < rest.ordinal JOIN entries ON text_id = texts.id
WHERE entries.id > 0 AND rest.id IN (SELECT value FROM each_id(?))
ORDER BY rest.id, texts.ordinal
"""
_LONG = """
SELECT one.id FROM texts AS one JOIN texts ON texts.context_id = one.context_id
    AND texts.ordinal BETWEEN one.ordinal AND one.ordinal + 1 JOIN entries ON text_id = texts.id
WHERE entries.id < 0 AND one.id IN (SELECT value FROM each_id(?))
"""


class MemoryReads(DatabaseReads):
    """Reads of memories with their counters and times."""

    def entries(self, text_ids: Sequence[int]) -> tuple[dict[int, Entry], int]:
        """Return (the entries of memories by text id, the revision that was read).

        Texts that are not memories are left out. All passages of a long memory have the same entry.
        """
        with self._snapshot() as db:
            rows = db.execute(
                "SELECT text_id, id, reinforcement, access_count, time, created_at FROM entries "
                "WHERE text_id IN (SELECT value FROM each_id(?))",
                (json.dumps(text_ids),),
            ).fetchall()
            found = {row[0]: Entry(*row[1:]) for row in rows}
            if rest := [row[0] for row in rows if row[1] < 0]:
                # Rows are in order, so the last one of each text is the nearest memory before it.
                of_heads = db.execute(_HEADS, (json.dumps(rest),))
                found.update({text_id: Entry(*entry) for text_id, *entry in of_heads})
            return found, revision_of(db)

    def long_memories(self, text_ids: Sequence[int]) -> set[int]:
        """Return the text ids among these that belong to a memory of several passages."""
        with self._snapshot() as db:
            # Most stores have no long memory, and one lookup in an index shows that.
            if db.execute("SELECT 1 FROM entries WHERE id < 0 LIMIT 1").fetchone() is None:
                return set()
            return {text_id for (text_id,) in db.execute(_LONG, (json.dumps(text_ids),))}

    def memories_below(self, root: str) -> list[StoredEntry]:
        """Return all memories below a directory, sorted by URI and ordinal."""
        return self._stored("uri >= ? AND uri < ?", subtree_bounds(root))

    def memories_in(self, uris: Sequence[str]) -> list[StoredEntry]:
        """Return the memories of these files, sorted by URI and ordinal; skip unknown files."""
        condition = "uri IN (SELECT value FROM each_name(?))"
        return self._stored(condition, (json.dumps(uris),))

    def memories(self, ids: Sequence[int]) -> list[StoredEntry]:
        """Return the memories with these ids, sorted by URI and ordinal; skip unknown ids."""
        wanted = frozenset(ids)
        stored = self._stored(f"contexts.id IN ({_HOLDING})", (json.dumps(ids),))
        return [one for one in stored if one.entry.id in wanted]

    def _stored(self, condition: str, values: Sequence[str]) -> list[StoredEntry]:
        """Return the memories that match a SQL condition, sorted by URI and ordinal."""
        found: list[StoredEntry] = []
        with self._snapshot() as db:
            rows = db.execute(f"{_ENTRIES} AND {condition} ORDER BY uri, ordinal", values)
            for context_id, of_context in groupby(rows, key=itemgetter(0)):
                texts = db.execute(
                    "SELECT abstract, content FROM contexts WHERE id = ?", (context_id,)
                )
                abstract, content = texts.fetchone()
                first = len(found)
                for _, uri, *known, ordinal, section, start, end in of_context:
                    entry = Entry(*known)
                    if entry.is_rest and len(found) > first:
                        found[-1] = found[-1].continued(start, end, content)
                    elif not entry.is_rest:
                        text = content[start:end] if ordinal else abstract
                        found.append(StoredEntry(uri, entry, ordinal, section, start, end, text))
        return found

    def memory_series(self, uri: str, known: Container[Key] = ()) -> Series:
        """Return the series that begins with the file at `uri`: the file and its continuations.

        Files whose key (id, revision and content hash) is in `known` are not read, except the last
        file of the series.
        """
        with self._snapshot() as db:
            return read_series(db, uri, known)

    def series_files(self, uri: str) -> list[str]:
        """Return the URIs of a memory file and its continuations, in order."""
        with self._snapshot() as db:
            return [of for of, _ in series(db, uri).files]

    def memory_file(self, uri: str) -> MemoryFile | None:
        """Return a file with its memories; None if there is no such file."""
        with self._snapshot() as db:
            return memory_file(db, uri)
