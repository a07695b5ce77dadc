"""Limits of file descriptors, which connections and the files of the index use."""

from __future__ import annotations

from vikingd.system import platform

_RESERVED = 256  # for the store, the index, its compactions and models
_OF_TENANT = 24  # of a store and an index
_FEW = 64  # descriptors left, below which a warning is due


def connections(limit: int, tenants: int) -> int:
    """Return the largest number of connections to accept, so that descriptors for files are left.

    Args:
        limit: the limit of open files.
        tenants: the most open tenants beside the default one.
    """
    return max(limit - _RESERVED - _OF_TENANT * tenants, limit // 2)


def shortage() -> str | None:
    """Return a warning if fewer than 64 file descriptors are left; None otherwise."""
    limit = platform.file_limit()
    left = limit - platform.open_files()
    if left > _FEW:
        return None
    return f"{left} of {limit} file descriptors are left; raise the limit (ulimit -n)"
