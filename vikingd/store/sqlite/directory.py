"""The directory of a store: its lock, the files of its open database, and its reserve of room."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vikingd.domain.errors import StoreInUse
from vikingd.store.sqlite.faults import NO_ROOM
from vikingd.system import platform
from vikingd.system.regular_files import descriptor_of

_LOG = "-wal"
_RESERVE = "reserve"
_BYTES = 2 << 20  # of the reserve
_BLOCK = 512  # bytes, of st_blocks

_log = logging.getLogger(__name__)


@contextmanager
def hold_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a store's directory within the block.

    Raises:
        StoreInUse: this process or another one holds the lock already.
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


class OpenFiles:
    """The files of a database while it is open.

    A deleted or replaced file takes commits as long as it is open, and the next start does not see
    them. A truncated log takes them behind a gap, and the next start ends at the gap. So a write is
    acknowledged only if the names still lead to the open files, and no file became shorter since
    the last commit.
    """

    def __init__(self, database: Path) -> None:
        paths = (database, database.with_name(database.name + _LOG))
        self._known = {path: _status(path) for path in paths}

    def remember(self) -> None:
        """Take the present sizes as those of the last commit. SQLite itself shortens its log."""
        for path, known in self._known.items():
            found = _status(path)
            if found and (known is None or os.path.samestat(found, known)):
                self._known[path] = found

    def problem(self, *, with_sizes: bool = True) -> str:
        """Name the file that is lost and the reason; "" if all is well.

        Sizes can be compared between the commits only.
        """
        for path, known in self._known.items():
            found = _status(path)
            if known is None:  # the first commit makes the log
                continue
            if found is None or not os.path.samestat(found, known):
                return f"{path.name} was deleted or replaced while the daemon had it open"
            if with_sizes and found.st_size < known.st_size:
                return f"{path.name} was truncated while the daemon had it open"
        return ""


class Reserve:
    """A file of 2 MiB in the store's directory, deleted to get room when the disk is full.

    While the reserve is not held, the disk counts as full: only deletes are accepted, so that they
    have the little room that is left.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _RESERVE
        self.is_held = False
        self._is_logged = False  # whether the log says that the disk is full
        self.take()

    def take(self) -> bool:
        """Reserve the room if the disk has it; return whether it is held now."""
        if self.is_held:
            return True
        try:
            file = descriptor_of(self._path, os.O_RDWR | os.O_CREAT)
            try:
                if os.fstat(file).st_blocks * _BLOCK < _BYTES:
                    platform.allocate(file, _BYTES)
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
        """Delete the file, to free its room."""
        self._path.unlink(missing_ok=True)
        self.is_held = False
        if not self._is_logged:
            self._is_logged = True
            _log.warning("the disk is full: writes are refused, reads and deletes go on")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
