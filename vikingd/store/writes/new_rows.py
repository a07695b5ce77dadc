"""Rows to insert, collected over the requests of a group."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

_ROWS_PER_STATEMENT = 64


class ContextRow(NamedTuple):
    """A row of the table `contexts`; its fields are columns."""

    id: int
    uri: str
    parent_id: int
    is_directory: bool
    created_at: int
    title: str
    abstract: str
    overview: str
    content: str
    metadata: str
    content_hash: bytes
    time: int
    updated_at: int
    revision: int


class TextRow(NamedTuple):
    """A row of the table `texts`; its fields are columns."""

    id: int
    context_id: int
    ordinal: int
    section: str
    start: int
    end: int
    script: int
    embeddable: bool
    vector_revision: int | None
    text: str | None
    vector: bytes | None


class EntryRow(NamedTuple):
    """A row of the table `entries`; its fields are columns."""

    id: int
    text_id: int
    reinforcement: int
    access_count: int
    time: int | None
    created_at: int | None


class RowCounts(NamedTuple):
    """The number of new rows of each table."""

    contexts: int
    texts: int
    entries: int


class NewRows:
    """New rows of the tables, in the order of their inserts."""

    def __init__(self) -> None:
        self.contexts: list[ContextRow] = []
        self.texts: list[TextRow] = []
        self.entries: list[EntryRow] = []

    def counts(self) -> RowCounts:
        """Return the number of rows."""
        return RowCounts(len(self.contexts), len(self.texts), len(self.entries))

    def cut(self, counts: RowCounts) -> None:
        """Drop the rows that were added after `counts` was taken."""
        del self.contexts[counts.contexts :]
        del self.texts[counts.texts :]
        del self.entries[counts.entries :]

    def insert(self, db: sqlite3.Connection) -> None:
        """Insert the rows into the tables."""
        _insert(db, _INSERT_CONTEXTS, self.contexts)
        _insert(db, _INSERT_TEXTS, self.texts)
        _insert(db, _INSERT_ENTRIES, self.entries)
        if self.entries:
            last = max(row.id for row in self.entries)
            db.execute("UPDATE meta SET value = max(value, ?) WHERE key = 'entries.last'", (last,))


def _statement(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return f"INSERT INTO {table} ({names}) VALUES "


_INSERT_CONTEXTS = _statement("contexts", ContextRow._fields)
_INSERT_TEXTS = _statement("texts", TextRow._fields)
_INSERT_ENTRIES = _statement("entries", EntryRow._fields)


def _insert(db: sqlite3.Connection, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
    # Each statement releases and takes the GIL once, so one statement inserts many rows.
    for at in range(0, len(rows), _ROWS_PER_STATEMENT):
        some = rows[at : at + _ROWS_PER_STATEMENT]
        row = f"({', '.join('?' * len(some[0]))})"
        db.execute(sql + ", ".join([row] * len(some)), list(chain(*some)))
