"""The connections of a reader to the writer that has started it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from vikingd.telemetry.process_figures import ProcessFigures

STARTED = "started"

_log = structlog.stdlib.get_logger("vikingd")


class WriterLink:
    """A reader's connections to its writer; the reader ends at once when the writer has ended.

    Args:
        address: the writer's private unix socket, for calls.
        pipe: the pipe to the writer, for figures.

    Attributes:
        figures: returns the figures of this process; called on a thread. None before it serves.
    """

    def __init__(self, address: str, pipe: Connection) -> None:
        self.address = address
        self.figures: Callable[[], ProcessFigures] | None = None
        self._pipe = pipe
        self._lock = threading.Lock()
        threading.Thread(target=self._answer, name="writer", daemon=True).start()

    def started(self) -> None:
        """Tell the writer that this reader serves."""
        self._send(STARTED)

    def send_accesses(self, tenant: str, counts: Mapping[int, int]) -> None:
        """Let the writer count accesses of the memories of a tenant, by their ids."""
        self._send((tenant, dict(counts)))

    def _send(self, message: object) -> None:
        with self._lock:
            self._pipe.send(message)

    def _answer(self) -> None:
        """Answer the writer's requests for figures, and end the process after the writer's end."""
        try:
            while True:
                number = self._pipe.recv()
                self._send((number, self._asked()))
        except (EOFError, OSError):
            os._exit(1)

    def _asked(self) -> ProcessFigures | None:
        """Return the figures; None before this process serves, or after a failure."""
        try:
            return None if self.figures is None else self.figures()
        except Exception:  # this thread must go on, since it notices the writer's end
            _log.exception("no figures for the writer")
            return None
