"""The listing of a retrieval without a query: all files that its filters allow, in pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from viking_kernels.arrays import U8, encode_file
from viking_kernels.scope import tail_directories

from vikingd.answer.query_scope import QueryScope
from vikingd.domain.answers import MESSAGE_BYTES, ReplyBudget, size_of
from vikingd.domain.retrieve import RetrievedItem
from vikingd.index.snapshot import Snapshot

ITEM = MESSAGE_BYTES + 64
"""Bytes of an item without its texts."""


class Listed(NamedTuple):
    """A page of files by URI."""

    items: tuple[RetrievedItem, ...]
    has_more: bool
    is_cut: bool
    """The reply has no room for the whole page."""


def list_files(
    snapshot: Snapshot,
    parts: Iterable[tuple[QueryScope, U8]],
    after: str,
    limit: int,
    *,
    with_text: bool,
    budget: ReplyBudget,
) -> Listed:
    """Return the files of some scopes, with the filter of each, that follow the URI `after`."""
    files = chain.from_iterable(_files(bound, allowed) for bound, allowed in parts)
    page = heapq.nsmallest(limit + 1, (one for one in files if one[0] > after))
    items: list[RetrievedItem] = []
    for uri, row in page[:limit]:
        text = snapshot.abstract(encode_file(row)) if with_text else ""
        if not budget.take(ITEM + size_of(uri) + size_of(text)) and items:
            break
        items.append(RetrievedItem(uri, 0, "", text, 0, 0, 1.0))
    return Listed(tuple(items), len(page) > len(items), len(items) < min(limit, len(page)))


def _files(bound: QueryScope, allowed: U8) -> Iterator[tuple[str, int]]:
    """Yield (URI, row) of each allowed file in the scope that is alive."""
    snapshot, scope = bound.snapshot, bound.scope
    files = snapshot.tree.files
    rows = bound.rows(files=True)
    inside = np.zeros(len(snapshot.tree.directories.parent), bool)
    inside[scope.dir_low : scope.dir_high] = True
    inside[scope.base_dirs :] = tail_directories(snapshot.tree.directories, scope)
    kept = inside[files.directory[rows]] & (files.tombstoned[rows] > snapshot.revision)
    if len(allowed):
        kept &= allowed.astype(bool)
    return ((snapshot.file_uri(row), row) for row in rows[kept].tolist())
