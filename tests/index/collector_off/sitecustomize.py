"""A process without a garbage collector: what a cycle holds stays.

Python imports this module at its start, where PYTHONPATH names this directory.
"""

from __future__ import annotations

import gc
from typing import Any


def _nothing(*_: Any) -> int:
    return 0


gc.disable()
gc.enable = gc.collect = _nothing  # type: ignore[assignment]
