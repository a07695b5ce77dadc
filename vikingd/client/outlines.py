"""The names in files, with their lines: definitions in source code, and headings in markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import grpc

from vikingd.client.client_errors import ClientError, NotFound
from vikingd.client.multi_call_steps import Call, Steps
from vikingd.client.results import Rows
from vikingd.domain import uri as uris
from vikingd.domain.line_numbers import lines_behind
from vikingd.domain.pattern_queries import NodeKind
from vikingd.domain.text import SECTION_SEPARATOR
from vikingd.system.install_command import install_command

MAX_FILES = 500
"""The most files below a directory that are read, unless the caller gives a limit."""

_NOT_INSTALLED = "GRAMMAR_NOT_INSTALLED"
_NO_OUTLINE = "its language is not known, or its syntax cannot be read"
_MAX_NAMES = 20_000  # files below a directory whose names are looked at


@dataclass(frozen=True, slots=True)
class FoundSymbol:
    """A definition in a source file, or a heading in markup.

    Attributes:
        uri: the URI of the file.
        name: its name.
        kind: "class", "function", "type", "value", "module", "heading", or "part" of a component.
        path: the names of the definitions around it, or the headings above it.
        first_line, last_line: its lines, from 1 on; of a heading those of its section.
        signature: its first line, without what follows the parameters; "" of a heading or a part.
    """

    uri: str
    name: str
    kind: str
    path: tuple[str, ...]
    first_line: int
    last_line: int
    signature: str

    @property
    def place(self) -> str:
        """The URI with the lines, such as `viking://resources/app.py:12-40`."""
        return self.uri + lines_behind(self.first_line, self.last_line)

    @property
    def heading(self) -> str:
        """The path and the name, such as `Client > get`."""
        return SECTION_SEPARATOR.join((*self.path, self.name))

    def __str__(self) -> str:
        return "  ".join(filter(None, (self.place, self.kind, self.heading, self.signature)))


@dataclass(frozen=True, slots=True, repr=False)
class SymbolsResult(Rows[FoundSymbol]):
    """The symbols of a file, or of the files below a directory, by URI and line.

    Attributes:
        symbols: the symbols.
        files: the number of files that were read.
        note: the files that are left out, and the reason; "" if none is.
    """

    symbols: tuple[FoundSymbol, ...]
    files: int
    note: str = ""

    def __iter__(self) -> Iterator[FoundSymbol]:
        return iter(self.symbols)

    def __len__(self) -> int:
        return len(self.symbols)


def symbols_of(uri: str, content: str) -> list[FoundSymbol] | None:
    """Return the symbols in the content of a file; None if files of its kind have no outline.

    Raises:
        ClientError: the grammar of its language is not installed (GRAMMAR_NOT_INSTALLED).
    """
    from vikingd.ingest.code.outline import lacks_grammar, outline  # it loads the forms of files

    name = uris.name(uri)
    if lacks_grammar(name):
        raise ClientError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"the grammar for {name} is not installed; install it with: {install_command('code')}",
            _NOT_INSTALLED,
        )
    found = outline(content, name)
    if found is None:
        return None
    return [
        FoundSymbol(uri, one.name, one.kind, one.path, one.first_line, one.last_line, one.signature)
        for one in found
    ]


def _files(found: Sequence[object]) -> str:
    return f"{len(found):,} file{'s' * (len(found) != 1)}"


def symbols(uri: str, limit: int, max_files: int) -> Steps[SymbolsResult]:
    """Return the symbols of a file, or of the files below a directory; see Client.symbols."""
    from vikingd.ingest.code.outline import has_outline

    context = yield Call("get", (uri,))
    if not context.is_directory:
        found = symbols_of(context.uri, context.content)
        if found is None:
            return SymbolsResult((), 0, f"{context.uri} has no outline: {_NO_OUTLINE}")
        note = f"{len(found) - limit:,} more are left out" if 0 < limit < len(found) else ""
        return SymbolsResult(tuple(found[: limit or None]), 1, note)
    below = yield Call("glob", ("**", context.uri), {"kind": NodeKind.FILE}, most=_MAX_NAMES + 1)
    names = [one.uri for one in below[:_MAX_NAMES] if has_outline(uris.name(one.uri))]
    taken: list[FoundSymbol] = []
    left, lacking, faulty = len(below) - len(below[:_MAX_NAMES]), [], []
    read = 0
    for at, name in enumerate(names):
        if read == max_files or (limit and len(taken) > limit):
            left += len(names) - at
            break
        try:
            file = yield Call("get", (name,))
            found = symbols_of(name, file.content)
        except NotFound:  # It was removed meanwhile.
            continue
        except ClientError as error:
            if error.reason != _NOT_INSTALLED:
                raise
            lacking.append(error)
            continue
        read += 1
        if found is None:
            faulty.append(name)
        taken += found or ()
    if lacking and not taken:
        raise lacking[0]
    notes = []
    if left or 0 < limit < len(taken):
        notes.append("there are more: name a directory below, or raise the limits")
    if lacking:
        notes.append(f"left out: {_files(lacking)}: {lacking[0].message}")
    if faulty:
        notes.append(f"left out: {_files(faulty)}, such as {faulty[0]}: {_NO_OUTLINE}")
    return SymbolsResult(tuple(taken[: limit or None]), read, "; ".join(notes))
