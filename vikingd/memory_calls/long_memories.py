"""Memories of several passages in a recall: one result each, whole if there is room."""

from __future__ import annotations

from collections.abc import Sequence

from vikingd.domain.pinned_text import is_pinned
from vikingd.engine import Engine
from vikingd.memory import entries


def best_texts(texts: Sequence[int], memories: Sequence[int]) -> list[int]:
    """Return the first text of each memory.

    Args:
        texts: in order of score.
        memories: the id of the memory of each text.
    """
    first = dict(zip(reversed(memories), reversed(texts), strict=True))
    return [text for text, memory in zip(texts, memories, strict=True) if first[memory] == text]


def long_memory(engine: Engine, entry_id: int) -> tuple[str, bool] | None:
    """Return (the whole text of a memory, whether it is pinned) from the store; None if it is gone.

    The state of a memory has its id, so a text that is read later is still of this memory.
    """
    for stored in engine.store.memories([entry_id]):
        return entries.said(stored.passage), is_pinned(stored.passage)
    return None
