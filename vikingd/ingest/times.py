"""Times as microseconds since the epoch and as ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(text: str) -> int | None:
    """Return ISO 8601 as microseconds since the epoch, None for ""; UTC if it names no zone.

    Raises:
        ValueError: the text is not ISO 8601.
    """
    if not text:
        return None
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(microseconds=1)


def iso(time: int) -> str:
    """Return microseconds since the epoch as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")
