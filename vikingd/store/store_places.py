"""Stores by their place: a directory with SQLite files, or the URL of a PostgreSQL database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from vikingd.store.store_copy import Source, Target


def opened_source(place: str, tenant: str) -> AbstractContextManager[Source]:
    """Open a store for reading: a directory that no daemon has open, or the URL of a database.

    Raises:
        NotFound: there is no such store.
        StoreInUse: a daemon has it open.
        StoreMismatch: it is of another schema.
        StoreAway, StoreFailed, StoreDamaged: it cannot be read.
    """
    if is_url(place):
        from vikingd.store.postgres.postgres_copy import postgres_source

        return postgres_source(place, tenant)
    from vikingd.store.sqlite.sqlite_copy import sqlite_source

    return sqlite_source(Path(place))


def opened_target(place: str, tenant: str) -> AbstractContextManager[Target]:
    """Create a store, and fill it within the block. If the block raises, nothing of it remains.

    Raises:
        AlreadyExists: there is a store.
    """
    if is_url(place):
        from vikingd.store.postgres.postgres_copy import postgres_target

        return postgres_target(place, tenant)
    from vikingd.store.sqlite.sqlite_copy import sqlite_target

    return sqlite_target(Path(place))


def is_url(place: str) -> bool:
    """Return True for the URL of a database, False for a directory."""
    return "://" in place
