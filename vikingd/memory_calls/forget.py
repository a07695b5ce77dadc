"""Forget: memories chosen by id or by criteria, removed in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from viking_kernels import salience as kernel

from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.pinned_text import is_pinned
from vikingd.domain.rights import Right
from vikingd.engine import Engine
from vikingd.lanes.call_pools import FutureBridge
from vikingd.lanes.queues import Runner
from vikingd.memory import entries
from vikingd.memory.memory_file_changes import Forgetting
from vikingd.memory.memory_types import Memory, MemoryScope, Salience, StoredEntry, check_ids
from vikingd.memory.protected_memories import spared
from vikingd.memory_calls.memory_search import known_of, weights_of

_PART = 64  # files of memories in one transaction, so that other writers have their turn


@dataclass(frozen=True, slots=True)
class ForgetQuery:
    """The memories to forget: `ids`, or those of the scope that meet all criteria; checked.

    Only memories that the caller of the scope may write are forgotten. `older_than` and `now` are
    in microseconds since the epoch.
    """

    now: int
    ids: tuple[int, ...] = ()
    scope: MemoryScope = field(default_factory=MemoryScope)
    older_than: int | None = None
    below_salience: float | None = None


class Spared(NamedTuple):
    """A memory that meets the criteria but is not forgotten, with the reason for people."""

    memory: Memory
    reason: str


class Chosen(NamedTuple):
    """The memories to forget, and the spared ones; each sorted by URI and position."""

    memories: list[Memory]
    spared: list[Spared]


class Forgetter:
    """Answers Forget; `salience` has the weights for `below_salience`."""

    def __init__(self, engine: Engine, salience: Salience) -> None:
        self._engine = engine
        self._salience = salience
        self._writes = FutureBridge()

    async def answer(self, query: ForgetQuery, run: Runner, *, dry_run: bool) -> tuple[Chosen, int]:
        """Forget memories; with `dry_run` only choose them.

        Return the forgotten or chosen memories, and the revision of the store afterwards.

        Raises:
            ReadOnly: this process is a reader. The other errors are those of `chosen`.
        """
        engine = self._engine
        if not dry_run:
            engine.check_writable()
        choice = await run.away(chosen, engine, query, self._salience)
        if dry_run:
            return choice, engine.snapshot.revision
        found = choice.memories
        forgotten = forgetting(query, found)
        for ids in [[m.entry.id for m in found]] if query.ids else _in_parts(found):
            run.left()
            done = await self._writes.result(
                engine.writable_store.rewrite_holders(
                    ids, forgotten, require_all=bool(query.ids), caller=query.scope.caller
                )
            )
        gone = [m for m in found if m.entry.id in forgotten.gone]
        return choice._replace(memories=gone), done.revision


def chosen(engine: Engine, query: ForgetQuery, salience: Salience) -> Chosen:
    """Read the store; return the memories to forget, and those that the criteria spare.

    Raises:
        NotFound, PermissionDenied: as `check_ids`.
        InvalidField: `below_salience` is set, and all weights but that of meaning are 0.
    """
    caller = query.scope.caller
    if query.ids:
        memories = [
            memory_of(stored)
            for stored in engine.store.memories(query.ids)
            if uris.context_type(stored.uri) is ContextType.MEMORY  # a move may have changed that
        ]
        check_ids(query.ids, {memory.entry.id: memory.uri for memory in memories}, caller)
        return Chosen(memories, [])
    found = [
        stored
        for part in sorted(query.scope.parts())
        for stored in engine.store.memories_below(part)
        if caller.may(Right.WRITE, stored.uri)
    ]
    memories = [memory_of(stored) for stored in found]
    if query.below_salience is not None:
        memories = _rated(memories, query.now, salience)
        memories = [m for m in memories if m.score < query.below_salience]
    if query.older_than is not None:
        memories = [m for m in memories if (m.entry.time or 0) < query.older_than]
    stored_of = {one.entry.id: one for one in found}
    choice = Chosen([], [])
    for memory in memories:
        cancellation.check()
        if reason := spared(stored_of[memory.entry.id]):
            choice.spared.append(Spared(memory, reason))
        else:
            choice.memories.append(memory)
    return choice


def forgetting(query: ForgetQuery, memories: Sequence[Memory]) -> Forgetting:
    """Return the rewrite of files that removes these memories.

    If they were chosen by criteria, it keeps a memory that was reinforced since it was read.
    """
    wanted = {memory.entry.id: memory.entry for memory in memories}
    return Forgetting(wanted, unchanged=not query.ids)


def memory_of(stored: StoredEntry) -> Memory:
    """Return a stored entry in the form of a reply's memory."""
    return Memory(
        stored.uri,
        entries.said(stored.passage),
        0.0,
        0,
        stored.entry,
        stored.ordinal,
        stored.section,
        pinned=is_pinned(stored.passage),
    )


def _rated(memories: Sequence[Memory], now: int, salience: Salience) -> list[Memory]:
    """Return memories with their salience without a query.

    The weight of meaning is 0, and the other weights are scaled to the sum 1.
    """
    weights = weights_of(salience)
    weights[kernel.SEMANTIC] = 0.0
    total = weights[: kernel.HALF_LIFE].sum()
    if total == 0:
        raise InvalidField("below_salience", "without a query every weight in force is 0")
    weights[: kernel.HALF_LIFE] /= total
    known = known_of([memory.entry for memory in memories])
    _, scores, _ = kernel.rank(np.zeros(len(memories)), known, weights, now)
    return [replace(m, score=s) for m, s in zip(memories, scores.tolist(), strict=True)]


def _in_parts(found: Sequence[Memory]) -> list[list[int]]:
    """Divide memories into groups of at most `_PART` files each; return the ids of each group.

    `found` is sorted by URI. Without memories the result is one empty group.
    """
    files = [[memory.entry.id for memory in of] for _, of in groupby(found, lambda m: m.uri)]
    return [
        [entry_id for ids in files[at : at + _PART] for entry_id in ids]
        for at in range(0, len(files) or 1, _PART)
    ]
