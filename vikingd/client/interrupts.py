"""Ctrl-C: its deferral, and a note of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[None]:
    """Defer Ctrl-C until after the block: inside it, a pool's lock could stay locked.

    Python raises KeyboardInterrupt only in the main thread, and only with a Python handler. In
    other cases nothing is deferred.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[0])


@contextmanager
def noted(event: threading.Event) -> Iterator[None]:
    """Set an event at Ctrl-C, before KeyboardInterrupt is raised.

    Python drops an exception that is raised within a callback of the garbage collector. Code that
    waits for long looks at the event, too.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def note(*what: Any) -> None:
        event.set()
        before(*what)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
