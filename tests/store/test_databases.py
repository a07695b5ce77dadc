"""Databases and roles that a node cannot use, or can use whatever their settings are."""

from __future__ import annotations

import time
from uuid import uuid4

import psycopg
import pytest

from tests.postgres_servers import NEEDS_POSTGRES, Server, shared_store
from tests.store.store_helpers import DOCS, file
from vikingd.domain.errors import StoreAway, StoreMismatch
from vikingd.store.postgres.postgres_connection import connect
from vikingd.store.postgres.postgres_database import Database
from vikingd.store.postgres.postgres_schema import MIGRATIONS

pytestmark = NEEDS_POSTGRES

SECONDS = 60.0
UMLAUT = "Zürich, 你好, 🜚"


def of_encoding(postgres: Server, encoding: str) -> str:
    """Make a database with an encoding and return its URL."""
    name = f"d{uuid4().hex}"
    postgres.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 "
        "LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    return postgres.url.removesuffix("postgres") + name


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
def test_a_database_without_utf8_is_refused(postgres: Server, encoding: str) -> None:
    """Only UTF8 holds all texts; the error says how to make such a database."""
    url = of_encoding(postgres, encoding)
    with pytest.raises(StoreMismatch, match=f"encoding {encoding}.*ENCODING 'UTF8'"):
        Database(url)
    with psycopg.connect(url) as db:
        assert db.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'vikingd'").fetchone() is None


def test_the_encoding_of_the_client_is_that_of_texts(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the environment nor the role makes a node write texts in another encoding."""
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    with shared_store(postgres.new_database(), "default") as store:
        store.start(lambda *_: None)
        store.put([file(f"{DOCS}/a.md", UMLAUT)]).result(SECONDS)
        assert store.get(f"{DOCS}/a.md").content == UMLAUT


def version(url: str, sql: str) -> None:
    """Change the number of a schema."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(sql)  # type: ignore[arg-type]


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vikingd.schema SET version = 0",
        "UPDATE vikingd.schema SET version = 1",
        "UPDATE vikingd.schema SET version = -1",
        "DELETE FROM vikingd.schema",
        "DROP TABLE vikingd.schema",
        "INSERT INTO vikingd.schema VALUES (1)",
    ],
)
def test_a_wrong_number_of_a_schema_is_refused(postgres: Server, change: str) -> None:
    """A database whose tables are not those of its schema number is refused, and not changed."""
    url = postgres.new_database()
    with shared_store(url, "default") as store:
        store.start(lambda *_: None)
        store.put([file(f"{DOCS}/a.md", "kept")]).result(SECONDS)
    version(url, change)
    with pytest.raises(StoreMismatch, match=r"schema.*restore"):
        Database(url)
    version(url, "CREATE TABLE IF NOT EXISTS vikingd.schema (version integer NOT NULL)")
    version(url, "DELETE FROM vikingd.schema")
    version(url, f"INSERT INTO vikingd.schema VALUES ({len(MIGRATIONS)})")
    with shared_store(url, "default") as store:
        assert store.get(f"{DOCS}/a.md").content == "kept"


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "setting",
    [
        "statement_timeout = '300ms'",
        "idle_session_timeout = '1s'",
        "default_transaction_isolation = 'serializable'",
        "bytea_output = 'escape'",
        "standard_conforming_strings = off",
        "timezone = 'Asia/Kolkata'",
    ],
)
def test_settings_of_a_role_change_nothing(postgres: Server, setting: str) -> None:
    """A node writes and reads as ever with a role that has other settings."""
    role = f"r{uuid4().hex}"
    url = postgres.new_database()
    name = url.rpartition("/")[2]
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    postgres.execute(f"GRANT ALL ON DATABASE {name} TO {role}")
    postgres.execute(f"ALTER ROLE {role} SET {setting}")
    with shared_store(url.replace("postgres@", f"{role}@"), "default") as store:
        store.start(lambda *_: None)
        for number in range(2):
            content = f"{number} \\ {UMLAUT}" * 500
            store.put([file(f"{DOCS}/{number}.md", content)]).result(SECONDS)
            assert store.get(f"{DOCS}/{number}.md").content == content
            if "idle" in setting:
                time.sleep(1.5)


def test_no_time_ends_a_connection_or_a_read(postgres: Server) -> None:
    """A session of a node has no limits of time but its own."""
    names = ("idle_session_timeout", "statement_timeout", "transaction_timeout")
    options = "".join(f"-c{name}%3D1h " for name in names).strip().replace(" ", "%20")
    with connect(f"{postgres.new_database()}?options={options}") as db:
        assert [db.execute(f"SHOW {name}").fetchone() for name in names] == [("0",)] * len(names)


def test_a_role_that_only_reads_is_told(postgres: Server) -> None:
    """A role whose transactions are read-only is an error that names the setting."""
    role = f"r{uuid4().hex}"
    postgres.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    postgres.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    with pytest.raises(StoreAway, match="read-only"):
        Database(postgres.new_database().replace("postgres@", f"{role}@"))


def test_a_role_that_may_make_nothing_is_told(postgres: Server) -> None:
    """A role without rights is an error that says so."""
    role = f"r{uuid4().hex}"
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    with pytest.raises(Exception, match="permission denied for database"):
        Database(postgres.new_database().replace("postgres@", f"{role}@"))
