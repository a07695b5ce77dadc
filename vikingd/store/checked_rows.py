"""Reads of rows that compare each row with its checksum, and describe the damage."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vikingd.domain.checksums import (
    CONTENT,
    CONTEXT,
    checksum,
    content_checksum,
    context_checksum,
    text_checksum,
    vector_checksum,
)
from vikingd.domain.contexts import MAX_COUNTER, ContextType
from vikingd.domain.uri import context_type
from vikingd.store.connection import Connection
from vikingd.store.damage import NOT_UTF_8, Damage, shown, store_damaged

_LENGTH_TOLERANCE = 1e-3

_CONTEXTS = f"""
SELECT {CONTEXT}, {CONTENT}, checksum, content_checksum FROM contexts
WHERE id IN (SELECT value FROM each_id(?))
"""
_TEXTS = """
SELECT id, context_id, ordinal, section, "start", "end", script, embeddable, text, checksum,
    {} FROM texts WHERE context_id IN (SELECT value FROM each_id(?)) ORDER BY context_id, ordinal
"""
_WITH_VECTOR = _TEXTS.format("vector_checksum, vector_revision, digest, vector")
_WITHOUT_VECTOR = _TEXTS.format("NULL, NULL, NULL, NULL")
_ENTRIES = """
SELECT entries.text_id, entries.id, reinforcement, access_count, time, created_at,
    entries.checksum, context_id FROM texts JOIN entries ON text_id = texts.id
WHERE context_id IN (SELECT value FROM each_id(?)) ORDER BY context_id, ordinal
"""
# SQLite ends a statement with an error at a text that is not UTF-8. So these columns of a context
# with such a text are read as bytes.
_AS_BYTES = ("uri", "title", "abstract", "metadata", "overview", "content", "section", "text")


class TextRow(NamedTuple):
    """A row of the table `texts`, with its vector."""

    id: int
    context_id: int
    ordinal: int
    section: str
    start: int
    end: int
    script: int
    embeddable: int
    text: str | None
    checksum: int | None
    vector_checksum: int | None
    vector_revision: int | None
    digest: bytes | None
    vector: bytes | None

    @property
    def columns(self) -> tuple[Any, ...]:
        """The values that `text_checksum` covers."""
        return self[:9]

    def damage(self) -> str:
        """Return a description of the damage of this text; "" if its checksum is right.

        The vector has a checksum of its own, and is not checked here.
        """
        if text_checksum(*self.columns) == self.checksum:
            return ""
        return f"its text {self.id} is not as it was written"


class ContextRow(NamedTuple):
    """A row of the table `contexts`."""

    id: int
    uri: str
    parent_id: int | None
    is_directory: int
    revision: int
    content_hash: bytes
    time: int
    created_at: int
    updated_at: int
    title: str
    abstract: str
    metadata: str
    overview: str
    content: str
    checksum: int | None
    content_checksum: int | None

    @property
    def place(self) -> tuple[Any, ...]:
        """The values that `context_checksum` covers: URI, parent, revision, hash and times."""
        return self[:9]

    @property
    def content_columns(self) -> tuple[Any, ...]:
        """The values that `content_checksum` covers, without the id: title to content."""
        return self[9:14]

    def damage(self, texts: int) -> str:
        """Return a description of the damage of this row; "" if its checksums are right.

        Args:
            texts: the number of texts that were read for this context, which is a part of a
                checksum.
        """
        if context_checksum(*self.place) != self.checksum:
            return "its place or its times are not as they were written"
        if content_checksum(self.id, texts, *self.content_columns) != self.content_checksum:
            return "its content, or the number of its texts, is not as it was written"
        return ""


class Checked(NamedTuple):
    """A context with its texts as read, and the damage that their checksums show.

    Attributes:
        damage: a description of the damage of the context or of a text; "" if there is none.
        bad_vectors: descriptions of damaged vectors, by text id. The context can be used without
            these vectors.
        bad_entries: descriptions of damaged memory states. The rest of the context can be used.
    """

    row: ContextRow
    texts: Sequence[TextRow]
    damage: str
    bad_vectors: Mapping[int, str]  # the damage of vectors by text id
    bad_entries: Sequence[str]

    @property
    def uri(self) -> str:
        """The URI for messages; bytes that are not UTF-8 are escaped."""
        return shown(self.row.uri, self.row.id)

    def damages(self) -> Iterator[Damage]:
        """Yield a Damage for each fault of the context, its vectors and its memory states."""
        if self.damage:
            yield Damage(self.uri, self.damage)
        for text_id, what in self.bad_vectors.items():
            yield Damage(self.uri, what, text_id)
        for what in self.bad_entries:
            yield Damage(self.uri, what)


def read_checked(
    db: Connection, ids: Sequence[int], *, vectors: bool = True, entries: bool = False
) -> Iterator[Checked]:
    """Read contexts with their texts, and compare all rows with their checksums.

    Args:
        db: a connection to the store.
        ids: the ids of existing contexts.
        vectors: read and check the vectors of the texts, too.
        entries: check the memory states of the texts, too.

    Yields:
        One item for each id, in the order of `ids`, also for damaged contexts.

    Raises:
        StoreDamaged: a context with one of the ids does not exist.
    """
    try:
        rows, texts = _read(db, ids, vectors=vectors)
    except Exception as error:
        if not _is_undecodable(error):
            raise
        for one in ids:
            yield from _checked(db, [one], *_read_bytes(db, one, vectors=vectors), entries)
        return
    yield from _checked(db, ids, rows, texts, entries)


def _checked(
    db: Connection,
    ids: Sequence[int],
    rows: Mapping[int, ContextRow],
    texts: Mapping[int, Sequence[TextRow]],
    entries: bool,
) -> Iterator[Checked]:
    dimension = db.get_meta("store.dimension").get("store.dimension")
    bad_entries = _bad_entries(db, rows, texts) if entries else {}
    for context_id in ids:
        row = rows.get(context_id)
        if row is None:
            raise store_damaged(f"an index names context {context_id}, which is not there")
        of_context = texts.get(context_id, ())
        damage = row.damage(len(of_context))
        damage = damage or next(filter(None, (text.damage() for text in of_context)), "")
        yield Checked(
            row,
            of_context,
            damage,
            _bad_vectors(of_context, dimension),
            bad_entries.get(context_id, ()),
        )


def _read(
    db: Connection, ids: Sequence[int], *, vectors: bool
) -> tuple[dict[int, ContextRow], dict[int, list[TextRow]]]:
    key = json.dumps(ids)
    rows = {row[0]: ContextRow(*row) for row in db.execute(_CONTEXTS, (key,))}
    texts: dict[int, list[TextRow]] = defaultdict(list)
    for row in db.execute(_WITH_VECTOR if vectors else _WITHOUT_VECTOR, (key,)):
        texts[row[1]].append(TextRow(*row))
    return rows, texts


def _read_bytes(
    db: Connection, context_id: int, *, vectors: bool
) -> tuple[dict[int, ContextRow], dict[int, list[TextRow]]]:
    """Read one context that `_read` cannot decode; bytes that are not UTF-8 become surrogates."""
    of_context, of_text = _CONTEXTS, _WITH_VECTOR if vectors else _WITHOUT_VECTOR
    for name in _AS_BYTES:
        of_context = of_context.replace(f" {name},", f" CAST({name} AS BLOB),")
        of_text = of_text.replace(f" {name},", f" CAST({name} AS BLOB),")
    key = json.dumps([context_id])
    rows = {}
    for found in db.execute(of_context, (key,)):
        row = ContextRow(*found)
        texts = {name: decoded(getattr(row, name)) for name in _AS_BYTES if name in row._fields}
        rows[context_id] = row._replace(**texts)
    read = [TextRow(*found) for found in db.execute(of_text, (key,))]
    return rows, {
        context_id: [
            row._replace(section=decoded(row.section), text=decoded(row.text)) for row in read
        ]
    }


def decoded(value: Any) -> Any:
    """Decode bytes as UTF-8, invalid bytes as surrogates; return any other value unchanged."""
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value


def _is_undecodable(error: Exception) -> bool:
    return isinstance(error, UnicodeDecodeError) or str(error).startswith(NOT_UTF_8)


def _bad_vectors(texts: Sequence[TextRow], dimension: int | None) -> dict[int, str]:
    """Return a description of the damage of each damaged vector, by text id."""
    found: dict[int, str] = {}
    for text in texts:
        vector = (text.vector_checksum, text.vector_revision, text.digest, text.vector)
        if damage := vector_damage(text.id, vector, dimension):
            found[text.id] = damage
    return found


def vector_damage(text_id: int, row: Sequence[Any], dimension: int | None) -> str:
    """Return a description of the damage of a vector; "" if it is sound or NULL.

    Args:
        row: the columns vector_checksum, vector_revision, digest, vector.
        dimension: numbers in a vector of the store; None while it is not known.
    """
    kept, revision, digest, vector = row
    if vector_checksum(text_id, revision, digest, vector) != kept:
        return f"the vector of text {text_id} is not as it was written"
    if vector is None:
        return ""
    if len(vector) != 4 * (dimension or 0):
        return f"the vector of text {text_id} has {len(vector)} bytes, not {4 * (dimension or 0)}"
    numbers = np.frombuffer(vector, "<f4")
    if not abs(float(numbers @ numbers) - 1) <= _LENGTH_TOLERANCE:  # NaN, too
        return f"the vector of text {text_id} is not of length 1"
    return ""


def _bad_entries(
    db: Connection, rows: Mapping[int, ContextRow], texts: Mapping[int, Sequence[TextRow]]
) -> dict[int, list[str]]:
    """Return descriptions of damaged or missing memory states, by context id.

    Each memory must have an entry (its counters and times).
    """
    found: dict[int, list[str]] = defaultdict(list)
    having: set[int] = set()
    for *values, kept, context_id in db.execute(_ENTRIES, (json.dumps(list(rows)),)):
        text_id, entry_id, reinforcement, access_count, *_ = values
        having.add(text_id)
        if checksum(*values) != kept:
            found[context_id].append(f"the counters of memory {entry_id} are not as written")
        elif not counters_are_possible(reinforcement, access_count):
            found[context_id].append(f"a counter of memory {entry_id} is out of its range")
    for context_id, row in rows.items():
        if row.is_directory or not _is_memory_file(row.uri):
            continue
        of_context = texts.get(context_id, ())
        memories = {text.id for text in of_context if text.ordinal or len(of_context) == 1}
        if missing := len(memories - having):
            found[context_id].append(f"{missing} of its {len(memories)} memories have no counters")
    return found


def counters_are_possible(*counters: object) -> bool:
    """Return True if all counters are integers from 0 to MAX_COUNTER."""
    return all(type(counter) is int and 0 <= counter <= MAX_COUNTER for counter in counters)


def _is_memory_file(uri: object) -> bool:
    return isinstance(uri, str) and context_type(uri) is ContextType.MEMORY
