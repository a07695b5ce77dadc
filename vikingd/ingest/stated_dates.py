"""Dates in front matter as people write them; an ambiguous date is not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_CHARS = 64
_MAX_SHOWN = 40

_MONTHS = {
    name[:size]: number
    for number, name in enumerate(
        (
            *("january", "february", "march", "april", "may", "june"),
            *("july", "august", "september", "october", "november", "december"),
        ),
        start=1,
    )
    for size in {3, len(name)}
} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<y>\d{4})"
_CLOCK = (
    r"(?:(?:,|\s+at)?[\sT]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})"
    r"(?:[.,](?P<part>\d{1,9}))?)?(?:\s*(?P<half>[ap])\.?m\.?)?)?"
    r"(?:\s*(?P<zone>z|utc|gmt|(?:utc|gmt)?\s*(?P<sign>[-+])(?P<off>\d{1,2})(?::?(?P<offm>\d{2}))?))?"
)
_WEEKDAY = r"(?:(?:mon|tue|tues|wed|wednes|thu|thurs|fri|sat|satur|sun)(?:day)?\.?,?\s+)?"
_FORMS = [
    re.compile(form + _CLOCK, re.IGNORECASE)
    for form in (
        r"(?P<y>\d{4})(?P<by>[-/.])(?P<m>\d{1,2})(?P=by)(?P<d>\d{1,2})",
        r"(?P<y>\d{4})\s*[年년]\s*(?P<m>\d{1,2})\s*[月월]\s*(?P<d>\d{1,2})\s*[日号일]",
        rf"{_WEEKDAY}{_MONTH}[\s-]+{_DAY}(?:,\s*|[\s-]+){_YEAR}",
        rf"{_WEEKDAY}{_DAY}(?:\s+of)?[\s-]+{_MONTH},?[\s-]+{_YEAR}",
        rf"{_YEAR}[\s-]+{_MONTH}[\s-]+{_DAY}",
        r"(?P<a>\d{1,2})(?P<by>[-/.])(?P<b>\d{1,2})(?P=by)(?P<y>\d{4})",
    )
]


def time_of(date: object) -> int | None:
    """Convert a stated date to microseconds since the epoch; UTC if it names no zone.

    None if there is no date, or it cannot be read, see `fault`.
    """
    return _microseconds(str(date)) if isinstance(date, str | int) else None


def fault(date: object) -> str:
    """Return why a stated date cannot be read; "" if it can, or there is none."""
    if date is None or date == "" or time_of(date) is not None:
        return ""
    shown = str(date)
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[: _MAX_SHOWN - 1]}…"
    return f"no day can be read from {shown!r}; write it as 2024-05-31"


def _microseconds(text: str) -> int | None:
    text = " ".join(text.split())
    if not text or len(text) > _MAX_CHARS or not any(map(str.isdecimal, text)):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        moments = set(_moments(text))
        if len(moments) != 1:
            return None
        (found,) = moments
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return (found - _EPOCH) // timedelta(microseconds=1)


def _moments(text: str) -> Iterator[datetime]:
    """Yield each moment that a text can mean; "03/04/2024" can mean two."""
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        parts = match.groupdict()
        if "a" in parts:
            days = [(int(parts["a"]), int(parts["b"])), (int(parts["b"]), int(parts["a"]))]
        else:
            month = parts.get("month")
            days = [(_MONTHS[month.lower()] if month else int(parts["m"]), int(parts["d"]))]
        for month_number, day in days:
            try:
                yield _moment(int(parts["y"]), month_number, day, parts)
            except ValueError:
                continue


def _moment(year: int, month: int, day: int, parts: dict[str, str | None]) -> datetime:
    hour = int(parts["hour"] or 0)
    if half := parts["half"]:
        if not 1 <= hour <= 12:
            raise ValueError("no hour of twelve")
        hour = hour % 12 + (12 if half in "pP" else 0)
    zone = None
    if parts["sign"]:
        offset = timedelta(hours=int(parts["off"] or 0), minutes=int(parts["offm"] or 0))
        zone = timezone(offset if parts["sign"] == "+" else -offset)
    elif parts["zone"]:
        zone = UTC
    part = int((parts["part"] or "0")[:6].ljust(6, "0"))
    return datetime(
        year, month, day, hour, int(parts["minute"] or 0), int(parts["second"] or 0), part, zone
    )
