"""Regular files: opened without waiting, and read up to a limit.

To open a FIFO without a writer would block, and a device may have no end. Both are refused.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

SMALL = 1 << 20
"""The most bytes of a file with settings, keys, certificates or a mark."""

_NO_WAITING = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def descriptor_of(path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a regular file with the flags of open(2), and return its descriptor.

    Raises:
        OSError: the path cannot be opened, or is no regular file. `strerror` gives the reason.
    """
    try:
        descriptor = os.open(path, flags | _NO_WAITING, mode)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EISDIR):  # a FIFO, a socket or a directory
            raise _not_regular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def open_regular(path: str | os.PathLike[str], *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: the path cannot be opened, is no regular file, or is a symbolic link although
            `follow` is False. `strerror` gives the reason.
    """
    if not follow and os.path.islink(path):
        raise OSError(errno.ELOOP, "is a symbolic link", os.fspath(path))
    return open(descriptor_of(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW)), "rb")


def read_regular(path: str | os.PathLike[str], limit: int = SMALL, *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        OSError: as `open_regular`, or the file has more than `limit` bytes.
    """
    with open_regular(path, follow=follow) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"has more than {limit:,} bytes", os.fspath(path))
    return data


def read_text(path: str | os.PathLike[str], limit: int = SMALL, errors: str = "strict") -> str:
    """Return the text of a regular file in UTF-8.

    Raises:
        OSError: as `read_regular`.
        UnicodeDecodeError: the file is not UTF-8.
    """
    return read_regular(path, limit).decode("utf-8", errors)


def check_regular(path: Path) -> None:
    """Raise OSError if a path is neither a regular file nor missing.

    Call this before a library opens the file by its name.

    Raises:
        OSError: the path is something else, or cannot be accessed.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path)


def _not_regular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", os.fspath(path))
