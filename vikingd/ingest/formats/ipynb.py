"""Notebooks of Jupyter: their cells in order, with short text outputs, without images."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from vikingd.ingest.code.cells import OUTPUT
from vikingd.ingest.formats.document import Document, Failed, Pages, clean, heading, title_of
from vikingd.ingest.formats.encodings import decode

_OUTPUT = 2_000  # characters of the outputs of a cell
_EMBEDDED = re.compile(r"data:[\w/+.-]{1,60};base64,[A-Za-z0-9+/=\s]{40,}+")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FENCE = re.compile(r"`{3,}")


def read(file: BinaryIO) -> Document:
    """Read a notebook of version 3 or 4 as Markdown; its code is in fences of its language.

    Raises:
        Failed: it is no notebook, or has no text.
    """
    try:
        notebook = json.loads(decode(file.read()).text)
    except ValueError as error:
        raise Failed(f"is no notebook: {error}") from None
    cells = _cells(notebook)
    language = _language(notebook)
    pages, lost = Pages(), 0
    for cell in cells:
        for part, missing in _parts(cell, language):
            pages.add(part)
            lost += missing
    if not (text := pages.text()):
        raise Failed("has no text")
    told = [f"{lost:,} bytes of outputs and images are left out"] if lost else []
    about = notebook.get("metadata")
    title = about.get("title") if isinstance(about, dict) else ""
    title = title_of(title) if isinstance(title, str) else ""
    return Document(text, title, {"format": "ipynb"}, lost=told)


def _cells(notebook: Any) -> list[dict[str, Any]]:
    if not isinstance(notebook, dict):
        raise Failed("is no notebook")
    found = notebook.get("cells")
    if not isinstance(found, list):
        sheets = notebook.get("worksheets")
        if not isinstance(sheets, list):
            raise Failed("is no notebook: it has no cells")
        found = [c for s in sheets if isinstance(s, dict) for c in s.get("cells") or ()]
    return [cell for cell in found if isinstance(cell, dict)]


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    about = metadata if isinstance(metadata, dict) else {}
    for key, field in (("language_info", "name"), ("kernelspec", "language")):
        value = about.get(key)
        name = value.get(field) if isinstance(value, dict) else ""
        if isinstance(name, str) and re.fullmatch(r"[\w+#.-]{1,20}", name):
            return name
    return "python"


def _parts(cell: dict[str, Any], language: str) -> Iterator[tuple[str, int]]:
    """Yield (block of Markdown, number of bytes that are left out of it) for a cell.

    Images, attachments and long outputs are left out.
    """
    kind = cell.get("cell_type")
    text = _text(cell.get("source", cell.get("input")))
    if kind == "markdown":
        slim = _EMBEDDED.sub("", text)
        yield clean(slim), len(text) - len(slim) + _bytes(cell.get("attachments"))
    elif kind == "heading":
        level = cell.get("level")
        yield heading(min(6, level) if isinstance(level, int) else 1, text), 0
    elif kind == "code":
        if text.strip():
            yield _fenced(text, language), 0
        yield _output(cell.get("outputs") or [])
    elif text.strip():
        yield _fenced(text, ""), 0


def _output(outputs: Any) -> tuple[str, int]:
    """Return the text outputs of a cell, and the number of bytes that are left out."""
    texts, lost = [], 0
    for one in outputs if isinstance(outputs, list) else []:
        if not isinstance(one, dict):
            continue
        stated = one.get("data")
        data: dict[str, Any] = stated if isinstance(stated, dict) else {}
        text = _text(one.get("text")) or _text(data.get("text/plain"))
        if one.get("output_type") in ("error", "pyerr"):
            text = f"{one.get('ename', '')}: {one.get('evalue', '')}"
            lost += _bytes(one.get("traceback"))
        # The other forms of the same output are its images and its HTML.
        lost += sum(_bytes(value) for key, value in data.items() if key != "text/plain")
        lost += sum(_bytes(one.get(key)) for key in ("png", "jpeg", "svg", "html"))
        texts.append(_EMBEDDED.sub("", _ANSI.sub("", text)))
    whole = "\n".join(text.rstrip() for text in texts if text.strip())
    if len(whole) > _OUTPUT:
        lost += len(whole) - _OUTPUT
        whole = whole[:_OUTPUT].rstrip() + "\n…"
    return (_fenced(whole, OUTPUT) if whole else ""), lost


def _fenced(text: str, language: str) -> str:
    longest = max((len(found[0]) for found in _FENCE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{clean(text).strip(chr(10))}\n{fence}"


def _text(value: Any) -> str:
    """Return a text that may be a list of lines."""
    if isinstance(value, list):
        return "".join(one for one in value if isinstance(one, str))
    return value if isinstance(value, str) else ""


def _bytes(value: Any) -> int:
    if value is None or value == "" or value == {}:
        return 0
    return len(_text(value)) or len(json.dumps(value))
