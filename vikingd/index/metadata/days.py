"""The day of each file: a column beside those of its metadata, which has no key for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any, Final

from vikingd.index.metadata.metadata_filters import Filter

_DAY: Final = "\0day"  # Metadata have no NUL.
_MICROSECONDS: Final = timedelta(days=1) // timedelta(microseconds=1)
_EPOCH: Final = date(1970, 1, 1).toordinal()


def with_day(metadata: Mapping[str, Any], time: int | None) -> Mapping[str, Any]:
    """Return the metadata of a file with its day in UTC; `time` is in microseconds."""
    return metadata if time is None else {**metadata, _DAY: time // _MICROSECONDS}


def within(spans: Iterable[tuple[date, date]]) -> Filter:
    """Return the filter for files of these days; each span is its first and its last day."""
    return Filter(
        "$or",
        tuple(
            Filter("$and", (_clause("$gte", first), _clause("$lte", last))) for first, last in spans
        ),
    )


def _clause(op: str, day: date) -> Filter:
    return Filter(op, path=_DAY, operands=(float(day.toordinal() - _EPOCH),))
