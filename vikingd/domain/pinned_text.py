"""Pinned memories: a 📌 at the beginning of a memory's text in its file.

The 📌 is part of the text, so it survives edits by hand, exports and imports. It is neither indexed
nor shown as part of the text.
"""

from __future__ import annotations

import re

PIN = "📌"
"""The mark of a pinned memory."""

# "📌 " or "📌📌 " before "Ana likes tea."
_MARK = re.compile(f"(?:{PIN}\ufe0f?\\s*)+")
# Markdown that must begin its line: fences, headings, quotations, tables, lists.
_BLOCK = re.compile(r"```|~~~|#{1,6}[ \t]|[>|]|[-+*][ \t]|[0-9]{1,9}[.)][ \t]")


def is_pinned(text: str) -> bool:
    """Return True if a text begins with PIN, the character 📌."""
    return text.startswith(PIN)


def without_pin(text: str) -> str:
    """Return a text without the 📌 at its beginning."""
    mark = _MARK.match(text)
    return text[mark.end() :] if mark else text


def with_pin(text: str, pinned: bool) -> str:
    """Return a text with a 📌 at its beginning if `pinned`, else without one."""
    text = without_pin(text)
    if not pinned:
        return text
    gap = "\n" if _BLOCK.match(text) else " "
    return f"{PIN}{gap}{text}"
