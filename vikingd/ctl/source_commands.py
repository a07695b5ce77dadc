"""The commands about the sources that were imported by address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from vikingd.client.client_errors import ClientError
from vikingd.client.subtree_removal import delete_in_parts
from vikingd.ctl.address_import import AddressedSource, interval, keep_fresh, print_failure, refresh
from vikingd.ctl.command_help import Command, group
from vikingd.ctl.command_session import Session, connected, usage_errors
from vikingd.ctl.exit_codes import OTHER
from vikingd.ctl.output import Form
from vikingd.ctl.result_rows import Row, Rows
from vikingd.ctl.write_commands import Yes, confirm
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.ingest.draft_preparation import is_shared
from vikingd.sources import source_registry
from vikingd.sources.addresses import Address, Kind, address_of
from vikingd.sources.fetch_result import SourceFailed
from vikingd.sources.source_registry import Record

app = group("List, refresh and remove sources by address.")


def _list(session: Session) -> None:
    """List the sources that were imported by address, of all daemons.

    No daemon is asked: the list is kept on this machine.

    Example: vikingctl sources list --json
    """
    found = list(source_registry.records())
    values = [_value(one) for one in found if isinstance(one, Record)]
    if session.is_structured:
        session.show_value(*(values if session.form is Form.JSONL else [{"sources": values}]))
    else:
        records = (
            Row((one["address"], one["uri"], one["daemon"], one["fetched_at"] or "", _result(one)))
            for one in values
        )
        names = ("source", "uri", "daemon", "last fetch", "result")
        session.print(Rows(records, names))
    for fault in found:
        if isinstance(fault, SourceFailed):
            session.warn(str(fault))


def _refresh(
    session: Session,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ADDRESS|URI...]", help="The sources; none: all of the daemon."),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Repeat at this interval: 30m, 6h, 1d.")
    ] = "",
) -> None:
    """Fetch sources again, with the options of their last import, and import what changed.

    A source that has not changed is not compared with the tree; `vikingctl import` does that. The
    sources of other daemons and tenants are left alone.

    RPC: viking.retrieval.v1.Contexts/Tree, .../Get, .../Put, .../Delete, .../Move

    Example: vikingctl sources refresh viking://resources/docs
    """
    try:
        seconds = interval(every) if every else None
    except InvalidField as error:
        raise typer.BadParameter(error.description, param_hint="--every") from None
    failed = False
    for record in _chosen(session, names or ()):
        try:
            refresh(session, _addressed(record))
        except (ClientError, OSError) as error:
            failed = True
            print_failure(session, record, error)
    if seconds is not None:
        keep_fresh(
            session, lambda: [_addressed(one) for one in _chosen(session, names or ())], seconds
        )
    if failed:
        raise typer.Exit(OTHER)


def _remove(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="ADDRESS|URI", help="The source.")],
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove its directory of the tree, too.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Forget a source and the files that were fetched; its contexts stay without --delete.

    RPC: viking.retrieval.v1.Contexts/Delete

    Example: vikingctl sources remove viking://resources/docs --delete
    """
    found = _chosen(session, [name])
    if len(found) > 1:
        places = ", ".join(one.uri for one in found)
        raise typer.BadParameter(f"{name} was imported to {places}: name one of them")
    (record,) = found
    if delete:
        if is_shared(record.uri):
            raise typer.BadParameter(
                f"{record.uri} has other contexts, too: remove those of the source by rm"
            )
        if not yes:
            confirm(
                f"Remove {record.uri} with all below it?",
                needs_yes=f"--delete removes {record.uri} with all below it: --yes does not ask",
            )
    deleted = 0
    try:
        with source_registry.locked(record):
            if delete:
                for reply in delete_in_parts(session.client, [record.uri], allow_missing=True):
                    deleted += reply.deleted
            source_registry.remove(record)
    except SourceFailed as error:
        raise typer.BadParameter(str(error)) from None
    if session.is_structured:
        session.show_value({"address": record.address, "uri": record.uri, "deleted": deleted})
    else:
        gone = f", removed {deleted:,} contexts" if delete else ""
        session.print(Text(f"forgot {record.address}{gone}"))


app.command("list", cls=Command)(connected(_list))
app.command("refresh", cls=Command)(connected(_refresh, deadline=None))
app.command("remove", cls=Command)(connected(_remove))


def _chosen(session: Session, names: Sequence[str]) -> list[Record]:
    """Return the daemon's sources with these addresses or URIs; () returns all of them."""
    own = []
    for one in source_registry.records():
        if isinstance(one, SourceFailed):
            session.warn(str(one))
        elif (one.daemon, one.tenant) == (session.client.address, session.client.tenant):
            own.append(one)
    chosen = []
    for name in names:
        wanted = _canonical(name)
        some = [one for one in own if wanted in (one.address, one.uri)]
        if not some:
            raise typer.BadParameter(
                f"{name} is no source of {session.client.address}: `vikingctl sources list` "
                "shows them"
            )
        chosen += [one for one in some if one not in chosen]
    return chosen if names else own


def _canonical(name: str) -> str:
    """Return an address or a URI in the form that records have."""
    with usage_errors():
        if name.startswith(uris.ROOT):
            try:
                return uris.parse(name)
            except InvalidField as error:
                raise typer.BadParameter(error.description) from None
    try:
        address = address_of(name)
    except InvalidField as error:
        raise typer.BadParameter(error.description) from None
    return name if address is None else address.whole


def _addressed(record: Record) -> AddressedSource:
    """Return the record of a source with its parsed address."""
    gone = Address(Kind.ARCHIVE, record.address, record.address)  # the archive was deleted
    return address_of(record.address) or gone, record


def _value(record: Record) -> dict[str, Any]:
    value = {**asdict(record), "id": record.id}
    del value["state"]
    return value


def _result(value: dict[str, Any]) -> str:
    result = value["result"]
    if error := result.get("error"):
        return f"failed: {error}"
    shown = ("created", "updated", "moved", "deleted", "failed", "not_taken")
    told_ = [f"{result[name]:,} {name.replace('_', ' ')}" for name in shown if result.get(name)]
    return ", ".join(told_) or str(result.get("end", ""))
