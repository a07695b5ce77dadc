"""vikingctl hook, as the help shows it; `vikingd.daemon.entry_points` runs the hook itself."""

from __future__ import annotations

from typing import Annotated

import typer

from vikingd.hooks import hook_command


def hook(
    agent: Annotated[
        str, typer.Argument(help=f"{', '.join(hook_command.AGENTS)}. Else the event tells.")
    ] = "",
    event: Annotated[str, typer.Argument(help="The event, if its JSON does not name it.")] = "",
    address: Annotated[
        str,
        typer.Option(
            envvar="VIKINGCTL_ADDRESS",
            help="unix:PATH, HOST:PORT of this machine, or user: the daemon of this user.",
        ),
    ] = hook_command.USER,
    start: Annotated[
        bool, typer.Option("--start", help="Start the daemon of this user if none runs.")
    ] = False,
) -> None:
    """Answer an event of a coding agent, given as JSON on stdin, from the memories of the daemon.

    Agents run this. If anything fails, the answer is empty, the exit code is 0, and
    ~/.local/state/vikingd/hooks.log says why. VIKINGD_HOOKS=off switches all hooks off.

    RPC: viking.retrieval.v1.Memories/Recall, viking.retrieval.v1.Memories/Extract and others

    Example: vikingctl hook claude-code --start < event.json
    """
    words = [word for word in (agent, event) if word]
    hook_command.main([*words, "--address", address, *(["--start"] if start else [])])
