"""The listing of a retrieval without a query: all files that its filters allow, in pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from viking_kernels.scope import tail_directories

from vikingd.plan.retrieve_plan import TextScope


class Listed(NamedTuple):
    """A page of files by URI."""

    files: list[tuple[str, int]]
    """The files of the page, each as (URI, row)."""

    has_more: bool


def list_files(scopes: Iterable[TextScope], after: str, limit: int) -> Listed:
    """Return the next page of the files that the filters allow, those with URIs after `after`."""
    files = chain.from_iterable(map(_files, scopes))
    page = heapq.nsmallest(limit + 1, (one for one in files if one[0] > after))
    return Listed(page[:limit], len(page) > limit)


def _files(listed: TextScope) -> Iterator[tuple[str, int]]:
    """Yield (URI, row) of each file in the scope that the filters allow and that is not removed."""
    snapshot, scope, allowed = listed.snapshot, listed.scope, listed.allowed_files
    files = snapshot.tree.files
    rows = listed.rows(files=True)
    inside = np.zeros(len(snapshot.tree.directories.parent), bool)
    inside[scope.dir_low : scope.dir_high] = True
    inside[scope.base_dirs :] = tail_directories(snapshot.tree.directories, scope)
    kept = inside[files.directory[rows]] & (files.tombstoned[rows] > snapshot.revision)
    if len(allowed):
        kept &= allowed.astype(bool)
    return ((snapshot.file_uri(row), row) for row in rows[kept].tolist())
