"""A check that the open database still has its name in the directory."""

from __future__ import annotations

from pathlib import Path

_LOG = "-wal"


class OpenFiles:
    """The identity of the database's files while they are open.

    A deleted or replaced file still takes commits while it is open, but the next start does not
    see them. So a write is acknowledged only while the names lead to the open files.

    Args:
        database: the path of the database, which is open.
    """

    def __init__(self, database: Path) -> None:
        self._paths = (database, database.with_name(database.name + _LOG))
        self._known = [_identity(path) for path in self._paths]

    def missing(self) -> str:
        """Return the name of a file that was deleted or replaced; "" if there is none."""
        for number, path in enumerate(self._paths):
            found = _identity(path)
            if self._known[number] is None:  # the first commit makes the log
                self._known[number] = found
            elif found != self._known[number]:
                return path.name
        return ""


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
