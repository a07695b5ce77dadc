"""A group of typer commands that explains wrong options in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from vikingd.domain.value_faults import shown, wanted


class PlainGroup(TyperGroup):
    """A group of commands whose errors for wrong values do not use the words of pydantic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options that stand before the command."""
        with _in_plain_words():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parse the options of the command, and run it."""
        with _in_plain_words():
            return super().invoke(ctx)


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """Within the block, reword the error for an option value that pydantic refused.

    Newer versions of typer validate values by pydantic, whose messages are for programmers.
    """
    try:
        yield
    except typer.BadParameter as error:
        faults: list[Any] = getattr(error.__cause__, "errors", list)()
        for fault in faults[:1]:
            form = wanted(fault)
            plain = str(fault["msg"]).removeprefix("Value error, ")
            error.message = f"must be {form}, not {shown(fault['input'])}" if form else plain
        raise
