"""Temporary directories that are deleted even if their process is killed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vikingd.system import platform

_PREFIX = "vikingd-scratch-"
_MARK = ".vikingd-scratch"
"""The name of a file in each of these directories; a directory without it is never deleted."""

_NEW = 60.0  # seconds: a younger directory may not be locked yet


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """Make an empty temporary directory for the block; delete those of killed processes, too.

    A living process holds a lock on its directory; the kernel releases it when the process ends.
    """
    _delete_abandoned()
    with _signals_later():
        directory = tempfile.TemporaryDirectory(prefix=_PREFIX)
    try:
        handle = os.open(directory.name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            platform.lock(handle, wait=True)
            (Path(directory.name) / _MARK).touch()
            (path := Path(directory.name) / purpose).mkdir(mode=0o700)
            yield path
        finally:
            os.close(handle)
    finally:
        with _signals_later():
            directory.cleanup()


@contextmanager
def _signals_later() -> Iterator[None]:
    """Delay SIGTERM and SIGINT until the block has ended.

    Otherwise a signal could leave a directory half made or half deleted. A signal mask of this
    thread is not enough: the system may deliver the signal to another thread, and Python then runs
    the handler on this one. Each signal is raised once afterwards, even if it came several times.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run on the main thread
        return
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in dict.fromkeys(came):
            signal.raise_signal(each)


def _delete_abandoned() -> None:
    for mark in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_MARK}"):
        path = mark.parent
        with suppress(OSError):  # it belongs to another user, is locked, or is gone
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                status = os.fstat(handle)
                old = time.time() - status.st_mtime > _NEW
                if old and status.st_uid == os.geteuid() and platform.lock(handle):
                    shutil.rmtree(path)
            finally:
                os.close(handle)
