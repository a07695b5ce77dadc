"""The limit of work for one call that searches contexts by a pattern."""

from __future__ import annotations

MAX_NODES = 100_000
"""The most contexts that one call looks at."""
MAX_WORK = 1 << 31
"""The most work of one call, in bytes times instructions of its pattern."""

_LEAST_SIZE = 32  # instructions; a smaller pattern takes no less time
_OF_A_NODE = MAX_WORK // MAX_NODES  # bytes times instructions of its path, in the same time


class Work:
    """The amount of work that a call may still do."""

    def __init__(self) -> None:
        self._nodes = MAX_NODES
        self._texts = MAX_WORK

    @property
    def has_nodes(self) -> bool:
        """True if the call may examine another context."""
        return self._nodes > 0

    @property
    def has_texts(self) -> bool:
        """True if the call may search another text."""
        return self._texts > 0

    def take_node(self, path_bytes: int, instructions: int) -> None:
        """Count the work for a context whose path was matched."""
        self._nodes -= 1 + path_bytes * instructions // _OF_A_NODE

    def take_text(self, size: int, instructions: int) -> None:
        """Count the work for a text that was searched."""
        self._texts -= size * (instructions if instructions > _LEAST_SIZE else _LEAST_SIZE)
