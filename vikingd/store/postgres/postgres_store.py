"""The store of a tenant in a PostgreSQL database."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import Waiting
from vikingd.domain.tenants import missing
from vikingd.store.backup_protocol import Backup
from vikingd.store.connection import Connection
from vikingd.store.history import History, Point, history_of
from vikingd.store.postgres.commit_notifications import Subscription
from vikingd.store.postgres.postgres_connection import PostgresConnection
from vikingd.store.postgres.postgres_database import Database
from vikingd.store.postgres.postgres_faults import domain_errors, to_domain_error
from vikingd.store.postgres.postgres_tenants import SIZE, SharedTenants
from vikingd.store.postgres.postgres_transactions import PostgresCommitting
from vikingd.store.reads import Reads
from vikingd.store.reads.change_reads import Found
from vikingd.store.shared_store import News, SharedStore
from vikingd.store.store_meta import adopt
from vikingd.store.writer import OnCommit, Writer

_READ = "the store could not be read"
_ONE_STATE = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
_KEPT_REMOVALS = 100_000  # revisions that other nodes may still have to follow

_SIZE_KEPT = 10.0  # seconds for which the size is kept, at least: it is read from all rows
_SIZE_SHARE = 0.01  # the largest share of the time that these reads may take


class PostgresReads(Reads):
    """The reads of one tenant.

    Args:
        database: the database of this node.
        tenant: the name of the tenant.
    """

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant
        self._size_read = (-math.inf, 0)  # (until when it is kept, bytes)

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """Yield a connection that sees one revision until the block ends."""
        with domain_errors(_READ), self._database.connection() as db:
            connection = PostgresConnection(db, self._tenant)
            connection.begin(_ONE_STATE)
            try:
                yield connection
            finally:
                connection.roll_back()

    def _size(self) -> int:
        with self._snapshot() as db:
            return self._used(db)

    def _used(self, db: Connection) -> int:
        until, size = self._size_read
        began = time.monotonic()
        if began > until:
            (size,) = db.execute(SIZE).fetchone()
            now = time.monotonic()
            self._size_read = now + max(_SIZE_KEPT, (now - began) / _SIZE_SHARE), int(size)
        return int(size)

    def backup(self, _: Callable[[], None]) -> Backup:
        """Raise InvalidField: PostgreSQL databases are backed up with pg_dump."""
        raise InvalidField("store", "is a PostgreSQL database; make backups with pg_dump")


_LEASE = """
INSERT INTO vikingd.leases AS leases (text_id, node, until)
SELECT id, $2, now() + make_interval(secs => $3) FROM texts
WHERE id IN (SELECT value FROM each_id($1)) AND vector IS NULL ORDER BY id
ON CONFLICT (tenant, text_id) DO UPDATE SET node = excluded.node, until = excluded.until
WHERE leases.node = excluded.node OR leases.until < now() RETURNING text_id
"""
_LEASE_SECONDS = 60
# The lease with the text id 0: the node that has it describes the contexts of the tenant.
_LEAD = """
INSERT INTO vikingd.leases AS leases (text_id, node, until)
SELECT 0, $1, now() + make_interval(secs => $2) FROM state
ON CONFLICT (tenant, text_id) DO UPDATE SET node = excluded.node, until = excluded.until
WHERE leases.node = excluded.node OR leases.until < now() RETURNING text_id
"""


class PostgresStore(PostgresReads, SharedStore):
    """The store of one tenant in a database that several nodes write.

    Args:
        database: the database of this node.
        tenant: the name of the tenant.
        model: the name of the model that makes the vectors; "none" for no model.
        dimension: numbers in a vector; None for the dimension of the first vector.
        reembed: if the store has vectors of another model, drop them instead of failing.
        make: create the tenant if it does not exist.

    Attributes:
        is_gone: True once the tenant was deleted, by this node or another one.

    Raises:
        NotFound: there is no such tenant.
        StoreAway: the database cannot be reached.
        StoreMismatch: the vectors of the store are of another model or dimension.
        StoreFailed: PostgreSQL refuses a statement.
    """

    def __init__(
        self,
        database: Database,
        tenant: str,
        *,
        model: str,
        dimension: int | None,
        reembed: bool = False,
        make: bool = True,
    ) -> None:
        super().__init__(database, tenant)
        if make:
            SharedTenants(database, model, dimension).make(tenant)
        with domain_errors("the store could not be opened"), database.connection() as db:
            part = PostgresConnection(db, tenant)
            with part.transaction():
                if part.execute("SELECT 1 FROM state FOR UPDATE").fetchone() is None:
                    raise missing(tenant)
                revision, size, _ = adopt(part, model, dimension, reembed=reembed)
        self._committing = PostgresCommitting(
            database, tenant, model=model, revision=revision, dimension=size
        )
        self._writer = Writer(self._committing, to_domain_error)
        self._subscription: Subscription | None = None
        self._node = secrets.token_hex(8)
        self.is_gone = False
        self._history = self.read_history()

    @property
    def place(self) -> str:
        """The URL of the database, without its password."""
        return self._database.place

    @property
    def history(self) -> History:
        """The store's id, its epochs and its newest revision, as this node last read them."""
        return self._history

    def read_history(self) -> History:
        """Read the history of the store from the database.

        Raises:
            NotFound: the tenant was deleted.
            StoreAway: the database cannot be reached.
        """
        with self._snapshot() as db:
            return self._read_history(db)

    def _read_history(self, db: Connection) -> History:
        history = history_of(db)
        if history is None:
            self.is_gone = True
            raise missing(self._tenant)
        self._history = history
        return history

    @property
    def point(self) -> Point:
        """The newest commit that this node knows, with the store's id and the epoch."""
        return self._history.point

    @property
    def revision(self) -> int:
        """The revision of the newest commit that this node knows."""
        return max(self._history.revision, self._committing.revision)

    @property
    def dimension(self) -> int | None:
        """The number of components of a vector; None until the first one is written."""
        return self._committing.dimension

    def why_unusable(self, point: Point) -> str:
        """Return the reason why an index written at this point cannot be used; "" if it can."""
        return self._history.why_unusable(point)

    def news(self, point: Point, found: Found) -> News | None:
        """Return the changes after a point; None if the point is not in the database's history.

        See `SharedStore.news`.

        Raises:
            Corrupt: removals after the point are no longer kept, or a changed context is damaged.
            StoreAway: the database cannot be reached.
            NotFound: the tenant was deleted.
        """
        with self._snapshot() as db:
            history = self._read_history(db)
            if not history.contains(point):
                return None
            if history.point == point:
                return News([], point)
            changes, _ = self._changes_since(db, point.revision, with_links=False, found=found)
            return News(changes, history.point)

    def note_timeline(self) -> None:
        """Begin a new epoch if the server has changed; see `SharedStore.note_timeline`."""
        self._writer.run(lambda _: None)

    def backlog(self, limit: int, first: Sequence[int] = ()) -> list[Waiting]:
        """Return texts that wait for their vector, reserved for this node for a minute.

        Other nodes do not get them meanwhile. A repeated call renews the reservations of this node.
        """
        with domain_errors("the backlog could not be read"), self._database.connection() as db:
            part = PostgresConnection(db, self._tenant)
            with part.transaction():
                part.execute("DELETE FROM leases WHERE until < now()")
                (others,) = part.execute(
                    "SELECT count(*) FROM leases WHERE node <> ?", (self._node,)
                ).fetchone() or (0,)
            waiting = super().backlog(limit + others, first)
            with part.transaction():
                ids = json.dumps([text.text_id for text in waiting])
                rows = db.execute(_LEASE, (ids, self._node, _LEASE_SECONDS))
                mine = {text_id for (text_id,) in rows}
        return [text for text in waiting if text.text_id in mine][:limit]

    def lead_descriptions(self) -> bool:
        """Try to become the node that describes contexts; see `SharedStore.lead_descriptions`."""
        with domain_errors("no lease could be taken"), self._database.connection() as db:
            part = PostgresConnection(db, self._tenant)
            with part.transaction():
                return db.execute(_LEAD, (self._node, _LEASE_SECONDS)).fetchone() is not None

    @property
    def away(self) -> str:
        """The reason why no commits of other nodes arrive now; "" while they do."""
        return self._database.away

    @property
    def failure(self) -> str:
        """The reason why writes are refused; "" while they are accepted."""
        return "the tenant was deleted" if self.is_gone else self._writer.failure

    def start(self, on_commit: OnCommit) -> None:
        """Start to write, see `WritableStore.start`."""
        self._writer.start(on_commit)

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` soon, and after each commit of any node."""
        self._subscription = self._database.subscribe(self._tenant, on_change)

    @property
    def origin(self) -> tuple[str, str]:
        """The store id and the epoch of the last commit of this node."""
        return self._committing.origin

    def forget_removals(self, up_to_revision: int) -> None:
        """Delete records of contexts removed up to this revision.

        Those of the last `_KEPT_REMOVALS` revisions are kept for nodes that lag behind.
        """
        last = up_to_revision - _KEPT_REMOVALS
        if last <= 0:
            return

        def forget(db: Connection) -> None:
            forgotten = db.get_state()["store.forgotten"]
            if last > forgotten:
                db.execute("DELETE FROM removals WHERE revision <= ?", (last,))
                db.set_meta({"store.forgotten": last})

        self._writer.run(forget)

    def close(self) -> None:
        """Finish the submitted writes; a second call does nothing."""
        if self._subscription is not None:
            self._subscription.stop()
        self._writer.close()
