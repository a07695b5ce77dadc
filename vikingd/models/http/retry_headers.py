"""The waiting times that a server names in its response headers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# Matches 1s, 6m0s, 1h30m and 20ms.
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, at least 0; None if it names no time.

    `retry-after-ms` has precedence over `Retry-After`, which is seconds or an HTTP date.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(milliseconds / 1000, 0.0)
    value = headers.get("retry-after", "")
    seconds = _number(value)
    if seconds is None:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):  # no date, or one without a zone
            return None
    return max(seconds, 0.0)


def rate_limit_reset(headers: Mapping[str, str]) -> float:
    """Return the seconds until an exhausted rate limit is reset; 0 while requests are left.

    OpenAI's headers name a limit of requests and one of tokens; the later reset counts.
    """
    waits = [
        _seconds(headers.get(f"x-ratelimit-reset-{limit}", ""))
        for limit in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{limit}", "").strip() == "0"
    ]
    return max(waits, default=0.0)


def _seconds(duration: str) -> float:
    """Return the seconds of a duration such as 1s, 6m0s or 20ms; 0 for any other text."""
    match = _DURATION.fullmatch(duration.strip())
    if match is None:
        return 0.0
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
