"""Rows of new texts for the table `texts`."""

from __future__ import annotations

from collections.abc import Iterable

from vikingd.domain.checksums import text_checksum, vector_checksum
from vikingd.domain.contexts import Draft, Text
from vikingd.domain.text import text_to_index
from vikingd.store.reads.backlog_order import rank_of
from vikingd.store.writes.transaction import Row, Transaction


def text_rows(
    work: Transaction,
    context_id: int,
    draft: Draft,
    abstract: str,
    texts: Iterable[tuple[Text, bytes]],
) -> list[Row]:
    """Return the rows of new texts of a context, each with a new id and checksums.

    Args:
        work: the open transaction.
        context_id: the id of the context.
        draft: the context.
        abstract: its abstract.
        texts: pairs of a text and its vector, which is b"" if there is none yet.
    """
    rank = rank_of(draft.metadata)
    rows: list[Row] = []
    for text, vector in texts:
        text_id = next(work.ids.texts)
        piece = draft.content[text.start : text.end] if text.ordinal else abstract
        is_derived = text_to_index(draft.title, text.section, piece) == text.text
        revision, known = (work.revision, vector) if vector else (None, None)
        row = (
            text_id,
            context_id,
            text.ordinal,
            text.section,
            text.start,
            text.end,
            text.script,
            rank if text.text.strip() else 0,
            None if is_derived else text.text,
        )
        checksums = text_checksum(*row), vector_checksum(text_id, revision, None, known)
        rows.append((*row, revision, known, *checksums))
    return rows
