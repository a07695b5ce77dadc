"""The commands that get models for the provider `onnx` and list them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import grpc
import typer
from rich.text import Text

from vikingd.client import ClientError
from vikingd.ctl.command_help import Command, group
from vikingd.ctl.command_session import Session, connected
from vikingd.ctl.output import Form
from vikingd.ctl.progress import Meter, meter
from vikingd.ctl.result_rows import Row, Rows
from vikingd.models.hub.cache import MAIN, is_present, snapshot_of
from vikingd.models.hub.hub_errors import HubAway, HubFailed, HubRefused, NotOnHub
from vikingd.models.pinned_models import MODELS, PinnedModel, check_name
from vikingd.system.install_command import install_command

_MEGABYTE = 1_000_000
_CODES = {
    HubAway: grpc.StatusCode.UNAVAILABLE,
    HubRefused: grpc.StatusCode.PERMISSION_DENIED,
    NotOnHub: grpc.StatusCode.NOT_FOUND,
}

app = group("Get models that embed texts on this machine.")


def _list(session: Session) -> None:
    """List the models that `vikingctl models pull` gets by name.

    A model is present if its files are in the hub's cache. No daemon and no hub is asked.

    Example: vikingctl models list --json
    """
    values = [_value(model) for model in MODELS.values()]
    if session.is_structured:
        session.show_value(*(values if session.form is Form.JSONL else [{"models": values}]))
        return
    records = (
        Row(
            (
                model.name,
                f"{model.size / _MEGABYTE:,.0f}",
                str(model.dimension),
                model.languages,
                model.licence,
                "yes" if value["present"] else "no",
            )
        )
        for model, value in zip(MODELS.values(), values, strict=True)
    )
    names = ("model", "MB", "dim", "languages", "licence", "here")
    session.print(Rows(records, names))


def _pull(
    session: Session,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A name of `vikingctl models list`, or ORG/NAME of any repository."
        ),
    ],
    revision: Annotated[
        str,
        typer.Option(help="Commit, branch or tag of ORG/NAME; default: main. A name has its own."),
    ] = "",
) -> None:
    """Get a model from the hub into its cache, for the provider onnx; no daemon is asked.

    The files of a name are pinned in this program by SHA-256; those of ORG/NAME have the hashes
    that the hub tells. A pull that broke off goes on where it ended. HF_ENDPOINT names another
    hub, HF_HUB_CACHE or HF_HOME the cache, HF_TOKEN a token; HF_HUB_OFFLINE=1 asks no hub.

    Example: vikingctl models pull multilingual-e5-small
    """
    try:
        check_name(name, revision or MAIN)
    except ValueError as error:
        raise typer.BadParameter(f"NAME: {error}") from None
    model = MODELS.get(name)
    if revision and model:
        raise typer.BadParameter("--revision: a name has its own revision; ORG/NAME takes one")
    try:
        from vikingd.models.hub.pull import pull_pinned, pull_repository
    except ModuleNotFoundError as error:
        needed = f"{error.name} is not installed; install it with: {install_command('server,onnx')}"
        raise ClientError(grpc.StatusCode.FAILED_PRECONDITION, needed, "NOT_INSTALLED") from None
    try:
        with meter(session, "MB", 0) as shown:
            update = _megabytes(shown)
            if model is None:
                pulled = pull_repository(name, revision or MAIN, update)
            else:
                pulled = pull_pinned(model, update)
    except HubFailed as error:
        code = _CODES.get(type(error), grpc.StatusCode.FAILED_PRECONDITION)
        raise ClientError(code, str(error), error.reason) from None
    except KeyboardInterrupt:
        session.note("interrupted; the same command goes on where it ended", "dim")
        raise
    if session.is_structured:
        session.show_value(
            {
                "model": name,
                "revision": pulled.commit,
                "path": str(pulled.path),
                "received": pulled.received,
            }
        )
        return
    session.out.print(Text(str(pulled.path)))
    what = f"files received: {pulled.received}" if pulled.received else "all files were there"
    named = pulled.path if revision else name
    session.note(f'{what}; for [embedding]: provider = "onnx", onnx_model = "{named}"', "dim")


def _megabytes(shown: Meter) -> Callable[[int, int], None]:
    """Return a function of (done, total) in bytes that updates a meter in megabytes."""

    def update(done: int, total: int) -> None:
        share = done / total if total else 1.0
        shown.update(done // _MEGABYTE, -(-total // _MEGABYTE), share=share)

    return update


def _value(model: PinnedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "repository": model.repository,
        "revision": model.revision,
        "bytes": model.size,
        "dimension": model.dimension,
        "languages": model.languages,
        "licence": model.licence,
        "present": is_present(model),
        "path": str(snapshot_of(model)),
    }


app.command("list", cls=Command)(connected(_list))
app.command("pull", cls=Command)(connected(_pull, deadline=None))
