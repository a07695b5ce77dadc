"""Iteration over subtrees in the order of their URIs, at one revision."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from vikingd.domain.uri import is_within
from vikingd.store.connection import Connection
from vikingd.store.reads.context_reads import check_any, ranges
from vikingd.store.reads.database_reads import DatabaseReads, revision_of

_NODES = """
SELECT id, uri, is_directory FROM contexts
WHERE tenant = 'default' AND uri >= ? AND uri < ? AND (is_directory = 0 OR ? = 1) ORDER BY uri
"""
# The outer loop is over the ids, so that SQLite gives the texts in their order, one by one.
_TEXTS = """
SELECT contexts.id, CAST(abstract AS BLOB), CAST(content AS BLOB)
FROM each_id(?) CROSS JOIN contexts WHERE contexts.id = value
"""


class Node(NamedTuple):
    """A directory or a file, without its fields."""

    id: int
    uri: str
    is_directory: bool


class Walk:
    """An iteration over the subtrees of a directory that the caller may read.

    Attributes:
        revision: the revision that the walk sees.
        is_of_file: True if the walk is of a single file, not of a directory.
    """

    def __init__(self, db: Connection, uri: str, parts: Sequence[str]) -> None:
        self._db = db
        self._parts = parts
        self.revision = revision_of(db)
        top = next(self.nodes(uri, uri), None)
        self.is_of_file = top is not None and top.uri == uri and not top.is_directory

    def nodes(self, since: str, within: str, *, directories: bool = True) -> Iterator[Node]:
        """Yield the directories and files in the order of their URIs.

        Args:
            since: a string; only URIs >= `since` are yielded.
            within: the subtree to which the result is limited.
            directories: False: files only.
        """
        tops = [part if is_within(part, within) else within for part in self._parts
                if is_within(part, within) or is_within(within, part)]  # fmt: skip
        # No part contains another, so the ranges do not overlap.
        for low, high in sorted(bounds for top in tops for bounds in ranges(top)):
            if since < high:
                rows = self._db.execute(_NODES, (max(low, since), high, int(directories)))
                for number, uri, is_directory in rows:
                    yield Node(number, uri, bool(is_directory))

    def texts(self, ids: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
        """Yield (abstract, content) of each node as UTF-8 bytes, in the order of `ids`."""
        early: dict[int, tuple[bytes, bytes]] = {}
        rows = iter(self._db.execute(_TEXTS, (json.dumps(ids),)))
        for wanted in ids:
            while wanted not in early:
                found, abstract, content = next(rows)
                early[found] = abstract, content
            yield early.pop(wanted)


class WalkReads(DatabaseReads):
    """Walks over the tree."""

    @contextmanager
    def walking(self, uri: str, parts: Sequence[str]) -> Iterator[Walk]:
        """Yield a walk over a subtree; it sees one revision and ends with the `with` block.

        Args:
            uri: the top of the subtree: a directory, or a file.
            parts: the subtrees of it that the caller may read; `uri` itself: all of it.

        Raises:
            NotFound: `uri` does not exist, or none of `parts` does.
        """
        with self._snapshot() as db:
            check_any(db, uri, parts)
            yield Walk(db, uri, parts)
