"""A daemon whose gateway cannot start, or is not asked for: it says how to get the page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import serve
from vikingd.system.install_command import install_command

ROOT = Path(__file__).parents[2]
HIDE = """
import importlib.util, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('starlette', 'uvicorn'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)

found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == 'starlette' else found(name)
sys.meta_path.insert(0, Hidden())
"""
MAIN = "from vikingd.daemon.server import main\nmain()\n"


@contextmanager
def started(code: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run vikingd behind some code."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}{MAIN}", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def options_of(store: Path) -> list[str]:
    """Return the options of a daemon on a free port."""
    options: list[str] = serve(store, "--provider", "none")[3:]
    return options


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("command", ["gateway", "serve"])
def test_missing_packages_are_told(command: str, tmp_path: Path) -> None:
    """Without the extra, one line says how to install it."""
    options = ["gateway"]
    if command == "serve":
        options = [*options_of(tmp_path / "store"), "--gateway", "127.0.0.1:0"]
    with started(HIDE, *options) as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert said.count("\n") == 1
    assert install_command("gateway") in said


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("is_installed", [True, False])
def test_a_daemon_without_a_gateway_says_how_to_get_the_page(
    is_installed: bool, tmp_path: Path
) -> None:
    """One line has the option, and the command for the packages if they are missing."""
    with started("" if is_installed else HIDE, *options_of(tmp_path / "store")) as process:
        assert process.stderr
        line = next(line for line in process.stderr if "no browser page" in line)
    assert "start with --gateway 127.0.0.1:7717" in line
    assert (install_command("gateway") in line) == (not is_installed)
