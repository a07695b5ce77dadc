"""Reads of series: a memory file together with its continuation files."""

from __future__ import annotations

from collections.abc import Container
from functools import cache

from vikingd.memory.memory_file_series import Key, Series
from vikingd.memory.memory_types import MemoryFile
from vikingd.memory.numbered_files import bounds, number_of
from vikingd.store.connection import Connection
from vikingd.store.rows import memory_file

_FILES = """
SELECT uri, id, revision, content_hash FROM contexts
WHERE tenant = 'default' AND is_directory = 0 AND (uri = ? OR uri >= ? AND uri < ?)
"""


def series(db: Connection, uri: str) -> Series:
    """Return the series that begins with the file at `uri`; no file is read yet.

    `Series.read` reads a file at its first use, so it works only until the transaction ends.
    """

    @cache
    def read(of: str) -> MemoryFile | None:
        return memory_file(db, of)

    rows = db.execute(_FILES, (uri, *bounds(uri)))
    found = sorted(
        (number, of, Key(context_id, revision, bytes(content_hash)))
        for of, context_id, revision, content_hash in rows
        if (number := number_of(uri, of))
    )
    return Series(uri, tuple((of, key) for _, of, key in found), read)


def read_series(db: Connection, uri: str, known: Container[Key]) -> Series:
    """Return the series that begins with the file at `uri`, with its files already read.

    The result can be used after the transaction.

    Args:
        db: a connection with an open transaction.
        uri: the URI of the first file.
        known: keys (id, revision and content hash) of files that the caller has already. These
            files are not read, except the last file of the series.
    """
    found = series(db, uri)
    wanted = {of for of, key in found.files if key not in known}
    wanted.update(of for of, _ in found.files[-1:])
    files = {of: found.read(of) for of in wanted}
    return Series(uri, found.files, files.get)
