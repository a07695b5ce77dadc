"""Conversion of rows of the database into domain objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from vikingd.domain.checksums import checksum
from vikingd.domain.contexts import Entry
from vikingd.domain.description import Described, Slot
from vikingd.domain.line_numbers import lines_at
from vikingd.domain.store_changes import IndexedText, Linked, Upsert
from vikingd.domain.text import text_to_index
from vikingd.memory.memory_types import MemoryFile, StoredEntry
from vikingd.store.checked_rows import Checked, decoded, read_checked
from vikingd.store.connection import Connection
from vikingd.store.damage import Damage, shown, store_damaged

CHUNK = 64
"""The most contexts in memory at a time; each may have 2 MiB of content."""

_MEMORY_FILE = """
SELECT id FROM contexts WHERE tenant = 'default' AND uri = ? AND is_directory = 0
"""
_ENTRIES_OF = """
SELECT text_id, entries.id, reinforcement, access_count, time, created_at
FROM texts JOIN entries ON text_id = texts.id WHERE context_id = ?
"""

_LINKS = """
SELECT one.uri AS uri, two.uri AS other, reason, a, b, links.created_at AS made, links.checksum
FROM links LEFT JOIN contexts AS one ON one.id = a LEFT JOIN contexts AS two ON two.id = b
"""
# As bytes, so that a text that is not UTF-8 does not end the statement.
_READ_LINKS = """
SELECT CAST(uri AS BLOB), CAST(other AS BLOB), CAST(reason AS BLOB), a, b, made, checksum
FROM ({}) AS linked ORDER BY 1, 2
"""
# UNION makes two searches of the indexes; with OR, SQLite would scan all links.
_LINKS_OF = _READ_LINKS.format(
    f"{_LINKS} WHERE a IN (SELECT value FROM each_id(?1)) "
    f"UNION {_LINKS} WHERE b IN (SELECT value FROM each_id(?1))"
)
_ALL_LINKS = _READ_LINKS.format(_LINKS)


_DESCRIPTIONS = """
SELECT context_id, descriptions.revision, basis, CAST(maker AS BLOB), slots, descriptions.checksum,
    CAST(uri AS BLOB)
FROM descriptions LEFT JOIN contexts ON contexts.id = context_id
"""
_DESCRIPTIONS_OF = f"{_DESCRIPTIONS} WHERE context_id IN (SELECT value FROM each_id(?))"


def text_of(stored: str | None, title: str, section: str, piece: str) -> str:
    """Return the text that is indexed and embedded for a row of `texts`.

    Args:
        stored: the column `text`; None if the text is composed of the other arguments.
        title: the title of the context.
        section: the headings above a passage.
        piece: the passage, or the abstract of the context.
    """
    return text_to_index(title, section, piece) if stored is None else stored


def metadata_of(stored: str, uri: str) -> Mapping[str, Any]:
    """Return the metadata of a context, decoded from its column.

    Raises:
        StoreDamaged: the value is not a JSON object.
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


def upserts(
    db: Connection,
    context_ids: Iterable[int],
    found: Callable[[Damage], object],
    *,
    entries: bool = False,
) -> Iterator[Upsert]:
    """Yield an Upsert for each context: what the index stores of it, in the order of the ids.

    A damaged context is left out. A context with a damaged vector comes without that vector.

    Args:
        db: a connection to the store.
        context_ids: the ids of existing contexts.
        found: called with each damage, also with damage of contexts that are left out.
        entries: check the memory states of the contexts' texts, too.
    """
    for context in sound_contexts(db, context_ids, found, entries=entries):
        yield upsert_of(context)


def sound_contexts(
    db: Connection,
    context_ids: Iterable[int],
    found: Callable[[Damage], object],
    *,
    entries: bool = False,
) -> Iterator[Checked]:
    """Yield the rows of all contexts that are not damaged; the arguments are those of `upserts`.

    A context whose vectors alone are damaged is included; `bad_vectors` names them.
    """
    ids = iter(context_ids)
    while chunk := list(islice(ids, CHUNK)):
        for context in read_checked(db, chunk, entries=entries):
            for damage in context.damages():
                found(damage)
            if not context.damage:
                yield context


def upsert_of(context: Checked) -> Upsert:
    """Return the Upsert of a context: what the index stores of it. The context must be sound."""
    row = context.row
    texts = []
    lines = lines_at(row.content, (text.start for text in context.texts))
    for text, line in zip(context.texts, lines, strict=True):
        passage = row.content[text.start : text.end] if text.ordinal else ""
        piece = passage if text.ordinal else row.abstract
        texts.append(
            IndexedText(
                text_id=text.id,
                ordinal=text.ordinal,
                script=text.script,
                text=text_of(text.text, row.title, text.section, piece),
                vector=b"" if text.id in context.bad_vectors else text.vector or b"",
                embeddable=bool(text.embeddable),
                section=text.section,
                start=text.start,
                passage=passage,
                line=line if text.ordinal else 0,
            )
        )
    return Upsert(
        context_id=row.id,
        uri=row.uri,
        is_directory=bool(row.is_directory),
        title=row.title,
        abstract=row.abstract,
        metadata=metadata_of(row.metadata, row.uri),
        texts=tuple(texts),
        time=row.time,
    )


def refuse(damage: Damage) -> None:
    """Raise RowDamaged, unless only a vector is damaged; the caller can do without the vector."""
    if not damage.text_id:
        raise damage.error()


def check_context(db: Connection, context_id: int) -> None:
    """Raise RowDamaged if a context, a text or a memory state of it does not match its checksum."""
    for context in read_checked(db, [context_id], vectors=False, entries=True):
        for damage in context.damages():
            raise damage.error()


def links(
    db: Connection,
    found: Callable[[Damage], object],
    context_ids: Sequence[int] | None = None,
) -> list[Linked]:
    """Return links, each once, ordered by the URIs of their contexts; damaged ones are left out.

    Args:
        db: a connection to the store.
        found: called with a Damage for each damaged link.
        context_ids: return the links of these contexts; None: all links.
    """
    if context_ids is None:
        rows = db.execute(_ALL_LINKS)
    else:
        rows = db.execute(_LINKS_OF, (json.dumps(context_ids),))
    sound = []
    for *texts, a, b, created_at, kept in rows:
        uri, other, reason = (decoded(text) for text in texts)
        if checksum(a, b, reason, created_at) == kept and None not in (uri, other):
            sound.append(Linked(uri, other, reason))
        else:
            what = f"its link with {shown(other, b)} is not as it was written"
            found(Damage(shown(uri, a), what))
    return sound


def descriptions(
    db: Connection,
    found: Callable[[Damage], object],
    context_ids: Sequence[int] | None = None,
) -> Iterator[tuple[int, Described]]:
    """Yield (context id, description) of contexts; damaged descriptions are left out.

    Args:
        db: a connection to the store.
        found: called with a Damage for each damaged description.
        context_ids: yield the descriptions of these contexts; None: all of them.
    """
    if context_ids is None:
        rows = db.execute(_DESCRIPTIONS)
    else:
        rows = db.execute(_DESCRIPTIONS_OF, (json.dumps(context_ids),))
    for context_id, revision, basis, maker, slots, kept, uri in rows:
        maker, uri = decoded(maker), decoded(uri)
        if checksum(context_id, revision, basis, maker, slots) == kept and uri is not None:
            yield context_id, Described(maker, basis, Slot(slots))
        else:
            what = "the maker of its description is not as it was written"
            found(Damage(shown(uri, context_id), what))


def check_descriptions(db: Connection, found: Callable[[Damage], object]) -> None:
    """Call `found` with a Damage for each damaged description in the store."""
    for _ in descriptions(db, found):
        pass


def memory_file(db: Connection, uri: str) -> MemoryFile | None:
    """Return a file with its memories; None if there is no such file.

    A file that was moved into the memories may have an abstract and an overview by a model. They
    are left out, so that a rewrite does not store them as written by a user.

    Raises:
        RowDamaged: a row of the file does not match its checksum.
    """
    row = db.execute(_MEMORY_FILE, (uri,)).fetchone()
    if row is None:
        return None
    (file,) = read_checked(db, row, entries=True)
    for damage in file.damages():
        refuse(damage)
    slots = next((made.slots for _, made in descriptions(db, refuse, row)), Slot(0))
    upsert, entries = upsert_of(file), list[StoredEntry]()
    states = {text_id: Entry(*entry) for text_id, *entry in db.execute(_ENTRIES_OF, row)}
    for text, indexed in zip(file.texts, upsert.texts, strict=True):
        state = states.get(text.id)
        if state is not None and state.is_rest and entries:
            entries[-1] = entries[-1].continued(text.start, text.end, file.row.content)
        elif state is not None and not state.is_rest:
            passage = indexed.passage if text.ordinal else upsert.abstract
            place = (text.ordinal, text.section, text.start, text.end)
            entries.append(StoredEntry(uri, state, *place, passage, indexed.vector))
    return MemoryFile(
        uri,
        "" if Slot.ABSTRACT in slots else upsert.abstract,
        "" if Slot.OVERVIEW in slots else file.row.overview,
        file.row.content,
        upsert.title,
        upsert.metadata,
        file.row.time,
        tuple(entries),
    )
