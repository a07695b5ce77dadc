"""Accesses of memories: those of used memories, not of returned ones."""

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
    """Count one access of each memory. A reader cannot count, and the note says so."""
    if not ids or engine.count_accesses(ids):
        return ()
    return (_READER,)


def named(engine: Engine, ids: Sequence[int], caller: Caller) -> list[int]:
    """Return the ids of memories that exist and that the caller may read; it reads the store."""
    if not ids:
        return []
    return [
        one.entry.id
        for one in engine.store.memories(ids)
        if context_type(one.uri) is ContextType.MEMORY and caller.may(Right.READ, one.uri)
    ]


def placed(engine: Engine, built: BuiltContext) -> list[int]:
    """Return the ids of the memories whose text is in a context; this reads the store."""
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
