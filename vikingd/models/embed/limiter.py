"""The requests that an endpoint gets at a time, within the rate limits that it tells of."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

LONGEST = 120.0
"""Seconds; no endpoint puts requests off for longer."""

_OVERLOADED = (429, 503)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


class Limiter:
    """A context in which a request is in flight; it is entered when the request may be sent.

    An overloaded endpoint halves the number of requests in flight, and each success raises it a
    little, as TCP does. When the endpoint names a time to wait, nobody enters before it has passed.
    All methods are for one event loop.

    Args:
        most: requests in flight.

    Attributes:
        limit: requests in flight now at most; at least 1.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._in_flight = 0
        self._resume_at = 0.0
        self._left = asyncio.Event()
        self.limit = float(most)

    async def __aenter__(self) -> None:
        while True:
            pause = self._resume_at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            elif self._in_flight >= int(self.limit):
                self._left.clear()
                await self._left.wait()
            else:
                break
        self._in_flight += 1

    async def __aexit__(self, *_: object) -> None:
        self._in_flight -= 1
        self._left.set()

    def heard(self, status: int, headers: Mapping[str, str]) -> None:
        """Take note of a response."""
        now = time.monotonic()
        if status in _OVERLOADED:
            if now >= self._resume_at:  # those that were refused together count once
                self.limit = max(1.0, self.limit / 2)
            self._resume_at = max(self._resume_at, now + _retry_after(headers))
        elif status < 300:
            self.limit = min(float(self._most), self.limit + 1 / self.limit)
            for what in ("requests", "tokens"):
                if headers.get(f"x-ratelimit-remaining-{what}", "").strip() == "0":
                    wait = _seconds(headers.get(f"x-ratelimit-reset-{what}", ""))
                    self._resume_at = max(self._resume_at, now + wait)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a refusal asks to wait; 0 where it does not say."""
    if "retry-after-ms" in headers:
        return _bounded(_number(headers["retry-after-ms"]) / 1000)
    said = headers.get("retry-after", "")
    try:
        return _bounded(parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):
        return _bounded(_number(said))


def _seconds(said: str) -> float:
    """Seconds of a duration such as 1s, 6m0s or 20ms; 0 of anything else."""
    match = _DURATION.fullmatch(said.strip())
    if match is None:
        return 0.0
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return _bounded(hours * 3600 + minutes * 60 + seconds + milliseconds / 1000)


def _number(said: str) -> float:
    try:
        return float(said)
    except ValueError:
        return 0.0


def _bounded(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST)
