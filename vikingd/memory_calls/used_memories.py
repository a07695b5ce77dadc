"""Counts of the accesses of memories that were used; a memory is not used by being returned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vikingd.context.prompt_context import BuiltContext
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.contexts import ContextType
from vikingd.domain.rights import Caller, Right
from vikingd.domain.uri import context_type
from vikingd.engine import Engine

_READER = Degradation(
    DegradationReason.READER, "accesses are not counted: this process is a reader"
)


def count_used(engine: Engine, ids: Sequence[int]) -> Degraded:
    """Count one access of each memory.

    In a reader, count nothing and return a note that says so.
    """
    if not ids or engine.count_accesses(ids):
        return ()
    return (_READER,)


def readable_memories(engine: Engine, ids: Sequence[int], caller: Caller) -> list[int]:
    """Return the ids, out of `ids`, of memories that exist and that the caller may read.

    This reads the store.
    """
    if not ids:
        return []
    return [
        one.entry.id
        for one in engine.store.memories(ids)
        if context_type(one.uri) is ContextType.MEMORY and caller.may(Right.READ, one.uri)
    ]


def memories_shown(engine: Engine, built: BuiltContext) -> list[int]:
    """Return the ids of the memories that a built context shows, whole or in part.

    This reads the store.
    """
    shown: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for uri, start, end in built.shown:
        if context_type(uri) is ContextType.MEMORY:
            shown[uri].append((start, end))
    if not shown:
        return []
    return [
        one.entry.id
        for one in engine.store.memories_in(list(shown))
        if not one.ordinal
        or any(start < one.end and one.start < end for start, end in shown[one.uri])
    ]
