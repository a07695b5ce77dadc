"""Writes of descriptions: the abstracts and overviews that a model wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from vikingd.domain import uri as uris
from vikingd.domain.checksums import DESCRIPTION, checksum, content_checksum
from vikingd.domain.contexts import ContextType, Draft
from vikingd.domain.description import Description, Slot
from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import Committed
from vikingd.ingest.abstracts import derive_abstract, stated_abstract
from vikingd.ingest.draft_preparation import MAX_ABSTRACT_BYTES, MAX_OVERVIEW_BYTES, has_head, head
from vikingd.ingest.limits import check_text
from vikingd.ingest.original_draft import as_put
from vikingd.store.checked_rows import Checked, read_checked
from vikingd.store.reads.context_reads import read_context
from vikingd.store.rows import refuse, upserts
from vikingd.store.writes.text_writes import text_rows
from vikingd.store.writes.transaction import Transaction

_UPDATE = "UPDATE contexts SET abstract = ?, overview = ?, content_checksum = ? WHERE id = ?"
_INSERT = f"INSERT INTO descriptions ({DESCRIPTION}, checksum) VALUES (?, ?, ?, ?, ?, ?)"
_ABOVE = """
SELECT uri, content_hash FROM contexts JOIN descriptions ON context_id = contexts.id
WHERE tenant = 'default' AND slots > 0 AND uri IN (SELECT value FROM each_name(?))
"""


def describe(
    work: Transaction, descriptions: Sequence[Description], meta: Mapping[str, bytes]
) -> Committed:
    """Write descriptions, except those of contexts that have changed; see `WritableStore.describe`.

    Args:
        work: the open transaction.
        descriptions: the descriptions, each with the content hash that its context must have.
        meta: values of the table `meta` to write, too.
    """
    work.look_up(description.uri for description in descriptions)
    wanted: dict[int, Description] = {}
    for i, description in enumerate(descriptions):
        field = f"descriptions[{i}]"
        check_text(description.abstract, MAX_ABSTRACT_BYTES, f"{field}.abstract")
        check_text(description.overview, MAX_OVERVIEW_BYTES, f"{field}.overview")
        stored = work.find(description.uri)
        if stored is None or stored.content_hash != description.content_hash:
            continue
        is_memory = uris.context_type(description.uri) is ContextType.MEMORY
        if is_memory and not stored.is_directory:
            raise InvalidField(f"{field}.uri", "is a file of memories, which has no description")
        wanted[stored.id] = description
    db, changed = work.use_tables(), list[int]()
    sound = [one for one in read_checked(db, list(wanted), vectors=False) if not one.damage]
    for context in sound:
        if _write(work, context, wanted[context.row.id]):
            changed.append(context.row.id)
    work.insert_rows()
    db.set_meta(meta)
    work.touched = work.touched or bool(sound)
    before = {text.id for context in sound for text in context.texts}
    waiting = []
    for upsert in upserts(db, changed, refuse):
        work.emit(upsert)
        new = (text for text in upsert.texts if text.text_id not in before)
        waiting += [text.text_id for text in new if text.embeddable and not text.vector]
    return Committed(work.revision, count=len(sound), text_ids=tuple(waiting))


def withdraw_above(work: Transaction, gone: Iterable[str]) -> None:
    """Remove the descriptions of all directories above contexts that are deleted or rewritten.

    A description may quote the texts below its directory, and deleted text must not remain in it.
    """
    above = sorted({one for uri in gone for one in uris.ancestors(uri)})
    rows = work.use_tables().execute(_ABOVE, (json.dumps(above),)).fetchall()
    if rows:
        describe(work, [Description(uri, "", "", "", b"", known) for uri, known in rows], {})


def forget_description(work: Transaction, context_id: int) -> None:
    """Delete the row of a context's description, since the context is written again."""
    work.use_tables().execute("DELETE FROM descriptions WHERE context_id = ?", (context_id,))


def _write(work: Transaction, context: Checked, description: Description) -> bool:
    """Write one description. Return True if the abstract or the overview of the context changed.

    Texts that a user wrote stay as they are.
    """
    db, row = work.use_tables(), context.row
    given = as_put(read_context(db, row.uri))
    if given.content_hash() != row.content_hash:  # the given fields are unknown
        description = description._replace(abstract=row.abstract, overview=row.overview)
    stated, derived = given.abstract, ""
    if not row.is_directory:
        name = uris.name(row.uri)
        stated = stated or stated_abstract(row.content, name)
        derived = derive_abstract(row.content, name)
    slots = Slot(0)
    if not stated and description.abstract not in ("", derived):
        slots |= Slot.ABSTRACT
    if not given.overview and description.overview:
        slots |= Slot.OVERVIEW
    abstract = stated or description.abstract or derived
    overview = given.overview or description.overview
    forget_description(work, row.id)
    made = (row.id, work.revision, description.basis, description.maker, int(slots))
    db.execute(_INSERT, (*made, checksum(*made)))
    if (abstract, overview) == (row.abstract, row.overview):
        return False
    is_derived = not stated and Slot.ABSTRACT not in slots
    count = _write_head(work, context, given, abstract, is_derived=is_derived)
    content = (row.title, abstract, row.metadata, overview, row.content)
    db.execute(_UPDATE, (abstract, overview, content_checksum(row.id, count, *content), row.id))
    return True


def _write_head(
    work: Transaction, context: Checked, given: Draft, abstract: str, *, is_derived: bool
) -> int:
    """Write the text of the abstract (ordinal 0) if it changes; return the context's text count."""
    row = context.row
    passages = sum(text.ordinal > 0 for text in context.texts)
    wanted = has_head(given, abstract, passages, is_derived=is_derived)
    if abstract == row.abstract and wanted == (len(context.texts) > passages):
        return len(context.texts)
    sql = "DELETE FROM texts WHERE context_id = ? AND ordinal = 0"
    work.use_tables().execute(sql, (row.id,))
    if wanted:
        new = head(given, abstract)
        work.rows["texts"] += text_rows(work, row.id, given, abstract, [(new, b"")])
    return passages + wanted
