"""The names of rows and the nodes of URIs. Those of the base are mapped, others in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from viking_kernels.arrays import I32, Node

from vikingd.domain import uri as uris
from vikingd.index.contents import Strings
from vikingd.index.lexicon import tokens
from vikingd.index.segment.arrays import Segment


class Names:
    """The names of all rows. One thread appends; others read without a lock."""

    def __init__(self, base: Segment) -> None:
        self.base = base
        self.directories = Strings(base.dir_name_at, base.dir_names)
        self.files = Strings(base.file_name_at, base.file_names)
        self.known_uris: dict[int, str] = {0: uris.ROOT}  # by row, of directories asked for
        # All nodes that ever had a URI, in order of arrival: older snapshots find dead ones.
        self._tail_nodes: dict[str, list[Node]] = {}

    def add(self, uri: str, node: Node) -> None:
        """Add the URI of a new node of the tail."""
        self._tail_nodes.setdefault(uri, []).append(node)

    def has_in_tail(self, uri: str) -> bool:
        """Return True if a node of the tail has, or had, a URI."""
        return uri in self._tail_nodes

    def directory_uri(self, row: int, parents: I32) -> str:
        """Return the URI of a directory, and remember it."""
        known = self.known_uris.get(row)
        if known is None:
            above = self.directory_uri(int(parents[row]), parents)
            known = self.known_uris[row] = uris.join(above, self.directories[row])
        return known

    def maybe_in_base(self, uris: Sequence[str]) -> set[str]:
        """Return the URIs whose hash is in the base; the base has no other one."""
        keys = np.array([tokens.term_hash(uri) for uri in uris], np.uint64)
        known = self.base.uri_key
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return {uris[i] for i in (known[at] == keys).nonzero()[0].tolist()}

    def find(
        self, uri: str, is_alive: Callable[[Node], bool], uri_of: Callable[[Node], str]
    ) -> Node | None:
        """Return the living node of a URI; None if there is none.

        Args:
            uri: the URI.
            is_alive: returns True for a node that is visible.
            uri_of: returns the URI of a node of the base.
        """
        for node in reversed(self._tail_nodes.get(uri, ())):
            if is_alive(node):
                return node
        found = self._base_node(uri, uri_of)
        return found if found is not None and is_alive(found) else None

    def _base_node(self, uri: str, uri_of: Callable[[Node], str]) -> Node | None:
        keys = self.base.uri_key
        key = tokens.term_hash(uri)
        at = int(np.searchsorted(keys, np.uint64(key)))
        while at < len(keys) and int(keys[at]) == key:
            node = int(self.base.uri_row[at])
            if uri_of(node) == uri:
                return node
            at += 1
        return None
