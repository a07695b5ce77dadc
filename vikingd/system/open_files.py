"""A check that the files of an open database are still the same."""

from __future__ import annotations

import os
from pathlib import Path

from vikingd.system.wal_frames import log_of


class OpenFiles:
    """Detects that the files of an open database were deleted, replaced or truncated.

    SQLite would still commit into a deleted or replaced file, and the next start would not see
    these commits. In a truncated log, later commits follow a gap, and the next start stops reading
    there. So a write is acknowledged only if the paths still lead to the open files, and no file
    became shorter since the last commit.
    """

    def __init__(self, database: Path) -> None:
        paths = (database, log_of(database))
        self._known = {path: status_of(path) for path in paths}

    def remember(self) -> None:
        """Record the present sizes for later checks; call this after each commit.

        SQLite may have shortened its log in the meantime.
        """
        for path, known in self._known.items():
            found = status_of(path)
            if found and (known is None or os.path.samestat(found, known)):
                self._known[path] = found

    def problem(self, *, with_sizes: bool = True) -> str:
        """Return a message that names a file deleted, replaced or truncated; "" if none was.

        Args:
            with_sizes: compare the sizes, too; this is possible only between commits.
        """
        for path, known in self._known.items():
            found = status_of(path)
            if known is None:  # the first commit makes the log
                continue
            if found is None or not os.path.samestat(found, known):
                return f"{path.name} was deleted or replaced while the daemon had it open"
            if with_sizes and found.st_size < known.st_size:
                return f"{path.name} was truncated while the daemon had it open"
        return ""


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of a file; None if it does not exist or cannot be accessed."""
    try:
        return path.stat()
    except OSError:
        return None
