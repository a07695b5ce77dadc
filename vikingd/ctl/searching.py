"""The command that looks up what a task needs to know."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.tree import Tree

from vikingd.client import SearchMode
from vikingd.client import Session as Said
from vikingd.ctl import render
from vikingd.ctl.reading import Kinds, Target, Threshold, Where, types_of
from vikingd.ctl.session import Session
from vikingd.ctl.trace import add_plan, search_tree


def read_session(path: str) -> Said:
    """Parses the option that names the file of a session."""
    try:
        return Said.load(Path(path))
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def search(
    session: Session,
    query: Annotated[str, typer.Argument(help="What is to be done, in any language.")],
    said: Annotated[
        Said | None,
        typer.Option(
            "--session",
            parser=read_session,
            metavar="FILE",
            help='What was said before: {"summary": "...", "messages": [{"role": "user", '
            '"content": "..."}]}.',
        ),
    ] = None,
    target: Target = "",
    kinds: Kinds = None,
    limit: Annotated[
        int,
        typer.Option(min=1, max=1000, help="Show at most this many results; 100 unless --quick."),
    ] = 10,
    threshold: Threshold = None,
    where: Where = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave the order to meaning and words.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show plan, walks, reranking and merge.")
    ] = False,
) -> None:
    """Search what a task needs to know, given what was said before it.

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
        trace=trace,
    )
    shown: list[RenderableType] = [render.find_table(reply)] if reply.total else []
    if trace:
        shown.append(search_tree(query, reply))
    else:
        plan = Tree("", hide_root=True)
        add_plan(plan, reply.query_plan)
        shown.append(plan)
    shown.append(render.find_footer(reply))
    session.show(reply, *shown)
