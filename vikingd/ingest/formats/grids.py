"""Tables of HTML with cells over several rows and columns, laid out as grids of single cells."""

from __future__ import annotations

from collections.abc import Iterator

from bs4.element import Tag

from vikingd.ingest.formats.document import Failed
from vikingd.ingest.formats.elements import tags_below

_MAX_CELLS = 500_000  # cells of a document that are only there because others span them
_MAX_COLUMNS = 1000  # columns that a cell may span, as browsers have it
_REPEATED = 100  # characters of a cell that is written again in each row that it spans
_DATA = 200  # characters that the cells of a table with data have at most
_GROUPS = ("thead", "tbody", "tfoot")
_BLOCKS = ["h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "pre", "blockquote", "article"]


def lay_out(element: Tag) -> None:
    """Change all tables below an element so that each row has a cell in each of its columns.

    The text of a cell over several rows stands in each of them. A table that only lays out a page
    becomes blocks. A table with data inside of a cell becomes text.

    Raises:
        Failed: the cells span too much.
    """
    left = _MAX_CELLS
    tables = [element] if element.name == "table" else []
    for table in reversed([*tables, *tags_below(element, "table")]):  # inner ones first
        rows = _rows(table)
        if _is_layout(table, rows):
            _to_blocks(table, rows)
        elif outer := table.find_parent(["td", "th"]):
            if _is_data_cell(outer):
                _to_text(table, rows)
            else:
                left -= _to_grid(table, rows, left)
        else:
            left -= _to_grid(table, rows, left)


def _rows(table: Tag) -> list[list[Tag]]:
    """Return the rows of a table by row group, such as `tbody`, without those of nested tables."""
    groups: list[list[Tag]] = [[]]
    for child in table.find_all(True, recursive=False):
        if child.name == "tr":
            groups[-1].append(child)
        elif child.name in _GROUPS:
            groups += [child.find_all("tr", recursive=False), []]
    return [group for group in groups if group]


def _cells(row: Tag) -> list[Tag]:
    return row.find_all(["td", "th"], recursive=False)


def _is_layout(table: Tag, groups: list[list[Tag]]) -> bool:
    """Return True for a table that only arranges the blocks of a page."""
    if table.get("role") in ("presentation", "none"):
        return True
    rows = [_cells(row) for group in groups for row in group]
    cells = [cell for row in rows for cell in row]
    if any(cell.name == "th" for cell in cells) or not cells:
        return False
    with_blocks = [cell for cell in cells if cell.find(_BLOCKS)]
    if not with_blocks:
        return False
    if any(cell.find("table") for cell in with_blocks):
        plain = [cell for cell in cells if cell not in with_blocks]
        return len(rows) < 2 or not plain or max(map(len, rows)) < 2
    return len(rows) == 1 or max(map(len, rows)) == 1


def _to_blocks(table: Tag, groups: list[list[Tag]]) -> None:
    for group in groups:
        for row in group:
            for cell in _cells(row):
                cell.name = "div"
            row.name = "div"
    for child in table.find_all(_GROUPS, recursive=False):
        child.name = "div"
    table.name = "div"


def _is_data_cell(cell: Tag) -> bool:
    """Return True for a cell of a table with data, and False for one of a layout table."""
    table = cell.find_parent("table")
    return table is not None and not _is_layout(table, _rows(table))


def _to_text(table: Tag, groups: list[list[Tag]]) -> None:
    """Replace a table in a cell by one line: commas between cells, semicolons between rows."""
    rows = [[_line(cell) for cell in _cells(row)] for group in groups for row in group]
    text = "; ".join(", ".join(filter(None, row)) for row in rows if any(row))
    table.replace_with(f" {text} ")


def _line(cell: Tag) -> str:
    return " ".join(cell.get_text(" ").split())


def _to_grid(table: Tag, groups: list[list[Tag]], left: int) -> int:
    """Replace cells that span several columns or rows by single ones.

    Return the number of new cells.
    """
    rows = []
    added = 0
    for group in groups:
        for row, cells in zip(group, _laid_out(group), strict=True):
            added += sum(isinstance(cell, str) for cell in cells)
            if added > left:
                raise Failed(f"has tables whose cells span more than {_MAX_CELLS:,} others")
            rows.append((row, cells))
    if added:
        width = max(len(cells) for _, cells in rows)
        rows[0][1].extend([""] * (width - len(rows[0][1])))
        for row, cells in rows:
            row.clear()
            for cell in cells:
                row.append(_new_cell(cell) if isinstance(cell, str) else cell)
    for caption in table.find_all("caption", recursive=False):
        caption.name = "p"
        table.insert_before(caption.extract())
    for child in table.find_all([*_GROUPS, "colgroup"], recursive=False):
        child.unwrap()
    return added


def _laid_out(group: list[Tag]) -> Iterator[list[Tag | str]]:
    """Yield the cells of each row; a cell over several rows is repeated as text in each of them."""
    above: dict[int, tuple[int, str]] = {}  # columns with a cell of a row above: rows left, text
    for number, row in enumerate(group):
        cells: list[Tag | str] = []
        below: dict[int, tuple[int, str]] = {}
        made = _cells(row)
        is_head = all(cell.name == "th" for cell in made)
        for cell in made:
            while len(cells) in above:
                cells.append(above[len(cells)][1])
            wide, high = _spans(cell, len(group) - number)
            text = _line(cell) if high > 1 or wide > 1 else ""
            text = text if len(text) <= _REPEATED else ""
            for i in range(wide):
                if i and len(cells) in above:
                    break
                shown = text if is_head or not i else ""
                if high > 1:
                    below[len(cells)] = high, shown
                cells.append(shown if i else cell)
        for column in sorted(column for column in above if column >= len(cells)):
            cells += [*[""] * (column - len(cells)), above[column][1]]
        while cells and cells[-1] == "":
            cells.pop()
        yield cells
        above |= below
        above = {column: (rows - 1, text) for column, (rows, text) in above.items() if rows > 1}


def _spans(cell: Tag, rows: int) -> tuple[int, int]:
    """Return the numbers of columns and rows that a cell spans, and remove these attributes.

    `rows` is the number of rows up to the end of the group, the most that a cell can span.
    """
    wide, high = (str(cell.attrs.pop(name, "")).strip()[:9] for name in ("colspan", "rowspan"))
    columns = min(int(wide), _MAX_COLUMNS) if wide.isdecimal() else 1
    height = min(int(high) or rows, rows) if high.isdecimal() else 1
    return columns or 1, height


def _new_cell(text: str) -> Tag:
    cell = Tag(name="td")
    cell.append(text)
    return cell
