"""The tenants of a PostgreSQL database: create, list and delete them."""

from __future__ import annotations

import secrets

from vikingd.domain.tenants import missing
from vikingd.store.history import begin_epoch, history_of
from vikingd.store.postgres.commit_notifications import CHANNEL
from vikingd.store.postgres.postgres_connection import PostgresConnection
from vikingd.store.postgres.postgres_database import Database, timeline_of
from vikingd.store.postgres.postgres_faults import domain_errors
from vikingd.store.store_meta import make_root

SIZE = """
SELECT ((SELECT coalesce(sum(pg_column_size(contexts.*)), 0) FROM contexts)
    + (SELECT coalesce(sum(pg_column_size(texts.*)), 0) FROM texts))::bigint
"""
"""The query for the bytes of a tenant's contexts, from all its rows."""

_READ = "the tenants could not be read"
_INSERT = """
INSERT INTO vikingd.tenants (tenant, store, model, dimension, revision, linked, forgotten, epoch,
    epochs, timeline, last_context, last_text, last_entry)
VALUES ($1, $2, $3, $4, 1, 0, 0, '', '[]', $5, 1, 0, 0) ON CONFLICT (tenant) DO NOTHING
"""
# The database deletes the texts, links, entries and descriptions of a deleted context itself. The
# row of the tenant goes last: a node cannot write a tenant without that row.
_TABLES = ("contexts", "removals", "requests", "leases", "meta")
_LEFT_WITH_KEYS = """
SELECT tenant FROM vikingd_access.keys UNION SELECT name FROM vikingd_access.tenants
EXCEPT SELECT tenant FROM vikingd.tenants ORDER BY 1
"""


class SharedTenants:
    """The tenants of a database, which all nodes share.

    Args:
        database: the database of the tenants.
        model: the name of the model that makes the vectors of new tenants; "none" for no model.
        dimension: numbers in a vector; None for the dimension of the first vector.

    The methods raise StoreAway if the database cannot be reached.
    """

    def __init__(self, database: Database, model: str, dimension: int | None) -> None:
        self._database = database
        self._model = model
        self._dimension = dimension

    def names(self) -> list[str]:
        """Return the names of all tenants, sorted."""
        with domain_errors(_READ), self._database.connection() as db:
            return [name for (name,) in db.execute("SELECT tenant FROM vikingd.tenants ORDER BY 1")]

    def has(self, name: str) -> bool:
        """Return True if a tenant with this name exists."""
        with domain_errors(_READ), self._database.connection() as db:
            found = db.execute("SELECT 1 FROM vikingd.tenants WHERE tenant = $1", (name,))
            return found.fetchone() is not None

    def without_store(self) -> list[str]:
        """Return the names of deleted tenants that still have keys or limits."""
        with domain_errors(_READ), self._database.connection() as db:
            return [name for (name,) in db.execute(_LEFT_WITH_KEYS)]

    def make(self, name: str) -> bool:
        """Create an empty tenant. Return False if it exists already."""
        with domain_errors("the tenant could not be made"), self._database.connection() as db:
            part = PostgresConnection(db, name)
            store, timeline = secrets.token_hex(16), timeline_of(db)
            with part.transaction():
                made = db.execute(_INSERT, (name, store, self._model, self._dimension, timeline))
                if not made.rowcount:
                    return False
                make_root(part)
                begin_epoch(part, history_of(part))
                return True

    def delete(self, name: str) -> tuple[int, int]:
        """Delete a tenant with all its data; return the numbers of its contexts and bytes.

        A concurrent write of another node is either deleted too, or fails with NotFound.

        Raises:
            NotFound: there is no such tenant.
        """
        with domain_errors("the tenant could not be deleted"), self._database.connection() as db:
            part = PostgresConnection(db, name)
            with part.transaction():
                if part.execute("SELECT 1 FROM state FOR UPDATE").fetchone() is None:
                    raise missing(name)
                counted = part.execute("SELECT count(*) FROM contexts").fetchone()
                size = part.execute(SIZE).fetchone()
                assert counted is not None
                assert size is not None
                for table in _TABLES:
                    part.execute(f"DELETE FROM {table}")
                part.execute("DELETE FROM state")
                part.execute("SELECT pg_notify(?, ?)", (CHANNEL, f"{name} deleted"))
            return int(counted[0]), int(size[0])
