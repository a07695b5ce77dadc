"""A snapshot: everything that a query reads, as of one revision, never locked, never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from viking_kernels.arrays import (
    COUNTS,
    F32,
    I8,
    I32,
    I64,
    SCRIPTS,
    U8,
    U16,
    U64,
    Arrays,
    Centroids,
    Scope,
    SubtreeStats,
    Terms,
    Tree,
    Vectors,
    decode_file,
    is_file,
)
from viking_kernels.bm25 import postings
from viking_kernels.dense import code_centroids
from viking_kernels.postings import of_terms

from vikingd.domain import uri as uris
from vikingd.domain.model import ContextType, Linked
from vikingd.index import tokens
from vikingd.index.base import Base
from vikingd.index.columns import Columns
from vikingd.index.contents import Contents, Strings
from vikingd.index.postings import EMPTY, Levels

Links = Mapping[int, Mapping[int, str]]
"""The reason of each link by both of its ends, which are nodes.

A commit that changes links makes another mapping. Ends that are gone stay in it as dead rows.
"""

ENOUGH = 30
"""A mean of so many vectors stands by itself."""

PRIOR_WEIGHT = 5.0
"""A mean of fewer, with none above it that has enough, is mixed with so many of the prior."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Where the mean of a script came from; `directory` is a row."""

    script: int
    vectors: int
    directory: int
    with_prior: bool


class Names:
    """Names of rows and rows of URIs: those of the base mapped, those of the tail in memory."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.directories = Strings(base.dir_name_at, base.dir_names)
        self.files = Strings(base.file_name_at, base.file_names)
        # URI to the nodes that ever had it, for older snapshots.
        self.uris: dict[int, str] = {0: uris.ROOT}  # of directories that were asked for
        self.tail_rows: dict[str, list[int]] = {}

    def maybe_in_base(self, uris: Sequence[str]) -> set[str]:
        """Those of some URIs that the base may have: the hash of each other one is not there."""
        keys = np.array([tokens.term_hash(uri) for uri in uris], np.uint64)
        known = self.base.uri_key
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return {uris[i] for i in (known[at] == keys).nonzero()[0].tolist()}

    def base_row(self, uri: str, directory_uri: Any, file_uri: Any) -> int | None:
        """The base row of a URI, living or dead; None: it has none."""
        keys = self.base.uri_key
        key = tokens.term_hash(uri)
        at = int(np.searchsorted(keys, np.uint64(key)))
        while at < len(keys) and int(keys[at]) == key:
            row = int(self.base.uri_row[at])
            if (directory_uri(row) if row >= 0 else file_uri(decode_file(row))) == uri:
                return row
            at += 1
        return None


@dataclass(frozen=True)
class Snapshot:
    """The index as of `revision`; arrays are views that only ever grow behind their end."""

    revision: int
    generation: int
    tree: Tree
    vectors: Vectors
    stats: SubtreeStats
    dir_type: I8
    dir_id: I64
    file_id: I64
    text_id: I64
    text_ordinal: I32
    text_embeddable: U8
    names: Names
    contents: Contents
    links: Links
    tail_postings: Levels
    dir_columns: Columns
    file_columns: Columns
    prior: F32  # [SCRIPTS, dim]
    inverted_file: Any  # FAISS's, over the base's vectors; None for a small one
    _scopes: dict[int, tuple[Scope, Centroids, tuple[Mean, ...]]] = field(default_factory=dict)
    _roots: dict[str, int] = field(default_factory=dict)

    @property
    def arrays(self) -> Arrays:
        """The arrays that kernels read."""
        return Arrays(self.tree, self.vectors, self.stats)

    @property
    def dimension(self) -> int:
        """Numbers in a vector; 0 while it is not known."""
        return int(self.vectors.base_raw.shape[1])

    @property
    def base(self) -> Base:
        """The base below this snapshot."""
        return self.names.base

    def directory_uri(self, row: int) -> str:
        """The URI of a directory."""
        known = self.names.uris.get(row)
        if known is None:
            parent = int(self.tree.directories.parent[row])
            known = uris.join(self.directory_uri(parent), self.names.directories[row])
            self.names.uris[row] = known
        return known

    def file_uri(self, row: int) -> str:
        """The URI of a file."""
        return uris.join(
            self.directory_uri(self.tree.files.directory.item(row)), self.names.files[row]
        )

    def uri(self, row: int) -> str:
        """Return the URI of a node."""
        return self.file_uri(decode_file(row)) if is_file(row) else self.directory_uri(row)

    def abstract(self, row: int) -> str:
        """Return the abstract of a node."""
        if row >= 0:
            return self.contents.directories.at(row, self.revision)
        return self.contents.files.at(decode_file(row), self.revision)

    def abstract_number(self, row: int) -> int:
        """Return a number that changes with the abstract of a node."""
        if row >= 0:
            return self.contents.directories.number(row, self.revision)
        return self.contents.files.number(decode_file(row), self.revision)

    def type_of(self, row: int) -> ContextType:
        """Return the type of a node."""
        directory = row if row >= 0 else self.tree.files.directory.item(decode_file(row))
        return _TYPE[self.dir_type.item(directory)]

    def linked(self) -> list[Linked]:
        """All links, each once."""
        return [
            Linked(self.uri(one), self.uri(other), reason)
            for one, ends in self.links.items()
            for other, reason in ends.items()
            if one < other and self._is_alive(one) and self._is_alive(other)
        ]

    def find(self, uri: str) -> int | None:
        """Return the living node of a URI, or None."""
        for row in reversed(self.names.tail_rows.get(uri, ())):
            if self._is_alive(row):
                return row
        found = self.names.base_row(uri, self.directory_uri, self.file_uri)
        return found if found is not None and self._is_alive(found) else None

    def _is_alive(self, row: int) -> bool:
        died = self.tree.directories.tombstoned if row >= 0 else self.tree.files.tombstoned
        number = decode_file(row) if is_file(row) else row
        return number < len(died) and bool(died[number] > self.revision)

    def files_by_directory(self) -> I64:
        """[D] how many living files stand right in each directory."""
        alive = self.tree.files.tombstoned > self.revision
        return np.bincount(
            self.tree.files.directory[alive], minlength=len(self.tree.directories.tombstoned)
        )

    def root(self, uri: str) -> int | None:
        """As `find`; remembered of directories, whose scopes are asked for again and again."""
        row = self._roots.get(uri)
        if row is None:
            row = self.find(uri)
            if row is not None and row >= 0:
                self._roots[uri] = row
        return row

    def scope(self, root: int) -> tuple[Scope, Centroids, tuple[Mean, ...]]:
        """The scope below a directory, with the mean of each script in it and where it is from."""
        known = self._scopes.get(root)
        if known is None:
            mean, sources = self._means(root)
            known = self._scopes[root] = (
                self._ranges(root),
                code_centroids(mean, self.base.int4_axis),
                sources,
            )
        return known

    def _ranges(self, root: int) -> Scope:
        base = self.base
        sizes = (len(base.dir_parent), len(base.file_dir), len(base.text_dir), self.revision)
        if root >= sizes[0]:
            return Scope(root, 0, 0, 0, 0, 0, 0, *sizes)
        end = int(base.dir_end[root])
        files, texts = base.dir_files, base.dir_texts
        return Scope(
            root,
            root,
            end,
            int(files[root]),
            int(files[end]),
            int(texts[root]),
            int(texts[end]),
            *sizes,
        )

    def _means(self, root: int) -> tuple[F32, tuple[Mean, ...]]:
        stats = self.stats
        mean = np.zeros((SCRIPTS, self.dimension), np.float32)
        sources: list[Mean] = []
        present = stats.centroid_slot[stats.slot[0]]
        for script in range(SCRIPTS):
            if present[script] < 0:
                mean[script] = self.prior[script]
                continue
            row = root
            while True:
                slot = int(stats.centroid_slot[stats.slot[row], script])
                count = int(stats.centroid_count[slot]) if slot >= 0 else 0
                if count >= ENOUGH or row == 0:
                    break
                row = int(self.tree.directories.parent[row])
            centre = self.mean_row(slot)
            if count < ENOUGH:
                centre = (count * centre + PRIOR_WEIGHT * self.prior[script]) / (
                    count + PRIOR_WEIGHT
                )
            mean[script] = centre
            sources.append(Mean(script, count, row, count < ENOUGH))
        return mean, tuple(sources)

    def mean_row(self, slot: int) -> F32:
        """[dim] a centroid of SubtreeStats."""
        base = self.stats.base_centroid.shape[0]
        row: F32 = (
            self.stats.base_centroid[slot] if slot < base else self.stats.tail_centroid[slot - base]
        )
        return row

    def terms(self, hashes: U64, weights: F32) -> Terms:
        """The postings of terms, in texts and in titles, for the kernels."""
        base = self.base
        keys = np.concatenate([hashes, tokens.as_titles(hashes)])
        if self.tail_postings is EMPTY:
            tail = np.zeros(len(keys) + 1, np.int64), _NO_TEXTS, _NO_COUNTS
        else:
            tail = of_terms(keys, self.tail_postings)
        return Terms(
            keys, weights, base.term_key, base.term_at, base.posting_text, base.posting_tf, *tail
        )

    def has_term(self, key: int, scope: Scope) -> bool:
        """Whether a living text of the scope has a term."""
        terms = self.terms(np.array([key], np.uint64), np.ones(1, np.float32))
        texts = self.tree.texts
        begin, end = postings(terms, 0)
        base = terms.base_text[begin:end]
        first, last = np.searchsorted(base, (scope.text_low, scope.text_high))
        if (texts.tombstoned[base[first:last]] > self.revision).any():
            return True
        tail = terms.tail_text[: terms.tail_from[1]]
        tail = tail[texts.tombstoned[tail] > self.revision]
        return any(self._is_below(row, scope.root) for row in set(texts.directory[tail].tolist()))

    def _is_below(self, row: int, top: int) -> bool:
        # A parent has a lower number than its child.
        while row > top:
            row = int(self.tree.directories.parent[row])
        return row == top

    def counts(self, root: int) -> I64:
        """[COUNTS] of a directory's subtree; see viking_kernels.arrays."""
        row: I64 = self.stats.counts[self.stats.slot[root]]
        assert len(row) == COUNTS
        return row


_TYPE = tuple(ContextType)  # by number
_NO_TEXTS: I32 = np.zeros(0, np.int32)
_NO_COUNTS: U16 = np.zeros(0, np.uint16)
