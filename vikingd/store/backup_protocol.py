"""The protocol of a backup: a copy of a store that is sent to a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Backup(Protocol):
    """A copy of a store at one revision; `size` is in bytes."""

    revision: int
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the copy, one block after the other."""

    def close(self) -> None:
        """Delete the copy."""
