"""Bases that were replaced by a compaction, but are still in memory.

A snapshot references its base, and with it mapped files that are deleted. Calls end in seconds, so
many old bases mean that something keeps snapshots.
"""

from __future__ import annotations

import gc
import logging
import weakref

from vikingd.index.segment.segment_arrays import Segment

MOST = 4
"""The most old bases that running calls alone may hold; `log_if_many` acts on more."""

_LEVELS = 4  # of holders that the log names

_log = logging.getLogger(__name__)


class OldBases:
    """The replaced bases of one index, as weak references."""

    def __init__(self) -> None:
        self._replaced: list[tuple[int, weakref.ref[Segment]]] = []
        self._reported = -1  # generation of the base that the log has named

    def add(self, generation: int, base: Segment) -> None:
        """Add a base that has just been replaced."""
        self._replaced.append((generation, weakref.ref(base)))

    def count(self) -> int:
        """Return the number of replaced bases that are still in memory."""
        self._replaced = [one for one in self._replaced if one[1]() is not None]
        return len(self._replaced)

    def log_if_many(self) -> None:
        """If more than MOST old bases are in memory, collect garbage; if it does not help, log it.

        The log names the objects that reference the oldest base. Each base is logged once, because
        the search for these objects reads all objects of the process.
        """
        if self.count() <= MOST:
            return
        gc.collect()
        if self.count() <= MOST:
            return
        generation, reference = self._replaced[0]
        base = reference()
        if base is None or generation == self._reported:
            return
        self._reported = generation
        _log.warning(
            "%d replaced bases of the index are still open, and their deleted files take disk: "
            "generation %d is held by %s",
            self.count(),
            generation,
            ", ".join(_holders(base)) or "nothing that the garbage collector knows",
        )


def _holders(base: object) -> list[str]:
    """Return the names of the types and functions that reference an object, nearest first."""
    names: dict[str, None] = {}
    level, seen = [base], {id(base)}
    for _ in range(_LEVELS):
        skipped = {id(level), id(seen), id(names)}
        found = [one for one in gc.get_referrers(*level) if id(one) not in seen | skipped]
        level = [one for one in found if not _is_ours(one)]
        del found
        seen.update(map(id, level))
        names |= dict.fromkeys(map(_name, level))
        if not level:
            break
    return list(names)


def _is_ours(holder: object) -> bool:
    code = getattr(holder, "f_code", None)
    return code is not None and code.co_filename == __file__


def _name(holder: object) -> str:
    code = getattr(holder, "f_code", None)
    return type(holder).__name__ if code is None else f"{code.co_qualname}:{code.co_firstlineno}"
