"""Results as sequences of hits, dicts and tables."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")

_SHOWN = 10
_WIDTH = 72  # characters of a text


class Rows(Generic[T]):
    """A result with hits, best first: `found[0]`, `len(found)`, `for hit in found`."""

    __slots__ = ()

    @abstractmethod
    def __iter__(self) -> Iterator[T]: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return tuple(self)[at]

    def __repr__(self) -> str:
        count = len(self)
        lines = [f"<{type(self).__name__}: {count} result{'s' * (count != 1)}>"]
        lines += [_line(hit) for hit in self[:_SHOWN]]
        if count > _SHOWN:
            lines.append(f"  ... {count - _SHOWN} more")
        return "\n".join(lines)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the hits as dicts that json.dumps takes.

        Each has a `text`, or a `content` if it is a memory. Enums are their names in lower case,
        times ISO 8601 text, durations seconds, and vectors lists of floats. Parts and traces are
        left out where there are none.
        """
        return [_row(hit) for hit in self]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the hits as a DataFrame: a row for each hit, a column for each attribute.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "pandas is not installed; install it with: pip install pandas, or use to_dicts()"
            ) from None
        frame = pandas.DataFrame(self.to_dicts())
        if "time" in frame:
            frame["time"] = pandas.to_datetime(frame["time"], utc=True, format="ISO8601")
        return frame


_OPTIONAL = ("parts", "trace")


def _row(hit: Any) -> dict[str, Any]:
    row: dict[str, Any] = _plain(hit)
    if "content" not in row:
        row.setdefault("text", hit.text)
    return row


def _plain(value: Any) -> Any:
    """Return a value of a hit as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {
            name: _plain(one) for name, one in named if one is not None or name not in _OPTIONAL
        }
    match value:
        case Enum():
            return value.name.lower()
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return array("f", value).tolist()
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
    return value


def _line(hit: Any) -> str:
    """Return a hit as a line: score, URI and the beginning of its text."""
    text = " ".join((getattr(hit, "text", "") or getattr(hit, "content", "")).split())
    shown = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
    return f"  {hit.score:.3f}  {hit.uri}" + (f"  {shown}" if shown else "")
