"""Reads of memories."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from itertools import groupby
from operator import itemgetter

from vikingd.domain.contexts import Entry
from vikingd.domain.uri import subtree_bounds
from vikingd.memory.model import MemoryFile, StoredEntry
from vikingd.memory.series import Key, Series
from vikingd.store.reads.store_reads import DatabaseReads, revision_of
from vikingd.store.rows import memory_file
from vikingd.store.series_files import read_series, series

_ENTRIES = """
SELECT context_id, uri, entries.id, reinforcement, access_count, entries.time, entries.created_at,
    ordinal, section, "start", "end"
FROM contexts JOIN texts ON context_id = contexts.id JOIN entries ON text_id = texts.id
WHERE tenant = 'default'
"""


class MemoryReads(DatabaseReads):
    """Reads of memories and their counters. Only memories of whole files come with vectors."""

    def entries(self, text_ids: Sequence[int]) -> tuple[dict[int, Entry], int]:
        """Return (the entries of memories by text id, the revision that was read).

        Texts that are no memories are left out.
        """
        with self._snapshot() as db:
            rows = db.execute(
                "SELECT text_id, id, reinforcement, access_count, time, created_at FROM entries "
                "WHERE text_id IN (SELECT value FROM each_id(?))",
                (json.dumps(text_ids),),
            )
            found = {text_id: Entry(*entry) for text_id, *entry in rows}
            return found, revision_of(db)

    def memories_below(self, root: str) -> list[StoredEntry]:
        """Return all memories below a directory, sorted by URI and ordinal."""
        return self._stored("uri >= ? AND uri < ?", subtree_bounds(root))

    def memories(self, ids: Sequence[int]) -> list[StoredEntry]:
        """Return the memories with these ids, sorted by URI and ordinal; skip unknown ids."""
        condition = "entries.id IN (SELECT value FROM each_id(?))"
        return self._stored(condition, (json.dumps(ids),))

    def _stored(self, condition: str, values: Sequence[str]) -> list[StoredEntry]:
        """Return the memories that fulfil a condition; the texts of each context are read once."""
        found: list[StoredEntry] = []
        with self._snapshot() as db:
            rows = db.execute(f"{_ENTRIES} AND {condition} ORDER BY uri, ordinal", values)
            for context_id, of_context in groupby(rows, key=itemgetter(0)):
                texts = db.execute(
                    "SELECT abstract, content FROM contexts WHERE id = ?", (context_id,)
                )
                abstract, content = texts.fetchone()
                for _, uri, *known, ordinal, section, start, end in of_context:
                    text = content[start:end] if ordinal else abstract
                    found.append(
                        StoredEntry(uri, Entry(*known), ordinal, section, start, end, text)
                    )
        return found

    def memory_series(self, uri: str, known: Container[Key] = ()) -> Series:
        """Return the series of memory files that begins with a URI, with the files read.

        Files whose key is in `known` are not read, except the last one of the series.
        """
        with self._snapshot() as db:
            return read_series(db, uri, known)

    def series_files(self, uri: str) -> list[str]:
        """Return the URIs of a memory file and its continuations, in their order."""
        with self._snapshot() as db:
            return [of for of, _ in series(db, uri).files]

    def memory_file(self, uri: str) -> MemoryFile | None:
        """Return a file with its memories; None if there is no such file."""
        with self._snapshot() as db:
            return memory_file(db, uri)
