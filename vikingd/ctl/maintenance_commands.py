"""The commands that show the state of the daemon and maintain it."""

from __future__ import annotations

from itertools import count, takewhile
from typing import Annotated

import typer
from rich.text import Text

import vikingd
from vikingd.client.users_daemon import stop as stop_users_daemon
from vikingd.client.users_daemon import version_difference
from vikingd.ctl import render
from vikingd.ctl.call_failures import reporting_failures
from vikingd.ctl.command_session import Session, usage_errors
from vikingd.ctl.common_options import Common, with_common
from vikingd.ctl.consoles import console
from vikingd.ctl.exit_codes import OTHER
from vikingd.ctl.output import is_structured
from vikingd.ctl.result_rows import Fields
from vikingd.ctl.write_commands import Yes, confirm
from vikingd.domain import uri as uris
from vikingd.domain.daemon_addresses import USER
from vikingd.system.user_paths import user_socket

_HEALTH = {"daemon": "", "embedder": "viking.embedder"}
"""The names of services in the health check, by their names for people."""


def stats(session: Session) -> None:
    """Show the state of the daemon in numbers.

    RPC: viking.retrieval.v1.Admin/Stats

    Example: vikingctl stats --json
    """
    reply = session.client.stats()
    session.show(reply, render.stats_table(reply))


def version(session: Session) -> None:
    """Print the versions of vikingctl and of the daemon.

    RPC: viking.retrieval.v1.Admin/Stats

    Example: vikingctl version
    """
    versions = {"vikingctl": vikingd.__version__, "daemon": session.client.stats().version}
    if session.is_structured:
        session.show_value(versions)
        return
    session.print(Fields(versions))


def health(session: Session) -> None:
    """Show if the daemon and its embedder work; exit code 1 if the daemon does not serve.

    An embedder that does not serve is a warning: texts are then found by their words alone. No key
    is needed. With --address user no daemon is started; a warning says if its version differs.

    RPC: grpc.health.v1.Health/Check

    Example: vikingctl health -q
    """
    found = {name: session.client.health(service) for name, service in _HEALTH.items()}
    readers = _readers(session)
    if readers:
        found["processes"] = f"{1 + readers.count('SERVING')} of {1 + len(readers)} answer"
    if session.is_structured:
        session.show_value(found)
    elif not session.quiet:
        session.print(
            Fields({name: state.lower().replace("_", " ") for name, state in found.items()})
        )
    if found["embedder"] == "NOT_SERVING":
        session.warn("texts are found by words alone until the embedder serves again")
    if session.client.address == USER and (text := version_difference(user_socket())):
        session.warn(text)
    if found["daemon"] != "SERVING":
        raise typer.Exit(OTHER)


def _readers(session: Session) -> list[str]:
    """Return the states of the readers that the daemon starts."""
    asked = (session.client.health(f"viking.reader-{number}") for number in count(1))
    return list(takewhile(lambda state: state != "SERVICE_UNKNOWN", asked))


def _stop(common: Common) -> None:
    """Stop the daemon of this user, which --address user has started, and wait for its end.

    The next call with that address starts it again. Another daemon ends by SIGTERM.

    Example: vikingctl stop
    """
    if common.address not in (None, USER):
        raise typer.BadParameter(
            f"--address is {common.address!r}; only the daemon of --address {USER} is stopped so, "
            "and another one by SIGTERM to its process"
        )
    with usage_errors():
        common = common.over(Common.from_environment())
        form = common.form()
    with reporting_failures(form), usage_errors():
        has_run = stop_users_daemon()
    if not has_run and not common.quiet and not is_structured(form):
        console(stderr=True).print("no daemon of this user runs")


stop = with_common(_stop)


def verify(session: Session) -> None:
    """Compare the whole index with the store; exit code 1 if they differ.

    RPC: viking.retrieval.v1.Admin/Verify

    Example: vikingctl verify
    """
    reply = session.client.verify()
    session.show(reply, render.verify_lines(reply))
    if not reply.ok:
        raise typer.Exit(OTHER)


def optimize(
    session: Session,
    remove_empty: Annotated[
        bool,
        typer.Option(
            "--remove-empty", help="Remove directories without content, fields and links, too."
        ),
    ] = False,
) -> None:
    """Compact the index now, and give the room of deleted contexts back to the disk.

    RPC: viking.retrieval.v1.Admin/Optimize

    Example: vikingctl optimize --remove-empty
    """
    reply = session.client.optimize(remove_empty_directories=remove_empty)
    done = [
        f"generation {reply.generation} holds revision {reply.base_revision}",
        f"bytes given back to the disk: {reply.given_back_bytes:,}",
    ]
    if remove_empty:
        done.append(f"empty directories removed: {reply.removed_directories:,}")
    session.show(reply, Text("\n".join(done)))


def reembed(
    session: Session,
    target: Annotated[
        str, typer.Option(metavar="URI", help="Only this subtree; else everything.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Drop vectors, so that the daemon's present model makes new ones.

    Until then these texts are found by words alone. The command asks first if stdin is a terminal.

    RPC: viking.retrieval.v1.Admin/Reembed

    Example: vikingctl reembed --target viking://resources/notes
    """
    question = f"Drop all vectors of {target or uris.ROOT} and make new ones?"
    if not yes:
        confirm(question)
    reply = session.client.reembed(target)
    waiting = f"{reply.texts:,} texts wait for a vector at revision {reply.revision}"
    session.show(reply, Text(waiting))
