"""The day of each file as hidden metadata, so that filters can select files by day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any, Final

from vikingd.index.metadata.metadata_filters import Filter

_DAY: Final = "\0day"  # Keys of metadata have no NUL.
_MICROSECONDS: Final = timedelta(days=1) // timedelta(microseconds=1)
_EPOCH: Final = date(1970, 1, 1).toordinal()


def with_day(metadata: Mapping[str, Any], time: int | None) -> Mapping[str, Any]:
    """Return the metadata with the day of `time` under a key that users cannot name.

    `time` is in microseconds since 1970-01-01 UTC; with None the metadata is returned unchanged.
    """
    return metadata if time is None else {**metadata, _DAY: time // _MICROSECONDS}


def within(spans: Iterable[tuple[date, date]]) -> Filter:
    """Return a filter for files whose day is in one of the spans (first day, last day)."""
    return Filter(
        "$or",
        tuple(
            Filter("$and", (_clause("$gte", first), _clause("$lte", last))) for first, last in spans
        ),
    )


def _clause(op: str, day: date) -> Filter:
    return Filter(op, path=_DAY, operands=(float(day.toordinal() - _EPOCH),))
