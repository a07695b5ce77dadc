"""Helpers of the store's tests: contexts, and a follower of the change feed."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from vikingd.domain.contexts import Context, Draft, Passage, Prepared, Text
from vikingd.domain.store_changes import (
    AllLinks,
    Change,
    Committed,
    Filled,
    Linked,
    PutOutcome,
    Remove,
    Unlinked,
    Upsert,
)
from vikingd.domain.text import script_of, text_to_index
from vikingd.domain.uri import is_within
from vikingd.store import Store
from vikingd.store.sqlite.sqlite_schema import DATABASE, connect

DOCS = "viking://resources/docs"
GUIDE = f"{DOCS}/guide.md"
WITHOUT_CHECKSUMS = """
ALTER TABLE contexts DROP COLUMN checksum;
ALTER TABLE contexts DROP COLUMN content_checksum;
ALTER TABLE texts DROP COLUMN checksum;
ALTER TABLE texts DROP COLUMN vector_checksum;
ALTER TABLE entries DROP COLUMN checksum;
ALTER TABLE links DROP COLUMN checksum;
DROP TABLE descriptions;
"""
"""SQL that turns schema 6 back into schema 4."""
WITHOUT_DIGESTS = f"""
{WITHOUT_CHECKSUMS}
DROP INDEX texts_waiting;
DROP INDEX texts_digest;
ALTER TABLE texts DROP COLUMN digest;
CREATE INDEX texts_without_vector ON texts (embeddable, ordinal > 0, id) WHERE vector IS NULL;
"""
"""SQL that turns schema 6 back into schema 3."""
CREATED, UPDATED, UNCHANGED = PutOutcome.CREATED, PutOutcome.UPDATED, PutOutcome.UNCHANGED


def vector(*numbers: float) -> bytes:
    """Return numbers as little-endian float32."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


ONE, TWO = vector(1, 0), vector(0, 1)


def file(uri: str, content: str = "", **fields: Any) -> Prepared:
    """Return a file whose passages are its lines, after its abstract."""
    passages = []
    start = 0
    for line in content.splitlines(keepends=True):
        passages.append(Passage("", start, start + len(line)))
        start += len(line)
    return prepared(Draft(uri, content=content, **{"passages": tuple(passages), **fields}))


def directory(uri: str, **fields: Any) -> Prepared:
    """Return a directory, with a text if it has an abstract."""
    return prepared(Draft(uri, is_directory=True, **fields))


def prepared(draft: Draft) -> Prepared:
    """Return the draft with its abstract and its given passages as texts."""
    texts = []
    if draft.abstract or draft.vector:
        text = text_to_index(draft.title, "", draft.abstract)
        texts.append(Text(0, "", 0, 0, text, script_of(text), draft.vector))
    for ordinal, p in enumerate(draft.passages or (), start=1):
        text = text_to_index(draft.title, p.section, draft.content[p.start : p.end])
        texts.append(Text(ordinal, p.section, p.start, p.end, text, script_of(text), p.vector))
    return Prepared(draft, draft.abstract, tuple(texts), draft.content_hash())


class Mirror(dict[str, Upsert]):
    """The contexts that a follower of the change feed knows."""

    revision = 0

    def __init__(self, known: Mapping[str, Upsert] | None = None) -> None:
        super().__init__(known or {})
        self.links: dict[frozenset[str], str] = {}

    def apply(self, changes: Sequence[Change], revision: int) -> None:
        """Apply the changes of one commit."""
        for change in changes:
            match change:
                case Upsert():
                    self[change.uri] = change
                case Remove(uri):
                    for gone in [u for u in self if is_within(u, uri)]:
                        del self[gone]
                    for ends in list(self.links):
                        if any(is_within(end, uri) for end in ends):
                            del self.links[ends]
                case Filled():
                    self._fill(change)
                case Linked(uri, other, reason):
                    self.links[frozenset((uri, other))] = reason
                case Unlinked(uri, other):
                    del self.links[frozenset((uri, other))]
                case AllLinks(links):
                    self.links = {frozenset((k.uri, k.other)): k.reason for k in links}
        self.revision = revision

    def _fill(self, filled: Filled) -> None:
        for uri, upsert in self.items():
            texts = tuple(
                replace(text, vector=filled.vector) if text.text_id == filled.text_id else text
                for text in upsert.texts
            )
            self[uri] = replace(upsert, texts=texts)


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Store]:
    """Open a store and start its writer."""
    with closing(Store(path, **{"model": "m", "dimension": 2, **options})) as store:
        store.start(lambda *_: None)
        yield store


def edited(path: Path, sql: str, *, changes: bool = True) -> None:
    """Change the database of a closed store; with `changes` at least one row must change."""
    with closing(sqlite3.connect(path / DATABASE)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        assert db.execute(sql).rowcount or not changes


@contextmanager
def log_kept(path: Path) -> Iterator[None]:
    """Keep the log of a store from being emptied within the block, by a reader."""
    with closing(connect(path / DATABASE, read_only=True)) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM meta").fetchone()
        yield


def put(store: Store, *contexts: Prepared) -> Committed:
    """Write a batch and wait for it."""
    return store.put(contexts).result(timeout=10)


def scanned(store: Store) -> dict[str, Upsert]:
    """Return all contexts of the store, by URI."""
    return {upsert.uri: upsert for upsert in store.scan()}


def linked(store: Store) -> list[Linked]:
    """Return each link of a store once, by URI."""
    with store.at_revision(store.revision) as stored:
        assert stored is not None
        return stored[1]


def uris(contexts: Sequence[Context]) -> list[str]:
    """Return the URIs of contexts."""
    return [context.uri for context in contexts]


def text_ids(store: Store, uri: str) -> list[int]:
    """Return the ids of a context's texts, by ordinal."""
    return [text.text_id for text in scanned(store)[uri].texts]


def vectors(store: Store, uri: str) -> list[bytes]:
    """Return the vectors of a context's texts, by ordinal."""
    return [text.vector for text in scanned(store)[uri].texts]
