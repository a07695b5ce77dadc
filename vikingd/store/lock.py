"""The lock of a store's directory: only one process writes the store."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vikingd.domain.errors import StoreInUse


@contextmanager
def hold_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a store's directory within the block.

    Raises:
        StoreInUse: this process or another one holds the lock already.
    """
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreInUse(
                f"the store {directory} is in use by another vikingd; stop it or use --reader"
            ) from None
        yield
    finally:
        os.close(lock)
