"""Charts and diagrams of office documents: their values and texts.

An office document is an archive of parts. `root` is the root element of the XML part that holds the
chart, or the data of the diagram.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

_MAX_POINTS = 10_000  # of a series; more are no table for a reader


def chart_title(root: Any) -> str:
    """Return the title of a chart; "" without one."""
    title = root.find("{*}chart/{*}title")
    return "" if title is None else " ".join("".join(title.itertext("{*}t")).split())


def chart_rows(root: Any) -> list[list[str]]:
    """Return the values of a chart of any type: a column for each series, a row for each point.

    The first row has the names of the series, the first column the categories; [] without values.
    """
    columns: list[list[str]] = []
    names = [""]
    categories: list[str] = []
    for series in root.iter("{*}ser"):
        if not etree.QName(series).namespace.endswith("/chart"):
            continue
        names.append(" ".join(_points(series, "tx")))
        categories = categories or _points(series, "cat") or _points(series, "xVal")
        columns.append(_points(series, "val") or _points(series, "yVal"))
    height = max(map(len, (categories, *columns))) if columns else 0
    rows = [[_at(column, i) for column in (categories, *columns)] for i in range(height)]
    return [names, *rows] if rows else []


def diagram_texts(root: Any) -> list[str]:
    """Return the texts of a diagram (SmartArt), one for each paragraph with text, in order."""
    texts = ("".join(p.itertext("{*}t")) for p in root.iter("{*}p"))
    return [line for text in texts if (line := " ".join(text.split()))]


def _points(series: Any, name: str) -> list[str]:
    """Return the values of a part of a series; "" for a point without one."""
    part = series.find(f"{{*}}{name}")
    if part is None:
        return []
    found: list[str] = []
    levels = part.findall(".//{*}lvl")
    for level in levels[:1] or [part]:
        for point in level.iter("{*}pt"):
            index = int(point.get("idx") or len(found))
            if len(found) <= index < _MAX_POINTS:
                found += [""] * (index + 1 - len(found))
                found[index] = _shown(point.findtext("{*}v") or "")
    return found or list(filter(None, [_shown(part.findtext("{*}v") or "")]))


def _shown(value: str) -> str:
    """Return a number without the noise of its last digits, and any other text in one line."""
    try:
        return f"{float(value):.15g}"
    except ValueError:
        return " ".join(value.split())


def _at(column: list[str], index: int) -> str:
    return column[index] if index < len(column) else ""
