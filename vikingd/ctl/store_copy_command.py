"""vikingctl copy: copies a store from SQLite to PostgreSQL, or back."""

from __future__ import annotations

import time
from typing import Annotated

import grpc
import typer
from rich.text import Text

from vikingd.client import ClientError
from vikingd.ctl.command_session import Session
from vikingd.ctl.exit_codes import OTHER
from vikingd.ctl.progress import meter
from vikingd.domain.errors import AlreadyExists, NotFound, VikingError
from vikingd.domain.rights import DEFAULT_TENANT
from vikingd.system.install_command import install_command

_CODES = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
}


def copy_(
    session: Session,
    source: Annotated[
        str,
        typer.Option("--from", metavar="PLACE", help="A store's directory, or postgresql://..."),
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="The same, where no store is yet.")
    ],
    of: Annotated[
        str, typer.Option("--of", metavar="NAME", help="The tenant in a database.")
    ] = DEFAULT_TENANT,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare two stores row by row, and copy nothing.")
    ] = False,
) -> None:
    """Copy a store between SQLite and PostgreSQL, with all ids, counters, times and vectors.

    No daemon may have a directory open; of a database the newest revision is copied. After an error
    or Ctrl-C nothing of the copy is left. The copy has an id of its own, so that no index of the
    source is used for it. Put a password into PGPASSWORD: all users can see the URL of a process.

    Example: vikingctl copy --from ~/.local/share/vikingd --to postgresql://me@db/vikingd
    """
    began = time.monotonic()
    try:
        from vikingd.store.store_copy import copy, differences
        from vikingd.store.store_places import opened_source, opened_target

        with meter(session, "rows", 0) as shown, opened_source(source, of) as one:
            if verify:
                with opened_source(target, of) as other:
                    found = differences(one, other, shown.advance)
            else:
                with opened_target(target, of) as made:
                    state = copy(one, made, shown.advance)
    except VikingError as error:
        code = _CODES.get(type(error), grpc.StatusCode.FAILED_PRECONDITION)
        raise ClientError(code, str(error), error.reason) from None
    except ModuleNotFoundError as error:
        needed = (
            f"{error.name} is not installed; install it with: {install_command('server,postgres')}"
        )
        raise ClientError(grpc.StatusCode.FAILED_PRECONDITION, needed, "NOT_INSTALLED") from None
    if verify:
        _report(session, found)
        return
    seconds = time.monotonic() - began
    if session.is_structured:
        session.show_value({"revision": state.revision, "rows": shown.done, "seconds": seconds})
    else:
        session.out.print(
            Text(f"{shown.done:,} rows in {seconds:.1f} s, revision {state.revision:,}")
        )


def _report(session: Session, found: list[str]) -> None:
    """Print the differences between two stores; exit with 1 if there are any."""
    if session.is_structured:
        session.show_value({"ok": not found, "differences": found})
    else:
        for line in found or ["the stores are the same"]:
            session.out.print(Text(line))
    if found:
        raise typer.Exit(OTHER)
