"""Memories of several passages in a recall: one result each, with the whole text if it fits."""

from __future__ import annotations

from collections.abc import Sequence

from vikingd.domain.pinned_text import is_pinned
from vikingd.engine import Engine
from vikingd.memory import entries


def best_texts(texts: Sequence[int], memories: Sequence[int]) -> list[int]:
    """Return the row of the best text of each memory, best first.

    Args:
        texts: the rows of texts, best first.
        memories: the id of the memory of each text.
    """
    first = dict(zip(reversed(memories), reversed(texts), strict=True))
    return [text for text, memory in zip(texts, memories, strict=True) if first[memory] == text]


def long_memory(engine: Engine, entry_id: int) -> tuple[str, bool] | None:
    """Return (the whole text of a memory, True if it is pinned); None if the memory is gone.

    The store finds the text by the id of the memory, so a change of its file does no harm.
    """
    for stored in engine.store.memories([entry_id]):
        return entries.said(stored.passage), is_pinned(stored.passage)
    return None
