"""Pinned memories: the mark 📌 before the text of an entry in its file.

The mark is a character of the text, so it survives edits by hand, exports and imports. It is
neither indexed nor shown as a part of the text.
"""

from __future__ import annotations

import re

PIN = "📌"
"""The mark of a pinned memory."""

_MARK = re.compile(f"(?:{PIN}\ufe0f?\\s*)+")
# Markdown that must begin its line: fences, headings, quotations, tables, lists.
_BLOCK = re.compile(r"```|~~~|#{1,6}[ \t]|[>|]|[-+*][ \t]|[0-9]{1,9}[.)][ \t]")


def is_pinned(text: str) -> bool:
    """Return True if a text begins with PIN."""
    return text.startswith(PIN)


def without_pin(text: str) -> str:
    """Return a text without its mark."""
    mark = _MARK.match(text)
    return text[mark.end() :] if mark else text


def with_pin(text: str, pinned: bool) -> str:
    """Return a text with the mark, or without it."""
    text = without_pin(text)
    if not pinned:
        return text
    gap = "\n" if _BLOCK.match(text) else " "
    return f"{PIN}{gap}{text}"
