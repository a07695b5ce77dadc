"""Plain twins of the kernels: subtree statistics and compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tests.kernels.naive.tree import (
    F64,
    SCRIPTS,
    Directory,
    Row,
    document,
    files_below,
    texts_below,
    texts_in,
    walk,
)


def touched_directories(directories: Iterable[Directory]) -> set[int]:
    """Return the ids of directories and of all their ancestors."""
    out = set()
    for directory in directories:
        place: Directory | None = directory
        while place is not None:
            out.add(place.id)
            place = place.parent
    return out


def count_nodes(top: Directory) -> tuple[int, int]:
    """Return (files, directories) of a subtree."""
    return len(files_below(top)), len(list(walk(top)))


def own_counts(directory: Directory) -> tuple[int, int, int, int, list[int]]:
    """Return texts, their length, the document's, abstracts and scripts of one directory."""
    texts = texts_in(directory)
    scripts = Counter(text.script for text in texts)
    return (
        len(texts),
        sum(len(text.terms) for text in texts),
        len(document(directory)),
        int(directory.abstract is not None),
        [scripts[script] for script in range(SCRIPTS)],
    )


def count_texts(top: Directory) -> list[int]:
    """Return TEXTS, TEXT_LENGTH, DOCUMENT_LENGTH, OWN_LENGTH, OWN_TEXT, texts by script."""
    alone = [own_counts(directory) for directory in walk(top)]
    texts, length, documents = (sum(counts[i] for counts in alone) for i in (0, 1, 2))
    scripts = [sum(counts[4][script] for counts in alone) for script in range(SCRIPTS)]
    return [texts, length, documents, alone[0][2], alone[0][3], *scripts]


def add_vectors(top: Directory, script: int) -> tuple[int, Any]:
    """Return (number, sum) of the vectors of a script in a subtree."""
    found = [t.vector for t in texts_below(top) if t.script == script and t.vector is not None]
    return len(found), sum(found)


def sum_vectors(top: Directory, script: int) -> tuple[int, Any]:
    """Return (number, sum) of the vectors of a script, added up from directory to parent."""
    own = [t.vector for t in texts_in(top) if t.script == script and t.vector is not None]
    count, total = len(own), sum(own)
    for child in top.directories.values():
        below = sum_vectors(child, script)
        count, total = count + below[0], total + below[1]
    return count, total


def divide_sums(sums: F64, counts: Sequence[int]) -> F64:
    """Return sums over counts; zeros for a count of 0."""
    return np.array([s / n if n else 0 * s for s, n in zip(sums, counts, strict=True)])


def sum_up(parents: Sequence[int], counts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the sum over the subtree of each row."""

    def above(row: int) -> list[int]:
        return [row, *(above(parents[row]) if parents[row] >= 0 else [])]

    return [
        [
            sum(c[j] for row, c in enumerate(counts) if top in above(row))
            for j in range(len(counts[0]))
        ]
        for top in range(len(parents))
    ]


def order_files(top: Directory) -> list[int]:
    """Return the ids of the files in depth-first order."""
    return [file.id for file in files_below(top)]


def order_texts(top: Directory) -> list[int]:
    """Return the ids of the texts in depth-first order."""
    return [text.id for text in texts_below(top)]


def gather_strings(strings: Sequence[Row], rows: Iterable[int]) -> list[Row]:
    """Return the strings of the rows."""
    return [strings[row] for row in rows]


def merge_postings(top: Directory) -> dict[tuple[str, bool], list[tuple[int, int]]]:
    """Return (position, tf) by (term, whether the term is of a title), in depth-first order.

    The postings of a title have the position of the file's first text, and the number of the
    title's terms in place of tf.
    """
    out: dict[tuple[str, bool], list[tuple[int, int]]] = {}
    titles = {file.texts[0].id: file.title for file in files_below(top) if file.texts}
    for position, text in enumerate(texts_below(top)):
        for term, tf in Counter(text.terms).items():
            out.setdefault((term, False), []).append((position, tf))
        title = titles.get(text.id, frozenset())
        for term in title:
            out.setdefault((term, True), []).append((position, len(title)))
    return out
