"""A Python that looks like that of macOS, as far as a Linux machine can show it.

`python tests/daemon/macos.py python -m MODULE ARGUMENT...` runs a module in it. Packages of others
are loaded before: their behaviour on macOS is not the subject. The names that `os` lacks on macOS
are gone, and so is /proc.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import pkgutil
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import vikingd

MISSING = (
    "SCHED_BATCH",
    "copy_file_range",
    "eventfd",
    "getresuid",
    "memfd_create",
    "pidfd_open",
    "posix_fadvise",
    "posix_fallocate",
    "sched_getaffinity",
    "sched_param",
    "sched_setaffinity",
    "sched_setscheduler",
    "splice",
)
"""The names of `os` on Linux that are missing on macOS."""

F_FULLFSYNC = 51  # Linux does not know it, like some file systems of macOS


def modules() -> list[str]:
    """Return the names of all modules of vikingd but the generated ones and those that run."""
    found = pkgutil.walk_packages(vikingd.__path__, "vikingd.")
    own = [each.name for each in found if not each.name.startswith("vikingd.pb")]
    return [name for name in own if not name.endswith(("__main__", ".child"))]


def disguise() -> None:
    """Make this process look like one on macOS to the modules of vikingd that are loaded later."""
    for name in modules():
        with suppress(ImportError):  # of a package that is not installed
            importlib.import_module(name)
    for name in list(sys.modules):
        if name.startswith("vikingd.") and not name.startswith("vikingd.pb"):
            del sys.modules[name]
    sys.platform = "darwin"
    sys.modules["_scproxy"] = ModuleType("_scproxy")  # urllib asks it for proxies
    for name in MISSING:
        delattr(os, name)
    fcntl.F_FULLFSYNC = F_FULLFSYNC  # type: ignore[attr-defined]
    platform = importlib.import_module("vikingd.system.platform")
    platform.PROC = Path("/nowhere")  # type: ignore[attr-defined]


if __name__ == "__main__":
    disguise()
    _, _, _, *sys.argv = sys.argv
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
