"""The writes of one group: what each does to the tables, and which changes it makes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import Any, NamedTuple

from vikingd.domain.changes import (
    Change,
    Committed,
    Filled,
    IndexedText,
    Linked,
    Once,
    PutOutcome,
    Remove,
    Unlinked,
    Upsert,
)
from vikingd.domain.contexts import MAX_COUNTER, ContextType, Draft, Prepared
from vikingd.domain.errors import AlreadyExists, InvalidField, NotFound, RevisionDiffers
from vikingd.domain.text import text_to_index
from vikingd.domain.uri import ROOT, context_type, is_within, parent, parse
from vikingd.ingest.masks import Masked
from vikingd.memory.model import Rewrite, StoredEntry
from vikingd.store.backlog import outdate
from vikingd.store.entries import assigned, holders_of, reinforced, stand_already
from vikingd.store.reads import read_context
from vikingd.store.requests import keep_reply, known_reply
from vikingd.store.rows import links, memory_file, upserts
from vikingd.store.subtree import (
    MAX_DELETE,
    MAX_MOVE,
    SUBTREE,
    bounds,
    check_size,
    vectors_in,
)

_INSERT_CONTEXTS = """
INSERT INTO contexts (title, abstract, overview, content, metadata, content_hash, time, updated_at,
    revision, id, uri, parent_id, is_directory, created_at)
VALUES """
_UPDATE_CONTEXT = """
UPDATE contexts SET title = ?, abstract = ?, overview = ?, content = ?, metadata = ?,
    content_hash = ?, time = ?, updated_at = ?, revision = ? WHERE id = ?
"""
_INSERT_TEXTS = """
INSERT INTO texts (id, context_id, ordinal, section, "start", "end", script, embeddable,
    vector_revision, text, vector)
VALUES """
_INSERT_ENTRIES = """
INSERT INTO entries (id, text_id, reinforcement, access_count, time, created_at)
VALUES """
_ROWS = 64  # that one statement inserts
_URI = 10  # where it stands in a row of contexts
# What is a memory by its place and has no entry yet: it came from another root.
_WITHOUT_ENTRY = f"""
SELECT texts.id, contexts.time, contexts.created_at
FROM contexts JOIN texts ON context_id = contexts.id
WHERE {SUBTREE} AND NOT is_directory AND (ordinal > 0 OR NOT EXISTS (
    SELECT 1 FROM texts AS other WHERE other.context_id = contexts.id AND other.ordinal > 0))
AND NOT EXISTS (SELECT 1 FROM entries WHERE text_id = texts.id)
"""

EMPTY_DIRECTORY = Draft("", is_directory=True).content_hash()
"""The hash of a directory that came into being with what is in it."""


class Ids:
    """Source of ids that were never given out before; one a database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        last = dict(db.execute("SELECT name, seq FROM sqlite_sequence"))
        self.contexts = count(last.get("contexts", 0) + 1)
        self.texts = count(last.get("texts", 0) + 1)
        (entry,) = db.execute("SELECT value FROM meta WHERE key = 'entries.last'").fetchone()
        self.entries = count(entry + 1)


class _Stored(NamedTuple):
    """What a write must know of a context that stands already."""

    id: int
    is_directory: bool
    content_hash: bytes
    time: int
    revision: int


class Transaction:
    """Writes within one open transaction of the database; all get the same revision.

    Attributes:
        changes: what the writes so far did, in order.
        touched: whether they did anything.
        linked: whether they made or took back links.
        dimension: numbers in a vector; None until the first vector is written.
    """

    def __init__(
        self, db: sqlite3.Connection, ids: Ids, *, revision: int, dimension: int | None, now: int
    ) -> None:
        self._db = db
        self._ids = ids
        self._now = now
        self._known: dict[str, _Stored | None] = {}  # what stands at the URIs seen so far
        # Rows that are not in the tables yet, of all requests so far; `_known` has their URIs.
        self._contexts: list[tuple[Any, ...]] = []
        self._texts: list[tuple[Any, ...]] = []
        self._entries: list[tuple[Any, ...]] = []
        self._saved = False  # whether the request that runs has a savepoint
        self.revision = revision
        self.dimension = dimension
        self.changes: list[Change] = []
        self.touched = False
        self.linked = False

    def look_up(self, uris: Iterable[str]) -> None:
        """Learns in one search what stands at URIs and in which directories."""
        uris = list(uris)
        unknown = {*uris, *map(parent, uris)}.difference(self._known)
        if unknown:
            rows = self._db.execute(
                "SELECT uri, id, is_directory, content_hash, time, revision FROM contexts "
                "WHERE tenant = 'default' AND uri IN (SELECT value FROM json_each(?))",
                (json.dumps(list(unknown)),),
            )
            self._known.update(dict.fromkeys(unknown))
            self._known.update({uri: _Stored(*row) for uri, *row in rows})

    def insert_rows(self) -> None:
        """Brings what was made so far into the tables."""
        for sql, rows in (
            (_INSERT_CONTEXTS, self._contexts),
            (_INSERT_TEXTS, self._texts),
            (_INSERT_ENTRIES, self._entries),
        ):
            # Many rows a statement: the GIL is let go and waited for once for all of them.
            for at in range(0, len(rows), _ROWS):
                some = rows[at : at + _ROWS]
                row = f"({', '.join('?' * len(some[0]))})"
                self._db.execute(sql + ", ".join([row] * len(some)), list(chain(*some)))
        if self._entries:
            last = max(row[0] for row in self._entries)
            self._db.execute(
                "UPDATE meta SET value = max(value, ?) WHERE key = 'entries.last'", (last,)
            )
        self._contexts, self._texts, self._entries = [], [], []

    @contextmanager
    def request(self) -> Iterator[None]:
        """One request: when it fails, all that it did is taken back, and no more."""
        before = len(self.changes), self.touched, self.linked, self.dimension
        contexts, texts, entries = len(self._contexts), len(self._texts), len(self._entries)
        self._saved = False
        try:
            yield
        except BaseException:
            if not self._saved:
                self._known.update((row[_URI], None) for row in self._contexts[contexts:])
                del self._contexts[contexts:], self._texts[texts:], self._entries[entries:]
            elif self._db.in_transaction:
                self._contexts, self._texts, self._entries = [], [], []
                self._known.clear()
                self._db.execute("ROLLBACK TO request")
                self._db.execute("RELEASE request")
            length, self.touched, self.linked, self.dimension = before
            del self.changes[length:]
            raise
        if self._saved:
            self._db.execute("RELEASE request")

    def _use_tables(self) -> sqlite3.Connection:
        """The database, with all that the requests before did in its tables.

        A request that only makes contexts does without: so many of them take few statements.
        """
        if not self._saved:
            self.insert_rows()
            self._db.execute("SAVEPOINT request")
            self._saved = True
        return self._db

    def put(self, contexts: Sequence[Prepared | Masked]) -> Committed:
        """Writes contexts that have the revisions which are expected; see `_write`."""
        self.look_up(context.draft.uri for context in contexts)
        for context in contexts:
            self._check_revision(context.draft.uri, context.draft.expected_revision)
        return self._write(
            [self._whole(context, f"contexts[{i}]") for i, context in enumerate(contexts)]
        )

    def _check_revision(self, uri: str, expected: int | None) -> None:
        node = self._node(uri)
        revision = node.revision if node else 0
        if expected not in (None, revision):
            raise RevisionDiffers(uri, expected, revision)

    def _whole(self, context: Prepared | Masked, field: str) -> Prepared:
        """The whole of what is to be written of a context, given what stands."""
        draft = context.draft
        if isinstance(context, Masked):
            self._there(draft.uri)
            try:
                return context.merged(read_context(self._use_tables(), draft.uri))
            except InvalidField as error:
                raise error.below(field) from None
        old = self._node(draft.uri)
        if old and not (old.is_directory or draft.is_directory or draft.content):
            sql = "SELECT length(content) FROM contexts WHERE id = ?"
            (length,) = self._use_tables().execute(sql, (old.id,)).fetchone()
            if length:
                raise InvalidField(
                    f"{field}.content",
                    f"is empty, and {draft.uri} has a content of {length:,} characters; name the "
                    "fields to write in update_mask, `content` too if the file is to be emptied",
                )
        return context

    def _write(self, contexts: Sequence[Prepared]) -> Committed:
        """Writes contexts whole; directories above them come into being."""
        uris = [context.draft.uri for context in contexts]
        if len(set(uris)) < len(uris):
            i = next(i for i, uri in enumerate(uris) if uri in uris[:i])
            raise InvalidField(f"contexts[{i}].uri", "stands in the batch twice")
        self.look_up(uris)
        stored = {uri: old for uri in uris if (old := self._known[uri])}
        before = self._before(contexts, stored) if stored else {}
        outcomes = [PutOutcome.UNCHANGED] * len(contexts)
        unchanged: list[int] = []
        waiting: list[int] = []
        # By URI: directories stand before what is in them.
        for i in sorted(range(len(uris)), key=uris.__getitem__):
            context, draft, field = contexts[i], contexts[i].draft, f"contexts[{i}]"
            old = stored.get(draft.uri)
            self._check_vectors(context, field)
            if old is None:
                above = self._directory(parent(draft.uri), f"{field}.uri")
                upsert = self._insert(context, above)
                outcomes[i] = PutOutcome.CREATED
            elif old.is_directory != draft.is_directory:
                kind = "directory" if old.is_directory else "file"
                raise InvalidField(f"{field}.uri", f"is a {kind}, and stays one until deleted")
            elif self._is_unchanged(context, old, before.get(old.id)):
                unchanged.append(old.id)
                continue
            else:
                upsert = self._update(context, old, before[old.id])
                outcomes[i] = PutOutcome.UPDATED
            waiting.extend([t.text_id for t in upsert.texts if t.embeddable and not t.vector])
        if unchanged:
            waiting.extend(self._waiting(unchanged))
        return Committed(self.revision, outcomes=tuple(outcomes), text_ids=tuple(waiting))

    def delete(
        self,
        uris: Sequence[str],
        expected_revision: int | None = None,
        *,
        allow_missing: bool = False,
    ) -> Committed:
        """Removes contexts with all below them."""
        there = []
        for i, uri in enumerate(uris):
            if uri == ROOT:
                raise InvalidField(f"uris[{i}]", "is the root, which stays")
            if allow_missing and self._node(uri) is None:
                continue
            self._there(uri)
            self._check_revision(uri, expected_revision)
            there.append(uri)
        db = self._use_tables()
        outermost: list[str] = []
        # By segments: what is within a directory follows it at once.
        for uri in sorted(there, key=lambda uri: uri.split("/")):
            if not outermost or not is_within(uri, outermost[-1]):
                outermost.append(uri)
        check_size(db, outermost, "removes", MAX_DELETE)
        removed = 0
        for uri in outermost:
            rows = db.execute(f"DELETE FROM contexts WHERE {SUBTREE}", bounds(uri))
            removed += rows.rowcount
            self._remove(uri)
        return Committed(self.revision, count=removed)

    def move(
        self, source: str, destination: str, expected_revision: int | None = None
    ) -> Committed:
        """Gives a subtree another name; directories above the new one come into being."""
        if context_type(parent(source)) is ContextType.UNSPECIFIED:
            raise InvalidField("source_uri", f"{source} is a root or above one, which stays")
        if context_type(destination) is ContextType.UNSPECIFIED:
            raise InvalidField("destination_uri", f"{destination} is above the roots")
        if destination != source and is_within(destination, source):
            raise InvalidField("destination_uri", f"{destination} lies below {source}")
        node = self._there(source)
        self._check_revision(source, expected_revision)
        is_root = context_type(parent(destination)) is ContextType.UNSPECIFIED
        if is_root and not node.is_directory:
            raise InvalidField("destination_uri", f"{destination} can only be a directory")
        if self._node(destination):
            raise AlreadyExists(destination)
        db = self._use_tables()
        check_size(db, [source], "moves", MAX_MOVE)
        rows = db.execute(f"SELECT uri FROM contexts WHERE {SUBTREE}", bounds(source))
        moved = [destination + uri[len(source) :] for (uri,) in rows]
        for uri in moved:
            parse(uri, "destination_uri")
        parent_id = self._directory(parent(destination), "destination_uri")
        self.insert_rows()
        db.execute(
            f"UPDATE contexts SET uri = ? || substr(uri, ?), revision = ? WHERE {SUBTREE}",
            (destination, len(source) + 1, self.revision, *bounds(source)),
        )
        db.execute("UPDATE contexts SET parent_id = ? WHERE id = ?", (parent_id, node.id))
        if context_type(destination) is ContextType.MEMORY:
            for text_id, *times in db.execute(_WITHOUT_ENTRY, bounds(destination)).fetchall():
                self._entries.append((next(self._ids.entries), text_id, 0, 0, *times))
        self._remove(source)
        rows = db.execute(
            f"SELECT id FROM contexts WHERE {SUBTREE} ORDER BY uri", bounds(destination)
        )
        ids = [context_id for (context_id,) in rows]
        self._emit(*upserts(db, ids), *links(db, ids))
        return Committed(self.revision, count=len(moved))

    def link(self, uri: str, other: str, reason: str) -> Committed:
        """Links two contexts; when they are linked already, only the reason is replaced."""
        if uri == other:
            raise InvalidField("other_uri", "is the same context")
        rows = self._use_tables().execute(
            "INSERT INTO links (a, b, reason, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (a, b) "
            "DO UPDATE SET reason = excluded.reason WHERE reason <> excluded.reason",
            (*self._ends(uri, other), reason, self._now),
        )
        if rows.rowcount:
            self._emit(Linked(uri, other, reason))
        return Committed(self.revision)

    def unlink(self, uri: str, other: str) -> Committed:
        """Takes a link back."""
        ends = self._ends(uri, other)
        rows = self._use_tables().execute("DELETE FROM links WHERE a = ? AND b = ?", ends)
        if not rows.rowcount:
            raise NotFound(other, f"{uri} and {other} are not linked")
        self._emit(Unlinked(uri, other))
        return Committed(self.revision)

    def fill(self, vectors: Sequence[tuple[int, bytes]], digests: Mapping[int, bytes]) -> Committed:
        """Gives texts their vectors; those that have one or are gone are left as they are."""
        for i, (_, vector) in enumerate(vectors):
            self._check_vector(vector, f"vectors[{i}]")
        rows = self._use_tables().execute(
            "SELECT id FROM texts WHERE id IN (SELECT value FROM json_each(?)) AND vector IS NULL",
            (json.dumps([text_id for text_id, _ in vectors]),),
        )
        waiting = {text_id for (text_id,) in rows}
        filled = {text_id: vector for text_id, vector in vectors if text_id in waiting}
        self._db.executemany(
            "UPDATE texts SET vector = ?, vector_revision = ?, digest = ? WHERE id = ?",
            [
                (vector, self.revision, digests.get(text_id), text_id)
                for text_id, vector in filled.items()
            ],
        )
        self._emit(*(Filled(text_id, vector) for text_id, vector in filled.items()))
        return Committed(self.revision, count=len(filled))

    def drop_vectors(self, uri: str, after: str = "") -> Committed:
        """Takes the vectors from texts of a part of a subtree that can be embedded again."""
        self._id(uri)
        rows, last = vectors_in(self._use_tables(), uri, after)
        self._db.executemany(
            "UPDATE texts SET vector = NULL, vector_revision = NULL, digest = NULL WHERE id = ?",
            [(text_id,) for text_id, _ in rows],
        )
        outdate(self._db)
        context_ids = dict.fromkeys(context_id for _, context_id in rows)
        self._db.executemany(
            "UPDATE contexts SET revision = ? WHERE id = ?",
            [(self.revision, context_id) for context_id in context_ids],
        )
        self._known.clear()
        self._emit(*upserts(self._db, context_ids))
        return Committed(self.revision, count=len(rows), last=last)

    def once(self, once: Once | None, operation: Callable[[], Committed]) -> Committed:
        """Runs an operation, unless a call of this name did: then `reply` is the answer to that."""
        if once is None:
            return operation()
        db = self._use_tables()
        if reply := known_reply(db, once):
            return Committed(self.revision, reply=reply)
        done = operation()
        if reply := once.reply(done):
            keep_reply(db, once, reply, self.revision, self._now)
        return done

    def rewrite(self, rewrites: Mapping[str, Rewrite]) -> Committed:
        """Lets each of `rewrites` decide what becomes of its file of memories, as it stands now."""
        db, counted = self._use_tables(), 0
        for uri, rewrite in rewrites.items():
            new = rewrite(memory_file(db, uri), lambda: next(self._ids.entries))
            if new.removed:
                self.delete([uri])
            elif new.prepared is not None:
                self._write([new.prepared])
                self.insert_rows()
            for entry in new.counters:
                db.execute(
                    "UPDATE entries SET reinforcement = ?, access_count = ?, time = ? WHERE id = ?",
                    (entry.reinforcement, entry.access_count, entry.time, entry.id),
                )
            counted += len(new.counters)
        self.touched = self.touched or counted > 0
        return Committed(self.revision)

    def rewrite_holders(
        self, ids: Sequence[int], rewrite: Rewrite, *, all_there: bool
    ) -> Committed:
        """As `rewrite`, for each file in which one of these memories stands now."""
        holders = holders_of(self._use_tables(), ids, all_there=all_there)
        return self.rewrite(dict.fromkeys(sorted(set(holders.values())), rewrite))

    def reinforce(self, ids: Sequence[int], by: int) -> Committed:
        """Raises the reinforcement of entries; `entries` are those that they are then."""
        entries = reinforced(self._use_tables(), ids, by)
        self.touched = True
        return Committed(self.revision, entries=tuple(entries))

    def touch(self, accesses: Mapping[int, int]) -> Committed:
        """Counts accesses by the id of the entry; of those that are gone none."""
        rows = self._use_tables().executemany(
            "UPDATE entries SET access_count = min(access_count + ?, ?) WHERE id = ?",
            [(times, MAX_COUNTER, entry_id) for entry_id, times in accesses.items()],
        )
        self.touched = self.touched or rows.rowcount > 0
        return Committed(self.revision, count=rows.rowcount)

    def _emit(self, *changes: Change) -> None:
        self.changes.extend(changes)
        self.touched = self.touched or bool(changes)
        self.linked = self.linked or any(isinstance(c, Linked | Unlinked) for c in changes)

    def _remove(self, uri: str) -> None:
        self._known.clear()
        self._db.execute("INSERT INTO removals (revision, uri) VALUES (?, ?)", (self.revision, uri))
        self._emit(Remove(uri))

    def _node(self, uri: str) -> _Stored | None:
        """What stands at a URI."""
        if uri not in self._known:
            self.look_up([uri])
        return self._known[uri]

    def _there(self, uri: str) -> _Stored:
        node = self._node(uri)
        if node is None:
            raise NotFound(uri)
        return node

    def _id(self, uri: str) -> int:
        return self._there(uri).id

    def _ends(self, uri: str, other: str) -> tuple[int, int]:
        one, two = sorted((self._id(uri), self._id(other)))
        return one, two

    def _directory(self, uri: str, field: str) -> int:
        """Id of a directory; it is made, with those above it, where it does not exist."""
        node = self._node(uri)
        if node is None:
            made = Prepared(Draft(uri, is_directory=True), "", (), EMPTY_DIRECTORY)
            return self._insert(made, self._directory(parent(uri), field)).context_id
        if not node.is_directory:
            raise InvalidField(field, f"lies below {uri}, which is a file")
        return node.id

    def _before(
        self, contexts: Sequence[Prepared], stored: dict[str, _Stored]
    ) -> dict[int, Upsert]:
        """The contexts of a put as they stood, where that matters."""
        ids = [
            old.id
            for context in contexts
            if (old := stored.get(context.draft.uri))
            and (
                old.content_hash != context.content_hash
                or context.entries
                or any(t.vector for t in context.texts)
            )
        ]
        return {upsert.context_id: upsert for upsert in upserts(self._use_tables(), ids)}

    def _waiting(self, context_ids: Sequence[int]) -> list[int]:
        """Ids of the texts of these contexts that wait for their vector."""
        rows = self._db.execute(
            "SELECT id FROM texts WHERE context_id IN (SELECT value FROM json_each(?)) "
            "AND vector IS NULL AND embeddable",
            (json.dumps(context_ids),),
        )
        return [text_id for (text_id,) in rows]

    def _check_vectors(self, context: Prepared, field: str) -> None:
        """Checks the vectors that a writer gave, and names the field that is wrong."""
        for text in context.texts:
            if text.vector:
                given = context.draft.passages
                j = text.ordinal - 1
                of_passage = given is not None and 0 <= j < len(given) and given[j].vector
                name = f"passages[{j}].vector" if of_passage else "vector"
                self._check_vector(text.vector, f"{field}.{name}")

    def _check_vector(self, vector: bytes, field: str) -> None:
        if self.dimension is None:
            self.dimension = len(vector) // 4
        if len(vector) != 4 * self.dimension or not vector:
            raise InvalidField(
                field,
                f"has {len(vector)} bytes; vectors of this store have {self.dimension} float32, "
                f"that is {4 * self.dimension} bytes",
            )

    def _is_unchanged(self, context: Prepared, old: _Stored, before: Upsert | None) -> bool:
        """Whether a put would change nothing: all is equal, and nothing it brings is new."""
        if context.content_hash != old.content_hash:
            return False
        vectors = {text.ordinal: text.vector for text in before.texts} if before else {}
        if any(text.vector and text.vector != vectors.get(text.ordinal) for text in context.texts):
            return False
        if not context.entries:
            return True
        file = memory_file(self._db, context.draft.uri)
        return file is not None and stand_already(context.entries, file.entries)

    def _insert(self, context: Prepared, parent_id: int) -> Upsert:
        draft = context.draft
        context_id = next(self._ids.contexts)
        time = self._now if draft.time is None else draft.time
        self._contexts.append(
            (
                *self._values(context, time),
                context_id,
                draft.uri,
                parent_id,
                draft.is_directory,
                self._now,
            )
        )
        self._known[draft.uri] = _Stored(
            context_id, draft.is_directory, context.content_hash, time, self.revision
        )
        upsert = self._write_texts(context, context_id, None)
        if _holds_memories(draft):
            self._write_entries(context, upsert, (), 0, time)
        return upsert

    def _update(self, context: Prepared, old: _Stored, before: Upsert) -> Upsert:
        draft = context.draft
        time = old.time if draft.time is None else draft.time
        self._known[draft.uri] = old._replace(
            content_hash=context.content_hash, time=time, revision=self.revision
        )
        file = memory_file(self._db, draft.uri) if _holds_memories(draft) else None
        self._db.execute(_UPDATE_CONTEXT, (*self._values(context, time), old.id))
        in_place = _unchanged_texts(context, before)
        self._drop_texts([text.text_id for text in before.texts[in_place:]])
        upsert = self._write_texts(context, old.id, before, in_place)
        if file is not None:
            said = self._now if draft.time is None else draft.time
            self._write_entries(context, upsert, file.entries, in_place, said)
        return upsert

    def _drop_texts(self, text_ids: Sequence[int]) -> None:
        self._db.execute(
            "DELETE FROM texts WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(text_ids),),
        )

    def _values(self, context: Prepared, time: int) -> tuple[Any, ...]:
        """What a put writes of a context, whether it is new or not."""
        draft = context.draft
        metadata = "{}"
        if draft.metadata:
            metadata = json.dumps(dict(draft.metadata), ensure_ascii=False, separators=(",", ":"))
        return (
            draft.title,
            context.abstract,
            draft.overview,
            draft.content,
            metadata,
            context.content_hash,
            time,
            self._now,
            self.revision,
        )

    def _write_texts(
        self, context: Prepared, context_id: int, before: Upsert | None, in_place: int = 0
    ) -> Upsert:
        """Writes the texts of a context behind those that stay, the first `in_place` of `before`.

        One without a vector takes that of the equal text before.
        """
        draft = context.draft
        old = before.texts if before else ()
        kept = {(text.ordinal == 0, text.text): text.vector for text in old}
        texts = list(old[:in_place])
        for text in context.texts[in_place:]:
            text_id = next(self._ids.texts)
            vector = text.vector or kept.get((text.ordinal == 0, text.text), b"")
            embeddable = bool(text.text.strip())
            passage = draft.content[text.start : text.end] if text.ordinal else ""
            piece = passage if text.ordinal else context.abstract
            made = text_to_index(draft.title, text.section, piece)
            self._texts.append(
                (
                    text_id,
                    context_id,
                    text.ordinal,
                    text.section,
                    text.start,
                    text.end,
                    text.script,
                    embeddable,
                    self.revision if vector else None,
                    None if made == text.text else text.text,
                    vector or None,
                )
            )
            texts.append(
                IndexedText(
                    text_id,
                    text.ordinal,
                    text.script,
                    text.text,
                    vector,
                    embeddable,
                    text.section,
                    text.start,
                    passage,
                )
            )
        upsert = Upsert(
            context_id,
            draft.uri,
            draft.is_directory,
            draft.title,
            context.abstract,
            draft.metadata,
            tuple(texts),
        )
        self._emit(upsert)
        return upsert

    def _write_entries(
        self,
        context: Prepared,
        upsert: Upsert,
        before: Sequence[StoredEntry],
        in_place: int,
        time: int,
    ) -> None:
        """Writes the entries of a file's texts; see `assigned`."""
        ended, entries = assigned(context, upsert, before, in_place, time, self._now)
        if ended:
            self._db.executemany("DELETE FROM entries WHERE text_id = ?", [(i,) for i in ended])
        for text_id, entry in entries:
            self._entries.append(
                (
                    entry.id or next(self._ids.entries),
                    text_id,
                    entry.reinforcement,
                    entry.access_count,
                    entry.time,
                    entry.created_at,
                )
            )


def _holds_memories(draft: Draft) -> bool:
    return not draft.is_directory and context_type(draft.uri) is ContextType.MEMORY


def _unchanged_texts(context: Prepared, before: Upsert) -> int:
    """How many texts at the beginning are just what they were; none below another title."""
    same = 0
    if context.draft.title != before.title:
        return same
    for new, old in zip(context.texts, before.texts, strict=False):
        piece = context.draft.content[new.start : new.end] if new.ordinal else context.abstract
        shown = old.passage if old.ordinal else before.abstract
        if (new.ordinal, new.section, new.start, new.text, piece) != (
            old.ordinal,
            old.section,
            old.start,
            old.text,
            shown,
        ) or (new.vector and new.vector != old.vector):
            break
        same += 1
    return same
