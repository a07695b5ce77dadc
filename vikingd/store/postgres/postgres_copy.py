"""PostgreSQL tenants as source or target of `vikingd.store.store_copy`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from vikingd.domain.errors import AlreadyExists, NotFound
from vikingd.domain.tenants import check_tenant_name
from vikingd.store.damage import Damage
from vikingd.store.postgres.postgres_connection import PostgresConnection, connect, decoded
from vikingd.store.postgres.postgres_database import timeline_of
from vikingd.store.postgres.postgres_faults import domain_errors
from vikingd.store.postgres.postgres_schema import migrate
from vikingd.store.reads.change_reads import all_damage
from vikingd.store.store_copy import TABLES, State, new_identity

_BATCH = 200  # rows that are fetched at a time; each may have some MB
_INSERT = """
INSERT INTO vikingd.tenants (tenant, store, model, dimension, revision, linked, forgotten, epoch,
    epochs, timeline, last_context, last_text, last_entry)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (tenant) DO NOTHING
"""


class _Source:
    def __init__(self, part: PostgresConnection) -> None:
        self._part = part

    def state(self) -> State:
        state = self._part.get_state()
        rows = self._part.execute("SELECT key, value FROM meta")
        return State(
            state["store.model"],
            state["store.dimension"],
            state["store.revision"],
            state["store.linked"],
            state["store.forgotten"],
            self._part.last_ids(),
            {key: decoded(value) for key, value in rows},
        )

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        columns, order = TABLES[table]
        with self._part.db.cursor(f"copy_{table}") as cursor:
            cursor.itersize = _BATCH
            cursor.execute(f"SELECT {columns} FROM {table} ORDER BY {order}")
            yield from cursor

    def damage(self) -> list[Damage]:
        return all_damage(self._part)


@contextmanager
def postgres_source(url: str, tenant: str) -> Iterator[_Source]:
    """Open a tenant of a database for reading, at one revision; nodes may go on writing."""
    with domain_errors("the database could not be read"), connect(url) as db:
        migrate(db)
        part = PostgresConnection(db, tenant)
        part.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if not part.get_state():
            raise NotFound(tenant, f"the database has no tenant {tenant}")
        try:
            yield _Source(part)
        finally:
            part.roll_back()


class _Target:
    def __init__(self, part: PostgresConnection, tenant: str) -> None:
        self._part = part
        self._tenant = tenant

    def write(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        columns, _ = TABLES[table]
        with self._part.db.cursor().copy(f"COPY vikingd.{table} ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def finish(self, state: State) -> None:
        store, epoch, epochs = new_identity(state.revision)
        made = self._part.db.execute(
            _INSERT,
            (
                self._tenant,
                store,
                state.model,
                state.dimension,
                state.revision,
                state.linked,
                state.forgotten,
                epoch,
                json.dumps(epochs),
                timeline_of(self._part.db),
                *state.last,
            ),
        )
        if not made.rowcount:
            raise AlreadyExists(f"the tenant {self._tenant}")
        self._part.set_meta(state.meta)


@contextmanager
def postgres_target(url: str, tenant: str) -> Iterator[_Target]:
    """Create a tenant of a database, and fill it within the block.

    The tenant appears at the end of the block. If the block raises, nothing of it remains.
    """
    check_tenant_name(tenant)
    with domain_errors("the database could not be written"), connect(url) as db:
        migrate(db)
        part = PostgresConnection(db, tenant)
        with part.transaction():
            if part.get_state():
                raise AlreadyExists(f"the tenant {tenant}")
            yield _Target(part, tenant)
