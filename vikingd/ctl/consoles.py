"""The consoles of stdout and stderr, which show texts for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from vikingd.ctl.result_rows import Words
from vikingd.domain.text import clean

# So wide that nothing wraps when the output is not a terminal.
_PIPE_WIDTH = 1 << 30
_WIDTH, _HEIGHT = 80, 25  # of a terminal that does not tell


class SafeConsole(Console):
    """A console that shows hidden characters as U+FFFD."""

    @property  # type: ignore[misc]  # nobody sets it
    def size(self) -> ConsoleDimensions:
        """The size of the terminal, or of a pipe, which is so wide that no line wraps.

        The variable COLUMNS overrides the width of a terminal.
        """
        width = _columns(self.file) if self.is_terminal else _PIPE_WIDTH
        return ConsoleDimensions(width, _HEIGHT)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts wrapped between words; words that are too long, such as URIs, stay whole."""
        if not options.get("soft_wrap"):
            objects = tuple(Words(one) if isinstance(one, Text | str) else one for one in objects)
        given: dict[str, Any] = {"crop": False} | options
        super().print(*objects, **given)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, for which `main` exits with 0; rich's own method exits with 1."""
        raise BrokenPipeError

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as usual, then replace hidden characters."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """Return a console for plain text; it wraps, and has colours, on a terminal only."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return SafeConsole(
        stderr=stderr,
        force_terminal=is_terminal,  # ignores variables such as FORCE_COLOR
        markup=False,
        highlight=False,
        emoji=False,
    )


def _columns(stream: IO[str]) -> int:
    """Return the width of a terminal in characters."""
    named = os.environ.get("COLUMNS", "")
    if named.isdigit() and int(named):
        return int(named)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def tell_error(message: str, hint: str) -> None:
    """Print an error and its remedy on stderr."""
    err = console(stderr=True)
    err.print(Text.assemble(("error: ", "bold red"), message))
    err.print(Text(hint, "dim"))
