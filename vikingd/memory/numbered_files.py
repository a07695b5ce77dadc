"""The URIs of the files of a series: `notes.md`, `notes/2.md`, `notes/3.md` and so on."""

from __future__ import annotations

import re

from vikingd.domain import uri as uris

MOST_ENTRIES = 128
"""The number of entries with which a file is full, so that all files cost about the same."""

MOST_CHARACTERS = 32_768
"""The number of characters with which a file is full."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


def file_of(first: str, number: int) -> str:
    """Return the URI of file `number` of a series, given the URI of file 1."""
    if number == 1:
        return first
    directory, suffix = _stem(first)
    return f"{directory}/{number}{suffix}"


def number_of(first: str, uri: str) -> int:
    """Return the number of a file in a series; 0 if it is no part of the series."""
    if uri == first:
        return 1
    directory, suffix = _stem(first)
    name = uri.removeprefix(f"{directory}/").removesuffix(suffix)
    if not _NUMBER.fullmatch(name) or uri != f"{directory}/{name}{suffix}":
        return 0
    return int(name) if int(name) > 1 else 0


def bounds(first: str) -> tuple[str, str]:
    """Return (low, high) so that low <= u < high for each file URI u of a series but the first."""
    directory, _ = _stem(first)
    return f"{directory}/1", f"{directory}/:"  # ":" is the code point after "9"


def _stem(first: str) -> tuple[str, str]:
    """Return the URI of a file without its suffix, and the suffix."""
    name = uris.name(first)
    dot = name.rfind(".")
    suffix = name[dot:] if dot > 0 else ""
    # A file without a suffix cannot be a directory, too.
    return (first[: -len(suffix)], suffix) if suffix else (f"{first}.d", "")
