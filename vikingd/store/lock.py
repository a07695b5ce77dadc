"""The lock of a store's directory: one process writes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vikingd.domain.errors import StoreInUse


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Holds the store as long as the context lasts.

    Raises:
        StoreInUse: another one holds it, in this process or another one.
    """
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreInUse(f"the store {directory} is in use by another vikingd") from None
        yield
    finally:
        os.close(lock)
