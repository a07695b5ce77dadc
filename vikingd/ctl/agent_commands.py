"""The commands that put vikingd into the settings of coding agents, and take it out."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer

from vikingd.client import ClientError
from vikingd.client.connection_defaults import ADDRESS_VARIABLE
from vikingd.ctl.agent_files import AGENTS, Agent, HookCommand
from vikingd.ctl.call_failures import not_written, reporting_failures
from vikingd.ctl.command_help import Command, group
from vikingd.ctl.command_session import usage_errors
from vikingd.ctl.common_options import Common, with_common
from vikingd.ctl.consoles import console
from vikingd.ctl.output import Form, is_structured, written
from vikingd.ctl.own_command import environment_of_this, key_note, options_of, own_command
from vikingd.ctl.result_rows import Row, Rows
from vikingd.mcp.install import ServerCommand
from vikingd.system.install_command import install_command
from vikingd.system.settings_files import Change, NotChanged

_USER = "user"
"""The address of the user's own daemon."""

_ADDRESS = "VIKINGCTL_ADDRESS"
_OF_HOOKS = ("VIKINGD_KEY_FILE", "VIKINGD_TENANT")
"""The variables that a hook needs besides the address."""

app = group("Give coding agents a memory.")


class Name(StrEnum):
    """The name of a supported coding agent."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    CURSOR = "cursor"
    OPENCODE = "opencode"


Named = Annotated[Name, typer.Argument(metavar="AGENT", help=f"One of {', '.join(Name)}.")]
Project = Annotated[
    bool, typer.Option("--project", help="Use the files of this directory, not the user's.")
]
Write = Annotated[bool, typer.Option("--write", help="Change the files, in place of showing it.")]


def _install(
    common: Common,
    agent: Named,
    write: Write = False,
    hooks_only: Annotated[
        bool, typer.Option("--hooks-only", help="Leave out MCP, whose tools need the extra mcp.")
    ] = False,
    project: Project = False,
) -> None:
    """Show the settings that give an agent a memory, or merge them into its settings files.

    Hooks add memories to the context of the agent, and take new memories from the conversation. MCP
    gives the agent tools. Both use the user's own daemon, or that of --address. All other settings
    stay, and a copy of each changed file is kept. A file that is broken or has comments (in JSON)
    is not changed.

    Example: vikingctl agents install claude-code --write
    """

    def run(form: Form) -> None:
        hook, tools = _commands(common, agent)
        server = None if hooks_only else tools
        if server is not None:
            _check_mcp()
        if note := key_note():
            print(note, file=sys.stderr)
        if write:
            made = AGENTS[agent].installed(hook, server, project=project)
            _write_changes(form, agent, made, "has vikingd now")
            _note(form, AGENTS[agent].note)
        else:
            _print_parts(form, agent, AGENTS[agent].shown(hook, server, project=project))

    _run(common, run)


def _uninstall(
    common: Common, agent: Named, write: Write = False, project: Project = False
) -> None:
    """Remove vikingd from the settings files of an agent. Its memories stay in the daemon.

    A copy of each changed file is kept. Nothing else in the files changes.

    Example: vikingctl agents uninstall claude-code --write
    """

    def run(form: Form) -> None:
        made = AGENTS[agent].removed(project=project)
        if write:
            _write_changes(form, agent, made, "has nothing of vikingd now")
        else:
            found = [change.path for change in made if change.is_needed]
            _print_parts(form, agent, [(path, "") for path in found])

    _run(common, run)


def _list(common: Common) -> None:
    """List the agents: whether they are on this machine, and whether they use hooks and MCP.

    Example: vikingctl agents list
    """

    def run(form: Form) -> None:
        rows = [_row(agent) for agent in AGENTS.values()]
        if is_structured(form):
            print(written(rows if form is Form.JSONL else [{"agents": rows}], form), end="")
            return
        records = (
            Row(
                (
                    *(row["agent"], "yes" if row["here"] else "no"),
                    *map(_scopes, (row["hooks"], row["mcp"])),
                )
            )
            for row in rows
        )
        console().print(Rows(records, ("agent", "here", "hooks", "MCP")))

    _run(common, run)


app.command("install", cls=Command)(with_common(_install))
app.command("uninstall", cls=Command)(with_common(_uninstall))
app.command("list", cls=Command)(with_common(_list))


def _run(common: Common, command: Callable[[Form], None]) -> None:
    """Call a function that needs no daemon; print its failures and exit."""
    with usage_errors():
        form = common.over(Common.from_environment()).form()
        if form is Form.URI:
            raise ValueError(f"-o {form}: the results of this command have no URIs")
    with reporting_failures(form):
        try:
            command(form)
        except NotChanged as error:
            raise not_written(str(error)) from None


def _check_mcp() -> None:
    """Raise ClientError (MCP_NOT_INSTALLED) if a package of the MCP server is missing."""
    for package in ("mcp", "tomlkit"):
        if not importlib.util.find_spec(package):
            raise ClientError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{package} is not installed; install it with: {install_command('mcp')}; or give "
                "--hooks-only",
                "MCP_NOT_INSTALLED",
            )


def _commands(common: Common, agent: str) -> tuple[HookCommand, ServerCommand]:
    """Return the command of the hooks, and the command of the MCP server."""
    if common.key:
        raise typer.BadParameter(
            "a key is not written into a configuration; give --key-file, or set VIKINGD_KEY_FILE"
        )
    address = _address(common)
    env = environment_of_this()
    env.pop(_ADDRESS, None)
    own = {
        "VIKINGD_KEY_FILE": str(common.key_file.absolute()) if common.key_file else "",
        "VIKINGD_TENANT": common.tenant or "",
    }
    of_hooks = {name: value for name in _OF_HOOKS if (value := own[name] or env.get(name, ""))}
    command = own_command()
    options = ("--start",) if address == _USER else ("--address", address)
    hook = HookCommand((*command, "hook", agent), options, of_hooks)
    arguments = ("mcp", *options_of(replace(common, address=address)))
    return hook, ServerCommand(command[0], (*command[1:], *arguments), env)


def _address(common: Common) -> str:
    """Return the address that both commands use; the path of a socket is made absolute."""
    named = (common.address, os.environ.get(_ADDRESS), os.environ.get(ADDRESS_VARIABLE))
    address = next(filter(None, named), _USER)
    if address == _USER:
        return address
    with usage_errors():
        Common(address=address).where()
    if address.startswith("vikings://"):
        raise typer.BadParameter(
            f"{address}: hooks reach a daemon of this machine alone, by unix:PATH or a loopback "
            "address. For MCP alone: vikingctl mcp --install"
        )
    kind, _, path = address.partition(":")
    return f"{kind}:{os.path.abspath(path)}" if kind == "unix" else address


def _write_changes(form: Form, agent: str, changes: Sequence[Change], done: str) -> None:
    """Write the changed files, and print a line for each file: what was done, and the copy."""
    told = []
    for change in changes:
        backup = change.make() if change.is_needed else None
        told.append(
            {"path": str(change.path), "written": change.is_needed, "backup": str(backup or "")}
        )
        if not is_structured(form):
            new = f"{done}; as it was: {backup}" if backup else done
            print(f"{change.path} {new if change.is_needed else 'stays as it is'}")
    if is_structured(form):
        print(written([{"agent": agent, "files": told}], form), end="")


def _print_parts(form: Form, agent: str, files: Sequence[tuple[Path, str]]) -> None:
    """Print what --write would change: the text to add to each file.

    The text "" stands for a file from which vikingd's part would be removed.
    """
    if is_structured(form):
        told = [{"path": str(path), "text": text} for path, text in files]
        print(written([{"agent": agent, "files": told}], form), end="")
        return
    for path, text in files:
        print(f"{path}:\n\n{text}" if text else path)
    if not files:
        print("no file has something of vikingd")
    else:
        _note(form, "This is not written yet; --write merges it, or takes it out.")


def _note(form: Form, text: str) -> None:
    if not is_structured(form):
        print(text, file=sys.stderr)


def _row(agent: Agent) -> dict[str, Any]:
    """Return the fields of an agent in `list`; `unreadable` names a file that cannot be read."""
    hooks: list[str] = []
    servers: list[str] = []
    unreadable = ""
    for scope, project in (("user", False), ("project", True)):
        try:
            has_hooks, has_server = agent.has(project=project)
        except NotChanged as error:
            unreadable = str(error)
            continue
        hooks += [scope] * has_hooks
        servers += [scope] * has_server
    here = bool(shutil.which(agent.program)) or agent.directory().is_dir()
    return {
        "agent": agent.name,
        "here": here,
        "hooks": hooks,
        "mcp": servers,
        "unreadable": unreadable,
    }


def _scopes(scopes: Sequence[str]) -> str:
    return ", ".join(scopes) or "no"
