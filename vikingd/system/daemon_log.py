"""The log file of a user's daemon, and the lines of its last start."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from vikingd import __version__
from vikingd.system.regular_files import descriptor_of
from vikingd.system.user_paths import user_log

_STARTS = 'event="the daemon of the user starts"'
_LARGEST = 1 << 20  # bytes; a start moves a larger log aside
_READ = 1 << 16  # bytes at the end of the log that are read


def open_log() -> int:
    """Append a line about a new start to the log, and return the log's descriptor.

    A log of more than 1 MiB is renamed to `daemon.log.1` first, which replaces an older file of
    that name. So the size of both logs is bounded.

    Raises:
        ValueError: the user has no home directory.
        OSError: the file cannot be written.
    """
    path = user_log()
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    if os.path.exists(path) and os.path.getsize(path) > _LARGEST:
        os.replace(path, f"{path}.1")
    log = descriptor_of(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    now = datetime.now(UTC).isoformat()
    os.write(log, f"timestamp={now} level=info {_STARTS} version={__version__}\n".encode())
    return log


def last_lines(count: int) -> list[str]:
    """Return the last lines of the log since the last start, at most `count`; [] without a log.

    Raises:
        ValueError: the user has no home directory.
    """
    try:
        log = descriptor_of(user_log())
    except OSError:
        return []
    try:
        size = os.fstat(log).st_size
        text = os.pread(log, _READ, max(0, size - _READ)).decode(errors="replace")
    finally:
        os.close(log)
    _, _, last = text.rpartition(_STARTS)
    return last.splitlines()[1:][-count:]
