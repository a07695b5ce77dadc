"""Commits that wait for a synchronous standby: one whose wait was ended is not believed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from tests.patience import eventually
from tests.postgres_servers import NEEDS_POSTGRES, Server, room, shared_store
from tests.store.store_helpers import DOCS, file
from vikingd.access.records import NewKey
from vikingd.access.shared_keys import SharedKeys
from vikingd.domain.errors import NotFound, StoreAway, Unauthenticated
from vikingd.store.postgres.postgres_connection import PostgresConnection, connect
from vikingd.store.postgres.postgres_database import Database
from vikingd.store.postgres.postgres_key_tables import AccessTables
from vikingd.store.postgres.postgres_store import PostgresStore
from vikingd.store.postgres.postgres_tenants import SharedTenants

pytestmark = [
    pytest.mark.deep,
    NEEDS_POSTGRES,
    pytest.mark.timeout(300),
]

SECONDS = 120.0
T = TypeVar("T")
_WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Pair:
    """A primary whose commits wait for a standby, and a role that hears no warnings.

    Attributes:
        url: of both; the primary is used.
    """

    def __init__(self, path: Path) -> None:
        self.primary = Server(path / "primary")
        self.primary.make()
        self.primary.start()
        self.standby = Server(path / "standby")
        self.standby.copy(self.primary)
        self.standby.start()
        self.primary.execute("ALTER ROLE postgres SET client_min_messages = error")
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self.primary.execute("SELECT pg_reload_conf()")
        self.primary.wait("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self.primary, self.standby))
        self.url = f"postgresql://postgres@{hosts}/postgres"

    def waits(self) -> int:
        """Return how many commits wait for the standby."""
        with suppress(psycopg.Error), psycopg.connect(self.primary.url) as db:
            return len(db.execute(_WAITING).fetchall())
        return 0

    def end_waits(self, function: str) -> None:
        """Call a function of PostgreSQL for each backend whose commit waits."""
        self.primary.execute(f"SELECT {function}(pid) FROM ({_WAITING}) AS waiting")

    def restart(self) -> None:
        """Restart the primary in the fast mode, which ends the waits."""
        self.primary.stop()
        self.primary.start()

    def crash(self) -> None:
        """Kill a backend of the primary, which ends all of them; the server recovers at once."""
        with suppress(psycopg.Error), psycopg.connect(self.primary.url) as db:
            (pid,) = db.execute("SELECT pg_backend_pid()").fetchone() or (0,)
            os.kill(pid, signal.SIGKILL)
        self.primary.wait("SELECT 1")

    def fail_over(self) -> None:
        """Kill the primary and promote the standby, which may be down."""
        self.primary.kill()
        if not self.standby.runs:
            self.standby.start()
        self.standby.promote()

    def close(self) -> None:
        """End both."""
        self.standby.stop()
        self.primary.stop()


ENDS: dict[str, Callable[[Pair], None]] = {
    "cancel": lambda pair: pair.end_waits("pg_cancel_backend"),
    "terminate": lambda pair: pair.end_waits("pg_terminate_backend"),
    "restart": Pair.restart,
    "crash": Pair.crash,
}
"""What ends the wait of a commit, which then is on the primary alone."""

each_end = pytest.mark.parametrize("end", ENDS)


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Yield a primary and its synchronous standby."""
    with room() as path, closing(Pair(path)) as made:
        yield made


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Yield threads for calls that wait."""
    with ThreadPoolExecutor(2) as made:
        yield made


def outcome(pair: Pair, end: str, call: Future[Any]) -> BaseException | None:
    """End the wait of a call, fail over to a standby that lacks it, and return the call's error."""
    eventually(lambda: call.done() or pair.waits())
    assert not call.done()
    ENDS[end](pair)
    # A call that is believed ends now; else it waits again, or has failed.
    eventually(lambda: call.done() or pair.waits())
    pair.fail_over()
    return call.exception(SECONDS)


def write(store: PostgresStore, name: str) -> int:
    """Write a file and return the revision."""
    return store.put([file(f"{DOCS}/{name}.md", name)]).result(SECONDS).revision


def has(store: PostgresStore, name: str) -> bool:
    """Return whether the store has a file, once its database can be reached."""
    try:
        return with_database(lambda: store.get(f"{DOCS}/{name}.md").content == name)
    except NotFound:
        return False


def with_database(call: Callable[[], T]) -> T:
    """Return the result of a call, once its database can be reached."""
    done: list[T] = []

    def ends() -> bool:
        with suppress(StoreAway):
            done.append(call())
        return bool(done)

    eventually(ends)
    return done[0]


@each_end
def test_a_write_whose_wait_was_ended_is_not_acknowledged(
    pair: Pair, threads: ThreadPoolExecutor, end: str
) -> None:
    """A write that the standby lacks is an unknown outcome; what was acknowledged is never lost."""
    with shared_store(pair.url, "default") as store:
        store.start(lambda *_: None)
        write(store, "early")
        pair.standby.kill()
        error = outcome(pair, end, threads.submit(write, store, "late"))
        assert has(store, "early")
        assert not has(store, "late")
        assert isinstance(error, StoreAway)
        assert "may be there" in str(error)
        write(store, "after")


@pytest.mark.parametrize("end", ["cancel", "terminate"])
def test_a_write_whose_wait_was_ended_is_acknowledged_with_the_standby(
    pair: Pair, threads: ThreadPoolExecutor, end: str
) -> None:
    """A write waits on after the end of its wait, and succeeds once the standby has it."""
    with shared_store(pair.url, "default") as store:
        store.start(lambda *_: None)
        write(store, "early")
        pair.standby.kill()
        call = threads.submit(write, store, "late")
        eventually(pair.waits)
        ENDS[end](pair)
        eventually(pair.waits)
        pair.standby.start()
        assert call.result(SECONDS) == 3
        pair.fail_over()
        assert has(store, "late")


@pytest.mark.deep_after(1)
@each_end
def test_a_revocation_whose_wait_was_ended_is_not_acknowledged(
    pair: Pair, threads: ThreadPoolExecutor, tmp_path: Path, end: str
) -> None:
    """A revocation that the standby lacks fails; after the failover it can be repeated."""
    with (
        closing(Database(pair.url)) as database,
        closing(SharedKeys(tmp_path, AccessTables(database))) as keys,
    ):
        key, text = keys.create(NewKey(is_operator=True))
        pair.standby.kill()
        error = outcome(
            pair, end, threads.submit(keys.revoke, key.id, key.tenant, by_operator=True)
        )
        assert isinstance(error, StoreAway)
        assert "may be there" in str(error)
        with_database(keys.copy)
        assert keys.caller(text)
        keys.revoke(key.id, key.tenant, by_operator=True)
        with pytest.raises(Unauthenticated):
            keys.caller(text)


@each_end
def test_a_tenant_whose_wait_was_ended_is_not_acknowledged(
    pair: Pair, threads: ThreadPoolExecutor, end: str
) -> None:
    """A tenant that the standby lacks was not made, and one that it has was not deleted."""
    with closing(Database(pair.url)) as database:
        tenants = SharedTenants(database, "m", 2)
        tenants.make("acme")
        pair.standby.kill()
        error = outcome(pair, end, threads.submit(tenants.delete, "acme"))
        assert isinstance(error, StoreAway)
        assert "may be there" in str(error)
        assert with_database(tenants.names) == ["acme"]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ],
)
def test_commits_are_synchronous_whatever_the_role_says(
    postgres: Server, given: str, used: str
) -> None:
    """A session of a node waits for the disk and the standby at least."""
    url = f"{postgres.new_database()}?options=-csynchronous_commit%3D{given}"
    with connect(url) as db:
        assert db.execute("SHOW synchronous_commit").fetchone() == (used,)


def test_a_transaction_that_had_failed_is_no_commit(postgres: Server) -> None:
    """A commit that the server answers with a rollback is an error."""
    with connect(postgres.url) as db:
        part = PostgresConnection(db, "none")
        with (
            pytest.raises(psycopg.errors.InFailedSqlTransaction),
            part.transaction(),
            suppress(psycopg.errors.DivisionByZero),
        ):
            part.execute("SELECT 1 / 0")


def test_a_role_with_asynchronous_commits_loses_nothing() -> None:
    """All acknowledged writes are there after the server was killed."""
    with room() as path:
        server = Server(path / "data", "wal_writer_delay=10s")
        server.make()
        server.start()
        try:
            server.execute("ALTER ROLE postgres SET synchronous_commit = off")
            with shared_store(server.url, "default") as store:
                store.start(lambda *_: None)
                names = [f"n{number}" for number in range(60)]
                for name in names:
                    write(store, name)
                server.kill()
            server.start()
            with shared_store(server.url, "default") as store:
                assert [name for name in names if not has(store, name)] == []
        finally:
            server.stop()
