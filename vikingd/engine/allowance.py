"""Daily limits of a store: of the texts that are embedded, and of the tokens for descriptions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import NamedTuple, Protocol

from vikingd.access.quotas import DayCount
from vikingd.domain.checksums import opened, sealed

EmbeddingLimit = Callable[[], int]
"""A function that returns how many texts a store may embed in a UTC day; 0: no limit."""


class Counted(NamedTuple):
    """A kind of daily limit.

    Attributes:
        key: the key in the store's table `meta`; its value is [day since 1970-01-01, number used].
        reason: the message when the limit is reached, with the fields `limit` and `until`.
    """

    key: str
    reason: str


EMBEDDED_TEXTS = Counted(
    "embedded_in_day",
    "the tenant has reached its limit embedded_texts_per_day of {limit:,}; the other texts are "
    "embedded after {until} UTC, or when an operator raises the limit",
)
DESCRIBER_TOKENS = Counted(
    "described_in_day",
    "the limit tokens_per_day of {limit:,} in [describer] is used up; the other contexts are "
    "described after {until} UTC, or after a restart with a higher limit",
)


class Meta(Protocol):
    """The part of a store that this module uses."""

    def get_meta(self, key: str) -> bytes | None:
        """Return the value that a store has for a key; None if there is none."""


class DailyAllowance:
    """A count of the texts or tokens that a store has used today, with its limit.

    The count is stored in the same commit as the vectors or descriptions, so that a restart does
    not reset it. A day is a UTC day.

    Args:
        store: the store with the stored count.
        limit: returns the limit.
        clock: returns the time in seconds since 1970-01-01 UTC.
        counted: what is counted.
    """

    def __init__(
        self,
        store: Meta,
        limit: Callable[[], int],
        clock: Callable[[], float] = time.time,
        counted: Counted = EMBEDDED_TEXTS,
    ) -> None:
        self._store = store
        self._limit = limit
        self._clock = clock
        self._counted = counted
        self._read: DayCount | None = None

    @property
    def _day(self) -> DayCount:
        """The last stored or counted number with its day; read from the store at the first use."""
        if self._read is None:
            kept = opened(self._store.get_meta(self._counted.key))
            self._read = DayCount(*json.loads(kept)) if kept else DayCount()
        return self._read

    def left(self) -> int:
        """Return the number of texts or tokens that may still be used today."""
        return self._day.allowed(self._limit(), self._clock())

    def used(self) -> int:
        """Return the number of texts or tokens that were used today."""
        return self._day.used(self._clock())

    def count(self, number: int) -> None:
        """Add texts that were embedded, or tokens that were used, to today's count."""
        self._day.add(number, self._clock())

    def stored_count(self) -> Mapping[str, bytes]:
        """Return the count as {key: value}; the caller writes it to the store's table `meta`."""
        return {self._counted.key: sealed(json.dumps(astuple(self._day)).encode())}

    def reason(self) -> tuple[str, int]:
        """Return (message that the limit is reached, end of the day in microseconds).

        The time is counted from 1970-01-01 UTC.
        """
        end = DayCount.end(self._clock())
        until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(end))
        return self._counted.reason.format(limit=self._limit(), until=until), end * 1_000_000
