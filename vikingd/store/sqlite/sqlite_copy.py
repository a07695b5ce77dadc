"""SQLite stores as source or target of `vikingd.store.store_copy`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from vikingd.domain.errors import AlreadyExists, NotFound, StoreMismatch
from vikingd.store.damage import Damage
from vikingd.store.reads.change_reads import all_damage
from vikingd.store.sqlite.rollback_detection import adopt_restored
from vikingd.store.sqlite.sqlite_connection import SqliteConnection
from vikingd.store.sqlite.sqlite_faults import domain_errors
from vikingd.store.sqlite.sqlite_schema import DATABASE, MIGRATIONS, connect, migrate
from vikingd.store.sqlite.store_directory import hold_lock
from vikingd.store.store_copy import TABLES, State
from vikingd.store.store_meta import CLEAN
from vikingd.system.sealed_files import sync

_COPYING = f"{DATABASE}.copying"


class _Source:
    def __init__(self, db: SqliteConnection) -> None:
        self._db = db

    def state(self) -> State:
        state = self._db.get_state()
        rows = self._db.execute("SELECT key, value FROM meta WHERE key NOT GLOB 'store.*'")
        meta = {key: value for key, value in rows if key not in ("history.epochs", "entries.last")}
        return State(
            state["store.model"],
            state.get("store.dimension"),
            state["store.revision"],
            state["store.linked"],
            state["store.forgotten"],
            self._db.last_ids(),
            meta,
        )

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        columns, order = TABLES[table]
        return iter(self._db.execute(f"SELECT {columns} FROM {table} ORDER BY {order}"))

    def damage(self) -> list[Damage]:
        return all_damage(self._db)


@contextmanager
def sqlite_source(path: Path) -> Iterator[_Source]:
    """Open the store in a directory for reading, and lock the directory.

    Raises:
        NotFound: there is no store.
        StoreInUse: a daemon has it open.
        StoreMismatch: it has another schema.
    """
    database = path / DATABASE
    if not database.exists():
        raise NotFound(str(path), f"there is no store in {path}")
    with (
        hold_lock(path),
        domain_errors("the store could not be read", database),
        closing(connect(database, read_only=True)) as db,
    ):
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version != len(MIGRATIONS):
            raise StoreMismatch(
                f"the store has schema {version}, not {len(MIGRATIONS)}: start it once with this "
                "vikingd, or use the vikingd that made it"
            )
        db.execute("BEGIN")
        yield _Source(db)


class _Target:
    def __init__(self, db: SqliteConnection) -> None:
        self._db = db

    def write(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        columns, _ = TABLES[table]
        places = ", ".join("?" * len(columns.split(",")))
        self._db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)

    def finish(self, state: State) -> None:
        last = state.last
        self._db.executemany(
            "INSERT OR REPLACE INTO sqlite_sequence (rowid, name, seq) VALUES "
            "((SELECT rowid FROM sqlite_sequence WHERE name = ?1), ?1, ?2)",
            [("contexts", last.contexts), ("texts", last.texts)],
        )
        self._db.set_meta(
            {
                **state.meta,
                "entries.last": last.entries,
                "store.model": state.model,
                "store.dimension": state.dimension,
                "store.revision": state.revision,
                "store.linked": state.linked,
                "store.forgotten": state.forgotten,
                CLEAN: 1,
            }
        )


@contextmanager
def sqlite_target(path: Path) -> Iterator[_Target]:
    """Create a store in a directory, and fill it within the block.

    The store appears in the directory at the end of the block. If the block raises, nothing of it
    remains.

    Raises:
        AlreadyExists: the directory has a store, or had one.
        StoreInUse: another process has the directory open.
    """
    database = path / DATABASE
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_lock(path), domain_errors("the copy could not be written", database):
        if database.exists() or (path / "mark").exists():
            raise AlreadyExists(f"a store in {path}")
        made = path / _COPYING
        _remove(made)
        try:
            with closing(connect(made)) as db:
                migrate(db)
                db.execute("PRAGMA foreign_keys = OFF")  # parents may come after their children
                with db.transaction():
                    yield _Target(db)
                db.execute("PRAGMA journal_mode = DELETE")
            made.rename(database)
            sync(path)
            adopt_restored(path)
        finally:
            _remove(made)


def _remove(made: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        made.with_name(made.name + suffix).unlink(missing_ok=True)
