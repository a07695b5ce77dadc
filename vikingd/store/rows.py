"""Conversion of rows into objects of the domain."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from vikingd.domain.changes import IndexedText, Linked, Upsert
from vikingd.domain.contexts import Entry
from vikingd.domain.text import text_to_index
from vikingd.memory.model import MemoryFile, StoredEntry
from vikingd.store.connection import Connection
from vikingd.store.damage import store_damaged

_CHUNK = 64  # contexts in memory at a time; each may have 2 MiB of content

_CONTEXTS = """
SELECT id, uri, is_directory, metadata, title, abstract, content FROM contexts
WHERE id IN (SELECT value FROM each_id(?))
"""
_TEXTS = """
SELECT context_id, id, ordinal, section, "start", "end", script, embeddable, text, vector
FROM texts WHERE context_id IN (SELECT value FROM each_id(?)) ORDER BY context_id, ordinal
"""

_MEMORY_FILE = """
SELECT id, abstract, overview, content, title, metadata, time FROM contexts
WHERE tenant = 'default' AND uri = ? AND is_directory = 0
"""
_ENTRIES_OF = """
SELECT entries.id, reinforcement, access_count, time, created_at,
    ordinal, section, "start", "end", vector
FROM texts JOIN entries ON text_id = texts.id WHERE context_id = ? ORDER BY ordinal
"""

_LINKS = """
SELECT one.uri, two.uri, reason FROM links
JOIN contexts AS one ON one.id = a JOIN contexts AS two ON two.id = b
"""
# UNION makes two searches of the indexes; with OR, SQLite would scan all links.
_LINKS_OF = f"""
{_LINKS} WHERE a IN (SELECT value FROM each_id(?1))
UNION {_LINKS} WHERE b IN (SELECT value FROM each_id(?1)) ORDER BY 1, 2
"""


def text_of(stored: str | None, title: str, section: str, piece: str) -> str:
    """Return the text of a row; NULL is stored for a text that can be derived."""
    return text_to_index(title, section, piece) if stored is None else stored


def metadata_of(stored: str, uri: str) -> Mapping[str, Any]:
    """Return the metadata in the row of a context.

    Raises:
        StoreDamaged: it is no JSON object.
    """
    if stored == "{}":
        return {}
    try:
        metadata = json.loads(stored)
    except (TypeError, ValueError):
        metadata = None
    if not isinstance(metadata, dict):
        raise store_damaged(f"the metadata of {uri} cannot be decoded")
    return metadata


def vector_bytes(db: Connection) -> int | None:
    """Return the size of a vector in bytes; None while the store has none."""
    dimension = db.get_meta("store.dimension").get("store.dimension")
    return 4 * dimension if dimension else None


def check_vector(vector: bytes | None, size: int | None, text_id: int, uri: str) -> None:
    """Raise StoreDamaged if a stored vector has a wrong size."""
    if vector is not None and size is not None and len(vector) != size:
        raise store_damaged(
            f"the vector of text {text_id} of {uri} has {len(vector)} bytes, not {size}"
        )


def upserts(db: Connection, context_ids: Iterable[int]) -> Iterator[Upsert]:
    """Yield contexts with their texts and vectors, in the order of the ids; all must exist.

    Raises:
        StoreDamaged: a row cannot be decoded.
    """
    size = vector_bytes(db)
    ids = iter(context_ids)
    while chunk := list(islice(ids, _CHUNK)):
        key = json.dumps(chunk)
        contexts = {found[0]: found for found in db.execute(_CONTEXTS, (key,))}
        texts: dict[int, list[IndexedText]] = defaultdict(list)
        for row in db.execute(_TEXTS, (key,)):
            context_id, text_id, ordinal, section, start, end, script, *rest = row
            embeddable, stored, vector = rest
            _, uri, *_, title, abstract, content = contexts[context_id]
            passage = content[start:end] if ordinal else ""
            check_vector(vector, size, text_id, uri)
            text = text_of(stored, title, section, passage if ordinal else abstract)
            texts[context_id].append(
                IndexedText(
                    text_id=text_id,
                    ordinal=ordinal,
                    script=script,
                    text=text,
                    vector=vector or b"",
                    embeddable=bool(embeddable),
                    section=section,
                    start=start,
                    passage=passage,
                )
            )
        for context_id in chunk:
            _, uri, is_directory, metadata, title, abstract, _ = contexts[context_id]
            if not type(uri) is type(title) is type(abstract) is str:
                raise store_damaged(f"context {context_id} ({uri}) has a value of the wrong type")
            yield Upsert(
                context_id=context_id,
                uri=uri,
                is_directory=bool(is_directory),
                title=title,
                abstract=abstract,
                metadata=metadata_of(metadata, uri),
                texts=tuple(texts[context_id]),
            )


def links(db: Connection, context_ids: Sequence[int] | None = None) -> list[Linked]:
    """Return the links of these contexts, or all links; each once, by URI."""
    if context_ids is None:
        rows = db.execute(f"{_LINKS} ORDER BY 1, 2")
    else:
        rows = db.execute(_LINKS_OF, (json.dumps(context_ids),))
    return [Linked(*row) for row in rows]


def memory_file(db: Connection, uri: str) -> MemoryFile | None:
    """Return a file with its memories; None if there is no such file."""
    row = db.execute(_MEMORY_FILE, (uri,)).fetchone()
    if row is None:
        return None
    context_id, abstract, overview, content, title, metadata, time = row
    entries = []
    for *entry, ordinal, section, start, end, vector in db.execute(_ENTRIES_OF, (context_id,)):
        passage = content[start:end] if ordinal else abstract
        entries.append(
            StoredEntry(uri, Entry(*entry), ordinal, section, start, end, passage, vector or b"")
        )
    return MemoryFile(
        uri, abstract, overview, content, title, metadata_of(metadata, uri), time, tuple(entries)
    )
