"""Waiting times from response headers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from vikingd.models.http.retry_headers import rate_limit_reset, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2999 07:28:00"}, None),  # without a zone
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
    ],
    ids=str,
)
def test_retry_after_is_a_number_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    """Milliseconds have priority over seconds, and an unknown form gives no waiting time."""
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date_to_come() -> None:
    """An HTTP date gives the time from now until that date."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < (retry_after({"retry-after": date}) or 0) <= 100


def test_the_later_reset_counts() -> None:
    """The wait is the latest reset of all exhausted limits."""
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m30s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "20ms",
    }
    assert rate_limit_reset(headers) == 90
    assert rate_limit_reset(headers | {"x-ratelimit-remaining-requests": "1"}) == 0.02
    assert rate_limit_reset({}) == 0
