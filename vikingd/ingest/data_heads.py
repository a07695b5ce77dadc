"""The beginnings of large data files, which an import reads instead of the whole files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from vikingd.system.regular_files import open_regular

LIMIT = 256 << 10
"""The most bytes of a data file that is imported whole; of a larger one only the head is."""

HEAD = 32 << 10
"""The most bytes of a head."""

ENDINGS = (".csv", ".tsv", ".psv", ".json", ".jsonl", ".ndjson", ".geojson", ".topojson")
"""The suffixes of files of data."""


class Head(NamedTuple):
    """The first bytes of a file, and the number of bytes after them."""

    data: bytes
    rest: int


def head_of(path: Path) -> Head | None:
    """Return the head of a large data file; None for any other file.

    The head ends at the end of a line, or of a character if a line is very long.

    Raises:
        OSError: the file cannot be read.
    """
    if not path.name.lower().endswith(ENDINGS):
        return None
    with open_regular(path) as file:
        size = file.seek(0, 2)
        if size <= LIMIT:
            return None
        file.seek(0)
        data = file.read(HEAD)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16
        return Head(data, size - len(data))
    end = data.rfind(b"\n") + 1
    if end < HEAD // 2:
        end = len(data)
        while end > len(data) - 4 and data[end - 1] & 0xC0 == 0x80:  # within a character of UTF-8
            end -= 1
        end -= end > 0 and data[end - 1] >= 0xC0
    return Head(data[:end], size - end)
