"""Stores of the schema before checksums: all sound rows get them, and damaged ones stay damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from tests.postgres_servers import NEEDS_POSTGRES, Server, shared_store
from tests.store.store_helpers import DOCS, GUIDE, ONE, WITHOUT_CHECKSUMS, file, opened, put
from vikingd.access.records import SEALED, check_seal
from vikingd.domain.backup_file import Label
from vikingd.domain.description import Description
from vikingd.domain.errors import StoreDamaged
from vikingd.store.postgres import postgres_schema as schema
from vikingd.store.postgres.postgres_connection import connect
from vikingd.store.reads.change_reads import all_damage
from vikingd.store.sqlite.backup import _HELD, verify_backup
from vikingd.store.sqlite.sqlite_schema import DATABASE, MIGRATIONS
from vikingd.store.store_copy import TABLES
from vikingd.store.store_writes import WritableStore

OTHER, NOTES = f"{DOCS}/other.md", "viking://user/memories/notes.md"
DAMAGE = {
    "a content": f"UPDATE contexts SET content = 'ona' WHERE uri = '{GUIDE}'",
    "a vector": "UPDATE texts SET vector = {} WHERE vector IS NOT NULL",
    "a counter": "UPDATE entries SET access_count = -1",
}
NAMED = {"a content": GUIDE, "a vector": GUIDE, "a counter": NOTES}
NAN = "0000c07f0000c07f"


def filled(store: WritableStore) -> None:
    """Write contexts with a vector, a memory and a link."""
    put(store, file(GUIDE, "one\ntwo\n", abstract="a", vector=ONE), file(OTHER, "other"))
    put(store, file(NOTES, "- drinks tea\n"))
    store.link(GUIDE, OTHER, "beside").result()


def damage_of(store: WritableStore) -> list[str]:
    """Return the URIs of damaged contexts."""
    with store._snapshot() as db:
        return [damage.uri for damage in all_damage(db)]


@pytest.mark.parametrize("damage", [None, *DAMAGE])
def test_a_store_in_a_file_gets_checksums(tmp_path: Path, damage: str | None) -> None:
    """The migration is one transaction; what its checks find damaged gets no checksum."""
    with opened(tmp_path) as store:
        filled(store)
        before = store.get(GUIDE), store.get(NOTES)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        db.executescript(f"{WITHOUT_CHECKSUMS}; PRAGMA user_version = 4")
        if damage:
            db.execute(DAMAGE[damage].format(f"x'{NAN}'"))
            db.commit()
    for _ in range(2):
        with opened(tmp_path) as store:
            if damage is None:
                assert (store.get(GUIDE), store.get(NOTES)) == before
            assert damage_of(store) == ([NAMED[damage]] if damage else [])
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def backup_of(path: Path, sql: str) -> Path:
    """Return a backup of a store in a file with changed rows, and with the right label."""
    database = path / DATABASE
    with closing(sqlite3.connect(database)) as db:
        db.executescript(f"{sql}; PRAGMA journal_mode = DELETE")
        held = db.execute(_HELD).fetchone()
    data = database.read_bytes()
    label = Label(*held, len(data), sha256(data).hexdigest())
    made = path / "made.backup"
    made.write_bytes(data + label.line())
    return made


def test_a_backup_of_an_older_schema_is_still_one(tmp_path: Path) -> None:
    """Rows without checksums are no damage of a backup that an older vikingd made."""
    with opened(tmp_path) as store:
        filled(store)
    old = backup_of(tmp_path, f"{WITHOUT_CHECKSUMS}; PRAGMA user_version = 4")
    assert verify_backup(old).texts == 5


def test_a_store_without_descriptions_gets_their_table(tmp_path: Path) -> None:
    """A backup of the schema before is still one, and its contexts can be described."""
    with opened(tmp_path) as store:
        filled(store)
        read = store.get(GUIDE).content_hash
    old = backup_of(tmp_path, "DROP TABLE descriptions; PRAGMA user_version = 5")
    assert verify_backup(old).texts == 5
    with opened(tmp_path) as store:
        done = store.describe([Description(GUIDE, "a", "o", "m", b"", read)]).result()
        assert (done.count, store.get(GUIDE).overview_by) == (1, "m")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_backup_with_a_damaged_row_is_refused(tmp_path: Path, damage: str) -> None:
    """A backup whose bytes are those that were copied may still have rows that are damaged."""
    with opened(tmp_path) as store:
        filled(store)
    bad = backup_of(tmp_path, DAMAGE[damage].format(f"x'{NAN}'"))
    with pytest.raises(StoreDamaged, match=NAMED[damage]):
        verify_backup(bad)


@pytest.mark.deep_after(2)
@NEEDS_POSTGRES
@pytest.mark.parametrize("damage", [None, *DAMAGE])
def test_a_database_gets_checksums(postgres: Server, damage: str | None) -> None:
    """The first node of this version computes them for the rows of all tenants, and for keys."""
    tables = ("tenants", *(name for name in TABLES if name != "descriptions"))
    with shared_store(postgres.url, f"t{uuid4().hex}") as made:
        made.start(lambda *_: None)
        filled(made)
        tenant, url = made._tenant, postgres.new_database()
        with connect(postgres.url) as source, connect(url) as old:
            old.execute("CREATE SCHEMA vikingd")
            old.execute("CREATE TABLE vikingd.schema (version integer NOT NULL)")
            for script in schema.MIGRATIONS[:2]:
                old.execute(script)
            old.execute("INSERT INTO vikingd.schema VALUES (2)")
            for table in tables:
                found = old.execute(f"SELECT * FROM vikingd.{table} LIMIT 0").description or ()
                names = ", ".join(f'"{column.name}"' for column in found if column.name != "rowid")
                rows = source.execute(
                    f"SELECT {names} FROM vikingd.{table} WHERE tenant = $1", (tenant,)
                ).fetchall()
                with old.cursor().copy(f"COPY vikingd.{table} ({names}) FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
            old.execute(
                'INSERT INTO vikingd_access.keys (id, digest, tenant, "user", grants, '
                "is_operator, created_at, limits, subject, note) "
                "VALUES ('00000001', '\\x00', 'default', '', '[]', 1, 5, '{}', '', '')"
            )
            if damage:
                sql = DAMAGE[damage].format(f"'\\x{NAN}'")
                old.execute(sql.replace("UPDATE ", "UPDATE vikingd."))
        before = made.get(GUIDE), made.get(NOTES)
    with shared_store(url, tenant) as store:
        assert damage_of(store) == ([NAMED[damage]] if damage else [])
        if damage is None:
            assert (store.get(GUIDE), store.get(NOTES)) == before
    with connect(url) as db:
        sealed = db.execute(SEALED.replace("FROM keys", "FROM vikingd_access.keys")).fetchall()
    assert len(sealed) == 1
    check_seal(sealed[0])
