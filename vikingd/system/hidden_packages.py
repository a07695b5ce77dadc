"""Packages that an import does not see, although they are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Hide packages from imports in the context, unless they are loaded already.

    A library that loads one of them if it is installed does without it then.

    The caller is the only thread.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
