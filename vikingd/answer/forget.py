"""Which memories to forget: by their ids, or all to which some criteria apply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from viking_kernels import salience as kernel

from vikingd.answer.recall import known_of, weights_of
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.engine import Engine
from vikingd.memory import entries
from vikingd.memory.model import Memory, MemoryScope, Salience, StoredEntry, check_there
from vikingd.memory.remember import Forgetting


@dataclass(frozen=True, slots=True)
class ForgetQuery:
    """What to forget, checked: `ids`, or what all criteria that are given apply to.

    `older_than` and `now` are in microseconds since the epoch.
    """

    now: int
    ids: tuple[int, ...] = ()
    scope: MemoryScope = field(default_factory=MemoryScope)
    older_than: int | None = None
    below_salience: float | None = None


def chosen(engine: Engine, query: ForgetQuery, salience: Salience) -> list[Memory]:
    """The memories that would be forgotten, by URI and place; it reads the store.

    Raises:
        NotFound: one of the ids is not there.
        InvalidField: a salience is asked for, and all weights but that of meaning are 0.
    """
    if query.ids:
        memories = [
            _memory(stored)
            for stored in engine.store.memories(query.ids)
            if uris.context_type(stored.uri) is ContextType.MEMORY  # and was not moved away
        ]
        check_there(query.ids, {memory.entry.id for memory in memories})
        return memories
    memories = [
        _memory(stored)
        for root in sorted(query.scope.roots())
        for stored in engine.store.memories_below(root)
    ]
    if query.below_salience is not None:
        memories = _rated(memories, query.now, salience)
        memories = [m for m in memories if m.score < query.below_salience]
    if query.older_than is not None:
        memories = [m for m in memories if (m.entry.time or 0) < query.older_than]
    return memories


def forgetting(query: ForgetQuery, memories: Sequence[Memory]) -> Forgetting:
    """What forgets them; those that criteria chose stay where they are said again meanwhile."""
    wanted = {memory.entry.id: memory.entry for memory in memories}
    return Forgetting(wanted, unchanged=not query.ids)


def _memory(stored: StoredEntry) -> Memory:
    content = entries.shown(stored.passage)
    return Memory(stored.uri, content, 0.0, 0, stored.entry, stored.ordinal, stored.section)


def _rated(memories: Sequence[Memory], now: int, salience: Salience) -> list[Memory]:
    """With their salience without a query: the weights of what is left sum to 1."""
    weights = weights_of(salience)
    weights[kernel.SEMANTIC] = 0.0
    total = weights[: kernel.HALF_LIFE].sum()
    if total == 0:
        raise InvalidField("below_salience", "without a query every weight in force is 0")
    weights[: kernel.HALF_LIFE] /= total
    known = known_of([memory.entry for memory in memories])
    _, scores, _ = kernel.rank(np.zeros(len(memories)), known, weights, now)
    return [replace(m, score=s) for m, s in zip(memories, scores.tolist(), strict=True)]
