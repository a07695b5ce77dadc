"""The command that lists the names in files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from vikingd.client.messages import MessageClient
from vikingd.client.multi_call_steps import run
from vikingd.client.outlines import MAX_FILES, FoundSymbol, SymbolsResult
from vikingd.client.outlines import symbols as symbols_below
from vikingd.ctl.command_session import Session
from vikingd.ctl.output import Form
from vikingd.ctl.result_rows import Row, Rows, tail
from vikingd.ctl.search_read_commands import Limit
from vikingd.domain.line_numbers import lines_behind


class _Contexts:
    """The methods `glob` and `get` of a MessageClient, as `outlines.symbols` calls them."""

    def __init__(self, client: MessageClient) -> None:
        self.glob = client.glob
        self._client = client

    def get(self, uri: str) -> Any:
        """Return a context."""
        return self._client.get(uri).context


def symbols(
    session: Session,
    uri: Annotated[str, typer.Argument(help="The file, or the directory.")],
    limit: Limit = 0,
    max_files: Annotated[
        int, typer.Option(min=1, help="Read at most this many files of a directory.")
    ] = MAX_FILES,
) -> None:
    """List the names that files define: URI:LINES, kind, PATH > NAME, signature.

    Of source code these are the definitions, of Markdown, reStructuredText and AsciiDoc the
    headings. The lines are those that `get --lines` takes.

    RPC: viking.retrieval.v1.Contexts/Get

    Example: vikingctl symbols viking://resources/notes/tea.md
    """
    found: SymbolsResult = run(_Contexts(session.client), symbols_below(uri, limit, max_files))
    if session.form is Form.JSONL:
        session.show_value(*map(_value, found))
    elif session.is_structured:
        shown = {"symbols": [*map(_value, found)], "files": found.files, "note": found.note}
        session.show_value(shown)
    elif session.form is Form.URI:
        session.write("".join(f"{one}\n" for one in dict.fromkeys(one.uri for one in found)))
    else:
        session.print(Rows(map(_record, found)))
    if found.note:
        session.warn(found.note)


def _value(symbol: FoundSymbol) -> dict[str, Any]:
    """Return a symbol with its fields named as in the JSON of replies."""
    value = asdict(symbol)
    lines = {"firstLine": value.pop("first_line"), "lastLine": value.pop("last_line")}
    return value | lines


def _record(symbol: FoundSymbol) -> Row:
    """Return (URI:LINES, kind, names, signature) of a symbol."""
    place = Text(symbol.uri, "magenta")
    place.append(lines_behind(symbol.first_line, symbol.last_line), "cyan")
    names = Text(symbol.heading, "bold")
    return Row((place, Text(symbol.kind, "green"), names, tail(symbol.signature, "dim")))
