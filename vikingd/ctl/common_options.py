"""The common options of all commands, and the credentials that they make."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from vikingd.client.connection_defaults import (
    ADDRESS_VARIABLE,
    DEFAULT_ADDRESS,
    DEFAULT_TIMEOUT,
)
from vikingd.client.credentials import Credentials, check_address, key_from
from vikingd.ctl.output import Form
from vikingd.system.command_parameters import declare, parameters_of

_ADDRESS_VARIABLE = "VIKINGCTL_ADDRESS"
_SHORTEST = 0.001  # seconds

PANEL = "Common options"
"""The heading in the help above the options that all commands have."""


def _option(about: str, metavar: str, **more: Any) -> Any:
    return typer.Option(help=about, metavar=metavar, rich_help_panel=PANEL, **more)


Address = Annotated[
    str | None,
    _option(
        "HOST:PORT, unix:PATH or vikings://HOST:PORT of the daemon, or user: your own, which "
        "starts by itself; default: "
        f"{_ADDRESS_VARIABLE}, else {ADDRESS_VARIABLE}, else {DEFAULT_ADDRESS}.",
        "ADDRESS",
    ),
]
Timeout = Annotated[
    float | None,
    _option(
        "Deadline of each call; default: VIKINGCTL_TIMEOUT, else "
        f"{DEFAULT_TIMEOUT:g}, and none for long work.",
        "SECONDS",
        min=_SHORTEST,
    ),
]
Output = Annotated[
    Form | None,
    typer.Option(
        "--output",
        "-o",
        help="Form of stdout; jsonl and uri: a line for each result; default: VIKINGCTL_OUTPUT, "
        "else text.",
        rich_help_panel=PANEL,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="As -o json: one object on stdout (protobuf's form), an error as JSON on stderr.",
        rich_help_panel=PANEL,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print results, warnings and errors alone; default: VIKINGCTL_QUIET.",
        rich_help_panel=PANEL,
    ),
]
Key = Annotated[
    str | None,
    _option("Key; others see it in the list of processes: better VIKINGD_KEY or a file.", "KEY"),
]
KeyFile = Annotated[Path | None, _option("File with the key; default: VIKINGD_KEY_FILE.", "FILE")]
Tenant = Annotated[
    str | None,
    _option("Tenant that the key of an operator works in; default: VIKINGD_TENANT.", "NAME"),
]
Ca = Annotated[
    str | None,
    _option("Authorities of the daemon's certificate, PEM; default: VIKINGD_CA.", "FILE"),
]
Cert = Annotated[
    str | None, _option("Certificate of this client, PEM; default: VIKINGD_CERT.", "FILE")
]
CertKey = Annotated[
    str | None, _option("Key of that certificate, PEM; default: VIKINGD_CERT_KEY.", "FILE")
]
TrustNetwork = Annotated[
    bool,
    typer.Option(
        "--trust-network",
        help="Send the key to another machine in plain text too; default: VIKINGCTL_TRUST_NETWORK.",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class Common:
    """The options that may come before or after the command."""

    address: Address = None
    timeout: Timeout = None
    output: Output = None
    as_json: AsJson = False
    quiet: Quiet = False
    key: Key = field(default=None, repr=False)
    key_file: KeyFile = None
    tenant: Tenant = None
    ca: Ca = None
    cert: Cert = None
    cert_key: CertKey = None
    trust_network: TrustNetwork = False

    def over(self, other: Common) -> Common:
        """Return these options, with those of `other` where an option was not given."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        if self.key or self.key_file:
            given = {"key": None, "key_file": None} | given
        if self.output or self.as_json:
            given = {"output": None, "as_json": False} | given
        return replace(other, **given)

    @classmethod
    def from_environment(cls) -> Common:
        """Return the options of VIKINGCTL_* in the environment, without the address.

        Raises:
            ValueError: a value cannot be used; the message names its variable.
        """
        timeout, output = os.environ.get("VIKINGCTL_TIMEOUT"), os.environ.get("VIKINGCTL_OUTPUT")
        if output and output not in list(Form):
            raise ValueError(f"VIKINGCTL_OUTPUT is {output!r}, not one of {', '.join(Form)}")
        return cls(
            timeout=_seconds(timeout) if timeout else None,
            output=Form(output) if output else None,
            quiet=_is_on("VIKINGCTL_QUIET"),
            trust_network=_is_on("VIKINGCTL_TRUST_NETWORK"),
        )

    def form(self) -> Form:
        """Return the form of the output.

        Raises:
            ValueError: two forms are given.
        """
        if self.as_json and self.output not in (None, Form.JSON):
            raise ValueError(f"--json and -o {self.output} exclude each other")
        return Form.JSON if self.as_json else self.output or Form.TEXT

    def where(self) -> str:
        """Return the address of the daemon.

        Raises:
            ValueError: it is no address; the message says what to type.
        """
        if self.address:
            check_address(self.address, "--address {}")
            return self.address
        for name in (_ADDRESS_VARIABLE, ADDRESS_VARIABLE):
            if named := os.environ.get(name):
                check_address(named, f"{name}={{}}")
                return named
        return DEFAULT_ADDRESS

    def credentials(self) -> Credentials:
        """Return the credentials of the options and of the environment.

        Raises:
            ValueError: they cannot be used.
        """
        return Credentials.found(
            key=key_from(self.key_file) if self.key_file and not self.key else self.key,
            tenant=self.tenant,
            ca=self.ca,
            certificate=self.cert,
            private_key=self.cert_key,
            trust_network=self.trust_network,
            address=self.where(),
        )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds >= _SHORTEST:
        raise ValueError(f"VIKINGCTL_TIMEOUT is {text!r}, not {_SHORTEST} seconds or more")
    return seconds


def _is_on(variable: str) -> bool:
    value = os.environ.get(variable, "")
    if value.lower() not in ("", "0", "1", "false", "true"):
        raise ValueError(f"{variable} is {value!r}, not 1 or 0")
    return value.lower() in ("1", "true")


def with_common(
    function: Callable[..., None], declared: Callable[..., None] | None = None
) -> Callable[..., None]:
    """Return a command with the common options, for typer.

    If the function has an option of the same name as a common one, the common one can only be
    given before the command.

    Args:
        function: takes the common options, then its own ones by their names.
        declared: has the own options after its first parameter, and the help; None: `function`.
    """

    def run(ctx: typer.Context, **given: Any) -> None:
        common = Common(**{one.name: given.pop(one.name) for one in shared})
        function(common.over(ctx.obj), **given)

    own = parameters_of(declared or function)[1:]
    names = {one.name for one in own}
    shared = [one for one in parameters_of(Common) if one.name not in names]
    declare(run, [*parameters_of(run), *own, *shared])
    run.__doc__ = (declared or function).__doc__
    return run
