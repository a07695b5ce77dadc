"""The checks of this machine: packages, kernels and limits. No daemon is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import vikingd
from vikingd.ctl.doctor_checks import OK, WARN, WRONG, Check
from vikingd.system import platform
from vikingd.system.install_command import install_command

_OF_CLIENT = ("protobuf", "grpcio")
_OF_SERVER = ("numba", "faiss-cpu", "numpy")
_FEW_FILES = 1024


def versions() -> Iterator[Check]:
    """Yield the check of the versions of Python, vikingd and the most important packages."""
    known = {"vikingd": vikingd.__version__, "python": sys.version.split()[0]}
    missing = []
    for name in (*_OF_CLIENT, *_OF_SERVER):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            missing.append(name)
    text = ", ".join(f"{name} {number}" for name, number in known.items())
    if missing:
        found = f"{text}; not installed: {', '.join(missing)}, which a daemon needs"
        yield Check(WARN, "versions", found, install_command("server"))
    else:
        yield Check(OK, "versions", text)


def kernels() -> Iterator[Check]:
    """Yield the checks of the processor instructions of the kernels, and of their cache."""
    try:
        from viking_kernels import _jit, simd
    except ValueError as error:  # VIKING_KERNELS_SIMD asks for what the processor lacks
        yield Check(WRONG, "kernels", str(error), "unset VIKING_KERNELS_SIMD")
        return
    cache = _jit.CACHE_DIRECTORY
    if not _may_write(cache):
        yield Check(
            WARN,
            "kernels",
            f"{simd.PATH}; {cache} cannot be written, so each start compiles for half a minute",
            f"give yourself the directory, or set XDG_CACHE_HOME: {_nearest(cache)}",
        )
    elif compiled := _jit.compiled():
        yield Check(OK, "kernels", f"{simd.PATH}; {compiled} compiled in {cache}")
    else:
        found = f"{simd.PATH}; not compiled yet: the first start takes half a minute longer"
        yield Check(OK, "kernels", found)


def limits() -> Iterator[Check]:
    """Yield the check of the limit of open files that a daemon would have."""
    most = platform.most_files()
    if most < _FEW_FILES:
        found = f"at most {most:,.0f} open files; a daemon for many clients needs {_FEW_FILES:,}"
        yield Check(WARN, "limits", found, f"ulimit -Hn {_FEW_FILES} before the start, or more")
    else:
        yield Check(OK, "limits", f"at most {most:,.0f} open files")


def _may_write(directory: Path) -> bool:
    """Return True if files can be created in a directory, which may not exist yet."""
    return os.access(_nearest(directory), os.W_OK | os.X_OK)


def _nearest(directory: Path) -> Path:
    """Return the directory, or the nearest one above it that exists."""
    return next(one for one in (directory, *directory.parents) if one.exists())
