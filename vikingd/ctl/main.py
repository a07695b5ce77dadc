"""The command line of vikingctl: the list of its commands, which are loaded when they run."""

from __future__ import annotations

import json
import os
import select
import sys
from collections import UserDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import typer

import vikingd
from vikingd.ctl.command_help import Command, Group
from vikingd.ctl.command_session import connected, escape_what_cannot_be_encoded
from vikingd.ctl.common_options import Common
from vikingd.ctl.exit_codes import INTERRUPTED, OTHER, OTHER_OF_SEARCH, USAGE
from vikingd.ctl.output import Form, escaped_json, is_structured
from vikingd.ctl.shell_completion import prepare_completion
from vikingd.system.command_parameters import declare, parameters_of

_START, _ASK, _MEMORIES = "Start", "Ask", "Memories"
_TREE, _OPERATE = "Read and write the tree", "Operate"


class _Entry(NamedTuple):
    """A command or a group of commands: its section in the help, its function and its summary."""

    panel: str
    name: str  # module.function
    summary: str  # repeated here, so that the help loads no command
    connected: dict[str, Any] | None = None  # the arguments of `connected`; None: not connected


_URIS: dict[str, Any] = {"has_uris": True}
_MATCHES = {"other": OTHER_OF_SEARCH, "has_uris": True}
_LONG = {"deadline": None}

_ENTRIES = {
    "demo": _Entry(_START, "demo.demo", "Show vikingd at work: a small tree, five questions"),
    "import": _Entry(
        _START,
        "import_command.import_",
        "Import files, a page, a site, a repository or an archive",
        _LONG,
    ),
    "sources": _Entry(
        _START, "source_commands.app", "List, refresh and remove what was imported by address"
    ),
    "export": _Entry(_START, "export_command.export", "Write a subtree as files or JSON lines", {}),
    "mcp": _Entry(_START, "mcp.mcp", "Serve the tools of MCP to a model"),
    "hook": _Entry(_START, "hook_help.hook", "Answer an event of a coding agent"),
    "agents": _Entry(_START, "agent_commands.app", "Give a coding agent a memory"),
    "completion": _Entry(
        _START, "shell_completion.completion", "Print the script that completes commands"
    ),
    "help": _Entry(_START, "help_topics.help_", "Show a topic: options, files, addresses"),
    "find": _Entry(
        _ASK, "search_read_commands.find", "Find the contexts that match a question", _URIS
    ),
    "search": _Entry(
        _ASK, "task_search.search", "Find what a task needs, given its conversation", _URIS
    ),
    "retrieve": _Entry(_ASK, "passage_commands.retrieve", "Retrieve passages by a strategy", _URIS),
    "context": _Entry(
        _ASK, "passage_commands.context", "Build the text for a prompt within a token budget", _URIS
    ),
    "evaluate": _Entry(
        _ASK, "evaluate_command.evaluate", "Measure how well searches answer your questions", _LONG
    ),
    "recall": _Entry(
        _MEMORIES, "memory_commands.recall", "Recall the memories that matter now", _URIS
    ),
    "extract": _Entry(
        _MEMORIES, "extract_command.extract", "Take the memories of a conversation", _URIS
    ),
    "remember": _Entry(
        _MEMORIES, "memory_commands.remember", "Store a memory, or reinforce it", {}
    ),
    "reinforce": _Entry(
        _MEMORIES, "memory_commands.reinforce", "Reinforce memories that proved useful", {}
    ),
    "forget": _Entry(_MEMORIES, "memory_commands.forget", "Forget memories", _URIS),
    "put": _Entry(_TREE, "write_commands.put", "Write one context", {}),
    "get": _Entry(
        _TREE, "search_read_commands.get", "Show a file, or what is in a directory", _URIS
    ),
    "ls": _Entry(_TREE, "search_read_commands.ls", "List a directory", _URIS),
    "tree": _Entry(_TREE, "search_read_commands.tree", "Show a subtree", _URIS),
    "symbols": _Entry(_TREE, "symbol_command.symbols", "List the names that files define", _URIS),
    "grep": _Entry(
        _TREE, "pattern_commands.grep", "Find the lines that match a regular expression", _MATCHES
    ),
    "glob": _Entry(
        _TREE, "pattern_commands.glob", "Find contexts by a pattern over their paths", _MATCHES
    ),
    "rm": _Entry(_TREE, "write_commands.rm", "Remove contexts", {}),
    "mv": _Entry(_TREE, "write_commands.mv", "Move or rename a context", {}),
    "link": _Entry(_TREE, "write_commands.link", "Link two contexts", {}),
    "unlink": _Entry(_TREE, "write_commands.unlink", "Remove a link", {}),
    "doctor": _Entry(_OPERATE, "doctor.doctor", "Look for what is wrong, and say what mends it"),
    "health": _Entry(
        _OPERATE, "maintenance_commands.health", "Show if daemon and embedder work", {}
    ),
    "stop": _Entry(_OPERATE, "maintenance_commands.stop", "Stop the daemon of the address user"),
    "version": _Entry(
        _OPERATE, "maintenance_commands.version", "Print the versions of both sides", {}
    ),
    "stats": _Entry(_OPERATE, "maintenance_commands.stats", "Show the daemon in numbers", {}),
    "verify": _Entry(
        _OPERATE, "maintenance_commands.verify", "Compare the index with the store", _LONG
    ),
    "optimize": _Entry(
        _OPERATE, "maintenance_commands.optimize", "Compact the index, and give room back", _LONG
    ),
    "reembed": _Entry(_OPERATE, "maintenance_commands.reembed", "Make the vectors anew", _LONG),
    "describe": _Entry(
        _OPERATE, "describe_command.describe", "Let a model write abstracts and overviews", _LONG
    ),
    "backup": _Entry(_OPERATE, "backup_command.backup", "Write a checked copy of the store", _LONG),
    "copy": _Entry(
        _OPERATE, "store_copy_command.copy_", "Copy a store between SQLite and PostgreSQL", _LONG
    ),
    "keys": _Entry(_OPERATE, "key_commands.app", "Create, list, rotate and revoke keys"),
    "models": _Entry(_OPERATE, "model_commands.app", "List and pull models"),
    "tenants": _Entry(_OPERATE, "tenant_commands.app", "Create, limit, list and delete tenants"),
}
"""All commands, in the order of the help."""


class _Commands(UserDict[str, Any]):
    """The commands by their names; each is loaded when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        command = self.data[name]
        if isinstance(command, _Entry):
            command = self.data[name] = _load(name, command)
        return command


@contextmanager
def _broken_pipes_told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _PipeBroken from error


def _load(name: str, entry: _Entry) -> Any:
    """Import the module of a command, and return the command."""
    module, attribute = entry.name.split(".")
    found = getattr(import_module(f"vikingd.ctl.{module}"), attribute)
    made = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        made.add_typer(found, name=name)
    else:
        run = found if entry.connected is None else connected(found, **entry.connected)
        made.command(name, cls=Command)(run)
    return typer.main.get_group(made).commands[name]


class _PipeBroken(Exception):
    """Replaces BrokenPipeError, for which typer would exit with 1: nobody reads the output."""


class _Group(Group):
    """The group of all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands(_ENTRIES)

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Parse the options before the command."""
        with _broken_pipes_told():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        """Parse the options of the command, and run it."""
        with _broken_pipes_told():
            return super().invoke(ctx)

    def sections(self, _ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield the sections of the list of commands, without loading the commands' modules."""
        for title in dict.fromkeys(entry.panel for entry in _ENTRIES.values()):
            yield (
                title,
                [(name, one.summary) for name, one in _ENTRIES.items() if one.panel == title],
            )


app = typer.Typer(
    name="vikingctl",
    cls=_Group,
    add_completion=False,  # `vikingctl completion` shows the script
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# The base of BadParameter, which typer itself does not export.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vikingctl {vikingd.__version__}")
        raise typer.Exit


def _common(
    ctx: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
    **given: Any,
) -> None:
    """Call a vikingd daemon: import a tree, search it, maintain it."""
    ctx.obj = Common(**given)


declare(_common, [*parameters_of(_common), *parameters_of(Common)])
app.callback()(_common)


def _wants_structure(arguments: list[str]) -> bool:
    """Return True if an error of usage must be printed as JSON or YAML.

    `--json`, `-o` and VIKINGCTL_OUTPUT decide, since the arguments themselves cannot be parsed.
    """
    forms = [form for form in Form if is_structured(form)]
    given = {f"-o{form}" for form in forms} | {f"--output={form}" for form in forms} | {"--json"}
    return (
        not given.isdisjoint(arguments)
        or any(one in ("-o", "--output") and after in forms for one, after in pairwise(arguments))
        or os.environ.get("VIKINGCTL_OUTPUT") in forms
    )


def main() -> None:
    """Run the command line and exit; the exit code is 0 if nobody reads stdout any more."""
    escape_what_cannot_be_encoded()
    # Otherwise gRPC logs failed handshakes, which the error explains.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    prepare_completion()
    try:
        code = _run()
        sys.stdout.flush()
    except (_PipeBroken, BrokenPipeError):
        if not _has_lost_reader():
            raise
        code = 0
    sys.exit(code)


def _run() -> int:
    """Run the command, and return its exit code."""
    try:
        return app(prog_name="vikingctl", standalone_mode=False) or 0
    except typer.Abort as error:  # the end of stdin, or with an older typer Ctrl-C
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else OTHER
    except _UsageError as error:
        _tell_usage(error)
        return USAGE


def _tell_usage(error: Any) -> None:
    message = error.format_message()
    if _wants_structure(sys.argv[1:]):
        report = {"code": "INVALID_ARGUMENT", "reason": "USAGE", "message": message}
        print(escaped_json(json.dumps(report, ensure_ascii=False)), file=sys.stderr)
        return
    path = error.ctx.command_path if error.ctx is not None else "vikingctl"
    from vikingd.ctl.consoles import tell_error  # it loads rich

    tell_error(message, f"{path} --help shows what it takes")


def _has_lost_reader() -> bool:
    """Return True if stdout or stderr is a pipe without a reader; drop the output for it."""
    is_lost = False
    for number in (1, 2):
        ends = select.poll()
        ends.register(number, 0)  # POLLERR and POLLHUP need no request
        if any(events & (select.POLLERR | select.POLLHUP) for _, events in ends.poll(0)):
            is_lost = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return is_lost


if __name__ == "__main__":
    main()
