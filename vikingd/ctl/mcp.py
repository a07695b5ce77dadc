"""vikingctl mcp: the MCP server on stdin and stdout, and its entry in the files of clients."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import grpc
import typer

from vikingd.client import DEFAULT_TIMEOUT, AsyncClient, ClientError
from vikingd.ctl.command_session import INTERRUPTED, failures_told, not_written, usable
from vikingd.ctl.options import Common, with_common
from vikingd.system.installing import install_command

_FILES = ("VIKINGD_KEY_FILE", "VIKINGD_CA", "VIKINGD_CERT", "VIKINGD_CERT_KEY")
_VARIABLES = (*_FILES, "VIKINGCTL_ADDRESS", "VIKINGD_TENANT")
"""The variables that go into a client's configuration; none of them is a secret."""


class Host(StrEnum):
    """A program that starts MCP servers."""

    CLAUDE = "claude"
    CURSOR = "cursor"
    VSCODE = "vscode"
    CODEX = "codex"


def _mcp(
    common: Common,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the tools that write.")
    ] = False,
    install: Annotated[
        Host | None,
        typer.Option(help="Show the configuration of this client, in place of serving."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="With --install: write it into the client's file.")
    ] = False,
) -> None:
    """Serve the tools of MCP to a model, on stdin and stdout.

    The daemon may start later, and restart.

    RPC: viking.retrieval.v1.Memories/Recall, viking.retrieval.v1.Retrieval/Find and others

    Example: vikingctl mcp --install cursor --write
    """
    if write and install is None:
        raise typer.BadParameter("--write needs --install")
    with usable():
        form = common.form()
    with failures_told(form):
        if missing := [name for name in ("mcp", "tomlkit") if not importlib.util.find_spec(name)]:
            raise ClientError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{missing[0]} is not installed; install it with: {install_command('mcp')}",
                "MCP_NOT_INSTALLED",
            )
        if install is not None:
            _install(common, install, read_only=read_only, write=write)
        else:
            _serve(common, read_only=read_only)


mcp = with_common(_mcp)


def _serve(common: Common, *, read_only: bool) -> None:
    import anyio

    from vikingd.mcp.mcp_server import serve_stdio

    # A thread waits for stdin, and no exception can end it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))

    def client() -> AsyncClient:
        with usable():
            credentials = asdict(common.credentials())
            return AsyncClient(common.where(), common.timeout or DEFAULT_TIMEOUT, **credentials)

    anyio.run(serve_stdio, client, read_only)


def _install(common: Common, host: Host, *, read_only: bool, write: bool) -> None:
    """Show the entry of a client, or write it."""
    from vikingd.mcp.install import TARGETS, Entry, NotInstalled

    if common.key:
        raise typer.BadParameter(
            "a key is not written into a configuration; give --key-file, or set VIKINGD_KEY_FILE"
        )
    target, command = TARGETS[host], _command()
    entry = Entry(command[0], (*command[1:], *_arguments(common, read_only)), _environment())
    if os.environ.get("VIKINGD_KEY") and not entry.env.get("VIKINGD_KEY_FILE"):
        note = "VIKINGD_KEY is not written; the client needs it in its environment, or a file"
        print(note, file=sys.stderr)
    if not write:
        print(target.text(entry), end="")
        print(f"This belongs into {target.file}; --write merges it.", file=sys.stderr)
    else:
        try:
            backup = target.write(entry)
        except NotInstalled as error:
            raise not_written(str(error)) from None
        print(f"{target.file} has vikingd now" + (f"; as it was: {backup}" if backup else ""))
    if target.hint:
        told = shlex.join([entry.command, *entry.args])
        print(target.hint.replace("COMMAND", told), file=sys.stderr)


def _command() -> list[str]:
    """Return the command of vikingctl; a client need not have the same PATH."""
    beside = Path(sys.executable).with_name("vikingctl")
    found = str(beside) if beside.exists() else shutil.which("vikingctl")
    return [found] if found else [sys.executable, "-m", "vikingd.ctl.main"]


def _arguments(common: Common, read_only: bool) -> list[str]:
    """Return the arguments that give the same options again."""
    arguments = ["mcp"]
    for name, value in asdict(common).items():
        option = f"--{name.replace('_', '-')}"
        if name in ("key_file", "ca", "cert", "cert_key") and value:
            arguments += [option, str(Path(value).absolute())]
        elif name == "trust_network" and value:
            arguments.append(option)
        elif name in ("address", "tenant", "timeout") and value:
            arguments += [option, str(value)]
    return [*arguments, "--read-only"] if read_only else arguments


def _environment() -> dict[str, str]:
    """Return the variables of this process that vikingctl reads, without secrets."""
    found = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    return {
        name: str(Path(value).absolute()) if name in _FILES else value
        for name, value in found.items()
    }
