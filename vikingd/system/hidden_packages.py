"""Installed packages that are hidden from imports, so that libraries do without them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Make imports of these packages fail in the block, unless they are already imported.

    A library with an optional dependency on one of them then runs without it. No other thread may
    import meanwhile.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
