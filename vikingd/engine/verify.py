"""A comparison of the index with the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from vikingd.domain.errors import RevisionNotReached
from vikingd.index.snapshot import Snapshot
from vikingd.index.verify import Comparison
from vikingd.store.reads import Reads

_MAX_ATTEMPTS = 5000  # to find index and store at the same revision
_PAUSE = 0.002  # seconds between two attempts
_MAX_ALTERED = 100  # damaged contexts in a report


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a comparison: the numbers of compared items, and the differences."""

    ok: bool
    contexts: int
    texts: int
    vectors: int
    problems: tuple[str, ...]
    revision: int


def verify(store: Reads, newest: Callable[[], Snapshot]) -> VerifyReport:
    """Compare index and store row by row at one revision, and each context with its checksum.

    Args:
        store: the store.
        newest: returns the newest snapshot of the index.

    Raises:
        RevisionNotReached: there were so many commits that both never had the same revision.
    """
    for _ in range(_MAX_ATTEMPTS):
        snapshot = newest()
        with store.at_revision(snapshot.revision) as stored:
            if stored is not None:
                comparison = Comparison(snapshot)
                comparison.run(*stored)
                problems = comparison.problems + [
                    f"{uri} differs from what was written" for uri in store.altered(_MAX_ALTERED)
                ]
                return VerifyReport(
                    ok=not problems,
                    contexts=comparison.contexts,
                    texts=comparison.texts,
                    vectors=comparison.vectors,
                    problems=tuple(problems),
                    revision=snapshot.revision,
                )
        time.sleep(_PAUSE)
    raise RevisionNotReached(
        "there were too many writes: index and store never had the same revision; try again"
    )
