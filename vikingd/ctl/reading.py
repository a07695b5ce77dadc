"""The commands that ask and read."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from vikingd.client import ContextType, Levels, Method, SearchMode
from vikingd.ctl import render
from vikingd.ctl.session import Session
from vikingd.ctl.trace import trace_tree
from vikingd.domain import uri as uris
from vikingd.pb.contexts_pb2 import ListResponse, TreeResponse


class TypeName(StrEnum):
    """The names of ContextType on the command line."""

    MEMORY = "memory"
    RESOURCE = "resource"
    SKILL = "skill"


class LevelsName(StrEnum):
    """The names of Levels on the command line."""

    FILES = "files"
    DIRECTORIES = "directories"
    BOTH = "both"


class MethodName(StrEnum):
    """The names of Method on the command line."""

    AUTO = "auto"
    EXHAUSTIVE = "exhaustive"
    BEST_FIRST = "best-first"
    EXACT = "exact"


def json_object(text: str) -> dict[str, Any]:
    """Parses an option that is a JSON object."""
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

Kinds = Annotated[
    list[TypeName] | None, typer.Option("--type", help="Only this type; may be repeated.")
]
Threshold = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="Only what scores more than this.")
]


def types_of(kinds: Kinds) -> list[ContextType]:
    """Return the types in the form of the client."""
    return [ContextType[kind.name] for kind in kinds or ()]


def find(
    session: Session,
    query: Annotated[str, typer.Argument(help="The question, in any language.")],
    target: Target = "",
    kinds: Kinds = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, help="Show at most this many results.")
    ] = 10,
    threshold: Threshold = None,
    where: Where = None,
    levels: Annotated[LevelsName, typer.Option(help="What to return.")] = LevelsName.FILES,
    alpha: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Weight of the own score against the directory's; else adaptive."
        ),
    ] = None,
    method: Annotated[MethodName, typer.Option(help="How to search.")] = MethodName.AUTO,
    think: Annotated[
        bool, typer.Option("--think", help="Let the daemon's reranker decide the order.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show how the answer and each score came about.")
    ] = False,
    timings: Annotated[bool, typer.Option("--timings", help="Show what each stage took.")] = False,
) -> None:
    """Find the contexts that matter for a query, best first.

    RPC: viking.retrieval.v1.Retrieval/Find

    Example: vikingctl find "how do I return a custom status code" --target viking://resources
    """
    reply = session.client.find(
        query,
        target_uri=target,
        context_types=types_of(kinds),
        levels=Levels[levels.name],
        limit=limit,
        score_threshold=threshold,
        where=where,
        alpha=alpha,
        trace=trace,
        method=Method[method.name],
        mode=SearchMode.THINKING if think else SearchMode.QUICK,
    )
    shown: list[RenderableType] = [render.find_table(reply)] if reply.total else []
    shown.append(render.find_footer(reply))
    if trace:
        shown.append(trace_tree(reply, target))
    elif timings:
        shown.append(render.timings_line(reply.timings))
    session.show(reply, *shown)


def get(
    session: Session,
    uri: Annotated[str, typer.Argument(help="The context to read.")],
    overview: Annotated[
        bool, typer.Option("--overview", help="Print the overview alone, as it is.")
    ] = False,
    content: Annotated[
        bool, typer.Option("--content", help="Print the content alone, as it is.")
    ] = False,
) -> None:
    """Show one context whole.

    RPC: viking.retrieval.v1.Contexts/Get

    Example: vikingctl get viking://resources/notes/tea.md --content
    """
    if overview and content:
        raise typer.BadParameter("--overview and --content exclude each other")
    reply = session.client.get(uri)
    if (overview or content) and not session.as_json:
        session.write(reply.context.overview if overview else reply.context.content)
    else:
        session.show(reply, render.context_details(reply.context))


def ls(
    session: Session,
    uri: Annotated[str, typer.Argument(help="The directory to list.")] = uris.ROOT,
) -> None:
    """List the children of a directory, files first.

    RPC: viking.retrieval.v1.Contexts/List

    Example: vikingctl ls viking://resources
    """
    reply = ListResponse(contexts=session.client.list(uri))
    session.show(reply, render.children_table(reply.contexts))


def tree(
    session: Session,
    uri: Annotated[str, typer.Argument(help="The top of the subtree.")] = uris.ROOT,
    depth: Annotated[
        int, typer.Option(min=0, help="How many levels below the top; 0 for all.")
    ] = 0,
) -> None:
    """Show a subtree with the abstracts.

    RPC: viking.retrieval.v1.Contexts/Tree

    Example: vikingctl tree viking://resources --depth 2
    """
    reply = TreeResponse(contexts=session.client.tree(uri, depth=depth))
    top = reply.contexts[0].uri if reply.contexts else uri
    session.show(reply, render.context_tree(top, reply.contexts))
