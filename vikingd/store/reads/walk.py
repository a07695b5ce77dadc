"""A walk over subtrees in the order of URIs, at one revision."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from vikingd.domain.errors import InvalidField
from vikingd.domain.uri import is_within
from vikingd.store.reads.contexts import check_any, ranges
from vikingd.store.reads.database import DatabaseReads, revision_of

_NODES = """
SELECT id, uri, is_directory FROM contexts
WHERE tenant = 'default' AND uri >= ? AND uri < ? AND (NOT is_directory OR ?) ORDER BY uri
"""
# The outer loop is over the ids, so that the texts come in their order, one by one.
_TEXTS = """
SELECT CAST(abstract AS BLOB), CAST(content AS BLOB)
FROM json_each(?) CROSS JOIN contexts ON contexts.id = value
"""


class Node(NamedTuple):
    """A directory or a file."""

    id: int
    uri: str
    is_directory: bool


class Walk:
    """A walk over the readable subtrees of a directory.

    Attributes:
        revision: the revision that it sees.
    """

    def __init__(self, db: sqlite3.Connection, parts: Sequence[str]) -> None:
        self._db = db
        self._parts = parts
        self.revision = revision_of(db)

    def nodes(self, since: str, within: str, *, directories: bool = True) -> Iterator[Node]:
        """Yield the nodes by URI.

        Args:
            since: the first URI, or a string between two of them.
            within: a subtree, to which the walk is limited.
            directories: False: files only.
        """
        tops = [part if is_within(part, within) else within for part in self._parts
                if is_within(part, within) or is_within(within, part)]  # fmt: skip
        # No part contains another, so the ranges do not overlap.
        for low, high in sorted(bounds for top in tops for bounds in ranges(top)):
            if since < high:
                rows = self._db.execute(_NODES, (max(low, since), high, directories))
                for number, uri, is_directory in rows:
                    yield Node(number, uri, bool(is_directory))

    def texts(self, ids: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
        """Yield (abstract, content) of nodes in UTF-8, in the order of their ids."""
        yield from self._db.execute(_TEXTS, (json.dumps(ids),))


class WalkReads(DatabaseReads):
    """Walks over the tree."""

    @contextmanager
    def walking(
        self, uri: str, parts: Sequence[str], *, is_directory: bool = False
    ) -> Iterator[Walk]:
        """Begin a walk; it is over at the end of the block.

        Args:
            uri: a directory, or a file.
            parts: the readable subtrees of it, or itself.
            is_directory: it must be a directory.

        Raises:
            NotFound: it does not exist, or none of its parts does.
            InvalidField: it is a file and must be a directory.
        """
        with self._snapshot() as db:
            check_any(db, uri, parts)
            walk = Walk(db, parts)
            top = next(walk.nodes(uri, uri), None) if is_directory and uri in parts else None
            if top is not None and top.uri == uri and not top.is_directory:
                raise InvalidField("target_uri", f"{uri} is a file; name a directory")
            yield walk
