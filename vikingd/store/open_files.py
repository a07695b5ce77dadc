"""The files of the open database, and whether they are still whole and in their directory."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_LOG = "-wal"


class _Status(NamedTuple):
    """The identity and size of a file."""

    device: int
    inode: int
    size: int

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode


class OpenFiles:
    """The files of a database while it is open.

    A deleted or replaced file takes commits as long as it is open, and the next start does not see
    them. A truncated log takes them behind a gap, and the next start ends at the gap. So a write is
    acknowledged only if the names still lead to the open files, and no file became shorter since
    the last commit.

    Args:
        database: the path of the database, which is open.
    """

    def __init__(self, database: Path) -> None:
        self._paths = (database, database.with_name(database.name + _LOG))
        self._known = [_status(path) for path in self._paths]

    def remember(self) -> None:
        """Take the present sizes as those of the last commit. SQLite itself shortens its log."""
        for number, path in enumerate(self._paths):
            known, found = self._known[number], _status(path)
            if found and (known is None or found.identity == known.identity):
                self._known[number] = found

    def problem(self, *, with_sizes: bool = True) -> str:
        """Name the file that is lost and the reason; "" if all is well.

        Args:
            with_sizes: compare sizes too; only between the commits.
        """
        for number, path in enumerate(self._paths):
            known, found = self._known[number], _status(path)
            if known is None:  # the first commit makes the log
                continue
            if found is None or found.identity != known.identity:
                return f"{path.name} was deleted or replaced while the daemon had it open"
            if with_sizes and found.size < known.size:
                return f"{path.name} was truncated while the daemon had it open"
        return ""


def _status(path: Path) -> _Status | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _Status(status.st_dev, status.st_ino, status.st_size)
