"""Memories of several passages in a recall: one result each, with the whole text if it fits."""

from __future__ import annotations

from collections.abc import Sequence

from vikingd.domain.pinned_text import is_pinned
from vikingd.engine import Engine
from vikingd.memory import entries


def best_texts(texts: Sequence[int], memories: Sequence[int]) -> list[int]:
    """Keep the best text of each memory.

    Args:
        texts: the rows of texts, best first.
        memories: the id of the memory of each text.
    """
    first = dict(zip(reversed(memories), reversed(texts), strict=True))
    return [text for text, memory in zip(texts, memories, strict=True) if first[memory] == text]


def long_memory(engine: Engine, entry_id: int) -> tuple[str, bool] | None:
    """Read (the whole text of a memory, True if it is pinned) from the store; None if it is gone.

    The text is found by the id of the memory, so it belongs to this memory even if the file
    changed.
    """
    for stored in engine.store.memories([entry_id]):
        return entries.said(stored.passage), is_pinned(stored.passage)
    return None
