"""The number of a node: directory row d is node d, file row f is node -1 - f."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from viking_kernels.arrays import I32, I64

Node: TypeAlias = int

_Numbers = TypeVar("_Numbers", int, I32, I64)


def is_directory(node: Node) -> bool:
    """Return True for a directory, False for a file."""
    return node >= 0


def node_of_file(row: _Numbers) -> _Numbers:
    """Return the node of a file row, or the nodes of an array of file rows."""
    return -1 - row


def file_row(node: _Numbers) -> _Numbers:
    """Return the row of a file node, or the rows of an array of file nodes."""
    return -1 - node


def row_of(node: Node) -> int:
    """Return the row of a node in the numbering of its kind."""
    return node if node >= 0 else -1 - node
