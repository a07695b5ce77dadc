"""XLSX files: a heading and tables for each sheet."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO

import openpyxl
from openpyxl.chartsheet import Chartsheet

from vikingd.ingest.formats.document import Document, Failed, Pages, heading, lost_parts, table
from vikingd.ingest.formats.zips import BROKEN, checked, stated

_MAX_COLUMNS = 1000
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
# A cell with a formula whose value no program has computed yet.
_NOT_COMPUTED = re.compile(rb"</f>\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>")


def read(file: BinaryIO) -> Document:
    """Read an XLSX file.

    Formulas have the values that the last program computed. An empty row ends a table.

    Raises:
        Failed: it is encrypted or damaged, or it has no text.
    """
    with checked(file) as archive:
        title, changed = stated(archive)
        formulas = _not_computed(archive)
    file.seek(0)
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (KeyError, ValueError, TypeError, AttributeError, SyntaxError, *BROKEN) as error:
        raise Failed(f"is damaged: {error}") from None
    lost = []
    if formulas:
        have = "formula has" if formulas == 1 else "formulas have"
        lost.append(f"{formulas:,} {have} no value: open and save the file in its program")
    failed: list[tuple[str, str]] = []
    pages = Pages()
    has_text = False
    for name in book.sheetnames:
        sheet = book[name]
        pages.add(heading(2, name))
        if isinstance(sheet, Chartsheet):
            failed.append((f"sheet {name!r}", "it is a chart"))
            continue
        try:
            sheet.reset_dimensions()
            for rows in _tables(sheet):
                has_text = True
                pages.add(table(rows))
        except Failed:
            raise
        except Exception as error:  # The parser has no class for the errors of a damaged sheet.
            failed.append((f"sheet {name!r}", f"{type(error).__name__}: {error}"))
    if not has_text:
        raise Failed("has no text" if not failed else f"is damaged: {failed[0][1]}")
    metadata: dict[str, str | int] = {"format": "xlsx", "sheets": len(book.sheetnames)}
    return Document(pages.text(), title, metadata, changed, [*lost, *lost_parts(failed)])


def _tables(sheet: Any) -> Iterator[list[list[str]]]:
    """Yield the rows of each table without empty columns at its sides."""
    rows: list[list[str]] = []
    budget = Pages()
    for row in sheet.iter_rows():
        cells = [_shown(cell) for cell in row[:_MAX_COLUMNS]]
        if any(_shown(cell) for cell in row[_MAX_COLUMNS:]):
            raise Failed(f"has a sheet with more than {_MAX_COLUMNS:,} columns")
        if any(cells):
            rows.append(cells)
            budget.add(" ".join(cells))
        elif rows:
            yield _trimmed(rows)
            rows = []
    if rows:
        yield _trimmed(rows)


def _trimmed(rows: Sequence[list[str]]) -> list[list[str]]:
    first = min(next(i for i, cell in enumerate(row) if cell) for row in rows)
    width = max(max(i for i, cell in enumerate(row) if cell) for row in rows) + 1
    return [row[first:width] for row in rows]


def _shown(cell: Any) -> str:
    """Return the value of a cell as text."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        is_day = value.time() == time()
        return value.date().isoformat() if is_day else value.isoformat(" ", "seconds")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, int | float):
        if "%" in (cell.number_format or ""):
            return f"{value * 100:.10g}%"
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    return str(value)


def _not_computed(archive: zipfile.ZipFile) -> int:
    """Return the number of formulas without a value."""
    count = 0
    for name in archive.namelist():
        if _SHEET.fullmatch(name):
            try:
                count += len(_NOT_COMPUTED.findall(archive.read(name)))
            except BROKEN:
                continue  # The sheet is reported when it is read.
    return count
