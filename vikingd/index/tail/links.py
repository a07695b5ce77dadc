"""The links between nodes, as a tail keeps them."""

from __future__ import annotations

from viking_kernels.arrays import Node

from vikingd.index.snapshot import Links


class LinkWriter:
    """The published links, and copies of the entries that the present commit changes."""

    def __init__(self) -> None:
        self.published: Links = {}
        self._changed: dict[Node, dict[Node, str]] = {}

    def link(self, one: Node, other: Node, reason: str) -> None:
        """Link two nodes."""
        self._of(one)[other] = reason
        self._of(other)[one] = reason

    def unlink(self, one: Node, other: Node) -> None:
        """Remove the link of two nodes."""
        self._of(one).pop(other, None)
        self._of(other).pop(one, None)

    def clear(self) -> None:
        """Remove all links."""
        self.published, self._changed = {}, {}

    def publish(self) -> None:
        """Make the changes visible to the next snapshot."""
        if self._changed:
            self.published = {**self.published, **self._changed}
            self._changed = {}

    def _of(self, node: Node) -> dict[Node, str]:
        known = self._changed.get(node)
        if known is None:
            known = self._changed[node] = dict(self.published.get(node, {}))
        return known
