"""Plain twins of the kernels: the tree as objects that point to each other, and a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Row = TypeVar("Row")

SCRIPTS = 8
ENOUGH = 30
PRIOR_WEIGHT = 5.0
DENSE_WEIGHT = 0.5
PARENT_WEIGHT = 0.5
NEIGHBOUR_WEIGHT = 0.2
ICC_FULL = 0.25
SAMPLE_FILES = 2048
K1 = 1.2
B = 0.75
SCORE_FLOOR = 0.2
TITLE = 0.1
TERMS_ENOUGH = 2
OTHER_SCRIPT = 0.8
CAP_SLOPE = 1e-3
BEST_BY_WORDS = 64
MANY_FILES = 15
NEGLIGIBLE = 1e-4
CODES_TELL = 0.1


@dataclass(eq=False)
class Text:
    """An abstract or a passage; `terms` are in order, with repeats."""

    id: int
    script: int
    terms: list[str]
    vector: F64 | None


@dataclass(eq=False)
class File:
    """A file with its texts by ordinal."""

    id: int
    uri: str
    name: str
    parent: Directory
    texts: list[Text] = field(default_factory=list)
    title: frozenset[str] = frozenset()  # terms of the title


@dataclass(eq=False)
class Directory:
    """A directory; `parent` is None for the root of the tree."""

    id: int
    uri: str
    name: str
    parent: Directory | None
    abstract: Text | None = None
    files: dict[str, File] = field(default_factory=dict)
    directories: dict[str, Directory] = field(default_factory=dict)


@dataclass
class Query:
    """A query; `vector` of any length, `terms` with their counts."""

    vector: F64 | None
    script: int
    terms: Mapping[str, float]
    use_dense: bool = True
    use_lexical: bool = True


def walk(top: Directory) -> Iterator[Directory]:
    """Yield a directory and all below it, depth-first, by name."""
    yield top
    for _, child in sorted(top.directories.items()):
        yield from walk(child)


def files_in(directory: Directory) -> list[File]:
    """Return the files of a directory, by name."""
    return [file for _, file in sorted(directory.files.items())]


def files_below(top: Directory) -> list[File]:
    """Return all files of a subtree."""
    return [file for directory in walk(top) for file in files_in(directory)]


def texts_in(directory: Directory) -> list[Text]:
    """Return a directory's abstract and the texts of its files."""
    own = [directory.abstract] if directory.abstract else []
    return own + [text for file in files_in(directory) for text in file.texts]


def texts_below(top: Directory) -> list[Text]:
    """Return all texts of a subtree."""
    return [text for directory in walk(top) for text in texts_in(directory)]


def document(directory: Directory) -> list[str]:
    """Return the terms of a directory's document: its texts and its directories' abstracts."""
    below = [child.abstract for child in directory.directories.values() if child.abstract]
    return [term for text in texts_in(directory) + below for term in text.terms]
