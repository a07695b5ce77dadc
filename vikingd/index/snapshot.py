"""A snapshot: everything that a query reads, at one revision; immutable, read without locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import (
    F32,
    I8,
    I32,
    I64,
    SCRIPTS,
    U8,
    U16,
    U64,
    Centroids,
    Node,
    Scope,
    SubtreeStats,
    Terms,
    Tree,
    Vectors,
    decode_file,
    is_file,
    row_of,
)
from viking_kernels.bm25 import postings
from viking_kernels.dense import code_centroids
from viking_kernels.postings import of_terms

from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType
from vikingd.domain.store_changes import Linked
from vikingd.index.ivf import InvertedFile
from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.tail_postings import EMPTY, Levels
from vikingd.index.metadata.columns import Columns
from vikingd.index.segment.segment_arrays import Segment, Sizes
from vikingd.index.shown_strings import Contents, Names

Links = Mapping[int, Mapping[int, str]]
"""The reasons of links: by a node, then by the node that it is linked with.

Each link is in it twice. A commit that changes links makes a new mapping. Removed nodes stay in it.
"""

ENOUGH = 30
"""The least number of vectors for a mean that does not use the model's prior mean."""

PRIOR_WEIGHT = 5.0
"""The weight of the prior mean, in vectors, in a mean of fewer than ENOUGH vectors."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The origin of the mean vector that a scope uses for a script (writing system).

    A scope with few vectors uses the mean of a directory above it.
    """

    script: int
    vectors: int  # number of vectors in the mean
    directory: int  # row of the directory whose vectors are averaged
    with_prior: bool  # True if the mean includes the model's mean vector of the script


@dataclass(frozen=True)
class Snapshot:
    """The index at one revision. Its arrays are views of arrays to which the tail appends rows."""

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
    inverted_file: InvertedFile | None  # over the vectors of the base; None for a small base
    waiting: int  # texts that have no vector yet; without an embedder they get none
    _scopes: dict[tuple[int, int], tuple[Scope, Centroids, tuple[Mean, ...]]] = field(
        default_factory=dict
    )
    _roots: dict[str, int] = field(default_factory=dict)
    _waiting: dict[int, int] = field(default_factory=dict)

    @property
    def dimension(self) -> int:
        """The number of components of a vector; 0 while it is not known."""
        return int(self.vectors.base_raw.shape[1])

    @property
    def base(self) -> Segment:
        """The base segment of this snapshot."""
        return self.names.base

    def directory_uri(self, row: int) -> str:
        """Return the URI of a directory by its row."""
        known = self.names.known_uris.get(row)
        return known or self.names.directory_uri(row, self.tree.directories.parent)

    def file_uri(self, row: int) -> str:
        """Return the URI of a file by its row."""
        above = self.directory_uri(self.tree.files.directory.item(row))
        return uris.join(above, self.names.files[row])

    def uri(self, node: Node) -> str:
        """Return the URI of a directory or file by its node number."""
        return self.file_uri(decode_file(node)) if is_file(node) else self.directory_uri(node)

    def abstract(self, node: Node) -> str:
        """Return the abstract of a directory or file by its node number."""
        return self.contents.abstracts_of(node).at(row_of(node), self.revision)

    def abstract_number(self, node: Node) -> int:
        """Return an id of a node's current abstract. A new abstract has a new id."""
        return self.contents.abstracts_of(node).string_number(row_of(node), self.revision)

    def type_of(self, node: Node) -> ContextType:
        """Return the type of the contexts at a node: memory, resource or skill."""
        files = self.tree.files
        directory = files.directory.item(decode_file(node)) if is_file(node) else node
        return _TYPE[self.dir_type.item(directory)]

    def linked(self) -> list[Linked]:
        """Return all links between contexts, each once."""
        return [
            Linked(self.uri(one), self.uri(other), reason)
            for one, ends in self.links.items()
            for other, reason in ends.items()
            if one < other and self._is_alive(one) and self._is_alive(other)
        ]

    def find(self, uri: str) -> Node | None:
        """Return the living node with a URI; None if there is none."""
        return self.names.find(uri, self._is_alive, self.uri)

    def _is_alive(self, node: Node) -> bool:
        tree, row = self.tree, row_of(node)
        died = tree.files.tombstoned if is_file(node) else tree.directories.tombstoned
        return row < len(died) and bool(died[row] > self.revision)

    def files_by_directory(self) -> I64:
        """Return the number of living files directly in each directory, [D], by row."""
        alive = self.tree.files.tombstoned > self.revision
        return np.bincount(
            self.tree.files.directory[alive], minlength=len(self.tree.directories.tombstoned)
        )

    def root(self, uri: str) -> int | None:
        """Return the living node with a URI as a number, as `find` does; None if there is none.

        The row of a directory is cached for later calls.
        """
        row = self._roots.get(uri)
        if row is None:
            row = self.find(uri)
            if row is not None and not is_file(row):
                self._roots[uri] = row
        return row

    def scope(self, root: int, top: int = 0) -> tuple[Scope, Centroids, tuple[Mean, ...]]:
        """Return the scope below a directory, its centroids, and the origin of each script's mean.

        Args:
            root: the row of the directory.
            top: the row of the same directory or one above it. If the scope has fewer than ENOUGH
                vectors of a script, the mean is that of a directory above, up to `top`.
        """
        known = self._scopes.get((root, top))
        if known is None:
            mean, sources = self._means(root, top)
            known = self._scopes[root, top] = (
                self._ranges(root),
                code_centroids(mean, self.base.int4_axis),
                sources,
            )
        return known

    def _ranges(self, root: int) -> Scope:
        base = self.base
        low = high = Sizes(0, 0, 0)
        if root < base.sizes.directories:
            low, high = (
                Sizes(row, int(base.dir_files[row]), int(base.dir_texts[row]))
                for row in (root, int(base.dir_end[root]))
            )
        return Scope(
            root=root,
            dir_low=low.directories,
            dir_high=high.directories,
            file_low=low.files,
            file_high=high.files,
            text_low=low.texts,
            text_high=high.texts,
            base_dirs=base.sizes.directories,
            base_files=base.sizes.files,
            base_texts=base.sizes.texts,
            revision=self.revision,
        )

    def _means(self, root: int, top: int) -> tuple[F32, tuple[Mean, ...]]:
        stats = self.stats
        mean = np.zeros((SCRIPTS, self.dimension), np.float32)
        sources: list[Mean] = []
        slots = stats.centroid_slot[stats.slot[top]]
        for script in range(SCRIPTS):
            # Until a compaction, a script whose vectors are all deleted has a slot.
            if slots[script] < 0 or not stats.centroid_count[slots[script]]:
                mean[script] = self.prior[script]
                continue
            row = root
            while True:
                slot = int(stats.centroid_slot[stats.slot[row], script])
                count = int(stats.centroid_count[slot]) if slot >= 0 else 0
                if count >= ENOUGH or row == top:
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
        """Return the mean vector [dim] with this number in the statistics."""
        stats, base = self.stats, len(self.stats.base_centroid)
        row: F32 = stats.base_centroid[slot] if slot < base else stats.tail_centroid[slot - base]
        return row

    def terms(self, hashes: U64, weights: F32) -> Terms:
        """Return the postings of terms in texts and in titles, as the kernels take them.

        Args:
            hashes: the hashes of the terms, [n].
            weights: the weight of each term in the query, [n].
        """
        base = self.base
        keys = np.concatenate([hashes, tokens.as_titles(hashes)])
        if self.tail_postings is EMPTY:
            tail = np.zeros(len(keys) + 1, np.int64), _NO_TEXTS, _NO_COUNTS
        else:
            tail = of_terms(keys, self.tail_postings)
        held = base.term_key, base.term_at, base.posting_text, base.posting_tf
        return Terms(keys, weights, *held, *tail)

    def count_postings(self, hashes: U64) -> int:
        """Return the number of postings that terms, given by hash, have in the base."""
        keys, starts = self.base.term_key, self.base.term_at
        first, last = keys.searchsorted(hashes), keys.searchsorted(hashes, "right")
        return int((starts[last] - starts[first]).sum())

    def has_term(self, key: int, scope: Scope) -> bool:
        """Return True if a living text of the scope has the term with this hash."""
        terms = self.terms(np.array([key], np.uint64), np.ones(1, np.float32))
        texts = self.tree.texts
        begin, end = postings(terms, 0)
        base = terms.base_text[begin:end]
        first, last = np.searchsorted(base, (scope.text_low, scope.text_high))
        if (texts.tombstoned[base[first:last]] > self.revision).any():
            return True
        tail = terms.tail_text[: terms.tail_from[1]]
        tail = tail[texts.tombstoned[tail] > self.revision]
        return bool(self._are_below(texts.directory[tail], scope.root).any())

    def _are_below(self, rows: I32 | I64, top: int) -> npt.NDArray[np.bool_]:
        """Return which directories [n] are below a directory, or are it."""
        # The row of a parent is lower than the row of its child.
        while (deeper := rows > top).any():
            rows = np.where(deeper, self.tree.directories.parent[rows], rows)
        below: npt.NDArray[np.bool_] = rows == top
        return below

    def waiting_below(self, root: int) -> int:
        """Return the number of texts below a directory that have no vector yet; it is cached."""
        if not self.waiting:
            return 0
        count = self._waiting.get(root)
        if count is None:
            texts, revision = self.tree.texts, self.revision
            waits = (self.vectors.vector_at > revision) & (texts.tombstoned > revision)
            waits &= self.text_embeddable != 0
            counts = np.bincount(texts.directory[waits])
            rows = np.flatnonzero(counts)
            count = self._waiting[root] = int(counts[rows[self._are_below(rows, root)]].sum())
        return count

    def counts(self, root: int) -> I64:
        """Return the counts of a directory's subtree, such as its texts and files, [COUNTS].

        viking_kernels.arrays names the columns.
        """
        row: I64 = self.stats.counts[self.stats.slot[root]]
        return row


_TYPE = tuple(ContextType)  # by number
_NO_TEXTS: I32 = np.zeros(0, np.int32)
_NO_COUNTS: U16 = np.zeros(0, np.uint16)
