"""The rows of new texts."""

from __future__ import annotations

from vikingd.domain.checksums import text_checksum, vector_checksum
from vikingd.domain.contexts import Draft, Text
from vikingd.domain.text import text_to_index
from vikingd.store.reads.backlog_order import rank_of
from vikingd.store.writes.transaction import Row, Transaction


def text_row(
    work: Transaction, context_id: int, draft: Draft, text: Text, abstract: str, vector: bytes = b""
) -> Row:
    """Return the row of a text of a context, which gets a new id; it is the first value.

    Args:
        draft: the context.
        text: one of its texts.
        abstract: its abstract.
        vector: of the text; b"" if there is none yet.
    """
    text_id = next(work.ids.texts)
    piece = draft.content[text.start : text.end] if text.ordinal else abstract
    is_derived = text_to_index(draft.title, text.section, piece) == text.text
    row = (
        text_id,
        context_id,
        text.ordinal,
        text.section,
        text.start,
        text.end,
        text.script,
        rank_of(draft.metadata) if text.text.strip() else 0,
        None if is_derived else text.text,
    )
    revision, known = (work.revision, vector) if vector else (None, None)
    checksums = text_checksum(*row), vector_checksum(text_id, revision, None, known)
    return (*row, revision, known, *checksums)
