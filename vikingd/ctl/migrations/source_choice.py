"""Opens the source of an import by the name of its program or format."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from vikingd.ctl.migrations import chroma, mem0, openviking, parquet
from vikingd.ctl.migrations.given_vectors import Choice
from vikingd.ctl.migrations.source import Asked, Source, is_url
from vikingd.domain.daemon_addresses import Address
from vikingd.domain.errors import InvalidField


class Program(Enum):
    """The program or the format that the data come from."""

    CHROMA = "chroma"
    MEM0 = "mem0"
    OPENVIKING = "openviking"
    PARQUET = "parquet"


_OPENED: dict[Program, Callable[[Asked], Source]] = {
    Program.CHROMA: chroma.opened,
    Program.MEM0: mem0.opened,
    Program.OPENVIKING: openviking.opened,
    Program.PARQUET: parquet.opened,
}
_SERVERS = (Program.CHROMA, Program.OPENVIKING)
_WITH_VECTORS = (Program.CHROMA, Program.PARQUET)


def opened(program: Program, asked: Asked) -> Source:
    """Open a source; only the data that its options need are read.

    Raises:
        InvalidField: an argument does not fit; the error names it.
    """
    name = program.value
    if asked.collections and program is not Program.CHROMA:
        raise InvalidField("collection", f"is for --from chroma; {name} has no collections")
    if asked.columns and program is not Program.PARQUET:
        raise InvalidField("map", f"is for --from parquet; {name} has no columns")
    if asked.vectors.choice is Choice.KEEP and program not in _WITH_VECTORS:
        raise InvalidField("vectors", f"cannot be kept: {name} gives none")
    if is_url(asked.place):
        _check_url(program, asked)
    elif re.match(r"[a-z+]+://", asked.place):
        raise InvalidField("path", f"{asked.place} is no URL of HTTP and no path")
    elif not Path(asked.place).exists():
        raise InvalidField("path", f"{asked.place} does not exist")
    return _OPENED[program](asked)


def columns_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return the columns by field from texts such as text=body.

    Raises:
        InvalidField: a text has no known field, or no column.
    """
    columns = {}
    for pair in pairs:
        field, _, column = pair.partition("=")
        if field not in parquet.FIELDS or not column:
            fields = ", ".join(parquet.FIELDS)
            raise InvalidField("map", f"{pair!r} is not FIELD=COLUMN with one of {fields}")
        columns[field] = column
    return columns


def _check_url(program: Program, asked: Asked) -> None:
    if program not in _SERVERS:
        raise InvalidField("path", f"{asked.place} is a URL; {program.value} is read from a file")
    try:
        url = urlsplit(asked.place)
        is_local = Address(url.hostname or "", url.port or 0).is_local
    except ValueError as error:
        raise InvalidField("path", f"{asked.place} is no URL: {error}") from None
    if not url.hostname:
        raise InvalidField("path", f"{asked.place} names no host")
    if asked.key and url.scheme != "https" and not is_local:
        raise InvalidField(
            "path", f"{asked.place} would send the key in the clear: use https:// or no key"
        )
