"""Regular expressions that a start of the daemon does not wait for."""

from __future__ import annotations

import re
from typing import Any, cast


def lazy(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use; a large one takes milliseconds."""
    return cast("re.Pattern[str]", _Lazy(source, flags))


class _Lazy:
    def __init__(self, source: str, flags: int) -> None:
        self._source = source, flags

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that the object lacks: once for each method in use.
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value
