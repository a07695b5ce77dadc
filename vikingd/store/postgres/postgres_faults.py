"""Conversion of PostgreSQL's errors into domain errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from vikingd.domain.errors import DiskFull, StoreAway, StoreFailed

_RETRY_AFTER = 1.0  # seconds
# The first characters of an SQLSTATE: no connection, too many connections, a server that shuts
# down, a server that is no primary any more, a conflict with another transaction, a lock that was
# not free in time.
_AWAY = ("08", "53300", "57P", "25006", "40", "55P03")
# ://ana:secret@ in postgresql://ana:secret@host/db, and password=secret or password = 'a b'.
_URL = re.compile(r"://\S*@")
_PASSWORD = re.compile(r"(password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|\S+)")


class Unconfirmed(psycopg.OperationalError):  # type: ignore[misc]  # mypy skips psycopg
    """A commit that is on the primary server, but perhaps not on its synchronous standby."""


def without_password(text: str) -> str:
    """Return a text with "***" for the credentials in URLs and the values of password=."""
    return _PASSWORD.sub(r"\1***", _URL.sub("://***@", text))


def is_away(error: BaseException) -> bool:
    """Return True if an error means that the database is unreachable, or that a retry may help."""
    if isinstance(error, (psycopg.InterfaceError, PoolTimeout)):
        return True
    state: str | None = getattr(error, "sqlstate", None)
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(_AWAY)


def to_domain_error(what: str, error: BaseException) -> BaseException:
    """Convert an error of PostgreSQL into a domain error whose message begins with `what`.

    Any other error is returned unchanged.
    """
    if is_away(error):
        return away(error)
    if isinstance(error, errors.DiskFull):
        return DiskFull(f"{what}: {_one_line(error)}")
    if isinstance(error, psycopg.Error):
        return StoreFailed(f"{what}: {_one_line(error)}")
    return error


def away(error: BaseException) -> StoreAway:
    """Return the error for a database that cannot be reached."""
    return StoreAway(
        f"the database cannot be reached: {_one_line(error)}; repeat the call later", _RETRY_AFTER
    )


def unknown(error: BaseException) -> StoreAway:
    """Return the error for a commit that may or may not have happened."""
    return StoreAway(
        "the database did not confirm the end of a write, which may be there: "
        f"{_one_line(error)}; repeat the call later",
        _RETRY_AFTER,
    )


@contextmanager
def domain_errors(what: str) -> Iterator[None]:
    """Convert PostgreSQL errors of the block into domain errors; messages begin with `what`."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise to_domain_error(what, error) from error


def _one_line(error: BaseException) -> str:
    return without_password(" ".join(str(error).split()) or type(error).__name__)
