"""vikingctl search: what a task needs, given its conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from vikingd.client import SearchMode
from vikingd.client import Session as Said
from vikingd.ctl import render
from vikingd.ctl.command_session import Session
from vikingd.ctl.empty_store_hint import tell_if_empty
from vikingd.ctl.output import Form
from vikingd.ctl.result_rows import Words
from vikingd.ctl.search_read_commands import (
    FullTrace,
    Kinds,
    Target,
    Threshold,
    Trace,
    Where,
    types_of,
)
from vikingd.ctl.trace_tree import plan_tree, search_steps, search_tree


def read_session(path: str) -> Said:
    """Parse the option for the file of a session."""
    try:
        return Said.load(Path(path))
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def search(
    session: Session,
    query: Annotated[str, typer.Argument(help="The task, in any language.")],
    said: Annotated[
        Said | None,
        typer.Option(
            "--session",
            parser=read_session,
            metavar="FILE",
            help='The conversation: {"summary": "...", "messages": [{"role": "user", '
            '"content": "..."}]}.',
        ),
    ] = None,
    target: Target = "",
    kinds: Kinds = None,
    limit: Annotated[
        int,
        typer.Option(
            *("--limit", "-n"),
            min=1,
            max=1000,
            help="Show at most this many results; 100 unless --quick.",
        ),
    ] = 10,
    threshold: Threshold = None,
    where: Where = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave the order to meaning and words.")
    ] = False,
    trace: Trace = False,
    full_trace: FullTrace = False,
) -> None:
    """Search the contexts for a task, given the conversation before it.

    RPC: viking.retrieval.v1.Retrieval/Search

    Example: vikingctl search "Help me create an RFC document" --session session.json --trace
    """
    reply = session.client.search(
        query,
        session=said,
        target_uri=target,
        context_types=types_of(kinds),
        limit=limit,
        score_threshold=threshold,
        where=where,
        mode=SearchMode.QUICK if quick else SearchMode.THINKING,
        trace=trace or full_trace,
    )
    table = render.find_table(reply) if reply.total else None
    footer: list[RenderableType] = [Words(render.find_footer(reply))]
    if not (trace or full_trace):
        footer.append(plan_tree(reply.query_plan))
    session.show(reply, table, footer=Group(*footer))
    if session.form is Form.TEXT and (trace or full_trace):
        session.print(Text(), (search_tree if full_trace else search_steps)(query, reply))
    if not reply.total:
        tell_if_empty(session, target)
