"""The commands that manage tenants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.text import Text

from vikingd.ctl import render
from vikingd.ctl.command_help import Command, group
from vikingd.ctl.command_session import Session, connected
from vikingd.ctl.key_commands import Limit, limits_of, limits_text
from vikingd.ctl.result_rows import Row, Rows
from vikingd.ctl.write_commands import Yes, confirm
from vikingd.pb import access_pb2

app = group("Manage tenants.")

_Name = Annotated[str, typer.Argument(help="The tenant.")]


def _create(session: Session, name: _Name, limit: Limit = None) -> None:
    """Create a tenant: a store of its own with its own keys.

    RPC: viking.retrieval.v1.Access/PutTenant

    Example: vikingctl tenants create acme --limit calls_per_second=100
    """
    reply = session.client.put_tenant(name, limits=limits_of(limit), create=True)
    session.show(reply, Text(f"tenant {reply.tenant.name} is ready"))


def _limit(session: Session, name: _Name, limit: Limit = None) -> None:
    """Change the limits of a tenant; without --limit, remove them.

    RPC: viking.retrieval.v1.Access/PutTenant

    Example: vikingctl tenants limit acme --limit contexts=100000
    """
    reply = session.client.put_tenant(name, limits=limits_of(limit) or {})
    limits = limits_text(reply.tenant.limits) or "no limits"
    session.show(reply, Text(f"tenant {reply.tenant.name}: {limits}"))


def _list(session: Session) -> None:
    """List the tenants.

    RPC: viking.retrieval.v1.Access/ListTenants

    Example: vikingctl tenants list
    """
    reply = session.client.list_tenants()
    session.show(reply, _table(reply.tenants))


def _stats(session: Session, name: _Name) -> None:
    """Show the state of a tenant in numbers.

    RPC: viking.retrieval.v1.Admin/Stats

    Example: vikingctl tenants stats acme
    """
    with session.of_tenant(name) as client:
        reply = client.stats()
    session.show(reply, render.stats_table(reply))


def _delete(session: Session, name: _Name, yes: Yes = False) -> None:
    """Delete a tenant with its contexts, its index and its keys. Backups stay where they are.

    The command asks first; without a terminal it needs --yes.

    RPC: viking.retrieval.v1.Access/DeleteTenant

    Example: vikingctl tenants delete acme
    """
    if not yes:
        needed = "a deletion needs --yes without a terminal"
        confirm(f"Delete all that the tenant {name} has?", needs_yes=needed)
    reply = session.client.delete_tenant(name)
    removed = f"{reply.contexts:,} contexts, {render.size(reply.bytes)} and {reply.keys:,} keys"
    session.show(reply, Text(f"tenant {name} is deleted: {removed}"))


app.command("create", cls=Command)(connected(_create))
app.command("limit", cls=Command)(connected(_limit))
app.command("list", cls=Command)(connected(_list))
app.command("stats", cls=Command)(connected(_stats))
app.command("delete", cls=Command)(connected(_delete, deadline=None))


def _table(tenants: Iterable[access_pb2.Tenant]) -> Rows:
    return Rows(map(_record, tenants), ("tenant", "created", "state", "limits"))


def _record(tenant: access_pb2.Tenant) -> Row:
    created = render.local_time(tenant.create_time) if tenant.HasField("create_time") else ""
    state = "open" if tenant.open else "closed"
    return Row((tenant.name, created, state, limits_text(tenant.limits)))
