"""The help and the guide of all commands of vikingctl."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from vikingd.ctl import main
from vikingd.ctl.command_help import Command
from vikingd.wire.rights_table import FILES

HEALTH = "grpc.health.v1.Health/Check"
ALONE = (
    *("completion", "copy", "help", "models list", "models pull", "sources list", "stop"),
    *("agents install", "agents uninstall", "agents list"),
)
"""Commands that ask no daemon."""
LONGEST = 42
"""Lines of a help; a screen has 24 to 50."""
WITHOUT_COMMON = ("completion", "demo", "help", "hook", "mcp")
GUIDE = Path(main.__file__).with_name("README.md")
RPCS = {
    f"{service.full_name}/{method.name}"
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    """Yield each command by its words, those of groups included."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, TyperGroup):
            yield from commands(f"{prefix}{name} ", command)
        else:
            yield prefix + name, command


COMMANDS = dict(commands("", typer.main.get_command(main.app)))


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_tells_its_rpc_and_shows_an_example(command: str) -> None:
    """The help of every command names its RPC, shows an example and describes each option."""
    found = COMMANDS[command]
    help_text = found.help or ""
    assert f"Example: vikingctl {command}" in help_text
    assert command in ALONE or any(rpc in help_text for rpc in (*RPCS, HEALTH))
    assert [p.name for p in found.params if p.name != "help" and not p.help] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_a_screen(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns a help has at most 42 lines, and names the topic of the common options."""
    monkeypatch.setenv("COLUMNS", "80")
    found = COMMANDS[command]
    context = found.context_class(found, info_name=command)
    lines = found.get_help(context).splitlines()
    assert len(lines) <= LONGEST, "\n".join(lines)
    assert not [line for line in lines if "--tenant" in line]
    assert command in WITHOUT_COMMON or "vikingctl help options" in lines[-1]


def test_every_rpc_has_a_command() -> None:
    """Every RPC has a command."""
    told = " ".join(command.help or "" for command in COMMANDS.values())
    told = told.replace(".../", "viking.retrieval.v1.Contexts/")
    assert [rpc for rpc in RPCS if rpc not in told] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_guide_mentions_each_command(command: str) -> None:
    """The guide of vikingctl names every command."""
    assert f"vikingctl {command}" in GUIDE.read_text(encoding="utf-8")


def test_a_command_loads_no_other_one() -> None:
    """A command loads its own module, without those of other commands and of YAML."""
    code = (
        "import sys\n"
        "from vikingd.ctl import main\n"
        "main.app(['find', '--help'], standalone_mode=False)\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "vikingd.ctl.reading" in loaded
    assert not loaded & {"vikingd.ctl.import_command", "vikingd.ctl.key_commands", "yaml"}


def loaded_by(arguments: list[str]) -> set[str]:
    """Return the modules that a process of vikingctl has loaded at its end."""
    code = (
        "import sys\n"
        f"sys.argv = ['vikingctl', *{arguments}]\n"
        "from vikingd.daemon.start import vikingctl\n"
        "try:\n"
        "    vikingctl()\n"
        "finally:\n"
        "    print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["find", "--help"], ["help", "options"]], ids=" ".join
)
def test_help_loads_no_heavy_package(arguments: list[str]) -> None:
    """Help is shown without gRPC, protobuf, numpy, rich and pydantic."""
    loaded = loaded_by(arguments)
    assert "vikingd.ctl.main" in loaded
    assert not loaded & {"grpc", "google.protobuf", "numpy", "rich.console", "pydantic"}


def test_a_search_loads_what_it_needs() -> None:
    """The command find loads no pydantic, and of the client no import and no reader of files."""
    loaded = loaded_by(["find", "tea", "-n", "5", "--levels", "both", "--address", "unix:/none"])
    assert "grpc" in loaded
    ours = {"vikingd.client.composed_calls", "vikingd.ingest.abstracts", "vikingd.client.importing"}
    assert not loaded & {"pydantic", "numpy", *ours}


class Size(StrEnum):
    """A choice."""

    SMALL = "small"
    LARGE = "very-large"


def sized(
    name: str,
    count: Annotated[int, typer.Option(min=0, max=9)] = 1,
    share: Annotated[float | None, typer.Option(max=1.0)] = None,
    size: Size = Size.SMALL,
    sizes: Annotated[list[Size] | None, typer.Option("--each")] = None,
    parsed: Annotated[str, typer.Option(parser=str.upper)] = "a",
    where: Path | None = None,
    is_on: Annotated[bool, typer.Option("--on")] = False,
) -> None:
    """Take values of each kind."""


def values_of(kind: type[TyperCommand], arguments: list[str]) -> Any:
    """Return the values that a class of commands makes of arguments, or the text of its error."""
    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=kind)(sized)
    try:
        return typer.main.get_command(app).make_context("sized", list(arguments)).params
    except typer.BadParameter as error:
        return error.message


@pytest.mark.parametrize(
    "arguments",
    [
        *("a", "1", "a --count 9", "a --count 10", "a --count -1", "a --count 1_0", "a --count ５"),
        *("a --count 007", "a --count 1.0", "a --count x", "a --share 1", "a --size very-large"),
        f"a --count {'9' * 5000}",
        *("a --size LARGE", "a --size Small", "a --each small --each very-large", "a --on", ""),
        *("a --parsed b", "a --where /tmp"),
    ],
)
def test_plain_values_are_those_of_typer(arguments: str) -> None:
    """A value that is taken without typer's conversion is the one that typer would make."""
    assert values_of(Command, arguments.split()) == values_of(TyperCommand, arguments.split())
