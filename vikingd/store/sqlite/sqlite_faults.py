"""Conversion of errors of SQLite and the disk into domain errors, and SQLite's own checks."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from vikingd.domain.errors import DiskFull, StoreDamaged, StoreFailed
from vikingd.domain.hidden_characters import marked
from vikingd.store.damage import NOT_UTF_8, RowDamaged, store_damaged

_OF_BAD_VALUES = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""The errors that our own code raises if a row has a value that it never wrote."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_SCHEMA = ("no such table", "no such column", "no such index", "unsupported file format")
_LITTLE_ROOM = 256 * 1024  # bytes of free disk; with less, a failed write means a full disk
_MAX_FINDINGS = 5  # in a message
_MAX_SECONDS = 10.0  # of the search for bad rows while a caller waits

_BAD_CONTEXTS = """
SELECT 'context ' || id, uri FROM contexts WHERE typeof(uri) <> 'text' OR typeof(title) <> 'text'
OR typeof(abstract) <> 'text' OR typeof(overview) <> 'text' OR typeof(content) <> 'text'
OR typeof(content_hash) <> 'blob' OR typeof(is_directory) <> 'integer'
OR typeof(revision) <> 'integer' OR typeof(time) <> 'integer' OR typeof(created_at) <> 'integer'
OR typeof(updated_at) <> 'integer' OR typeof(metadata) <> 'text'
OR CASE WHEN json_valid(metadata) THEN json_type(metadata) END IS NOT 'object'
OR NOT utf8(CAST(uri || title || abstract || metadata || overview || content AS BLOB))
"""
_BAD_TEXTS = """
SELECT 'text ' || texts.id || ' of context ' || context_id, uri
FROM texts LEFT JOIN contexts ON contexts.id = context_id
WHERE typeof(section) <> 'text' OR typeof(ordinal) <> 'integer' OR typeof("start") <> 'integer'
OR typeof("end") <> 'integer' OR typeof(script) <> 'integer' OR typeof(embeddable) <> 'integer'
OR typeof(text) NOT IN ('text', 'null') OR typeof(vector) NOT IN ('blob', 'null')
OR length(vector) <> 4 * (SELECT value FROM meta WHERE key = 'store.dimension')
OR NOT utf8(CAST(section || ifnull(text, '') AS BLOB))
"""
_BAD_LINKS = """
SELECT 'the link between contexts ' || a || ' and ' || b, NULL FROM links
WHERE typeof(reason) <> 'text' OR NOT utf8(CAST(reason AS BLOB))
"""
_BAD_DESCRIPTIONS = """
SELECT 'the description of context ' || context_id, uri
FROM descriptions LEFT JOIN contexts ON contexts.id = context_id
WHERE typeof(maker) <> 'text' OR typeof(basis) <> 'blob' OR typeof(slots) <> 'integer'
OR typeof(descriptions.revision) <> 'integer' OR NOT utf8(CAST(maker AS BLOB))
"""
_BAD_REMOVALS = """
SELECT 'removal ' || rowid, NULL FROM removals
WHERE typeof(uri) <> 'text' OR typeof(revision) <> 'integer' OR NOT utf8(CAST(uri AS BLOB))
"""


def _has_no_room(path: Path) -> bool:
    """Return True if the disk of this path is almost full."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LITTLE_ROOM


def to_domain_error(what: str, error: BaseException, database: Path) -> BaseException:
    """Convert an error of SQLite or the disk into a domain error; return any other one unchanged.

    Args:
        what: the beginning of the message, unless the database is damaged.
        database: the file, in which damaged rows are looked for.
    """
    full = DiskFull(f"{what}: {error}; free some disk, then writes are accepted again")
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return full
    if isinstance(error, UnicodeDecodeError) or str(error).startswith(NOT_UTF_8):
        rows = _bad_rows(database)
        return store_damaged(_listed(rows) if rows else "it has text that is not UTF-8")
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0)
        # A damaged schema is in the message, over several lines.
        kind, text = code & 0xFF, marked(" ".join(str(error).split()))
        if (
            kind in _DAMAGED
            or code == sqlite3.SQLITE_IOERR_SHORT_READ
            or (kind == sqlite3.SQLITE_ERROR and text.startswith(_NO_SCHEMA))
        ):
            return store_damaged(text)
        failed = kind in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
        if kind == sqlite3.SQLITE_FULL or (failed and _has_no_room(database.parent)):
            return full
        return StoreFailed(f"{what}: {text}")
    if isinstance(error, _OF_BAD_VALUES):
        if rows := _bad_rows(database):
            return store_damaged(_listed(rows))
        if findings := _bad_pages(database):
            return store_damaged("; ".join(findings))
    return error


def _listed(rows: list[str]) -> str:
    more = " and more" if len(rows) == _MAX_FINDINGS else ""
    return f"these rows cannot be decoded: {', '.join(rows)}{more}"


@contextmanager
def domain_errors(
    what: str, database: Path, noted: Callable[[StoreDamaged], None] = lambda _: None
) -> Iterator[None]:
    """Convert errors of SQLite and the disk into domain errors; call `noted` if it is damage."""
    try:
        yield
    except Exception as error:
        fault = to_domain_error(what, error, database)
        if isinstance(fault, StoreDamaged) and not isinstance(fault, RowDamaged):
            noted(fault)
        if fault is error:
            raise
        raise fault from error


def undecodable_rows(database: Path, *, is_over: Callable[[], bool]) -> list[str]:
    """Return the names of the first rows with a wrong type or text that is not UTF-8.

    A name has the URI of the context, if that can be read. `is_over` is called now and then; when
    it returns True, the rows found so far are returned.
    """
    found: list[str] = []
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, isolation_level=None)
        ) as db:
            db.text_factory = lambda data: data.decode(errors="backslashreplace")
            db.create_function("utf8", 1, _is_utf_8, deterministic=True)
            db.set_progress_handler(is_over, 10_000)
            # The last table is missing in a database of an older schema.
            for query in (
                _BAD_CONTEXTS,
                _BAD_TEXTS,
                _BAD_LINKS,
                _BAD_REMOVALS,
                _BAD_DESCRIPTIONS,
            ):
                rows = db.execute(f"{query} LIMIT {_MAX_FINDINGS - len(found)}")
                found += [f"{uri} ({row})" if uri else row for row, uri in rows]
    except (sqlite3.Error, UnicodeDecodeError):
        pass  # the pages or the schema are damaged too, or `is_over` ended the search
    return found


def _bad_rows(database: Path) -> list[str]:
    ends = time.monotonic() + _MAX_SECONDS
    return undecodable_rows(database, is_over=lambda: time.monotonic() > ends)


def _bad_pages(database: Path) -> list[str]:
    """Return the first errors of SQLite's integrity check; [] if it fails or takes too long."""
    ends = time.monotonic() + _MAX_SECONDS
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, isolation_level=None)
        ) as db:
            db.set_progress_handler(lambda: time.monotonic() > ends, 10_000)
            return integrity_check(db)
    except sqlite3.Error:
        return []


def _is_utf_8(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def quick_check(db: sqlite3.Connection) -> list[str]:
    """Return the first errors of SQLite's quick check; [] for a sound database."""
    return _check(db, "quick_check")


def integrity_check(db: sqlite3.Connection) -> list[str]:
    """Return the first errors of SQLite's integrity check, which compares indexes with tables."""
    return _check(db, "integrity_check")


def _check(db: sqlite3.Connection, kind: str) -> list[str]:
    try:
        lines = [str(line) for (line,) in db.execute(f"PRAGMA {kind}({_MAX_FINDINGS})")]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
            raise
        lines = [str(error)]
    return [] if lines == ["ok"] else [" ".join(line.split()) for line in lines]
