"""The texts that a store may embed in a day."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Protocol

from vikingd.access.quotas import EmbeddingDay
from vikingd.domain.checksums import opened, sealed

EmbeddingLimit = Callable[[], int]
"""Returns the texts that a store may embed in a UTC day, 0 without a limit; for any thread."""

_KEY = "embedded_in_day"  # of the store's meta: [day since 1970-01-01, texts embedded in it]


class Meta(Protocol):
    """The values of a store by key."""

    def get_meta(self, key: str) -> bytes | None:
        """Return a value; None if there is none."""


class DailyAllowance:
    """The number of texts that a store may still embed today, by the limit of its tenant.

    The count is stored with the vectors, so that a restart does not reset it. A day is a UTC day.

    Args:
        store: the store with the stored count.
        limit: returns the limit.
        clock: returns the time in seconds since 1970-01-01 UTC.
    """

    def __init__(
        self, store: Meta, limit: EmbeddingLimit, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._limit = limit
        self._clock = clock
        self._read: EmbeddingDay | None = None

    @property
    def _day(self) -> EmbeddingDay:
        """The count; it is read at its first use, because most stores of many embed nothing."""
        if self._read is None:
            kept = opened(self._store.get_meta(_KEY))
            self._read = EmbeddingDay(*json.loads(kept)) if kept else EmbeddingDay()
        return self._read

    def left(self) -> int:
        """Return how many texts may still be embedded today."""
        limit = self._limit()
        return self._day.allowed(limit, self._clock())

    def count(self, texts: int) -> None:
        """Count texts that were embedded."""
        self._day.embedded(texts, self._clock())

    def kept(self) -> Mapping[str, bytes]:
        """Return the count as a key and value for the table meta of the store."""
        return {_KEY: sealed(json.dumps(astuple(self._day)).encode())}

    def why(self) -> tuple[str, int]:
        """Return why no text is left, and the end of the day in microseconds since the epoch."""
        end = EmbeddingDay.end(self._clock())
        until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(end))
        reason = (
            f"the tenant has reached its limit embedded_texts_per_day of {self._limit():,}; the "
            f"other texts are embedded after {until} UTC, or when an operator raises the limit"
        )
        return reason, end * 1_000_000
