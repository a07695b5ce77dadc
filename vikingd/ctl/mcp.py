"""vikingctl mcp: the MCP server on stdin and stdout, and its entry in the files of clients."""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import sys
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import grpc
import typer

from vikingd.client import DEFAULT_TIMEOUT, AsyncClient, ClientError
from vikingd.ctl.call_failures import not_written, reporting_failures
from vikingd.ctl.command_session import usage_errors
from vikingd.ctl.common_options import Common, with_common
from vikingd.ctl.exit_codes import INTERRUPTED
from vikingd.ctl.own_command import environment_of_this, key_note, options_of, own_command
from vikingd.system.install_command import install_command


class Host(StrEnum):
    """The name of a program that starts MCP servers."""

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
    with usage_errors():
        form = common.form()
    with reporting_failures(form):
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
        with usage_errors():
            credentials = asdict(common.credentials())
            return AsyncClient(common.where(), common.timeout or DEFAULT_TIMEOUT, **credentials)

    anyio.run(serve_stdio, client, read_only)


def _install(common: Common, host: Host, *, read_only: bool, write: bool) -> None:
    """Show the entry of a client, or write it."""
    from vikingd.mcp.install import TARGETS, ServerCommand
    from vikingd.system.settings_files import NotChanged, text_with

    if common.key:
        raise typer.BadParameter(
            "a key is not written into a configuration; give --key-file, or set VIKINGD_KEY_FILE"
        )
    target, command = TARGETS[host], own_command()
    arguments = ["mcp", *options_of(common), *(["--read-only"] if read_only else [])]
    server = ServerCommand(command[0], (*command[1:], *arguments), environment_of_this())
    if note := key_note():
        print(note, file=sys.stderr)
    if not write:
        print(text_with(target.file, [target.entry(server)]), end="")
        print(f"This belongs into {target.file}; --write merges it.", file=sys.stderr)
    else:
        try:
            change = target.change(server)
            backup = change.make() if change.is_needed else None
        except NotChanged as error:
            raise not_written(str(error)) from None
        print(f"{target.file} has vikingd now" + (f"; as it was: {backup}" if backup else ""))
    if target.hint:
        told = shlex.join([server.command, *server.args])
        print(target.hint.replace("COMMAND", told), file=sys.stderr)
