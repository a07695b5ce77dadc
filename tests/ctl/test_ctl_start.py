"""The start of a process of vikingctl: what it loads, and the values that it takes by itself."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperCommand

from vikingd.ctl.command_help import Command

INTERRUPTED = """
class Finder:
    def find_spec(name, *_):
        if name == "{}":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""


def loaded_by(arguments: list[str]) -> set[str]:
    """Return the modules that a process of vikingctl has loaded at its end."""
    code = (
        "import sys\n"
        f"sys.argv = ['vikingctl', *{arguments}]\n"
        "from vikingd.daemon.entry_points import vikingctl\n"
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
    ours = {
        "vikingd.client.composed_calls",
        "vikingd.ingest.abstracts",
        "vikingd.client.file_import",
    }
    assert not loaded & {"pydantic", "numpy", *ours}


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("package", ["grpc", "rich", "vikingd.pb"])
def test_ctrl_c_is_quiet_while_a_command_loads(package: str) -> None:
    """Ctrl-C while a command loads what it runs with ends it with exit code 130 and no output."""
    program = "from vikingd.daemon.entry_points import vikingctl\nvikingctl()"
    code = f"import signal, sys\n{INTERRUPTED.format(package)}\n{program}"
    run = subprocess.run(
        [sys.executable, "-c", code, "find", "tea", "--address", "unix:/none"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


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
