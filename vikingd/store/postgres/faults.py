"""Errors of PostgreSQL as errors of the domain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from vikingd.domain.errors import StoreAway, StoreFailed

RETRY_AFTER = 1.0  # seconds
_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    PoolTimeout,
    errors.ReadOnlySqlTransaction,  # the server is no primary any more
)
_PASSWORD = re.compile(r"(://[^:@/\s]*):[^@/\s]*@|(password=)\S+")


def without_password(text: str) -> str:
    """Return a text without the passwords of URLs in it."""
    return _PASSWORD.sub(lambda found: f"{found[1]}@" if found[1] else f"{found[2]}***", text)


def is_away(error: BaseException) -> bool:
    """Tell whether the database cannot be reached from an error of a statement."""
    return isinstance(error, _AWAY) and not isinstance(error, errors.DeadlockDetected)


def to_domain_error(what: str, error: BaseException) -> BaseException:
    """Return the error for the caller; an error of our own code is returned unchanged."""
    if is_away(error):
        return away(error)
    if isinstance(error, psycopg.Error):
        return StoreFailed(f"{what}: {_one_line(error)}")
    return error


def away(error: BaseException) -> StoreAway:
    """Return the error for a database that cannot be reached."""
    return StoreAway(
        f"the database cannot be reached: {_one_line(error)}; repeat the call later", RETRY_AFTER
    )


@contextmanager
def domain_errors(what: str) -> Iterator[None]:
    """Turn errors of PostgreSQL into errors of the domain."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise to_domain_error(what, error) from error


def _one_line(error: BaseException) -> str:
    return without_password(" ".join(str(error).split()) or type(error).__name__)
