"""A ranking of memories in which facts that hold now come before those that they replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from viking_kernels.arrays import F64

from vikingd.answer.texts_by_row import name_of, section_of, shown
from vikingd.domain.contexts import Entry
from vikingd.index.snapshot import Snapshot
from vikingd.memory import entries
from vikingd.memory.episodes import is_turn
from vikingd.memory.memory_types import is_earlier
from vikingd.memory.relations import Asked, relations_of
from vikingd.memory_calls.newest_first import NEARLY

_PAST = 0.5
"""The share that is left of the score of a memory that was replaced by a newer one."""

_IN_JOURNAL = "/journal/"


class Found(NamedTuple):
    """A memory that a search found.

    `time` is the time when it was said; facts have that of the message that states them.
    """

    uri: str
    section: str
    time: int | None


def found_in(snapshot: Snapshot, rows: Sequence[int], of: Sequence[Entry]) -> list[Found]:
    """Return memories by the rows of their texts and their entries."""
    return [
        Found(name_of(snapshot, row)[0], section_of(snapshot, row), one.time)
        for row, one in zip(rows, of, strict=True)
    ]


def known_facts(asked: Asked, snapshot: Snapshot, rows: Sequence[int]) -> list[int]:
    """Return the indices of the present facts that answer a question about a relation.

    "The user works at Acme." answers "where do I work?", and the language does not matter.
    """
    if not asked.keys:
        return []
    return [
        i
        for i, row in enumerate(rows)
        if _IN_JOURNAL not in name_of(snapshot, row)[0]
        and not is_earlier(section_of(snapshot, row))
        and any(
            fact.holds and fact.key in asked.keys
            for fact in relations_of(entries.said(shown(snapshot, row).text))
        )
    ]


def ranked_now(asked: Asked, found: Sequence[Found], known: Sequence[int], scores: F64) -> F64:
    """Return the scores of memories [n], changed so that present facts come before replaced ones.

    - A memory below "Earlier" counts half. If it matches the question nearly as well as the best
      one, the turn that said it counts half, too, unless the question is about the past.
    - A known fact comes before all memories that are not newer than it.

    Args:
        asked: the question.
        found: the memories.
        known: the indices of the facts that answer it.
        scores: the scores of the memories, in [0, 1].
    """
    scores, least = scores.copy(), NEARLY * scores.max(initial=0.0)
    replaced = [i for i, one in enumerate(found) if is_earlier(one.section)]
    if replaced and not asked.is_past:
        times = {found[i].time for i in replaced if scores[i] >= least} - {None}
        replaced += (i for i, one in enumerate(found) if one.time in times and is_turn(one.uri))
    scores[replaced] *= _PAST
    for i in known:
        time = found[i].time or 0
        before = [
            score for one, score in zip(found, scores, strict=True) if (one.time or 0) <= time
        ]
        scores[i] = np.nextafter(max(before), 1.0)
    return scores
