"""Paragraphs of plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vikingd.domain.text import join_lines, one_line

_BLANK_LINE = re.compile(r"\n[ \t]*+\n")
_RULE = re.compile(r"\n[^\w\n]+$", re.MULTILINE)  # Not "^", which is tried at every character.


def paragraphs(text: str) -> Iterator[str]:
    """Yield each paragraph in one line; lines of punctuation such as `-----` are left out."""
    for part in _BLANK_LINE.split(_RULE.sub("\n", "\n" + text.replace("\r\n", "\n"))):
        if line := one_line(join_lines(part.splitlines())):
            yield line
