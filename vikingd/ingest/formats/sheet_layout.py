"""The layout of a sheet: its hidden rows and columns, and its merged cells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from openpyxl.utils.cell import range_boundaries

_MAX_COLUMNS = 1 << 14
_ROW = re.compile(rb"<(?:\w+:)?row\b([^>]*)>")
_COLUMN = re.compile(rb"<(?:\w+:)?col\b([^>]*)>")
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\b[^>]*\bref=\"([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})\"")
_ATTRIBUTE = re.compile(rb"\b(r|min|max|hidden|outlineLevel|collapsed|ht|width)=\"([^\"]*)\"")
_NO_SIZE = re.compile(rb"\b(?:ht|width)=\"0(?:\.0*)?\"")
_ZERO = re.compile(r"0(?:\.0*)?")
_FILTERED = re.compile(rb"<(?:\w+:)?filterColumn\b")


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a sheet; rows count from 1, columns from 0.

    Attributes:
        hidden_rows: the rows that the sheet does not show, without the rows that a filter or a
            folded group hides, since a click shows these.
        hidden_columns: the columns that the sheet does not show.
        merged: by first row, a list of (column, last row) of each merged cell over several rows.
    """

    hidden_rows: frozenset[int] = frozenset()
    hidden_columns: frozenset[int] = frozenset()
    merged: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


def sheet_layout(data: bytes) -> Layout:
    """Return the layout that the XML of a sheet states."""
    rows: set[int] = set()
    columns: set[int] = set()
    if b"hidden=" in data or _NO_SIZE.search(data):
        is_filtered = _FILTERED.search(data) is not None
        for found in () if is_filtered else _ROW.finditer(data):
            if (b"hidden" in found[1] or b"ht=" in found[1]) and (values := _hidden(found[1])):
                rows.add(int(values.get("r", "0")))
        for found in _COLUMN.finditer(data):
            if values := _hidden(found[1]):
                first, last = int(values.get("min", "1")), int(values.get("max", "0"))
                columns.update(range(first - 1, min(last, _MAX_COLUMNS)))
    merged: dict[int, list[tuple[int, int]]] = {}
    for found in _MERGED.finditer(data):
        left, top, _, bottom = range_boundaries(found[1].decode())
        if top and bottom and left and bottom > top:
            merged.setdefault(top, []).append((left - 1, bottom))
    return Layout(frozenset(rows), frozenset(columns), merged)


def _hidden(attributes: bytes) -> dict[str, str]:
    """Return the attributes of a hidden row or column; {} for one that is shown or folded."""
    values = {
        name.decode(): value.decode("latin-1") for name, value in _ATTRIBUTE.findall(attributes)
    }
    is_folded = values.get("outlineLevel", "0") not in ("", "0")
    is_flat = any(_ZERO.fullmatch(values.get(name, "")) for name in ("ht", "width"))
    is_hidden = (is_flat or values.get("hidden") in ("1", "true")) and not is_folded
    has_numbers = all(values.get(name, "1").isdecimal() for name in ("r", "min", "max"))
    return values if is_hidden and has_numbers else {}
