"""SQLite's connection, which translates the shared statements into SQLite's dialect."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import NoneType
from typing import Any

from vikingd.store.connection import LastIds
from vikingd.store.damage import store_damaged

_translations: dict[str, str] = {}  # by shared statement; there are some hundred

_TYPES: dict[str, tuple[type, ...]] = {
    "store.revision": (int,),
    "store.forgotten": (int,),
    "store.model": (str,),
    "store.linked": (int,),
    "store.clean": (int,),
    "store.dimension": (int, NoneType),
    "store.id": (str,),
    "store.epoch": (str,),
    "history.epochs": (str,),
    "entries.last": (int,),
    "vectors.dropped": (int,),
}
"""The types of values in the table meta; all others are bytes."""

_NEEDED = ("store.revision", "store.forgotten", "store.model")  # by any store


class SqliteConnection(sqlite3.Connection):
    """A `Connection` to an SQLite database."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        """Run one SQL statement and return its result."""
        return super().execute(_translations.get(sql) or _translated(sql), values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        """Run one SQL statement for each row of parameters."""
        return super().executemany(_translations.get(sql) or _translated(sql), rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction; roll back if the block or the commit fails."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self.in_transaction:
                self.execute("ROLLBACK")
            raise

    def get_meta(self, *keys: str) -> dict[str, Any]:
        """Return values of the table `meta` by key; missing keys are left out.

        Raises:
            StoreDamaged: a value has a wrong type, or a value that every store needs is missing.
        """
        places = ", ".join("?" * len(keys))
        rows = self.execute(f"SELECT key, value FROM meta WHERE key IN ({places})", keys)
        found = _of_type(rows)
        if any(key in _NEEDED and key not in found for key in keys):
            self.get_state()
        return found

    def get_state(self) -> dict[str, Any]:
        """Return the values of all keys that begin with "store."; {} in an empty database.

        Raises:
            StoreDamaged: as `get_meta`.
        """
        found = _of_type(self.execute("SELECT key, value FROM meta WHERE key GLOB 'store.*'"))
        if missing := [key for key in _NEEDED if key not in found]:
            (rows,) = self.execute("SELECT count(*) FROM contexts").fetchone()
            if found or rows:
                raise store_damaged(f"its table meta has no valid {', '.join(missing)}")
        return found

    def set_meta(self, values: Mapping[str, object]) -> None:
        """Write values into the table `meta` by key."""
        self.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def last_ids(self) -> LastIds:
        """Return the largest ids of contexts, texts and entries so far, deleted ones too.

        Raises:
            StoreDamaged: the last id of the entries is missing.
        """
        last = dict(self.execute("SELECT name, seq FROM sqlite_sequence"))
        entry = self.get_meta("entries.last").get("entries.last")
        if entry is None:
            raise store_damaged("its table meta has no valid entries.last")
        return LastIds(last.get("contexts", 0), last.get("texts", 0), entry)


def _of_type(rows: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Convert (key, value) rows of the table `meta` to a dict; check the types of the values.

    Raises:
        StoreDamaged: a value has another type than its key requires.
    """
    found = dict(rows)
    if wrong := [key for key, value in found.items() if type(value) not in _types_of(key)]:
        raise store_damaged(f"its table meta has no valid {', '.join(wrong)}")
    return found


def _types_of(key: str) -> tuple[type, ...]:
    return _TYPES.get(key, (bytes,))


def _translated(sql: str) -> str:
    """Translate a shared SQL statement into SQLite's dialect, and cache it for ever.

    `string_agg(` becomes `group_concat(`, for example. Only constant statements may be passed.
    """
    own = sql.replace("string_agg(", "group_concat(")
    for name in ("each_id(", "each_name(", "each_pair("):
        own = own.replace(name, "json_each(")
    if own == sql:
        return sql
    return _translations.setdefault(sql, own)
