"""The tables of the file of keys."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from vikingd.access.records import seal
from vikingd.domain.errors import StoreDamaged

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    old_digest BLOB,
    old_expires_at INTEGER,
    tenant TEXT NOT NULL,
    user TEXT NOT NULL,
    grants TEXT NOT NULL,
    is_operator INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at INTEGER,
    revoked_at INTEGER,
    limits TEXT NOT NULL,
    subject TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS keys_tenant ON keys (tenant, created_at);
CREATE UNIQUE INDEX IF NOT EXISTS keys_subject ON keys (subject)
    WHERE subject != '' AND revoked_at IS NULL;
CREATE TABLE IF NOT EXISTS tenants (
    name TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    limits TEXT NOT NULL
) STRICT;
-- `changes` counts what callers may see; a new time of last use is none of it. `id` is random.
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO state
VALUES ('version', 1), ('changes', 0), ('had_key', 0), ('id', random());
"""
_VERSION = 1
_COLUMNS = "PRAGMA table_info(keys)"

COPY = "copy"
"""The name of the row of `state` that marks a file as a copy of the keys in a database."""


class State(NamedTuple):
    """The identity of a file of keys, and the number of its last change."""

    id: str  # "" in a file of an older version
    changes: int
    had_key: bool  # it has, or ever had, a key


NOTHING = State("", 0, False)
"""The state of a file without tables."""


def state_of(connection: sqlite3.Connection) -> State:
    """Return the state of a file of keys."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
        return NOTHING
    found = dict(connection.execute("SELECT name, value FROM state"))
    return State(str(found.get("id", "")), found.get("changes", 0), bool(found.get("had_key")))


def read_state(path: Path, *, without_log: bool = False) -> State:
    """Read the state of a file of keys by a read-only connection, which changes no file.

    With `without_log`, changes that are only in the write-ahead log are ignored.
    """
    immutable = "&immutable=1" if without_log else ""
    uri = f"file:{quote(str(path))}?mode=ro{immutable}"
    with closing(sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None)) as connection:
        return state_of(connection)


def connect(path: Path) -> sqlite3.Connection:
    """Open the file of keys, and create it if it is missing.

    Raises:
        StoreDamaged: the file is of a later version of vikingd.
        sqlite3.Error: the file is damaged, or cannot be created.
    """
    connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA secure_delete = ON")  # hashes and notes of deleted keys
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # for macOS, whose fsync does not reach the disk
    connection.executescript(_SCHEMA)
    _add_checksums(connection)
    version = connection.execute("SELECT value FROM state WHERE name = 'version'").fetchone()[0]
    if version != _VERSION:
        raise StoreDamaged(
            f"{path}, the file of the keys, has version {version} of its tables, and this vikingd "
            f"reads version {_VERSION}: start the later version of vikingd that wrote it, or "
            "restore a copy of the file"
        )
    return connection


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Add checksums to the keys of a file from an older version, see `vikingd.domain.checksums`."""
    if any(column == "checksum" for _, column, *_ in connection.execute(_COLUMNS)):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not any(column == "checksum" for _, column, *_ in connection.execute(_COLUMNS)):
            connection.execute("ALTER TABLE keys ADD COLUMN checksum INTEGER")
            seal(connection, [id_ for (id_,) in connection.execute("SELECT id FROM keys")])
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
