"""A look between the slices of long work: whether it is still wanted, and whose turn it is.

The code that does long work calls `step` in its loops. Who runs that work on a thread says with
`Looking` what a step does there; elsewhere it does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Thread(threading.local):
    look: Callable[[], None] | None = None


_here = _Thread()


def step() -> None:
    """Ends a slice of the work of this thread; raises where the work is not wanted any more."""
    if (look := _here.look) is not None:
        look()


class Looking:
    """Calls `look` at each step of this thread inside the `with`."""

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def __enter__(self) -> None:
        _here.look = self._look

    def __exit__(self, *_: object) -> None:
        _here.look = None
