"""Remarks of a migration."""

from __future__ import annotations

from collections import Counter


class Notes:
    """Remarks on data that are not imported as they are; each has a count."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, remark: str, count: int = 1) -> None:
        """Add `count` to the count of a remark; a remark with the count 0 is shown without it."""
        self._counts[remark] += count

    def lines(self) -> list[str]:
        """Return the remarks in the order in which they came first."""
        return [
            f"{remark}: {count:,}" if count else remark for remark, count in self._counts.items()
        ]
