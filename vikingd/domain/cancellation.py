"""Checks within long work: they stop it if it is cancelled or late, and let other work take turns.

Code that does long work calls `check` in its loops. The code that runs the work on a thread sets
the check of that thread with `Checking`. Without one, `check` does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Thread(threading.local):
    look: Callable[[], None] | None = None


_here = _Thread()


def check() -> None:
    """Call the check of this thread. It raises an error if the work must stop."""
    if (look := _here.look) is not None:
        look()


class Checking:
    """A context manager in which each `check` of this thread calls `look`."""

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def __enter__(self) -> None:
        _here.look = self._look

    def __exit__(self, *_: object) -> None:
        _here.look = None
