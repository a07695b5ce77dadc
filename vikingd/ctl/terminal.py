"""Output that acts on no terminal: what is stored may have control characters in it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# Control characters but tab and line feed, and those that change the direction of what is shown.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class SafeConsole(Console):
    """A console that shows unsafe characters as U+FFFD."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as any console does, then replace the characters."""
        for segment in super().render(renderable, options):
            if segment.control or not _UNSAFE.search(segment.text):
                yield segment
            else:
                yield Segment(clean(segment.text), segment.style)


def clean(text: str) -> str:
    """Return a text for a terminal, with U+FFFD for each unsafe character."""
    return _UNSAFE.sub("\ufffd", text.replace("\r\n", "\n"))


def escaped_json(text: str) -> str:
    """Return the same JSON with its unsafe characters as escapes."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
