"""The command line of vikingctl, to be written into the configuration of another program."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from vikingd.ctl.common_options import Common

_FILES = ("VIKINGD_KEY_FILE", "VIKINGD_CA", "VIKINGD_CERT", "VIKINGD_CERT_KEY")
_VARIABLES = (*_FILES, "VIKINGCTL_ADDRESS", "VIKINGD_TENANT")
"""The variables that go into a configuration; none of them is a secret."""


def own_command() -> list[str]:
    """Return the command of vikingctl with its path, since another program's PATH may differ."""
    beside = Path(sys.executable).with_name("vikingctl")
    found = str(beside) if beside.exists() else shutil.which("vikingctl")
    return [found] if found else [sys.executable, "-m", "vikingd.ctl.main"]


def options_of(common: Common) -> list[str]:
    """Return the arguments that repeat these common options, without the key."""
    arguments: list[str] = []
    for name, value in asdict(common).items():
        option = f"--{name.replace('_', '-')}"
        if name in ("key_file", "ca", "cert", "cert_key") and value:
            arguments += [option, str(Path(value).absolute())]
        elif name == "trust_network" and value:
            arguments.append(option)
        elif name in ("address", "tenant", "timeout") and value:
            arguments += [option, str(value)]
    return arguments


def environment_of_this() -> dict[str, str]:
    """Return the variables of this process that vikingctl reads, without secrets."""
    found = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    return {
        name: str(Path(value).absolute()) if name in _FILES else value
        for name, value in found.items()
    }


def key_note() -> str:
    """Return a note if the other program would not get the key of this process; else ""."""
    if os.environ.get("VIKINGD_KEY") and not os.environ.get("VIKINGD_KEY_FILE"):
        return "VIKINGD_KEY is not written; the client needs it in its environment, or a file"
    return ""
