"""What can be asked of a store; every answer is from one revision."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from vikingd.domain.changes import (
    AllLinks,
    Backlog,
    Change,
    Filled,
    Linked,
    Remove,
    Upsert,
    Waiting,
)
from vikingd.domain.contexts import Context, Entry, Passage, Relation
from vikingd.domain.errors import Corrupt, InvalidField, NotFound, Stopping, StoreDamaged, TooLarge
from vikingd.domain.reply_budget import ReplyBudget, size_of
from vikingd.domain.uri import ROOT, subtree_bounds
from vikingd.ingest.written import is_as_written
from vikingd.memory.model import MemoryFile, StoredEntry
from vikingd.store.backlog import backlog_size, made_vectors, waiting_texts
from vikingd.store.backup import Backup, copied
from vikingd.store.faults import REMEDY, failing
from vikingd.store.rows import (
    check_vector,
    links,
    memory_file,
    metadata_of,
    upserts,
    vector_bytes,
)
from vikingd.store.schema import connect


class StoreCounts(NamedTuple):
    """The store in numbers; `bytes` are those on disk."""

    directories: int
    files: int
    texts: int
    vectors: int
    relations: int
    bytes: int


_COLUMNS = """uri, is_directory, abstract, title, metadata, time, created_at, updated_at,
    (SELECT ifnull(sum(reinforcement), 0) FROM texts JOIN entries ON text_id = texts.id
     WHERE context_id = contexts.id),
    (SELECT ifnull(sum(access_count), 0) FROM texts JOIN entries ON text_id = texts.id
     WHERE context_id = contexts.id),
    content_hash, revision"""
_BY_URI = "FROM contexts WHERE tenant = 'default' AND uri = ?"
_PASSAGES = """
SELECT section, "start", "end", entries.id, reinforcement, access_count, time, created_at
FROM texts LEFT JOIN entries ON text_id = texts.id
WHERE context_id = ? AND ordinal > 0 ORDER BY ordinal
"""
_ENTRIES = """
SELECT context_id, uri, entries.id, reinforcement, access_count, entries.time, entries.created_at,
    ordinal, section, "start", "end"
FROM contexts JOIN texts ON context_id = contexts.id JOIN entries ON text_id = texts.id
WHERE tenant = 'default'
"""
_RELATIONS = """
SELECT uri, abstract, reason FROM links JOIN contexts ON contexts.id = b WHERE a = ?1
UNION ALL
SELECT uri, abstract, reason FROM links JOIN contexts ON contexts.id = a WHERE b = ?1
ORDER BY 1
"""


def page_token(context: Context) -> str:
    """What `Store.children` and `Store.tree` take as `after` to go on behind `context`."""
    return f"{'d' if context.is_directory else 'f'}:{context.uri}"


def _after(token: str) -> tuple[bool, str]:
    if not token:
        return False, ""
    kind, _, uri = token.partition(":")
    if kind not in ("d", "f") or not uri.startswith(ROOT):
        raise InvalidField("page_token", "is not one that an earlier page gave")
    return kind == "d", uri


def _stored_entries(db: sqlite3.Connection, rows: sqlite3.Cursor) -> Iterator[StoredEntry]:
    """The rows of `_ENTRIES`, by context; the texts of each are read once."""
    for context_id, of_context in groupby(rows, key=itemgetter(0)):
        texts = db.execute("SELECT abstract, content FROM contexts WHERE id = ?", (context_id,))
        abstract, content = texts.fetchone()
        for _, uri, *known, ordinal, section, start, end in of_context:
            text = content[start:end] if ordinal else abstract
            yield StoredEntry(uri, Entry(*known), ordinal, section, start, end, text)


def _size(path: str) -> int:
    """Of a file, in bytes; 0 where there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _contexts(db: sqlite3.Connection) -> Iterator[Upsert]:
    """All, by URI."""
    rows = db.execute("SELECT id FROM contexts WHERE tenant = 'default' ORDER BY uri")
    return upserts(db, (context_id for (context_id,) in rows))


def _revision(db: sqlite3.Connection) -> int:
    (revision,) = db.execute("SELECT value FROM meta WHERE key = 'store.revision'").fetchone()
    return int(revision)


def _found(rows: sqlite3.Cursor, uri: str) -> Sequence[Any]:
    row: Sequence[Any] | None = rows.fetchone()
    if row is None:
        raise NotFound(uri)
    return row


def _take(room: ReplyBudget, *texts: str) -> None:
    if not room.take(sum(map(size_of, texts))):
        raise TooLarge(
            f"these sources have more than {room.limit:,} bytes of text, the limit of one call: "
            "ask for fewer, or for passages of them",
            limit=str(room.limit),
        )


def _always(_: Context) -> bool:
    return True


def _until(contexts: Iterable[Context], fits: Callable[[Context], bool]) -> Iterator[Context]:
    """Some contexts up to the first one that does not fit, included."""
    for context in contexts:
        yield context
        if not fits(context):
            return


def _context(row: Sequence[Any], **parts: Any) -> Context:
    uri, is_directory, abstract, title, metadata, *rest = row
    return Context(
        uri, bool(is_directory), abstract, title, metadata_of(metadata, uri), *rest, **parts
    )


def read_context(db: sqlite3.Connection, uri: str) -> Context:
    """One context whole, its passages without vectors.

    Raises:
        NotFound: when it does not exist.
    """
    row = db.execute(f"SELECT id, overview, content, {_COLUMNS} {_BY_URI}", (uri,))
    context_id, overview, content, *columns = _found(row, uri)
    passages = db.execute(_PASSAGES, (context_id,))
    return _context(
        columns,
        overview=overview,
        content=content,
        passages=tuple(
            Passage(section, start, end, entry=Entry(*entry) if entry[0] else None)
            for section, start, end, *entry in passages
        ),
        relations=tuple(Relation(*relation) for relation in db.execute(_RELATIONS, (context_id,))),
    )


class Reads:
    """Reads what is committed; any number of threads at once, none waits for a writer."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False

    def _note(self, damage: StoreDamaged) -> None:
        """Is told of damage that a read met."""

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one revision until it is given back."""
        if self._closed:
            raise Stopping("the store is closed")
        with failing("the store could not be read", self._database, self._note):
            try:
                db = self._idle.pop()
            except IndexError:
                db = connect(self._database, read_only=True)
            try:
                db.execute("BEGIN")
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                self._idle.append(db)
                if self._closed:
                    self._close_idle()

    def _close_idle(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def get(self, uri: str) -> Context:
        """One context whole, its passages without vectors.

        Raises:
            NotFound: when it does not exist.
            StoreDamaged: when it is not as it was written.
        """
        with self._snapshot() as db:
            context = read_context(db, uri)
        if not is_as_written(context):  # others are sound: writes go on
            raise StoreDamaged(
                f"{uri} is damaged: it has not the checksum that it was written with; delete it "
                f"and put it again, or {REMEDY}"
            )
        return context

    def altered(self, most: int) -> list[str]:
        """The URIs of the first contexts that are not as they were written, at most so many."""
        with self._snapshot() as db:
            rows = db.execute("SELECT uri FROM contexts WHERE tenant = 'default' ORDER BY uri")
            found = (uri for (uri,) in rows if not is_as_written(read_context(db, uri)))
            return list(islice(found, most))

    def metadata(self, uris: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """The metadata of contexts by URI, of those that are there."""
        with self._snapshot() as db:
            rows = db.execute(
                "SELECT uri, metadata FROM contexts WHERE tenant = 'default' "
                "AND uri IN (SELECT value FROM json_each(?))",
                (json.dumps(uris),),
            )
            return {uri: metadata_of(metadata, uri) for uri, metadata in rows}

    def texts_of(
        self, uris: Sequence[str], room: ReplyBudget, *, with_content: bool
    ) -> dict[str, tuple[str, str, str]]:
        """(abstract, overview, content) of contexts by URI, of those that are there.

        Raises:
            TooLarge: there is no room for all of them.
        """
        found: dict[str, tuple[str, str, str]] = {}
        content = "content" if with_content else "''"
        with self._snapshot() as db:
            rows = db.execute(
                f"SELECT uri, abstract, overview, {content} FROM contexts "
                "WHERE tenant = 'default' AND uri IN (SELECT value FROM json_each(?))",
                (json.dumps(uris),),
            )
            for uri, *texts in rows:
                _take(room, *texts)
                abstract, overview, text = texts
                found[uri] = abstract, overview, text
        return found

    def passages_of(
        self, wanted: Mapping[str, Collection[int]], room: ReplyBudget
    ) -> dict[tuple[str, int], tuple[str, int, int, str]]:
        """(section, start, end, text) of passages by URI and number, of those that are there.

        Raises:
            TooLarge: there is no room for all of them.
        """
        found: dict[tuple[str, int], tuple[str, int, int, str]] = {}
        with self._snapshot() as db:
            contexts = db.execute(
                "SELECT id, uri, content FROM contexts WHERE tenant = 'default' "
                "AND uri IN (SELECT value FROM json_each(?))",
                (json.dumps(list(wanted)),),
            )
            for context_id, uri, content in contexts:  # a substr() would read it for each passage
                rows = db.execute(
                    'SELECT ordinal, section, "start", "end" FROM texts '
                    "WHERE context_id = ? AND ordinal IN (SELECT value FROM json_each(?))",
                    (context_id, json.dumps(list(wanted[uri]))),
                )
                for ordinal, section, start, end in rows:
                    text = content[start:end]
                    _take(room, section, text)
                    found[uri, ordinal] = (section, start, end, text)
        return found

    def entries(self, text_ids: Sequence[int]) -> tuple[dict[int, Entry], int]:
        """(what is known of memories by the ids of their texts, the revision that was read).

        Other texts are left out.
        """
        with self._snapshot() as db:
            rows = db.execute(
                "SELECT text_id, id, reinforcement, access_count, time, created_at FROM entries "
                "WHERE text_id IN (SELECT value FROM json_each(?))",
                (json.dumps(text_ids),),
            )
            found = {text_id: Entry(*entry) for text_id, *entry in rows}
            return found, _revision(db)

    def memories_below(self, root: str) -> list[StoredEntry]:
        """All memories below a directory, by URI and place, without their vectors."""
        with self._snapshot() as db:
            rows = db.execute(
                f"{_ENTRIES} AND uri >= ? AND uri < ? ORDER BY uri, ordinal", subtree_bounds(root)
            )
            return list(_stored_entries(db, rows))

    def memories(self, ids: Sequence[int]) -> list[StoredEntry]:
        """Memories by their ids, those that are there, by URI and place, without their vectors."""
        with self._snapshot() as db:
            rows = db.execute(
                f"{_ENTRIES} AND entries.id IN (SELECT value FROM json_each(?)) "
                "ORDER BY uri, ordinal",
                (json.dumps(ids),),
            )
            return list(_stored_entries(db, rows))

    def memory_file(self, uri: str) -> MemoryFile | None:
        """A file with its memories; None where there is no such file."""
        with self._snapshot() as db:
            return memory_file(db, uri)

    def files_between(self, low: str, high: str) -> list[str]:
        """The files whose URIs lie in [low, high], the last first."""
        with self._snapshot() as db:
            rows = db.execute(
                "SELECT uri FROM contexts WHERE tenant = 'default' AND uri >= ? AND uri <= ? "
                "AND NOT is_directory ORDER BY uri DESC",
                (low, high),
            )
            return [uri for (uri,) in rows]

    def children(
        self, uri: str, after: str, limit: int, fits: Callable[[Context], bool] = _always
    ) -> list[Context]:
        """The direct children of a directory, files before directories, each by name.

        `after` is "" for the first page, then the `page_token` of the last context before. The
        first one that does not fit is the last.

        Raises:
            NotFound: when the directory does not exist.
            InvalidField: when it is a file, or `after` is not a page token.
        """
        is_directory, last = _after(after)
        with self._snapshot() as db:
            row = db.execute(f"SELECT id, is_directory {_BY_URI}", (uri,))
            context_id, has_children = _found(row, uri)
            if not has_children:
                raise InvalidField("uri", f"{uri} is a file")
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM contexts WHERE parent_id = ? "
                "AND (is_directory, uri) > (?, ?) ORDER BY is_directory, uri LIMIT ?",
                (context_id, is_directory, last, limit),
            )
            return list(_until(map(_context, rows), fits))

    def tree(
        self,
        uri: str,
        depth: int,
        after: str,
        limit: int,
        fits: Callable[[Context], bool] = _always,
    ) -> list[Context]:
        """A subtree by URI, the top first, `depth` levels below it (0: all of them).

        `after` and `fits` are as in `children`.

        Raises:
            NotFound: when the top does not exist.
            InvalidField: when `after` is not a page token.
        """
        _, last = _after(after)
        low, high = subtree_bounds(uri)
        slashes = uri.count("/") - (uri == ROOT) + depth if depth else 1 << 31
        with self._snapshot() as db:
            top = _found(db.execute(f"SELECT {_COLUMNS} {_BY_URI}", (uri,)), uri)
            page = [] if last else [_context(top)]
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM contexts WHERE tenant = 'default' AND uri > ? AND uri < ? "
                "AND length(uri) - length(replace(uri, '/', '')) <= ? ORDER BY uri LIMIT ?",
                (max(last, low), high, slashes, limit - len(page)),
            )
            return list(_until(chain(page, map(_context, rows)), fits))

    def backlog(self, limit: int, first: Sequence[int] = ()) -> list[Waiting]:
        """Return texts that wait for their vector, in the order in which they shall have it.

        Those with an id in `first` stand first, then abstracts, then passages, of each the newest
        first.
        """
        with self._snapshot() as db:
            return waiting_texts(db, limit, first)

    def backlog_size(self) -> Backlog:
        """Return the size of the backlog."""
        with self._snapshot() as db:
            return backlog_size(db)

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that the embedder made of texts with these digests."""
        with self._snapshot() as db:
            return made_vectors(db, digests)

    def waiting(self, text_ids: Sequence[int]) -> tuple[int, int]:
        """(how many of these texts wait for their vector, the revision that was read)."""
        with self._snapshot() as db:
            (count,) = db.execute(
                "SELECT count(*) FROM texts WHERE id IN (SELECT value FROM json_each(?)) "
                "AND vector IS NULL AND embeddable",
                (json.dumps(text_ids),),
            ).fetchone()
            return count, _revision(db)

    def counts(self) -> StoreCounts:
        """The store in numbers."""
        with self._snapshot() as db:
            (row,) = db.execute(
                "SELECT (SELECT count(*) FROM contexts), "
                "(SELECT count(*) FROM contexts INDEXED BY contexts_children WHERE is_directory), "
                "(SELECT count(*) FROM texts), (SELECT count(*) FROM texts WHERE vector IS NULL), "
                "(SELECT count(*) FROM links)"
            )
        contexts, directories, texts, without_vector, links = row
        size = sum(_size(f"{self._database}{suffix}") for suffix in ("", "-wal", "-shm"))
        return StoreCounts(
            directories, contexts - directories, texts, texts - without_vector, links, size
        )

    def backup(self, check: Callable[[], None]) -> Backup:
        """A copy of the store as it stands when this begins; it is to be closed.

        `check` is called now and then while it is made, and raises to break it off.

        Raises:
            DiskFull: the disk has no room for it.
        """

        def go_on() -> None:
            check()
            if self._closed:
                raise Stopping("the store is closed")

        with self._snapshot() as db:
            return copied(db, self._database, go_on)

    def get_meta(self, key: str) -> bytes | None:
        """What `set_meta` stored under the key."""
        with self._snapshot() as db:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return None if row is None else row[0]

    def scan(self) -> Iterator[Upsert]:
        """All contexts by URI, with texts and vectors, as they stand when the scan begins."""
        with self._snapshot() as db:
            yield from _contexts(db)

    @contextmanager
    def standing_at(self, revision: int) -> Iterator[tuple[Iterator[Upsert], list[Linked]] | None]:
        """What `scan` and `links` give, both at `revision`; None when that is not the present one.

        The contexts are read while they are asked for, before the end of the `with`.
        """
        with self._snapshot() as db:
            yield None if _revision(db) != revision else (_contexts(db), links(db))

    def links(self) -> list[Linked]:
        """All links, each once, by URI."""
        with self._snapshot() as db:
            return links(db)

    def changes_since(self, revision: int, *, with_links: bool = False) -> tuple[list[Change], int]:
        """What leads from the state at `revision` to the present one, whose revision comes with it.

        Removals first, oldest first; then contexts by URI; then the vectors of other contexts; last
        all links, where one was made or taken back since, or always `with_links`.

        Raises:
            Corrupt: when removals after `revision` are forgotten already.
        """
        with self._snapshot() as db:
            state = dict(db.execute("SELECT key, value FROM meta WHERE key GLOB 'store.*'"))
            if 0 < revision < state["store.forgotten"]:
                raise Corrupt(f"what was removed since revision {revision} is not known any more")
            removed = db.execute(
                "SELECT uri FROM removals WHERE revision > ? ORDER BY rowid", (revision,)
            )
            changes: list[Change] = [Remove(uri) for (uri,) in removed]
            changed = db.execute(
                "SELECT id FROM contexts INDEXED BY contexts_revision WHERE revision > ? "
                "ORDER BY uri",
                (revision,),
            )
            changes.extend(upserts(db, (context_id for (context_id,) in changed)))
            filled = db.execute(
                "SELECT texts.id, vector, uri FROM texts INDEXED BY texts_vector_revision "
                "JOIN contexts ON contexts.id = context_id "
                "WHERE vector_revision > ?1 AND revision <= ?1 ORDER BY texts.id",
                (revision,),
            )
            size = vector_bytes(db)
            for text_id, vector, uri in filled:
                check_vector(vector, size, text_id, uri)
                changes.append(Filled(text_id, vector))
            now: int = state["store.revision"]
            if with_links or state.get("store.linked", now) > revision:
                changes.append(AllLinks(tuple(links(db))))
            return changes, now
