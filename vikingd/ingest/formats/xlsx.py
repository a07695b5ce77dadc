"""XLSX files: a heading and tables for each sheet."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO

import openpyxl
from openpyxl.chartsheet import Chartsheet
from openpyxl.utils.datetime import CALENDAR_MAC_1904

from vikingd.ingest.formats.document import (
    Document,
    Failed,
    Pages,
    counted,
    heading,
    lost_parts,
    table,
)
from vikingd.ingest.formats.number_formats import (
    is_shown_with_time,
    shown_duration,
    shown_number,
    shown_text,
)
from vikingd.ingest.formats.sheet_layout import Layout, sheet_layout
from vikingd.ingest.formats.zips import BROKEN, checked, stated

_MAX_COLUMNS = 1000
_REPEATED = 100  # characters of a merged cell that is written again in each row that it spans
# Parts of other members that no cell has: the members, and the marks of the parts.
_BESIDE = {
    "comment": (
        re.compile(r"xl/(?:comments/)?comments?\d*\.xml"),
        re.compile(rb"<(?:\w+:)?comment\b"),
    ),
    "chart": (re.compile(r"xl/charts/chart\d*\.xml"), re.compile(rb"<(?:\w+:)?chartSpace\b")),
    "text box": (
        re.compile(r"xl/drawings/drawing\d*\.xml"),
        re.compile(rb"<xdr:txBody>(?:(?!</xdr:txBody>).)*<a:t>", re.DOTALL),
    ),
}
_CHART_SHEET = re.compile(r"xl/chartsheets/[^/]+\.xml")
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
        formulas, layouts = _examined(archive)
        beside = _beside(archive)
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
    left_out: dict[str, int] = {"row": 0, "column": 0}
    for name in book.sheetnames:
        sheet = book[name]
        if sheet.sheet_state != "visible":
            lost.append(f"sheet {name!r} is hidden and left out")
            continue
        pages.add(heading(2, name))
        if isinstance(sheet, Chartsheet):
            lost.append(f"sheet {name!r} is a chart and left out")
            continue
        try:
            sheet.reset_dimensions()
            layout = layouts.get(getattr(sheet, "_worksheet_path", ""), Layout())
            for rows in _tables(sheet, layout, left_out):
                has_text = True
                pages.add(table(rows))
        except Failed:
            raise
        except Exception as error:  # The parser has no class for the errors of a damaged sheet.
            failed.append((f"sheet {name!r}", f"{type(error).__name__}: {error}"))
    for kind, count in left_out.items():
        if count:
            lost.append(f"{count:,} hidden {kind}{' is' if count == 1 else 's are'} left out")
    lost += beside
    if not has_text:
        raise Failed("has no text" if not failed else f"is damaged: {failed[0][1]}")
    metadata: dict[str, str | int] = {"format": "xlsx", "sheets": len(book.sheetnames)}
    return Document(pages.text(), title, metadata, changed, [*lost, *lost_parts(failed)])


def _tables(sheet: Any, layout: Layout, left_out: dict[str, int]) -> Iterator[list[list[str]]]:
    """Yield the rows of each table without empty columns at its sides.

    The numbers of hidden rows and columns with text are added to `left_out`.
    """
    rows: list[list[str]] = []
    budget = Pages()
    merged: dict[int, tuple[int, str]] = {}  # columns of merged cells: their last row, their text
    unseen: set[int] = set()
    for number, row in enumerate(sheet.iter_rows(), start=1):
        cells = [_shown(cell) for cell in row[:_MAX_COLUMNS]]
        if any(_shown(cell) for cell in row[_MAX_COLUMNS:]):
            raise Failed(f"has a sheet with more than {_MAX_COLUMNS:,} columns")
        if number in layout.hidden_rows:
            left_out["row"] += any(cells)
            continue
        if any(cells):
            _fill(cells, number, layout, merged)
        if layout.hidden_columns:
            unseen.update(i for i, cell in enumerate(cells) if cell and i in layout.hidden_columns)
            cells = [cell for i, cell in enumerate(cells) if i not in layout.hidden_columns]
        if any(cells):
            rows.append(cells)
            budget.add(" ".join(cells))
        elif rows:
            yield _trimmed(rows)
            rows = []
    left_out["column"] += len(unseen)
    if rows:
        yield _trimmed(rows)


def _fill(
    cells: list[str], number: int, layout: Layout, merged: dict[int, tuple[int, str]]
) -> None:
    """Repeat the text of merged cells in each of their rows."""
    for column, (end, text) in list(merged.items()):
        if end < number:
            del merged[column]
        elif column < len(cells) and not cells[column]:
            cells[column] = text
    for column, end in layout.merged.get(number, ()):
        if column < len(cells) and len(cells[column]) <= _REPEATED:
            merged[column] = end, cells[column]


def _trimmed(rows: Sequence[list[str]]) -> list[list[str]]:
    first = min(next(i for i, cell in enumerate(row) if cell) for row in rows)
    width = max(max(i for i, cell in enumerate(row) if cell) for row in rows) + 1
    return [row[first:width] for row in rows]


def _shown(cell: Any) -> str:
    """Return the value of a cell as a spreadsheet program shows it; days are in ISO 8601."""
    value = cell.value
    if value is None:
        return ""
    code = cell.number_format or "General"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        has_day, has_time = is_shown_with_time(code)
        if has_time and not has_day:
            return shown_duration((value - _midnight(value)).total_seconds(), code)
        is_day = not has_time or value.time() == time()
        return value.date().isoformat() if is_day else value.isoformat(" ", "seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time) and is_shown_with_time(code)[0]:
        # The library has no day for the number 0, the day before the first of the calendar.
        day = "1904-01-01" if cell.parent.parent.epoch == CALENDAR_MAC_1904 else "1900-01-00"
        return f"{day} {value:%H:%M:%S}" if is_shown_with_time(code)[1] and value != time() else day
    if isinstance(value, time):
        since = timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
        return shown_duration(since.total_seconds(), code)
    if isinstance(value, timedelta):
        return shown_duration(value.total_seconds(), code)
    if isinstance(value, int | float):
        return shown_number(value, code)
    return shown_text(str(value), code)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _beside(archive: zipfile.ZipFile) -> list[str]:
    """Return a reason for each kind of parts that stand beside the cells.

    The chart of a chart sheet is not counted, since the sheet is told by its name.
    """
    lost = []
    for kind, (member, mark) in _BESIDE.items():
        count = 0
        for name in filter(member.fullmatch, archive.namelist()):
            with suppress(*BROKEN):
                count += len(mark.findall(archive.read(name)))
        if kind == "chart":
            count -= sum(map(bool, map(_CHART_SHEET.fullmatch, archive.namelist())))
        lost += counted(max(0, count), kind, "text boxes" if kind == "text box" else "")
    return lost


def _examined(archive: zipfile.ZipFile) -> tuple[int, dict[str, Layout]]:
    """Return the number of formulas without a value, and the layout of each sheet.

    The key of a layout is the name of the sheet's member of the archive.
    """
    formulas, layouts = 0, {}
    for name in archive.namelist():
        if _SHEET.fullmatch(name):
            with suppress(*BROKEN):  # The sheet is reported when it is read.
                data = archive.read(name)
                formulas += len(_NOT_COMPUTED.findall(data))
                layouts[name] = sheet_layout(data)
    return formulas, layouts
