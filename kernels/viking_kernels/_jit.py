"""The one place where kernels get their compiler flags and their cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core.caching import IndexDataCacheFile

from viking_kernels import simd

_KEPT = 30 * 24 * 3600  # seconds that code of other versions of the sources is kept unused

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


def keep_cache() -> None:
    """Marks the code of just these files as used; removes what others have not used for a month.

    A process that runs what is removed has it in memory, and compiles anew what it loads later.
    """
    # None may be there yet, or it must not be written to, or another process is at it too.
    with suppress(OSError):
        os.utime(CACHE_DIRECTORY)
        for path in CACHE_DIRECTORY.parent.glob("kernels-*"):
            if time.time() - path.stat().st_mtime > _KEPT:
                shutil.rmtree(path, ignore_errors=True)
