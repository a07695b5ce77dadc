"""The one place where kernels get their compiler flags and their cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core.caching import IndexDataCacheFile

from viking_kernels import simd

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _cache_directory() -> Path:
    # numba's cache follows a function's own file only, not those it calls into: one directory a
    # version of all the sources keeps stale machine code from being loaded. And it takes no code
    # from another copy of the sources, nor once they were written anew: so that what is there can
    # be used, the directory is of just these files.
    digest = hashlib.sha256(f"{numba.__version__} {simd.PATH}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{source} {source.stat().st_mtime_ns}".encode())
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "vikingd" / f"kernels-{digest.hexdigest()[:16]}"


CACHE_DIRECTORY = _cache_directory()
numba.config.CACHE_DIR = str(CACHE_DIRECTORY)  # type: ignore[attr-defined]  # set by name

_save: Callable[..., None] = IndexDataCacheFile.save


def _save_alone(self: Any, key: Any, data: Any) -> None:
    # numba reads an index, adds to it and writes it. Two processes that compile at the same time
    # would give different code the same file, and a third one would run what is not its own.
    CACHE_DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (CACHE_DIRECTORY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _save(self, key, data)


IndexDataCacheFile.save = _save_alone

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    # nnan and ninf stay out: NaN and inf must behave, so that no kernel hides bad input.
    "fastmath": {"reassoc", "contract", "nsz", "arcp", "afn"},
}
_INLINED: dict[str, Any] = {**_OPTIONS, "forceinline": True, "_nrt": False}


def njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compiles a kernel: no GIL, cached on disk, no parallel=True (it aborts under threads)."""
    compiled: Callable[_P, _R] = numba.njit(**_OPTIONS)(function)
    return compiled


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compiles a part of a kernel into each of its callers; it can't make arrays.

    A call would hand over every array of every bundle one by one, and without `_nrt` off the
    references of each would be counted, which costs more than what the part does.
    """
    compiled: Callable[_P, _R] = numba.njit(**_INLINED)(function)
    return compiled


def is_compiled() -> bool:
    """Whether kernels of just these files have been compiled before."""
    return any(CACHE_DIRECTORY.rglob("*.nbi"))
