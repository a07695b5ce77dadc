"""Shared data and helpers of the tests of conditional and masked writes."""

from __future__ import annotations

from typing import Any

from tests.store.store_helpers import vector
from vikingd.domain.contexts import Context, Draft
from vikingd.domain.store_changes import Committed
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.masks import Masked
from vikingd.store import Store

TEA = "viking://resources/tea.md"
NOTES = "viking://user/memories/notes.md"
DOCS = "viking://resources/docs"
TEXT = "# Tea\n\nOolong wants water of 90 degrees.\n\n## Milk\n\nNever with green tea.\n"
ONE, TWO = vector(1, 0), vector(0, 1)


def put(store: Store, *drafts: Draft) -> Committed:
    """Write drafts, masked or whole."""
    return store.put(
        [prepare(d) if d.update_mask is None else Masked.of(d) for d in drafts]
    ).result()


def told(context: Context) -> dict[str, Any]:
    """Return the fields of a context by their names in a mask."""
    return {
        "title": context.title,
        "abstract": context.abstract,
        "overview": context.overview,
        "content": context.content,
        "metadata": context.metadata,
        "time": context.time,
        "passages": [(p.section, p.start, p.end) for p in context.passages],
    }


def text_rows(store: Store, uri: str) -> list[tuple[int, str, bytes]]:
    """Return (id, text, vector) of the texts of a context."""
    return [
        (text.text_id, text.text, text.vector)
        for upsert in store.scan()
        if upsert.uri == uri
        for text in upsert.texts
    ]
