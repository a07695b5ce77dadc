"""The commands that manage keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated

import typer
from rich.text import Text

from vikingd.ctl import render
from vikingd.ctl.command_help import Command, group
from vikingd.ctl.command_session import Session, connected
from vikingd.ctl.result_rows import Row, Rows
from vikingd.pb import access_pb2

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LIMITS = tuple(field.name for field in access_pb2.Limits.DESCRIPTOR.fields)

app = group("Manage keys.")

Limit = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=NUMBER", help=f"A limit: {', '.join(_LIMITS)}. Repeatable."),
]


def _create(
    session: Session,
    user: Annotated[str, typer.Option(help="The user: viking://~ is viking://users/USER.")] = "",
    read: Annotated[
        list[str] | None, typer.Option(metavar="URI", help="May read below this. Repeatable.")
    ] = None,
    write: Annotated[
        list[str] | None, typer.Option(metavar="URI", help="May write below this, too.")
    ] = None,
    admin: Annotated[
        list[str] | None, typer.Option(metavar="URI", help="May administer below this, too.")
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Manages keys and tenants; the first key must.")
    ] = False,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="Valid for so long: 12h, 90d, 4w. Else for ever.")
    ] = "",
    limit: Limit = None,
    certificate_subject: Annotated[
        str, typer.Option(metavar="CN=NAME", help="Client certificates that count as this key.")
    ] = "",
    note: Annotated[str, typer.Option(help="A note for people.")] = "",
) -> None:
    """Create a key and print it. It is shown once; the daemon keeps a hash.

    From the first key on, each call needs one, so the first key is an operator's.

    RPC: viking.retrieval.v1.Access/CreateKey

    Example: vikingctl keys create --user ana --read viking://resources --write viking://users/ana
    """
    reply = session.client.create_key(
        user=user,
        read=tuple(read or ()),
        write=tuple(write or ()),
        admin=tuple(admin or ()),
        operator=operator,
        expires_in=duration(expires, "--expires") if expires else None,
        limits=limits_of(limit),
        certificate_subject=certificate_subject,
        note=note,
    )
    session.show(reply, Text(reply.secret))
    session.note(f"key {reply.key.id}: keep the text above, it is not shown again", "dim")


def _list(session: Session) -> None:
    """List the keys of the tenant, without their secrets.

    RPC: viking.retrieval.v1.Access/ListKeys

    Example: vikingctl keys list
    """
    reply = session.client.list_keys()
    session.show(reply, _table(reply.keys) if reply.keys else None)
    if not reply.keys:
        session.note("no key yet: callers on the daemon's machine need none")


def _revoke(
    session: Session, key: Annotated[str, typer.Argument(help="The id of the key.")]
) -> None:
    """Revoke a key. Its next call fails.

    RPC: viking.retrieval.v1.Access/RevokeKey

    Example: vikingctl keys revoke 3f9a1b2c
    """
    reply = session.client.revoke_key(key)
    session.show(reply, Text(f"key {reply.key.id} is revoked"))


def _rotate(
    session: Session,
    key: Annotated[str, typer.Argument(help="The id of the key.")],
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="The old secret stays valid for so long.")
    ] = "1d",
) -> None:
    """Give a key a new secret and print it; the old one stays valid for a time.

    RPC: viking.retrieval.v1.Access/RotateKey

    Example: vikingctl keys rotate 3f9a1b2c --grace 1h
    """
    reply = session.client.rotate_key(key, grace=duration(grace, "--grace"))
    session.show(reply, Text(reply.secret))
    until = render.local_time(reply.old_expire_time)
    session.note(f"key {reply.key.id}: the old secret is valid until {until}", "dim")


app.command("create", cls=Command)(connected(_create))
app.command("list", cls=Command)(connected(_list))
app.command("revoke", cls=Command)(connected(_revoke))
app.command("rotate", cls=Command)(connected(_rotate))


def duration(text: str, option: str) -> timedelta:
    """Return a time such as 90d; `option` is named in the error."""
    parts = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if parts is None:
        raise typer.BadParameter(f"{option}: {text!r} is no time such as 30m, 12h, 90d or 4w")
    return timedelta(seconds=int(parts[1]) * _UNITS[parts[2]])


def limits_of(given: Iterable[str] | None) -> dict[str, int] | None:
    """Return limits by name from NAME=NUMBER; None without any."""
    limits: dict[str, int] = {}
    for one in given or ():
        name, _, number = one.partition("=")
        if name not in _LIMITS or not number.isdecimal():
            raise typer.BadParameter(
                f"--limit: {one!r} is not NAME=NUMBER with a name of {', '.join(_LIMITS)}"
            )
        limits[name] = int(number)
    return limits or None


def limits_text(limits: access_pb2.Limits) -> str:
    """Return limits as NAME=NUMBER."""
    return " ".join(f"{field.name}={value:,}" for field, value in limits.ListFields())


def _table(keys: Iterable[access_pb2.Key]) -> Rows:
    names = ("key", "user", "state", "created", "last use", "rights", "note")
    return Rows(map(_record, keys), names)


def _record(key: access_pb2.Key) -> Row:
    rights = "operator" if key.operator else " ".join(map(_grant, key.grants))
    used = render.local_time(key.last_use_time) if key.HasField("last_use_time") else "never"
    return Row(
        (
            key.id,
            key.user,
            _state(key),
            render.local_time(key.create_time),
            used,
            " ".join((rights, limits_text(key.limits))).strip(),
            " ".join((key.note, key.certificate_subject)).strip(),
        )
    )


def _grant(grant: access_pb2.Grant) -> str:
    return f"{render.value_name(access_pb2.Right, grant.right)}:{grant.uri_prefix}"


def _state(key: access_pb2.Key) -> str:
    if key.HasField("revoke_time"):
        return f"revoked {render.local_time(key.revoke_time)}"
    if key.HasField("expire_time"):
        return f"until {render.local_time(key.expire_time)}"
    return "valid"
