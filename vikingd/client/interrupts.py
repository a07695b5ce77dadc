"""Ctrl-C: its delay during a block, and an event that records it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block.

    KeyboardInterrupt within a method of a thread pool could leave the lock of the pool locked.

    Python raises KeyboardInterrupt only in the main thread, and only with a Python handler. In
    other cases nothing is delayed.
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
def recorded_interrupts(event: threading.Event) -> Iterator[None]:
    """Set `event` at Ctrl-C during the block, before KeyboardInterrupt is raised.

    Python drops a KeyboardInterrupt that is raised within a callback of the garbage collector. So
    code that waits for long must check the event as well.
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
