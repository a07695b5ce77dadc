"""Writes of contexts with their texts and links."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from vikingd.domain.checksums import checksum, content_checksum, context_checksum
from vikingd.domain.contexts import Draft, Prepared
from vikingd.domain.description import Described, Slot
from vikingd.domain.errors import InvalidField, NotFound, RevisionDiffers, VikingError
from vikingd.domain.line_numbers import lines_at
from vikingd.domain.store_changes import (
    AllLinks,
    Committed,
    IndexedText,
    Linked,
    PutOutcome,
    PutRefusal,
    Unlinked,
    Upsert,
)
from vikingd.domain.uri import ROOT, parent
from vikingd.ingest.masks import Masked
from vikingd.store.damage import Damage, store_damaged
from vikingd.store.reads.context_reads import read_context
from vikingd.store.reads.empty_directories import EMPTY_DIRECTORY
from vikingd.store.rows import check_context, descriptions, links, memory_file, upserts
from vikingd.store.writes.description_writes import forget_description, withdraw_above
from vikingd.store.writes.memory_entry_writes import are_known, holds_memories, write_entries
from vikingd.store.writes.text_writes import text_rows
from vikingd.store.writes.transaction import Row, StoredContext, Transaction

_UPDATE_CONTEXT = """
UPDATE contexts SET revision = ?, content_hash = ?, time = ?, updated_at = ?, title = ?,
    abstract = ?, metadata = ?, overview = ?, content = ?, checksum = ?, content_checksum = ?
WHERE id = ?
"""
_OF_CONTEXTS = (InvalidField, NotFound, RevisionDiffers)
"""The errors of a single context, which are raised before any of it is written."""

_LINK = "SELECT reason, created_at, checksum FROM links WHERE a = ? AND b = ?"


def put(
    work: Transaction, contexts: Sequence[Prepared | Masked | PutRefusal], *, partial: bool = False
) -> Committed:
    """Write contexts: all of them, or with `partial` all that can be written.

    A context can be written if it has the expected revision and its fields are valid. Without
    `partial`, the first one that cannot be written raises its error.

    Args:
        work: the open transaction.
        contexts: what to write. A PutRefusal stands for a context that was refused earlier.
        partial: refuse single contexts instead of raising.
    """
    batch = _Batch(partial=partial)
    work.look_up(one.draft.uri for one in contexts if not isinstance(one, PutRefusal))
    complete: dict[int, Prepared] = {}
    if not partial:  # a wrong revision is reported before any other error
        for one in contexts:
            if not isinstance(one, PutRefusal):
                work.check_revision(one.draft.uri, one.draft.expected_revision)
    for i, one in enumerate(contexts):
        if isinstance(one, PutRefusal):
            batch.refused[i] = one
            continue
        try:
            complete[i] = _complete(work, one)
        except _OF_CONTEXTS as error:
            batch.refuse(i, error)
    return _write(work, complete, batch)


def write(work: Transaction, contexts: Sequence[Prepared]) -> Committed:
    """Write contexts with all their fields, and make the missing directories above them."""
    return _write(work, dict(enumerate(contexts)), _Batch(partial=False))


class _Batch:
    """A batch of contexts to put; `refused` has the refused ones by index.

    A batch that is not partial refuses no single context: the first error is raised.
    """

    def __init__(self, *, partial: bool) -> None:
        self.refused: dict[int, PutRefusal] = {}
        self._partial = partial

    def refuse(self, i: int, error: VikingError) -> None:
        """Record the refusal of the context with this index; raise the error if not partial."""
        if self._partial:
            self.refused[i] = PutRefusal.of(i, error)
        elif isinstance(error, InvalidField):
            raise error.below(f"contexts[{i}]") from None
        else:
            raise error


def _write(work: Transaction, contexts: Mapping[int, Prepared], batch: _Batch) -> Committed:
    """Write contexts with all their fields, given by their index in the batch.

    Returns the outcomes, the refusals, and the ids of the written texts that wait for a vector.
    """
    uris = {i: context.draft.uri for i, context in contexts.items()}
    work.look_up(uris.values())
    stored = {uri: old for uri in uris.values() if (old := work.find(uri))}
    before, described = _stored_versions(work, stored.values()) if stored else ({}, {})
    outcomes: dict[int, PutOutcome] = {}
    unchanged: list[int] = []
    waiting: list[int] = []
    seen: set[str] = set()
    # Sorted by URI, a directory comes before its content.
    for i in sorted(uris, key=uris.__getitem__):
        context, draft, dimension = contexts[i], contexts[i].draft, work.dimension
        old = stored.get(draft.uri)
        try:
            if draft.uri in seen:
                raise InvalidField("uri", "occurs twice in the batch")
            seen.add(draft.uri)
            _check_vectors(work, context)
            if old is None:
                upsert = _insert(work, context, make_directory(work, parent(draft.uri), "uri"))
                outcomes[i] = PutOutcome.CREATED
            elif old.is_directory != draft.is_directory:
                raise InvalidField(
                    "uri",
                    f"is a directory; write a file below it, such as {draft.uri}/tea.md, or delete "
                    "it first"
                    if old.is_directory
                    else "is a file; delete it before you write a directory",
                )
            elif _is_unchanged(work, context, old, before[old.id], described):
                unchanged.append(old.id)
                outcomes[i] = PutOutcome.UNCHANGED
                continue
            else:
                if old.id in described or before[old.id] is None:
                    forget_description(work, old.id)
                upsert = _update(work, context, old, before[old.id])
                outcomes[i] = PutOutcome.UPDATED
        except _OF_CONTEXTS as error:
            batch.refuse(i, error)
            work.dimension = dimension
            continue
        waiting.extend([t.text_id for t in upsert.texts if t.embeddable and not t.vector])
    if unchanged:
        waiting.extend(_waiting(work, unchanged))
    if updated := [
        contexts[i].draft.uri for i, one in outcomes.items() if one is PutOutcome.UPDATED
    ]:
        withdraw_above(work, updated)
    refused = batch.refused
    outcomes.update(dict.fromkeys(refused, PutOutcome.REFUSED))
    return Committed(
        work.revision,
        outcomes=tuple(outcomes[i] for i in sorted(outcomes)),
        refusals=tuple(refused[i] for i in sorted(refused)),
        text_ids=tuple(waiting),
    )


def make_directory(work: Transaction, uri: str, field: str) -> int:
    """Return the id of a directory; make it and the directories above it if they are missing.

    Args:
        work: the open transaction.
        uri: the directory.
        field: the request's field, for the error.

    Raises:
        InvalidField: a file has this URI or one above it.
        StoreDamaged: the root is missing, which each store has.
    """
    context = work.find(uri)
    if context is None and uri == ROOT:
        raise store_damaged(f"it has no {ROOT}")
    if context is None:
        made = Prepared(Draft(uri, is_directory=True), "", (), EMPTY_DIRECTORY)
        return _insert(work, made, make_directory(work, parent(uri), field)).context_id
    if not context.is_directory:
        raise InvalidField(field, f"is below {uri}, which is a file")
    return context.id


def link(work: Transaction, uri: str, other: str, reason: str) -> Committed:
    """Link two contexts, or replace the reason of their link."""
    if uri == other:
        raise InvalidField("other_uri", "is the same context as uri; name two contexts")
    db, ends = work.use_tables(), _sorted_ids(work, uri, other)
    for end in ends:  # the index has no damaged context to link
        check_context(db, end)
    row = db.execute(_LINK, ends).fetchone()
    sound = row is not None and checksum(*ends, *row[:2]) == row[2]
    if sound and row[0] == reason:
        return Committed(work.revision)
    values = (*ends, reason, row[1] if sound else work.now)
    db.execute("DELETE FROM links WHERE a = ? AND b = ?", ends)
    db.execute(
        "INSERT INTO links (a, b, reason, created_at, checksum) VALUES (?, ?, ?, ?, ?)",
        (*values, checksum(*values)),
    )
    work.emit(Linked(uri, other, reason))
    return Committed(work.revision)


def unlink(work: Transaction, uri: str, other: str) -> Committed:
    """Remove the link between two contexts.

    Raises:
        NotFound: they are not linked, or one does not exist.
    """
    ends = _sorted_ids(work, uri, other)
    rows = work.use_tables().execute("DELETE FROM links WHERE a = ? AND b = ?", ends)
    if not rows.rowcount:
        raise NotFound(other, f"{uri} and {other} are not linked")
    work.emit(Unlinked(uri, other))
    return Committed(work.revision)


def _complete(work: Transaction, context: Prepared | Masked) -> Prepared:
    """Return the context with all fields to write: fields outside its mask are read from the store.

    Raises:
        RevisionDiffers: the stored context has another revision than expected.
        NotFound: a context with a mask does not exist.
        InvalidField: the content is empty, there is no mask, and the stored content is not empty.
    """
    draft = context.draft
    work.check_revision(draft.uri, draft.expected_revision)
    if isinstance(context, Masked):
        db = work.use_tables()
        check_context(db, work.get(draft.uri).id)
        return context.merged(read_context(db, draft.uri))
    old = work.find(draft.uri)
    if old and not (old.is_directory or draft.is_directory or draft.content):
        sql = "SELECT length(content) FROM contexts WHERE id = ?"
        (length,) = work.use_tables().execute(sql, (old.id,)).fetchone()
        if length:
            raise InvalidField(
                "content",
                f"is empty, but {draft.uri} has a content of {length:,} characters; name the "
                "fields to write in update_mask, and `content` too to empty the file",
            )
    return context


def _stored_versions(
    work: Transaction, stored: Iterable[StoredContext]
) -> tuple[dict[int, Upsert | None], dict[int, Described]]:
    """Return (stored contexts with their texts, their descriptions), both dicts by context id.

    A context that is damaged, or whose description is damaged, is None.
    """
    ids = [old.id for old in stored]
    before: dict[int, Upsert | None] = dict.fromkeys(ids)
    damaged: set[str] = set()

    def found(damage: Damage) -> None:
        if not damage.text_id:
            damaged.add(damage.uri)

    db = work.use_tables()
    described = dict(descriptions(db, found, ids))
    for upsert in upserts(db, ids, found, entries=True):
        if upsert.uri not in damaged:
            before[upsert.context_id] = upsert
    return before, described


def _waiting(work: Transaction, context_ids: Sequence[int]) -> list[int]:
    """Return the ids of the texts of these contexts that wait for their vector."""
    rows = work.use_tables().execute(
        "SELECT id FROM texts WHERE context_id IN (SELECT value FROM each_id(?)) "
        "AND vector IS NULL AND embeddable > 0",
        (json.dumps(context_ids),),
    )
    return [text_id for (text_id,) in rows]


def _check_vectors(work: Transaction, context: Prepared) -> None:
    """Raise InvalidField, with the field's name, if a vector of a context has a wrong size."""
    for text in context.texts:
        if text.vector:
            passages = context.draft.passages
            j = text.ordinal - 1
            of_passage = passages is not None and 0 <= j < len(passages) and passages[j].vector
            work.check_vector(text.vector, f"passages[{j}].vector" if of_passage else "vector")


def _is_unchanged(
    work: Transaction,
    context: Prepared,
    old: StoredContext,
    before: Upsert | None,
    described: Mapping[int, Described],
) -> bool:
    """Return True if writing a context would change nothing.

    If a model has written the stored abstract, a vector that is given for the context's own
    abstract counts as unchanged.
    """
    if context.content_hash != old.content_hash or before is None:
        return False
    vectors = {text.ordinal: text.vector for text in before.texts}
    if old.id in described and Slot.ABSTRACT in described[old.id].slots:
        vectors.update({text.ordinal: text.vector for text in context.texts if not text.ordinal})
    if any(text.vector and text.vector != vectors.get(text.ordinal) for text in context.texts):
        return False
    if not context.entries:
        return True
    file = memory_file(work.use_tables(), context.draft.uri)
    return file is not None and are_known(context.entries, file.entries)


def _insert(work: Transaction, context: Prepared, parent_id: int) -> Upsert:
    draft = context.draft
    context_id = next(work.ids.contexts)
    time = work.now if draft.time is None else draft.time
    new = StoredContext(
        context_id,
        draft.is_directory,
        context.content_hash,
        time,
        work.revision,
        parent_id,
        work.now,
    )
    work.rows["contexts"].append(_row(work, context, new))
    work.known[draft.uri] = new
    upsert = _write_texts(work, context, context_id, time, None)
    if holds_memories(draft):
        write_entries(work, context, upsert, (), 0, time)
    return upsert


def _update(
    work: Transaction, context: Prepared, old: StoredContext, before: Upsert | None
) -> Upsert:
    """Replace a stored context; return what the index stores of it.

    Nothing is kept of a stored context that is damaged: then `before` is None.
    """
    draft, db = context.draft, work.use_tables()
    if before is None:
        parent_id = None if draft.uri == ROOT else make_directory(work, parent(draft.uri), "uri")
        work.insert_rows()
        old = old._replace(time=work.now, created_at=work.now, parent_id=parent_id)
        db.execute(
            "UPDATE contexts SET parent_id = ?, created_at = ? WHERE id = ?",
            (parent_id, work.now, old.id),
        )
    new = old._replace(
        content_hash=context.content_hash,
        time=old.time if draft.time is None else draft.time,
        revision=work.revision,
    )
    work.known[draft.uri] = new
    file = memory_file(db, draft.uri) if before and holds_memories(draft) else None
    row = _row(work, context, new)
    _, _, _, _, revision, content_hash, time, _, *updated = row
    db.execute(_UPDATE_CONTEXT, (revision, content_hash, time, *updated, old.id))
    kept = _unchanged_texts(context, before) if before else 0
    if before:
        ids = json.dumps([text.text_id for text in before.texts[kept:]])
        db.execute("DELETE FROM texts WHERE id IN (SELECT value FROM each_id(?))", (ids,))
    else:
        db.execute("DELETE FROM texts WHERE context_id = ?", (old.id,))
    upsert = _write_texts(work, context, old.id, new.time, before, kept)
    if before is None:  # the index left out its links
        work.emit(AllLinks(tuple(links(db, lambda _: None))))
    if holds_memories(draft):
        entry_time = work.now if draft.time is None else draft.time
        entries = file.entries if file is not None else ()
        write_entries(work, context, upsert, entries, kept, entry_time)
    return upsert


def _row(work: Transaction, context: Prepared, stored: StoredContext) -> Row:
    """Return the row of a context for the table `contexts`, with its checksums."""
    draft = context.draft
    metadata = "{}"
    if draft.metadata:
        metadata = json.dumps(dict(draft.metadata), ensure_ascii=False, separators=(",", ":"))
    place = (
        stored.id,
        draft.uri,
        stored.parent_id,
        int(draft.is_directory),
        stored.revision,
        stored.content_hash,
        stored.time,
        stored.created_at,
        work.now,
    )
    content = (draft.title, context.abstract, metadata, draft.overview, draft.content)
    return (
        *place,
        *content,
        context_checksum(*place),
        content_checksum(stored.id, len(context.texts), *content),
    )


def _write_texts(
    work: Transaction,
    context: Prepared,
    context_id: int,
    time: int,
    before: Upsert | None,
    kept: int = 0,
) -> Upsert:
    """Write the texts of a context except the first `kept` ones, which are in the store already.

    A text without a vector takes the vector of an equal text in `before`.
    """
    draft = context.draft
    old = before.texts if before else ()
    vectors = {(text.ordinal == 0, text.text): text.vector for text in old}
    new = [
        (text, text.vector or vectors.get((text.ordinal == 0, text.text), b""))
        for text in context.texts[kept:]
    ]
    rows = text_rows(work, context_id, draft, context.abstract, new)
    work.rows["texts"].extend(rows)
    texts = list(old[:kept])
    for (text, vector), row, line in zip(new, rows, _lines(context)[kept:], strict=True):
        text_id, _, _, _, _, _, _, rank, *_ = row
        texts.append(
            IndexedText(
                text_id=text_id,
                ordinal=text.ordinal,
                script=text.script,
                text=text.text,
                vector=vector,
                embeddable=rank > 0,
                section=text.section,
                start=text.start,
                passage=draft.content[text.start : text.end] if text.ordinal else "",
                line=line,
            )
        )
    upsert = Upsert(
        context_id=context_id,
        uri=draft.uri,
        is_directory=draft.is_directory,
        title=draft.title,
        abstract=context.abstract,
        metadata=draft.metadata,
        texts=tuple(texts),
        time=time,
    )
    work.emit(upsert)
    return upsert


def _unchanged_texts(context: Prepared, before: Upsert) -> int:
    """Return the number of leading texts that equal the stored ones; 0 if the title changed."""
    same = 0
    if context.draft.title != before.title:
        return same
    for new, line, old in zip(context.texts, _lines(context), before.texts, strict=False):
        piece = context.draft.content[new.start : new.end] if new.ordinal else context.abstract
        old_piece = old.passage if old.ordinal else before.abstract
        if (
            (new.ordinal, new.section, new.start, line, new.text)
            != (old.ordinal, old.section, old.start, old.line, old.text)
            or piece != old_piece
            or (new.vector and new.vector != old.vector)
        ):
            break
        same += 1
    return same


def _lines(context: Prepared) -> list[int]:
    """Return the first line of each text in the content; 0 for the abstract."""
    lines = lines_at(context.draft.content, (text.start for text in context.texts))
    return [line if text.ordinal else 0 for text, line in zip(context.texts, lines, strict=True)]


def _sorted_ids(work: Transaction, uri: str, other: str) -> tuple[int, int]:
    """Return the ids of the contexts at two URIs, the smaller id first.

    Raises:
        NotFound: one of them does not exist.
    """
    one, two = sorted((work.get(uri).id, work.get(other).id))
    return one, two
