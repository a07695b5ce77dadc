"""The protocols that a worker of the backlog needs: a store of texts, and an allowance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from vikingd.domain.changes import Waiting


class Store(Protocol):
    """The backlog and the vectors of texts, durable."""

    def backlog(self, limit: int, first: Sequence[int]) -> list[Waiting]:
        """Return waiting texts in the order of the work, `first` ones first."""

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that were made of texts with these digests."""

    def fill(
        self,
        vectors: Sequence[tuple[int, bytes]],
        digests: Mapping[int, bytes],
        meta: Mapping[str, bytes],
    ) -> Future[Any]:
        """Make the vectors of texts durable, by id, with the digests of the texts and `meta`."""


class Allowance(Protocol):
    """The texts that may be embedded in a day; for the worker's thread."""

    def left(self) -> int:
        """Return how many texts may still be embedded today."""

    def count(self, texts: int) -> None:
        """Count texts that were embedded."""

    def kept(self) -> Mapping[str, bytes]:
        """Return the count, to be stored with the vectors."""

    def why(self) -> tuple[str, int]:
        """Return why no text is left, and the end of the day in microseconds since the epoch."""
