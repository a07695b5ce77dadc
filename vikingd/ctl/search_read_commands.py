"""The commands that find and read, and the options that they share with others.

Each command imports protobuf and rich only when it runs, because the help needs neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from vikingd.ctl.command_session import Session
from vikingd.ctl.output import Form
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.line_numbers import LineRange, line_range, uri_and_lines

if TYPE_CHECKING:
    from vikingd.client import ContextType
    from vikingd.pb.contexts_pb2 import Context

# The enums of the client, by their names on the command line.
TypeName = StrEnum("TypeName", ["MEMORY", "RESOURCE", "SKILL"])
LevelsName = StrEnum("LevelsName", ["FILES", "DIRECTORIES", "BOTH"])
MethodName = StrEnum(
    "MethodName",
    {"AUTO": "auto", "EXHAUSTIVE": "exhaustive", "BEST_FIRST": "best-first", "EXACT": "exact"},
)

PreferenceName = StrEnum("PreferenceName", ["NONE", "CODE", "DOCS"])


def json_object(text: str) -> dict[str, Any]:
    """Parse the value of an option that is a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter('is not a JSON object like {"key": "value"}')
    return value


Target = Annotated[str, typer.Option(metavar="URI", help="Search in this directory only.")]
Where = Annotated[
    dict | None,  # type: ignore[type-arg]  # typer takes no parameters here
    typer.Option(
        parser=json_object,
        metavar="JSON",
        help='Only where the metadata match, like \'{"year": {"$gte": 2024}}\'.',
    ),
]
Tokenizer = Annotated[
    str,
    typer.Option(
        help="The tokenizer: o200k_base, cl100k_base, qwen3, llama3, approx, or a name of the "
        "daemon's configuration."
    ),
]
Floor = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="The least confidence that anything here is about this; less is left out. 0: "
        "nothing is left out; else the daemon's default.",
    ),
]
Kinds = Annotated[
    list[TypeName] | None, typer.Option("--type", help="Only this type; may be repeated.")
]
Threshold = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="Only results that score more than this.")
]

Trace = Annotated[
    bool,
    typer.Option("--trace", help="Show why; --trace=full: each directory and part of a score."),
]
FullTrace = Annotated[bool, typer.Option("--full-trace", hidden=True, help="As --trace=full.")]

_LINES = "--lines"


def lines_of(text: str) -> LineRange:
    """Parse the option with the numbers of lines, such as "12:40"."""
    try:
        return line_range(text, _LINES)
    except InvalidField as error:
        raise typer.BadParameter(error.description) from None


Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most this many; 0: all.")]

_Item = TypeVar("_Item")


def first(items: Iterable[_Item], limit: int) -> Iterator[_Item]:
    """Return the first items; with a limit of 0 all of them."""
    return islice(items, limit or None)


def types_of(kinds: Kinds) -> list[ContextType]:
    """Return the types as the client's enums."""
    from vikingd.client import ContextType

    return [ContextType[kind.name] for kind in kinds or ()]


def find(
    session: Session,
    query: Annotated[str, typer.Argument(help="The question, in any language.")],
    target: Target = "",
    kinds: Kinds = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Show at most this many results.")
    ] = 10,
    threshold: Threshold = None,
    where: Where = None,
    levels: Annotated[LevelsName, typer.Option(help="Nodes to show.")] = LevelsName.FILES,
    alpha: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of the own score beside the directory's; else chosen by the scope.",
        ),
    ] = None,
    method: Annotated[MethodName, typer.Option(help="The method of the search.")] = MethodName.AUTO,
    think: Annotated[
        bool, typer.Option("--think", help="Let the daemon's reranker decide the order.")
    ] = False,
    prefer: Annotated[
        PreferenceName, typer.Option(help="The kinds of files that score higher.")
    ] = PreferenceName.NONE,
    trace: Trace = False,
    full_trace: FullTrace = False,
    timings: Annotated[bool, typer.Option("--timings", help="Show each stage's time.")] = False,
) -> None:
    """Find the contexts that matter for a query, best first.

    RPC: viking.retrieval.v1.Retrieval/Find

    Example: vikingctl find "how do I return a custom status code" --target viking://resources
    """
    from rich.text import Text

    from vikingd.client import Levels, Method, Preference, SearchMode
    from vikingd.ctl import render
    from vikingd.ctl.empty_store_hint import tell_if_empty
    from vikingd.ctl.trace_tree import find_reasons, trace_tree

    reply = session.client.find(
        query,
        target_uri=target,
        context_types=types_of(kinds),
        levels=Levels[levels.name],
        limit=limit,
        score_threshold=threshold,
        where=where,
        alpha=alpha,
        trace=trace or full_trace,
        method=Method[method.name],
        mode=SearchMode.THINKING if think else SearchMode.QUICK,
        prefer=Preference[prefer.name],
    )
    table = render.find_table(reply) if reply.total else None
    session.show(reply, table, footer=render.find_footer(reply))
    if session.form is Form.TEXT:
        if full_trace:
            session.print(Text(), trace_tree(reply, target))
        elif trace:
            session.print(Text(), find_reasons(reply))
        if timings and not full_trace:
            session.print(render.timings_line(reply.timings))
    if not reply.total:
        tell_if_empty(session, target)


def get(
    session: Session,
    uri: Annotated[str, typer.Argument(help="The context to read.")],
    overview: Annotated[
        bool, typer.Option("--overview", help="Print the overview alone, as it is.")
    ] = False,
    content: Annotated[
        bool, typer.Option("--content", help="Print the content alone, as it is.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Show type, times, metadata and links alone.")
    ] = False,
    lines: Annotated[
        LineRange | None,
        typer.Option(
            parser=lines_of,
            metavar="FIRST:LAST",
            help="Print these lines of the content alone, as they are: 12:40, 12:, :40 or 12.",
        ),
    ] = None,
) -> None:
    """Show a file, or what is in a directory.

    On a terminal its URI, type, title and time stand above the content. In a pipe the content is
    printed alone, unchanged. Lines may stand behind a URI, as find shows them: tea.md:12-40.

    RPC: viking.retrieval.v1.Contexts/Get, .../List

    Example: vikingctl get viking://resources/notes/tea.md --lines 12:40
    """
    given = [
        name
        for name, one in (
            ("--overview", overview),
            ("--content", content),
            ("--details", details),
            (_LINES, lines is not None),
        )
        if one
    ]
    if len(given) > 1:
        raise typer.BadParameter(f"{' and '.join(given)} exclude each other")
    from vikingd.client import NotFound
    from vikingd.ctl import render

    try:
        reply = session.client.get(uri)
    except NotFound:  # a name may end like that
        uri, behind = uri_and_lines(uri)
        if not behind or given:
            raise
        reply, lines = session.client.get(uri), lines_of(behind)
    if lines is not None:
        _show_lines(session, reply.context, lines)
    elif overview and not reply.context.overview and session.form is Form.TEXT:
        session.note(f"{reply.context.uri} has no overview: too little is in it")
    elif (overview or content) and session.form is Form.TEXT:
        session.write(reply.context.overview if overview else reply.context.content)
    elif details or session.form is not Form.TEXT:
        session.show(reply, render.context_details(reply.context))
    else:
        _show_whole(session, reply.context)


def _show_whole(session: Session, context: Context) -> None:
    """Print a context for people: the details on a terminal, then its content or its children."""
    from rich.text import Text

    from vikingd.ctl import render

    if session.out.is_terminal and not session.quiet:
        session.print(render.context_heading(context), Text())
    if context.is_directory:
        session.print(render.children_table(session.client.list(context.uri)))
    elif context.content:
        session.write(context.content)
    else:
        session.note(f"{context.uri} has no content; --details shows the rest")


def _show_lines(session: Session, context: Context, lines: LineRange) -> None:
    """Print lines of a content; as JSON with the numbers of the first and the last of them."""
    if context.is_directory:
        raise typer.BadParameter(f"{_LINES}: {context.uri} is a directory, which has no lines")
    try:
        last, text = lines.of(context.content, _LINES)
    except InvalidField as error:
        raise typer.BadParameter(str(error)) from None
    if session.form is Form.TEXT:
        session.write(text)
    elif session.form is Form.URI:
        session.write(f"{context.uri}\n")
    else:
        numbers = {"firstLine": lines.first, "lastLine": last}
        session.show_value({"uri": context.uri, **numbers, "content": text})


def ls(
    session: Session,
    uri: Annotated[str, typer.Argument(help="The directory to list.")] = uris.ROOT,
    limit: Limit = 0,
) -> None:
    """List the children of a directory, files first.

    RPC: viking.retrieval.v1.Contexts/List

    Example: vikingctl ls viking://resources
    """
    from vikingd.ctl import render
    from vikingd.pb.contexts_pb2 import ListResponse

    reply = ListResponse(contexts=first(session.client.list(uri), limit))
    session.show(reply, render.children_table(reply.contexts))


def tree(
    session: Session,
    uri: Annotated[str, typer.Argument(help="The top of the subtree.")] = uris.ROOT,
    depth: Annotated[
        int,
        typer.Option("--depth", "-L", min=0, help="The number of levels below the top; 0: all."),
    ] = 0,
    limit: Limit = 0,
) -> None:
    """Show a subtree with the abstracts.

    RPC: viking.retrieval.v1.Contexts/Tree

    Example: vikingctl tree viking://resources --depth 2
    """
    from vikingd.ctl import render
    from vikingd.pb.contexts_pb2 import TreeResponse

    reply = TreeResponse(contexts=first(session.client.tree(uri, depth=depth), limit))
    top = reply.contexts[0].uri if reply.contexts else uri
    session.show(reply, render.ContextTree(top, reply.contexts))
