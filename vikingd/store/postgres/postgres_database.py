"""The connections of one node to its PostgreSQL database, and the notifications of commits.

All tenants of a node share this. So a node has at most 33 connections, however many tenants it has
open: 16 for reads, 16 for writes, and one that listens.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Event, Lock, Thread

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from vikingd.domain.errors import StoreAway
from vikingd.store.postgres.commit_notifications import Listener, Subscription
from vikingd.store.postgres.postgres_connection import arguments, connect, set_up
from vikingd.store.postgres.postgres_faults import away, domain_errors, is_away, without_password
from vikingd.store.postgres.postgres_schema import migrate

_READS = 16  # connections, at most
_WRITES = 16  # connections, at most; each is in use for the time of a transaction
_PATIENCE = 10.0  # seconds that a write waits for one of them
_SILENT = 5.0  # seconds without an answer to a poll; then all connections are cut
_LOOK = 0.5  # seconds between two checks of that
_RETRY_AFTER = 0.5  # seconds

# Another cluster has another identifier; a promotion begins another timeline.
_TIMELINE = """
SELECT (SELECT system_identifier FROM pg_control_system()) || '/'
    || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
"""


class WriteConnection:
    """A connection for writes.

    Attributes:
        db: the connection.
        timeline: the server and its timeline, see `timeline_of`.
        is_new: True during its first use. A later use may find that it broke while it was idle.
    """

    __slots__ = ("db", "is_new", "timeline")

    def __init__(self, url: str) -> None:
        self.db = connect(url)
        self.timeline = timeline_of(self.db)
        self.is_new = True

    def close(self) -> None:
        """Close the connection; errors are ignored."""
        with suppress(psycopg.Error):
            self.db.close()


class Database:
    """The connection pool of this node to its database.

    If the database does not answer the poll for five seconds, for example because the server is
    frozen or the network drops packets, the connections in use are cut, so that waiting calls fail.
    Until the database answers again, new calls fail at once.

    Args:
        url: the URL of the database; several hosts are tried in turn, and the primary is used.

    Raises:
        StoreAway: the database cannot be reached.
        StoreMismatch: a newer vikingd made its tables.
        StoreFailed: PostgreSQL refuses a statement.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        with domain_errors("the store could not be opened"), connect(url) as db:
            migrate(db)
        self._lock = Lock()
        self._lent: set[psycopg.Connection[TupleRow]] = set()  # that somebody waits for
        self._reads: ConnectionPool[psycopg.Connection[TupleRow]] = ConnectionPool(
            kwargs=arguments(url),
            configure=set_up,
            min_size=0,
            max_size=_READS,
            timeout=3.0,
            max_idle=60.0,
            check=self._check,
            open=True,
        )
        self._places = BoundedSemaphore(_WRITES)
        self._idle: list[WriteConnection] = []
        self._listener = Listener(url)
        self._closed = Event()
        self._watch = Thread(target=self._watch_pulse, name="database-pulse", daemon=True)
        self._watch.start()

    @property
    def away(self) -> str:
        """The reason why the database cannot be reached; "" while it can be."""
        return self._listener.fault

    def check(self) -> None:
        """Raise StoreAway while the database cannot be reached."""
        if fault := self.away:
            raise StoreAway(
                f"the database cannot be reached: {fault}; repeat the call later", _RETRY_AFTER
            )

    @property
    def place(self) -> str:
        """The URL of the database, without its password."""
        return without_password(self.url)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[TupleRow]]:
        """Lend a connection from the pool for reads and rare writes, until the block ends.

        Raises:
            StoreAway: the database cannot be reached.
        """
        self.check()
        with self._reads.connection() as db, self._waiting_for(db):
            yield db

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[TupleRow]]:
        """Open a new connection for the block, even if the database did not answer the last poll.

        Raises:
            psycopg.Error: it cannot be reached.
        """
        with connect(self.url) as db, self._waiting_for(db):
            yield db

    def take(self) -> WriteConnection:
        """Lend a connection to a writer, which gives it back with `give` or `drop`.

        Raises:
            StoreAway: the database cannot be reached, or too many writes wait.
        """
        self.check()
        if not self._places.acquire(timeout=_PATIENCE):
            raise StoreAway(
                f"{_WRITES} writes wait for the database; repeat the call later", _RETRY_AFTER
            )
        try:
            with self._lock:
                taken = self._idle.pop() if self._idle else None
            if taken is None:
                taken = WriteConnection(self.url)
            with self._lock:
                self._lent.add(taken.db)
        except BaseException as error:
            self._places.release()
            raise away(error) if isinstance(error, psycopg.Error) else error from None
        return taken

    def give(self, taken: WriteConnection) -> None:
        """Take back a working connection from a writer, for the next write."""
        taken.is_new = False
        if taken.db.closed:
            self.drop(taken)
            return
        with self._lock:
            self._lent.discard(taken.db)
            self._idle.append(taken)
        self._places.release()

    def drop(self, taken: WriteConnection) -> None:
        """Close a broken connection and all idle ones, which are probably broken too."""
        with self._lock:
            self._lent.discard(taken.db)
            idle, self._idle = self._idle, []
        for one in (taken, *idle):
            one.close()
        self._places.release()

    def subscribe(self, tenant: str, on_change: Callable[[], object]) -> Subscription:
        """Call `on_change` soon, and after each commit of a tenant by any node.

        Args:
            tenant: the name of the tenant; "" for changes of keys and limits.
        """
        return self._listener.subscribe(tenant, on_change)

    @contextmanager
    def _waiting_for(self, db: psycopg.Connection[TupleRow]) -> Iterator[None]:
        with self._lock:
            self._lent.add(db)
        try:
            yield
        finally:
            with self._lock:
                self._lent.discard(db)

    def _check(self, db: psycopg.Connection[TupleRow]) -> None:
        with self._waiting_for(db):
            ConnectionPool.check_connection(db)

    def _watch_pulse(self) -> None:
        while not self._closed.wait(_LOOK):
            listener = self._listener
            if time.monotonic() - listener.answered < _SILENT:
                continue
            listener.tell(listener.fault or f"it gave no answer for {_SILENT:.0f} s")
            with self._lock:
                listening = listener.connection
                for db in (*self._lent, *([listening] if listening else [])):
                    _cut(db)

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._closed.set()
        self._watch.join()
        self._listener.stop()
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()
        self._reads.close()


def _cut(db: psycopg.Connection[TupleRow]) -> None:
    """Shut down the socket of a connection, so that the thread that waits for it fails."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(db.fileno())) as its_own:
        its_own.shutdown(socket.SHUT_RDWR)


def timeline_of(db: psycopg.Connection[TupleRow]) -> str:
    """Return an identifier of a database server and its timeline; "" if it may not be read.

    The timeline changes when a standby is promoted.
    """
    try:
        row = db.execute(_TIMELINE).fetchone()
    except psycopg.Error as error:
        if is_away(error):
            raise
        return ""
    return str(row[0]) if row else ""
