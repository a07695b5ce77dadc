"""The command that finds faults of an installation, and names the remedy of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from vikingd.ctl import machine_checks
from vikingd.ctl.command_session import usage_errors
from vikingd.ctl.common_options import Common, with_common
from vikingd.ctl.consoles import console
from vikingd.ctl.daemon_checks import DaemonChecks, key_file, users_socket
from vikingd.ctl.doctor_checks import OK, WARN, WRONG, Check, checked
from vikingd.ctl.exit_codes import OTHER
from vikingd.ctl.output import Form, is_structured, written
from vikingd.ctl.result_rows import Row, Rows
from vikingd.daemon.probe import fault
from vikingd.domain.daemon_addresses import USER, parse
from vikingd.system.user_paths import user_config, user_store

if TYPE_CHECKING:
    from vikingd.config import Settings

_TIMEOUT = 5.0  # seconds of each call
_STYLES = {OK: "green", WARN: "yellow", WRONG: "bold red"}


def _doctor(
    common: Common,
    models: Annotated[
        bool, typer.Option("--models", help="Ask each model once, too, which may cost money.")
    ] = False,
) -> None:
    """Look at the installation, the daemon, its store and its models, and say what mends a fault.

    Nothing is changed, and no secret is shown. No daemon is started. Exit code 1: something is
    wrong; warnings alone are 0.

    RPC: grpc.health.v1.Health/Check, viking.retrieval.v1.Admin/Stats,
    viking.retrieval.v1.Retrieval/Retrieve

    Example: vikingctl doctor
    """
    with usage_errors():
        common = common.over(Common.from_environment())
        form, address = common.form(), common.where()
        if form is Form.URI:
            raise ValueError(f"-o {form}: the results of this command have no URIs")
    found = []
    for check in _checks(common, address, may_pay=models):
        found.append(check)
        if not is_structured(form):
            _print(check, is_quiet=common.quiet)
    wrong = sum(check.state == WRONG for check in found)
    if is_structured(form):
        values = [check._asdict() for check in found]
        whole = [{"checks": values, "wrong": wrong}]
        console().file.write(written(values if form is Form.JSONL else whole, form))
    if wrong:
        raise typer.Exit(OTHER)


doctor = with_common(_doctor)


def _print(check: Check, *, is_quiet: bool) -> None:
    """Print the outcome of a check; if stdout is no terminal, as tab-separated fields."""
    out = console()
    if is_quiet and check.state == OK:
        return
    if not out.is_terminal:
        out.print(Rows([Row(check)]))
        return
    line = Text.assemble((f"{check.state:<6}", _STYLES[check.state]), (f"{check.part:<10}", "bold"))
    out.print(line.append(check.found), soft_wrap=True)
    if check.remedy:
        out.print(Text(f"{'':16}{check.remedy}", "cyan"), soft_wrap=True)


def _checks(common: Common, address: str, *, may_pay: bool) -> Iterator[Check]:
    """Yield all checks, in the order of a start: machine, configuration, daemon, store, models."""
    yield from checked("versions", machine_checks.versions)
    yield from checked("kernels", machine_checks.kernels)
    yield from checked("limits", machine_checks.limits)
    settings: list[Settings] = []
    yield from checked("config", partial(_configuration, address, settings))
    yield from checked("socket", users_socket)
    yield from checked("key file", partial(key_file, common.key_file))
    asked = None
    try:
        asked = DaemonChecks(address, common.credentials(), common.timeout or _TIMEOUT)
    except ValueError as error:
        yield Check(WRONG, "key", str(error), "--key-file FILE, or VIKINGD_KEY_FILE")
    if asked:
        yield from checked("daemon", asked.check)
        yield from checked("embedder", partial(asked.embedder, may_pay=may_pay))
    if not _is_local(address):
        return  # its configuration is on another machine
    if settings:
        yield from _of_configuration(settings[0], asked, may_pay=may_pay)
    else:
        found = "store and models are not checked, because the configuration names them"
        yield Check(WARN, "config", found, "mend the line of the configuration above first")


def _of_configuration(
    settings: Settings, asked: DaemonChecks | None, *, may_pay: bool
) -> Iterator[Check]:
    """Yield the checks of the files, stores and models that this machine's configuration names."""
    from vikingd.ctl import model_checks, store_checks

    stats = asked.stats if asked else None
    is_served = asked is not None and asked.serves
    path = Path(stats.store_path) if stats and stats.store_path else settings.path
    # The key may not see the path of the store, or the path is one within a container.
    is_elsewhere = is_served and not (stats and stats.store_path and path.exists())
    if settings.store:
        host = urlsplit(settings.store).hostname
        yield Check(OK, "store", f"PostgreSQL at {host}; vikingctl stats tells its state")
    elif not is_elsewhere:
        yield from checked("store", partial(store_checks.store, path, is_served=is_served))
    if not is_elsewhere:
        yield from checked("disk", partial(store_checks.disk, path))
    if is_elsewhere and stats and stats.store_path:
        yield Check(OK, "store", f"{stats.store_path}, where the daemon is")
    if not is_served:
        yield from checked("embedder", partial(store_checks.embedder, settings))
    yield from checked("gateway", partial(_gateway, settings))
    yield from checked("models", partial(model_checks.models, settings, may_pay=may_pay))


def _configuration(address: str, settings: list[Settings]) -> Iterator[Check]:
    """Check the configuration file; append its settings to the list if it can be read."""
    from vikingd.config import DEFAULT_FILE, FILE_VARIABLE, ConfigError, load

    named = os.environ.get(FILE_VARIABLE, "")
    file = Path(named or (user_config() if address == USER else DEFAULT_FILE)).expanduser()
    flags = {"path": user_store()} if address == USER else {}
    try:
        settings.append(load(file if named or file.exists() else Path(os.devnull), flags).settings)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield Check(WRONG, "config", line, f"put it right in {file}, or in VIKINGD_*")
        return
    there = f"{file} is fine" if file.exists() else f"there is no {file}; the defaults hold"
    yield Check(OK, "config", there)


def _gateway(settings: Settings) -> Iterator[Check]:
    """Yield the check of the gateway; a gateway that is not configured is no fault."""
    address = settings.gateway.address
    if not (address.is_local and address.port):
        return
    url = f"{'https' if address.tls else 'http'}://{replace(address, tls=False)}/"
    why = fault(url)
    if not why:
        yield Check(OK, "gateway", f"answers at {url}")
    elif "refused" in why:
        found = f"none at {url}; vikingd serve --gateway {address.host}:{address.port} starts it"
        yield Check(OK, "gateway", found)
    else:
        yield Check(WARN, "gateway", f"{url}: {why}", "--gateway HOST:PORT with a free port")


def _is_local(address: str) -> bool:
    """Return True if the daemon is on this machine, and may use this machine's configuration."""
    try:
        return address == USER or parse(address).is_local
    except ValueError:  # a name that gRPC alone knows
        return False
