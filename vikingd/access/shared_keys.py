"""The keys and limits that nodes (daemons with one database) share; each node has a copy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from vikingd.access.key_tables import Connection, SharedTables
from vikingd.access.keys import KeyStore
from vikingd.access.keys_schema import COPY
from vikingd.access.records import COLUMNS
from vikingd.domain.errors import StoreMismatch, VikingError

_Rows: TypeAlias = list[tuple[Any, ...]]

_ALL = f"digest, old_digest, old_expires_at, {COLUMNS}, checksum"
_KEYS = f"SELECT {_ALL} FROM keys"
_TENANTS = "SELECT name, created_at, limits FROM tenants"
_PLACES = ", ".join("?" * len(_ALL.split(", ")))
_PAUSE = 1.0  # seconds without a look for keys of other nodes after one that failed


class SharedKeys(KeyStore):
    """The keys of all nodes: the daemons that share a database.

    Keys are checked against this node's copy, so this works while the database cannot be reached. A
    change is written to the database, then to the copy. The database notifies the other nodes. A
    node that gets a key that it does not know reads the database.

    Args:
        directory: the directory of the copy.
        tables: the tables of keys in the database.

    Raises:
        StoreAway: the database cannot be reached.
        StoreMismatch: the directory has keys of its own, or the database has lost its keys.
    """

    _is_copy = True

    def __init__(self, directory: Path, tables: SharedTables) -> None:
        super().__init__(directory)
        self._tables = tables
        self._copying = Lock()
        self._copied = -1  # number of the last change in the copy
        self._timeline = ""
        self._failed = -_PAUSE  # time of the last look that failed
        self._running: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[None] | None = None
        self.copy()
        self._following = tables.subscribe(self.copy)

    # Calls

    async def catch_up(self) -> None:
        """Wait until this node has the keys that other nodes made or changed before this call.

        Concurrent callers share one read of the database, so that wrong keys do not load it. A
        read that began before the call may be too old, so the caller waits for the next read. If
        the read fails, the copy stays as it is, and this returns without an error.
        """
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._look_after(self._running))
        await asyncio.shield(self._waiting)

    async def _look_after(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._waiting = self._waiting, None
        if time.monotonic() - self._failed > _PAUSE:
            try:
                await asyncio.to_thread(self.copy)
            except VikingError:
                self._failed = time.monotonic()

    # The copy

    def copy(self) -> bool:
        """Copy the changes since the last copy from the database; return True if there were any.

        Raises:
            StoreAway, StoreFailed: the database cannot be read.
            StoreMismatch: the database has lost its keys. The copy is kept.
        """
        with self._copying:
            timeline = self._tables.timeline()
            with self._tables.reading() as db:
                state = dict(db.execute("SELECT name, value FROM state"))
                newest, had_key = state["changes"], state["had_key"]
                is_known = timeline == self._timeline and newest >= self._copied >= 0
                if is_known and newest == self._copied:
                    return False
                if self._marker.exists() and not had_key:
                    raise StoreMismatch(
                        "the database has lost the keys of the nodes: restore it; if that cannot "
                        "be, delete the node's --path, which has a copy and an index"
                    )
                changed = db.execute(
                    "SELECT key, tenant FROM changes WHERE number > ?", (self._copied,)
                ).fetchall()
                # Old changes are dropped, and each number has one row.
                is_whole = not is_known or len(changed) < newest - self._copied
                ids = [(key,) for key, _ in changed if key and not is_whole]
                names = [(tenant,) for _, tenant in changed if tenant and not is_whole]
                keys, tenants = (
                    (db.execute(_KEYS).fetchall(), db.execute(_TENANTS).fetchall())
                    if is_whole
                    else _read_some(db, ids, names)
                )
            with super()._changing() as file:
                if is_whole:
                    file.execute("DELETE FROM keys")
                    file.execute("DELETE FROM tenants")
                file.executemany("DELETE FROM keys WHERE id = ?", ids)
                file.executemany("DELETE FROM keys WHERE tenant = ?", names)
                file.executemany("DELETE FROM tenants WHERE name = ?", names)
                file.executemany(f"INSERT OR REPLACE INTO keys ({_ALL}) VALUES ({_PLACES})", keys)
                file.executemany("INSERT OR REPLACE INTO tenants VALUES (?, ?, ?)", tenants)
                file.execute("INSERT OR REPLACE INTO state VALUES (?, 1)", (COPY,))
                file.execute("UPDATE state SET value = ? WHERE name = 'had_key'", (had_key,))
            self._copied, self._timeline = newest, timeline
            return True

    # Changes

    @contextmanager
    def _changing(self, *, key: str = "", tenant: str = "") -> Iterator[Connection]:
        with self._tables.changing(key=key, tenant=tenant) as db:
            yield db
        self.copy()

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._tables.reading()

    def _recording(self) -> AbstractContextManager[Connection]:
        return self._tables.changing_silently()

    def close(self) -> None:
        """Write the times of last use and close the file."""
        self._following.stop()
        super().close()


def _read_some(db: Connection, ids: _Rows, names: _Rows) -> tuple[_Rows, _Rows]:
    """Return (rows of keys, rows of tenants) from the database.

    They are the keys with these ids, and the keys and limits of the tenants with these names.
    """
    keys = [row for one in ids for row in db.execute(f"{_KEYS} WHERE id = ?", one)]
    keys += [row for one in names for row in db.execute(f"{_KEYS} WHERE tenant = ?", one)]
    return keys, [row for one in names for row in db.execute(f"{_TENANTS} WHERE name = ?", one)]
