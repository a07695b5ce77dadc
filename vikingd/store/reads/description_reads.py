"""Reads of descriptions by a model, and of the texts from which they are made."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from vikingd.domain.contexts import ContextType
from vikingd.domain.description import Described, Slot
from vikingd.domain.line_numbers import lines_at
from vikingd.domain.uri import context_type, name
from vikingd.ingest.file_kind_names import DESCRIBING
from vikingd.store.checked_rows import read_checked
from vikingd.store.connection import Connection
from vikingd.store.reads.database_reads import DatabaseReads
from vikingd.store.rows import descriptions

_FILES = """
SELECT uri, content_hash, title, length(content), basis, maker
FROM contexts LEFT JOIN descriptions ON context_id = contexts.id
WHERE tenant = 'default' AND is_directory = 0 AND uri > ? ORDER BY uri LIMIT ?
"""
_DIRECTORIES = """
SELECT uri, content_hash, basis, maker
FROM contexts LEFT JOIN descriptions ON context_id = contexts.id
WHERE tenant = 'default' AND is_directory = 1 AND uri > ? ORDER BY uri LIMIT ?
"""
_IDS = """
SELECT uri, id FROM contexts WHERE tenant = 'default' AND uri IN (SELECT value FROM each_name(?))
"""
_SAME = """
SELECT context_id FROM descriptions WHERE basis = ? AND maker = ? AND slots = ?
ORDER BY context_id LIMIT 8
"""
# The index of children alone gives the ids of the first ones. CROSS JOIN keeps SQLite from another
# order of the loops.
_FIRST_CHILDREN = """
SELECT uri, (SELECT count(*) FROM contexts AS c WHERE c.parent_id = contexts.id),
    (SELECT string_agg(CAST(id AS TEXT), ',') FROM (
        SELECT id FROM contexts AS c WHERE c.parent_id = contexts.id
        ORDER BY is_directory, uri LIMIT ?2) AS few)
FROM contexts WHERE tenant = 'default' AND uri IN (SELECT value FROM each_name(?1))
"""
_DESCRIBING_CHILDREN = """
SELECT above.uri, below.id FROM contexts AS above CROSS JOIN each_name(?2) AS named
CROSS JOIN contexts AS below
WHERE above.tenant = 'default' AND above.uri IN (SELECT value FROM each_name(?1))
AND below.tenant = 'default' AND below.uri = above.uri || '/' || named.value
"""
_BY_IDS = """
SELECT id, uri, is_directory, title, abstract FROM contexts
WHERE id IN (SELECT value FROM each_id(?))
"""
_PIECES = """
SELECT section, "start", "end" FROM texts WHERE context_id = ? AND ordinal > 0 ORDER BY ordinal
"""
_CONTENT = "SELECT id, content FROM contexts WHERE tenant = 'default' AND uri = ?"


class FileToDescribe(NamedTuple):
    """A file that a model may describe.

    `basis` is the digest of what the model read for its description, `maker` the model that wrote
    it. Both are None for a file without a description.
    """

    uri: str
    content_hash: bytes
    title: str
    length: int  # characters
    basis: bytes | None
    maker: str | None


class DirectoryToDescribe(NamedTuple):
    """A directory that a model may describe.

    `basis` is the digest of what the model read for its description, `maker` the model that wrote
    it. Both are None for a directory without a description.
    """

    uri: str
    content_hash: bytes
    basis: bytes | None
    maker: str | None


class ChildOf(NamedTuple):
    """A file or directory directly below a directory, with its title and abstract."""

    name: str
    is_directory: bool
    title: str
    abstract: str


class DescriptionReads(DatabaseReads):
    """Reads for descriptions, for the daemon itself: no rights are checked."""

    def described(self, uris: Collection[str]) -> dict[str, Described]:
        """Return the descriptions of contexts by URI; missing and damaged ones are left out."""
        with self._snapshot() as db:
            ids = dict(db.execute(_IDS, (json.dumps(list(uris)),)).fetchall())
            found = dict(descriptions(db, lambda _: None, list(ids.values())))
            return {uri: found[i] for uri, i in ids.items() if i in found}

    def described_as(self, basis: bytes, maker: str) -> tuple[str, str] | None:
        """Return (abstract, overview) that a model wrote for equal material; None if there is none.

        Only a sound context with both texts by the model is used. A copy of damaged texts would get
        a valid checksum, which would hide the damage.

        Args:
            basis: the digest of what the model reads, see `Description`.
            maker: the name of the model.
        """
        with self._snapshot() as db:
            both = int(Slot.ABSTRACT | Slot.OVERVIEW)
            ids = [one for (one,) in db.execute(_SAME, (basis, maker, both))]
            sound = [one for one, _ in descriptions(db, lambda _: None, ids)]
            for context in read_checked(db, sound, vectors=False):
                if not context.damage:
                    return context.row.abstract, context.row.overview
        return None

    def files_to_describe(self, after: str, limit: int) -> list[FileToDescribe]:
        """Return the first `limit` files with a URI > `after`, sorted by URI; skip memories."""
        found: list[FileToDescribe] = []
        with self._snapshot() as db:
            while rows := db.execute(_FILES, (after, limit)).fetchall():
                files = (FileToDescribe(*row) for row in rows)
                found += [one for one in files if context_type(one.uri) is not ContextType.MEMORY]
                if len(found) >= limit:
                    break
                after = rows[-1][0]
        return found[:limit]

    def directories(self, after: str, limit: int) -> list[DirectoryToDescribe]:
        """Return the first `limit` directories with a URI > `after`, sorted by URI."""
        with self._snapshot() as db:
            rows = db.execute(_DIRECTORIES, (after, limit))
            return [DirectoryToDescribe(*row) for row in rows]

    def children_of(
        self, uris: Collection[str], most: int, among: int = 0
    ) -> dict[str, tuple[list[ChildOf], int]]:
        """Return (at most `most` children, the number of all) of each directory, by URI.

        Files come before directories, each by name. A directory without children is left out. If
        `among` is greater than `most`, the children are chosen at equal distances among the first
        `among` of them, and a file that describes the directory, such as README.md, is included.
        """
        found: dict[str, tuple[list[ChildOf], int]] = {}
        with self._snapshot() as db:
            first = db.execute(_FIRST_CHILDREN, (json.dumps(list(uris)), max(most, among)))
            listed = {uri: (count, ids.split(",")) for uri, count, ids in first.fetchall() if count}
            wanted = {uri: _spread(ids, most) for uri, (_, ids) in listed.items()}
            if many := [uri for uri, (count, _) in listed.items() if most < count and among > most]:
                names = json.dumps(list(DESCRIBING))
                for uri, below in db.execute(_DESCRIBING_CHILDREN, (json.dumps(many), names)):
                    wanted[uri] = wanted[uri] | {str(below)}
            ids = ",".join(one for some in wanted.values() for one in some)
            rows = {
                str(below): ChildOf(name(uri), bool(is_directory), title, abstract)
                for below, uri, is_directory, title, abstract in db.execute(_BY_IDS, (f"[{ids}]",))
            }
        for uri, some in wanted.items():
            children = sorted((rows[one] for one in some), key=lambda child: child[1::-1])
            found[uri] = children, listed[uri][0]
        return found

    def pieces_of(self, uri: str) -> list[tuple[str, str, int]]:
        """Return (section, text, first line) of each passage of a file, in order.

        [] for a directory or a context that does not exist.
        """
        with self._snapshot() as db:
            row = db.execute(_CONTENT, (uri,)).fetchone()
            return list(_pieces(db, *row)) if row is not None else []


def _spread(ids: Sequence[str], most: int) -> set[str]:
    """Return `most` ids at equal distances, the first and the last included."""
    if len(ids) <= most:
        return set(ids)
    return {ids[at * (len(ids) - 1) // max(most - 1, 1)] for at in range(most)}


def _pieces(db: Connection, context_id: int, content: str) -> Iterator[tuple[str, str, int]]:
    rows: Sequence[tuple[str, int, int]] = db.execute(_PIECES, (context_id,)).fetchall()
    lines = lines_at(content, (start for _, start, _ in rows))
    for (section, start, end), line in zip(rows, lines, strict=True):
        yield section, content[start:end], line
