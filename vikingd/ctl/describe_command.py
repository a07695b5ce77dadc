"""The command that lets a model describe the contexts of a subtree."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from vikingd.ctl.command_session import Session
from vikingd.ctl.progress import wait_for_descriptions


def describe(
    session: Session,
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="Only this subtree; else everything.")
    ] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Also what has a description of its present content.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Only count the contexts and the tokens.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Show the progress until the end.")] = False,
) -> None:
    """Let the model of [describer] write abstracts and overviews, in the background.

    The daemon describes new and changed contexts by itself. This command shows how many contexts
    wait, and about how many tokens they take. It asks again about contexts for which no answer of
    the model could be used, and with --again about all. Descriptions by people stay.

    RPC: viking.retrieval.v1.Admin/Describe; with --wait Admin/Stats

    Example: vikingctl describe viking://resources/notes --dry-run
    """
    if dry_run and wait:
        raise typer.BadParameter("--wait: there is nothing to wait for with --dry-run")
    reply = session.client.describe(uri, again=again, dry_run=dry_run)
    count = f"{reply.contexts:,} {'context' if reply.contexts == 1 else 'contexts'}"
    if dry_run:
        text = (
            f"{count} would be described, with about {reply.tokens:,} tokens of questions and "
            "answers; the price is that of so many tokens at your endpoint"
        )
    else:
        one = "waits for its description" if reply.contexts == 1 else "wait for their description"
        text = f"{count} {one}, about {reply.tokens:,} tokens"
    session.show(reply, Text(text))
    if wait:
        try:
            wait_for_descriptions(session)
        except KeyboardInterrupt:
            session.note("the daemon continues to describe; `vikingctl stats` shows the progress")
    elif reply.contexts and not dry_run:
        session.note("`vikingctl stats` shows the progress", "dim")
