"""The commands that find lines and paths by a pattern."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from vikingd.client import NodeKind
from vikingd.ctl.command_session import Session
from vikingd.ctl.exit_codes import OTHER
from vikingd.ctl.output import Form, value_of
from vikingd.ctl.search_read_commands import Kinds, Limit, first, types_of
from vikingd.domain import uri as uris
from vikingd.pb.contexts_pb2 import GlobResponse, GrepMatch

NodeName = StrEnum("NodeName", ["FILE", "DIRECTORY"])

_MOST = 10_000  # of a page


def grep(
    session: Session,
    pattern: Annotated[str, typer.Argument(help="The regular expression, in RE2's syntax.")],
    uri: Annotated[str, typer.Argument(help="The file, or the directory.")] = uris.ROOT,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Ignore the case of letters.")
    ] = False,
    literal: Annotated[
        bool, typer.Option("--literal", "-F", help="The pattern is a text.")
    ] = False,
    glob: Annotated[
        str,
        typer.Option(
            metavar="PATTERN", help='Only files with such a path; "*.md" is for the name alone.'
        ),
    ] = "",
    kinds: Kinds = None,
    abstracts: Annotated[
        bool, typer.Option("--abstracts", help="Search the abstracts too.")
    ] = False,
    limit: Limit = 0,
) -> None:
    """Find the lines that match a regular expression, as URI:LINE:TEXT.

    The exit code is 1 if nothing matches, and 6 if the search fails.

    RPC: viking.retrieval.v1.Contexts/Grep

    Example: vikingctl grep -i "status.code" viking://resources --glob "*.md"
    """
    matches = session.client.grep(
        pattern,
        uri,
        case_insensitive=ignore_case,
        literal=literal,
        glob=glob,
        context_types=types_of(kinds),
        with_abstracts=abstracts,
        page_size=min(limit, _MOST),
    )
    shown = first(matches, limit)
    if session.is_structured:
        found = [value_of(match) for match in shown]
        session.show_value(*found if session.form is Form.JSONL else [{"matches": found}])
        _end(len(found))
        return
    count, last = 0, ""
    for count, match in enumerate(shown, 1):  # noqa: B007
        line = _match_line(match)
        if session.form is Form.URI:
            if match.uri != last:
                session.write(f"{match.uri}\n")
        elif session.out.is_terminal:
            session.out.print(line, soft_wrap=True)
        else:
            session.write(f"{line.plain}\n")  # with its tabs
        last = match.uri
    _end(count)


def glob(
    session: Session,
    pattern: Annotated[str, typer.Argument(help='The path below URI, such as "**/*.md".')],
    uri: Annotated[str, typer.Argument(help="The directory.")] = uris.ROOT,
    kind: Annotated[NodeName | None, typer.Option(help="Only files, or directories.")] = None,
    limit: Limit = 0,
) -> None:
    """Find contexts by a pattern over their paths.

    `*` stands for any characters of a name, `?` for one, `[a-z]` for one of a set, `**` for any
    number of directories.

    The exit code is 1 if nothing matches, and 6 if the search fails.

    RPC: viking.retrieval.v1.Contexts/Glob

    Example: vikingctl glob "**/*.md" viking://resources
    """
    entries = session.client.glob(
        pattern, uri, kind=NodeKind[kind.name] if kind else None, page_size=min(limit, _MOST)
    )
    shown = first(entries, limit)
    if session.form is not Form.TEXT:
        reply = GlobResponse(entries=shown)
        session.show(reply)
        _end(len(reply.entries))
        return
    count = 0
    for count, entry in enumerate(shown, 1):  # noqa: B007
        slash = "/" if entry.is_directory and entry.uri != uris.ROOT else ""
        session.write(f"{entry.uri}{slash}\n")
    _end(count)


def _end(count: int) -> None:
    if not count:
        raise typer.Exit(OTHER)


def _match_line(match: GrepMatch) -> Text:
    """Return URI:LINE:TEXT, with ellipses where the line is cut."""
    line = Text()
    line.append(match.uri, "magenta").append(":", "cyan")
    if not match.level:
        line.append("abstract", "green").append(":", "cyan")
    line.append(str(match.line), "green").append(":", "cyan")
    left = match.column - 1 - match.start
    text = Text(match.text)
    text.stylize("bold red", match.start, match.end)
    line.append("…" if left else "").append_text(text)
    return line.append("…" if left + len(match.text) < match.line_length else "")
