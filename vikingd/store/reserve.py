"""Some disk that is kept for what a full one must still allow: a start, and deletes."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from vikingd.store.faults import NO_ROOM

_NAME = "reserve"
_BYTES = 2 << 20

_log = logging.getLogger(__name__)


class Reserve:
    """A file of some MiB in the store's directory; its room is given up in need and taken again.

    While it is not held, the disk is full: what does not free room is refused, so that the little
    that is left stays for deletes.

    Attributes:
        is_held: whether the room is kept.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME
        self.is_held = False
        self._is_known = False  # that the disk is full
        self.take()

    def take(self) -> bool:
        """Takes the room where the disk has it; whether it is held now."""
        if self.is_held:
            return True
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(file, 0, _BYTES)
                self.is_held = True
            finally:
                os.close(file)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.release()
        if self.is_held and self._is_known:
            self._is_known = False
            _log.warning("the disk has room again: writes are taken")
        return self.is_held

    def release(self) -> None:
        """Gives the room up."""
        self._path.unlink(missing_ok=True)
        self.is_held = False
        if not self._is_known:
            self._is_known = True
            _log.warning("the disk is full: reads and deletes are answered, writes are refused")
