"""The lock file of a user's daemon, in the directory of its socket.

The daemon inherits the descriptor of the locked file from the process that starts it, and holds the
lock from before its start until its process has ended, however it ends. So a free lock means that
no daemon starts, runs or stops. The file has the process id and the version of the daemon.
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from vikingd.system import platform
from vikingd.system.regular_files import descriptor_of

_FILE = "daemon.lock"
_CONNECT = 1.0  # seconds


class Holder(NamedTuple):
    """The process that holds the lock. Its id is 0 for the moment before the id is written."""

    pid: int
    version: str


def take(directory: str) -> int | None:
    """Lock the file, and return its descriptor, which holds the lock; None if it is locked.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor = descriptor_of(os.path.join(directory, _FILE), os.O_RDWR | os.O_CREAT)
    if not platform.lock(descriptor):
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)  # a process id of a former holder may belong to another process
    return descriptor


def write_holder(descriptor: int, holder: Holder) -> None:
    """Write the process that holds the lock into the lock file."""
    os.pwrite(descriptor, f"{holder.pid} {holder.version}\n".encode(), 0)


def holder_in(directory: str) -> Holder | None:
    """Return the process that holds the lock in a directory; None if the lock is free.

    Raises:
        OSError: the file cannot be opened.
    """
    try:
        descriptor = descriptor_of(os.path.join(directory, _FILE))
    except FileNotFoundError:
        return None
    try:
        if platform.lock(descriptor, shared=True):
            return None
        words = os.pread(descriptor, 256, 0).decode(errors="replace").split()
    finally:
        os.close(descriptor)
    return Holder(int(words[0]), words[1]) if len(words) == 2 else Holder(0, "")


def listens(path: str) -> bool:
    """Return True if a process listens on the unix socket at a path.

    Raises:
        OSError: the connection fails for another reason, for example because the user may not
            connect.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT)
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except (BlockingIOError, TimeoutError):  # it listens, and has many connections to accept
            return True
    return True
