"""The help and the guide of all commands of vikingctl."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from vikingd.ctl import main
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
