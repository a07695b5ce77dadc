"""Reads of a store as a whole: its size and its metadata."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

from vikingd.domain.uri import ROOT, ancestors
from vikingd.store.backup_protocol import Backup
from vikingd.store.connection import Connection

_KNOWN = """
SELECT count(*) FROM contexts
WHERE tenant = 'default' AND uri IN (SELECT value FROM each_name(?))
"""


class StoreCounts(NamedTuple):
    """The numbers of rows in a store; `bytes` is its size on disk."""

    directories: int
    files: int
    texts: int
    vectors: int
    relations: int
    bytes: int


class DatabaseReads(ABC):
    """Reads that concern a whole store. A subclass provides the connections."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Connection]:
        """Yield a connection that sees one revision until the block ends."""

    @abstractmethod
    def _size(self) -> int:
        """Return the size of the store on disk, in bytes."""

    @abstractmethod
    def _used(self, db: Connection) -> int:
        """Return the bytes of the database's pages in use, as this connection sees them."""

    def page_faults(self) -> list[str]:
        """Return the first errors in the database's pages and indexes; it reads all pages.

        [] for a store that cannot check itself.
        """
        return []

    @abstractmethod
    def backup(self, check: Callable[[], None]) -> Backup:
        """Return a copy of the store at the newest revision; the caller closes it.

        `check` is called now and then during the copy; an error that it raises ends the copy.

        Raises:
            DiskFull: the disk has no room for the copy.
        """

    def counts(self) -> StoreCounts:
        """Return the numbers of rows in the store, and its size."""
        with self._snapshot() as db:
            (row,) = db.execute(
                "SELECT (SELECT count(*) FROM contexts), "
                "(SELECT count(*) FROM contexts INDEXED BY contexts_children "
                "WHERE is_directory = 1), "
                "(SELECT count(*) FROM texts), (SELECT count(*) FROM texts WHERE vector IS NULL), "
                "(SELECT count(*) FROM links)"
            )
        contexts, directories, texts, without_vector, links = row
        return StoreCounts(
            directories=directories,
            files=contexts - directories,
            texts=texts,
            vectors=texts - without_vector,
            relations=links,
            bytes=self._size(),
        )

    def stored(self, uris: Iterable[str]) -> tuple[int, int, int]:
        """Return (number of contexts, bytes in use, number of contexts that `uris` would add).

        Bytes in use are those of used pages: a delete frees pages before the file gets smaller.
        Added contexts are the missing URIs with the missing directories above them.
        """
        named = {uri if uri == ROOT else uri.removesuffix("/") for uri in uris}
        named |= {above for uri in named for above in ancestors(uri)}
        with self._snapshot() as db:
            (contexts,) = db.execute("SELECT count(*) FROM contexts").fetchone()
            (known,) = db.execute(_KNOWN, (json.dumps(list(named)),)).fetchone()
            size = self._used(db)
        return contexts, size, len(named) - known

    def get_meta(self, key: str) -> bytes | None:
        """Return the value that `Store.set_meta` stored for a key; None if there is none."""
        with self._snapshot() as db:
            value: bytes | None = db.get_meta(key).get(key)
            return value


def revision_of(db: Connection) -> int:
    """Return the newest revision that this connection sees."""
    return int(db.get_meta("store.revision")["store.revision"])
