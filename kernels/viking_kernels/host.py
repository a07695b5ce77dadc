"""The machine that the kernels are compiled for: its features, and a lock for compiling."""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
from typing import Any

import llvmlite.binding

_AT_HWCAP = 16
"""The entry of the auxiliary vector with the features of the processor, see getauxval(3)."""

_HAS_DOTPROD = 1 << 20
"""HWCAP_ASIMDDP, a bit of that entry on arm64."""


def features() -> Any:
    """Return the processor's features by LLVM's names; empty if LLVM does not know them."""
    try:
        found = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:
        found = llvmlite.binding.FeatureMap()
    if os.uname().machine == "aarch64" and sys.platform == "linux":
        # LLVM reads /proc/cpuinfo, which is that of another processor under an emulator.
        getauxval = ctypes.CDLL(None).getauxval
        getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
        found["dotprod"] = bool(getauxval(_AT_HWCAP) & _HAS_DOTPROD)
    return found


def lock(file: int) -> None:
    """Wait for the exclusive lock of an open file; it is held until the file is closed."""
    fcntl.flock(file, fcntl.LOCK_EX)
