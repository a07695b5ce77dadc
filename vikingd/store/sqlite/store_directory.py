"""The directory of a store: its lock, and its reserve of disk space."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vikingd.domain.errors import StoreInUse
from vikingd.store.sqlite.sqlite_faults import NO_ROOM
from vikingd.system import platform
from vikingd.system.open_files import status_of
from vikingd.system.regular_files import descriptor_of

_RESERVE = "reserve"
_LEAST, _MOST = 256 << 10, 2 << 20  # bytes of the reserve
_BLOCK = 512  # bytes, of st_blocks

_log = logging.getLogger(__name__)


@contextmanager
def hold_lock(directory: Path) -> Iterator[None]:
    """Lock a store's directory for the duration of the block.

    Raises:
        StoreInUse: this process or another one has locked it already.
    """
    lock = descriptor_of(directory / "lock", os.O_RDWR | os.O_CREAT)
    try:
        if not platform.lock(lock):
            raise StoreInUse(
                f"the store {directory} is in use by another vikingd; stop it or use --reader"
            )
        yield
    finally:
        os.close(lock)


class Reserve:
    """A file that reserves disk space, and is deleted to free that space when the disk is full.

    It is as large as the database, since no delete needs more; at least 256 KiB, at most 2 MiB.
    Without this file the disk counts as full: only deletes are accepted, so that they can use the
    space that is left.
    """

    def __init__(self, directory: Path, database: Path) -> None:
        self._path = directory / _RESERVE
        self._database = database
        self._bytes = 0
        self.is_held = False
        self._is_logged = False  # whether the log says that the disk is full
        self.take()

    def take(self) -> bool:
        """Reserve the disk space that the database needs now; return False if the disk is full."""
        found = status_of(self._database)
        wanted = max(_LEAST, min(_MOST, found.st_size if found else 0))
        if self.is_held and wanted <= self._bytes:
            return True
        try:
            file = descriptor_of(self._path, os.O_RDWR | os.O_CREAT)
            try:
                held = os.fstat(file).st_blocks * _BLOCK
                if held < wanted:
                    platform.allocate(file, wanted)
                self._bytes = max(held, wanted)
                self.is_held = True
            finally:
                os.close(file)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.release()
        if self.is_held and self._is_logged:
            self._is_logged = False
            _log.warning("the disk has room again: writes are accepted")
        return self.is_held

    def release(self) -> None:
        """Delete the file, which frees its disk space."""
        self._path.unlink(missing_ok=True)
        self.is_held = False
        if not self._is_logged:
            self._is_logged = True
            _log.warning("the disk is full: writes are refused, reads and deletes go on")
