"""Texts of a snapshot by row: their names, words and vectors."""

from __future__ import annotations

from hashlib import blake2b

from viking_kernels.arrays import F32, Scope, encode_file

from vikingd.domain.answers import ReplyBudget
from vikingd.index.shown_strings import ShownPassage
from vikingd.index.snapshot import Snapshot

_SHORT = 4096  # bytes of a text that is its own key: it takes less time than a digest


def name_of(snapshot: Snapshot, row: int) -> tuple[str, int]:
    """Return the URI of a text's context and the ordinal of the passage (0: the abstract)."""
    file, passage = snapshot.tree.texts.file.item(row), snapshot.text_ordinal.item(row)
    return snapshot.file_uri(file), passage


def shown(snapshot: Snapshot, row: int, budget: ReplyBudget | None = None) -> ShownPassage:
    """Return a passage or an abstract, its text cut to the budget."""
    if snapshot.text_ordinal[row]:
        return snapshot.contents.passage(row, budget)
    text = snapshot.abstract(encode_file(snapshot.tree.texts.file.item(row)))
    return ShownPassage("", text if budget is None else budget.fit(text))


def section_of(snapshot: Snapshot, row: int) -> str:
    """Return the section of a passage; "" for an abstract."""
    return snapshot.contents.section(row) if snapshot.text_ordinal.item(row) else ""


def key_of(snapshot: Snapshot, row: int) -> bytes:
    """Return a short key of a text. Texts that look the same in a reply have the same key.

    The section does not count.
    """
    if snapshot.text_ordinal.item(row):
        text = snapshot.contents.passage_bytes(row)
    else:
        text = shown(snapshot, row).text.encode()
    return text if len(text) <= _SHORT else blake2b(text, digest_size=16).digest()


def vector_of(snapshot: Snapshot, scope: Scope, row: int) -> F32 | None:
    """Return the vector [dim] of a text; None if it is not embedded yet."""
    vectors, base = snapshot.vectors, scope.base_texts
    if vectors.vector_at[row] > snapshot.revision:
        return None
    found: F32 = vectors.base_raw[row] if row < base else vectors.tail_raw[row - base]
    return found
