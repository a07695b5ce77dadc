"""The tables of a SQLite store and their migrations."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from urllib.parse import quote

from vikingd.domain.errors import StoreMismatch
from vikingd.store.checksum_migration import add_checksums
from vikingd.store.damage import store_damaged
from vikingd.store.sqlite.sqlite_connection import SqliteConnection
from vikingd.system.regular_files import check_regular

DATABASE = "store.sqlite3"
"""The name of the database's file in the directory of a store."""

# The wide columns come last: SQLite then reads the narrow ones without overflow pages.
# texts.text is NULL if it can be derived from headings and content, see rows.text_of.
# texts.embeddable is 0 if the text is blank, else its rank in the backlog, see `rank_of`.
_TABLES = """
CREATE TABLE contexts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL DEFAULT 'default',
    uri TEXT NOT NULL,
    parent_id INTEGER REFERENCES contexts (id),
    is_directory INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    content_hash BLOB NOT NULL,
    time INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    reinforcement INTEGER NOT NULL DEFAULT 0,
    access_count INTEGER NOT NULL DEFAULT 0,
    title TEXT NOT NULL,
    abstract TEXT NOT NULL,
    metadata TEXT NOT NULL,
    overview TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (tenant, uri)
);
CREATE INDEX contexts_children ON contexts (parent_id, is_directory, uri);
CREATE INDEX contexts_revision ON contexts (revision);

CREATE TABLE texts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    context_id INTEGER NOT NULL REFERENCES contexts (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    section TEXT NOT NULL,
    "start" INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    script INTEGER NOT NULL,
    embeddable INTEGER NOT NULL,
    vector_revision INTEGER,
    text TEXT,
    vector BLOB,
    UNIQUE (context_id, ordinal)
);
CREATE INDEX texts_without_vector ON texts (embeddable, ordinal > 0, id) WHERE vector IS NULL;
CREATE INDEX texts_vector_revision ON texts (vector_revision) WHERE vector_revision IS NOT NULL;

CREATE TABLE links (
    a INTEGER NOT NULL REFERENCES contexts (id) ON DELETE CASCADE,
    b INTEGER NOT NULL REFERENCES contexts (id) ON DELETE CASCADE,
    reason TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (a, b),
    CHECK (a < b)
) WITHOUT ROWID;
CREATE INDEX links_b ON links (b);

CREATE TABLE removals (revision INTEGER NOT NULL, uri TEXT NOT NULL);

CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
"""

# A memory is a passage of a memory file. It has its own id, because a text gets a new id when its
# file is rewritten. `entries.last` keeps the last id, so that no id is used twice. The key is the
# text's id, because a recall reads the entries of hundreds of texts.
_ENTRIES = """
CREATE TABLE entries (
    text_id INTEGER PRIMARY KEY REFERENCES texts (id) ON DELETE CASCADE,
    id INTEGER NOT NULL UNIQUE,
    reinforcement INTEGER NOT NULL DEFAULT 0,
    access_count INTEGER NOT NULL DEFAULT 0,
    time INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);
INSERT INTO entries (text_id, id, time, created_at)
SELECT texts.id, texts.id, contexts.time, contexts.created_at
FROM contexts JOIN texts ON context_id = contexts.id
WHERE NOT is_directory AND (uri GLOB 'viking://user/memories/*'
    OR uri GLOB 'viking://agent/memories/*' OR uri GLOB 'viking://projects/*/memories/*')
AND (ordinal > 0 OR NOT EXISTS (
    SELECT 1 FROM texts AS other WHERE other.context_id = contexts.id AND other.ordinal > 0));
INSERT INTO meta SELECT 'entries.last', ifnull(max(id), 0) FROM entries;
INSERT INTO meta SELECT 'memories.whole', x'01' WHERE EXISTS (SELECT 1 FROM entries);
ALTER TABLE contexts DROP COLUMN reinforcement;
ALTER TABLE contexts DROP COLUMN access_count;
"""

# Requests with an id, with their replies.
_REQUESTS = """
CREATE TABLE requests (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    revision INTEGER NOT NULL,
    reply BLOB NOT NULL,
    time INTEGER NOT NULL
);
CREATE INDEX requests_time ON requests (time);
"""

# The digest of a text whose vector the embedder made: an equal text gets the same vector. The index
# `texts_waiting` holds all columns from which the work of the backlog is computed.
_DIGESTS = """
ALTER TABLE texts ADD COLUMN digest BLOB;
CREATE INDEX texts_digest ON texts (digest) WHERE digest IS NOT NULL;
DROP INDEX texts_without_vector;
CREATE INDEX texts_waiting ON texts (embeddable, ordinal > 0, id, script, "start", "end", vector)
    WHERE vector IS NULL;
"""

# See `vikingd.domain.checksums`; `migrate` computes those of the rows that are there.
_CHECKSUMS = """
ALTER TABLE contexts ADD COLUMN checksum INTEGER;
ALTER TABLE contexts ADD COLUMN content_checksum INTEGER;
ALTER TABLE texts ADD COLUMN checksum INTEGER;
ALTER TABLE texts ADD COLUMN vector_checksum INTEGER;
ALTER TABLE entries ADD COLUMN checksum INTEGER;
ALTER TABLE links ADD COLUMN checksum INTEGER;
"""

# The texts of a model stand in the row of their context; `slots` has the ones that it wrote, see
# `vikingd.domain.description`. A change of the context by others deletes the row.
_DESCRIPTIONS = """
CREATE TABLE descriptions (
    context_id INTEGER PRIMARY KEY REFERENCES contexts (id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    basis BLOB NOT NULL,
    maker TEXT NOT NULL,
    slots INTEGER NOT NULL,
    checksum INTEGER
);
CREATE INDEX descriptions_revision ON descriptions (revision);
CREATE INDEX descriptions_basis ON descriptions (basis);
"""

MIGRATIONS: list[str] = [_TABLES, _ENTRIES, _REQUESTS, _DIGESTS, _CHECKSUMS, _DESCRIPTIONS]
"""SQL scripts: each migrates the tables to the next version of the schema. Append only."""

WITH_CHECKSUMS = 5
"""The first version of the schema whose rows have checksums."""

WITH_DESCRIPTIONS = 6
"""The first version of the schema with descriptions by a model."""

# SQLite's errors for a migration that was already applied, such as "table links already exists".
_IS_THERE = re.compile("already exists|duplicate column name")

_WAL_PAGES = 8192  # 32 MiB between checkpoints, so that an import writes most pages once


CACHE_KIB = 65536
"""The most memory, in KiB, for the page cache of the connection that writes."""


def connect(
    path: Path,
    *,
    read_only: bool = False,
    immutable: bool = False,
    cache_kib: int = CACHE_KIB,
) -> SqliteConnection:
    """Return a connection to a SQLite database in autocommit mode, for one thread at a time.

    `immutable` is for a file that no process changes; SQLite then makes no files beside it.

    Raises:
        OSError: the path is no regular file; SQLite would wait for the writer of a FIFO.
    """
    check_regular(path)
    db = sqlite3.connect(
        f"file:{quote(str(path))}?mode={'ro' if read_only else 'rwc'}{'&immutable=1' * immutable}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=10,
        cached_statements=256,
        factory=SqliteConnection,
    )
    if not read_only:
        if db.execute("PRAGMA page_count").fetchone() == (0,):  # in an old one it would write
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # see `idle_maintenance`
        db.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = ON")  # for macOS, whose fsync does not reach the disk
        db.execute("PRAGMA checkpoint_fullfsync = ON")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute(f"PRAGMA cache_size = -{cache_kib}")
        db.execute("PRAGMA temp_store = MEMORY")  # the journals of savepoints are small
        db.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {_WAL_PAGES * 8192}")
    return db


def migrate(db: SqliteConnection) -> None:
    """Migrate the tables to the newest schema, each step in its own transaction.

    Raises:
        StoreMismatch: a newer vikingd made the tables.
        StoreDamaged: the tables do not match their schema number.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version < 0 or (not version and db.execute("SELECT 1 FROM sqlite_master").fetchone()):
        raise store_damaged(f"it names schema {version}, but it has tables")
    if version > len(MIGRATIONS):
        raise StoreMismatch(
            f"the store has schema {version}, this vikingd supports up to {len(MIGRATIONS)}: "
            "use the vikingd that made the store, or a newer one"
        )
    for step, script in enumerate(MIGRATIONS[version:], start=version + 1):
        try:
            db.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {step};")
            if step == WITH_CHECKSUMS:
                add_checksums(db)
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) and _IS_THERE.search(str(error)):
                raise store_damaged(f"it names schema {version}, but has more: {error}") from error
            raise
