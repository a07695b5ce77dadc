"""A comparison of an index with its store, row by row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import TEXTS, Node, encode_file, is_file, row_of
from viking_kernels.postings import MAX_COUNT
from viking_kernels.quantize import from_int4
from viking_kernels.rotation import rotate

from vikingd.domain import uri as uris
from vikingd.domain.store_changes import IndexedText, Linked, Upsert
from vikingd.index.compaction import compacted
from vikingd.index.lexicon import tokens
from vikingd.index.shown_strings import Names
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.code.headings import defined_names

MAX_PROBLEMS = 100

_CODE_TOLERANCE = 1e-5  # of the length that a code leaves out


class Comparison:
    """A comparison of a snapshot with all contexts of a store at the same revision.

    `contexts`, `texts` and `vectors` count what was compared; `problems` has the first MAX_PROBLEMS
    differences.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.contexts = 0
        self.texts = 0
        self.vectors = 0
        self.problems: list[str] = []
        self._snapshot = snapshot
        tree = snapshot.tree
        alive = np.flatnonzero(tree.texts.tombstoned > snapshot.revision)
        self._rows = {int(snapshot.text_id[row]): int(row) for row in alive}
        files = np.flatnonzero(tree.files.tombstoned > snapshot.revision)
        directories = np.flatnonzero(tree.directories.tombstoned > snapshot.revision)
        self._nodes = {*encode_file(files).tolist(), *directories.tolist()}
        self._words = _word_sums(snapshot)

    def _problem(self, text: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(text)

    def run(self, contexts: Iterable[Upsert], links: Iterable[Linked]) -> None:
        """Compare all contexts, texts, vectors, postings, links and counts; fill `problems`."""
        snapshot = self._snapshot
        for context in contexts:
            self._compare(context)
        for uri in sorted(map(snapshot.uri, self._nodes)):
            if uri != uris.ROOT:  # the index always has it; the store may lack it
                self._problem(f"{uri} is in the index, and the store has no sound row of it")
        if self._rows:
            self._problem(f"the index has {len(self._rows)} texts that the store lacks")
        counted = int(snapshot.counts(0)[TEXTS])
        if counted != self.texts:
            self._problem(f"the index counts {counted} texts, the store has {self.texts}")
        self._compare_links(links)
        self._compare_stats()

    def _compare(self, context: Upsert) -> None:
        snapshot = self._snapshot
        self.contexts += 1
        node = snapshot.find(context.uri)
        if node is None:
            self._problem(f"{context.uri} is in the store but not in the index")
            return
        self._nodes.discard(node)
        if is_file(node) == context.is_directory:
            self._problem(f"{context.uri} is of another kind in the index")
            return
        known = int((snapshot.file_id if is_file(node) else snapshot.dir_id)[row_of(node)])
        if known != context.context_id and context.uri != uris.ROOT:
            self._problem(f"{context.uri} is context {context.context_id}, in the index {known}")
        if snapshot.abstract(node) != context.abstract:
            self._problem(f"{context.uri} has another abstract in the index")
        for text in context.texts:
            self.texts += 1
            row = self._rows.pop(text.text_id, None)
            if row is None:
                self._problem(f"{context.uri}: text {text.text_id} is not in the index")
            else:
                self._compare_text(context, node, text, row)
                self._compare_vector(context.uri, text.vector, row)

    def _compare_text(self, context: Upsert, node: Node, text: IndexedText, row: int) -> None:
        snapshot, name = self._snapshot, f"{context.uri}: text {text.text_id}"
        texts = snapshot.tree.texts
        owners = texts.file if is_file(node) else texts.directory
        if owners[row] != row_of(node):
            self._problem(f"{name} belongs to another node in the index")
        held = snapshot.contents.passage(row)
        if held[:3] != (text.section, text.passage, text.start) or held.first_line != text.line:
            self._problem(f"{name} is another passage in the index")
        is_first = text is context.texts[0]
        hashes, tf, length = tokens.encode(
            text.text,
            uris.name(context.uri) if is_first else "",
            tokens.heading_of(text, context.abstract),
            defined_names(text.section, context.uri),
        )
        with np.errstate(over="ignore"):
            words = (hashes * tf.astype(np.uint64)).sum(dtype=np.uint64)
            if is_first and not context.is_directory:
                title = np.array(tokens.title_keys(context.title), np.uint64)
                words += title.sum(dtype=np.uint64) * np.uint64(len(title))
        if length != texts.length[row] or words != self._words[row]:
            self._problem(f"{name} has other terms in the index")

    def _compare_vector(self, uri: str, vector: bytes, row: int) -> None:
        vectors = self._snapshot.vectors
        indexed = bool(vectors.vector_at[row] <= self._snapshot.revision)
        if indexed != bool(vector):
            self._problem(f"{uri}: a vector is only in the {'index' if indexed else 'store'}")
        elif vector:
            self.vectors += 1
            base = len(vectors.base_raw)
            # The arrays of the base come first, then those of the tail in the same order.
            held, at = (vectors[:4], row) if row < base else (vectors[4:8], row - base)
            codes, scale, error, raw = (array[at] for array in held)
            coded = float(scale) * codes[: len(raw)].astype(np.float64)
            off = abs(np.linalg.norm(raw - coded) - error)
            if row < base:
                rotated = np.empty(len(vectors.base_int4.axis), np.float32)
                rotate(raw, rotated)
                left = np.linalg.norm(rotated - from_int4(vectors.base_int4, row))
                off = max(off, abs(left - vectors.base_int4.residual[row]))
            if raw.tobytes() != vector or off > _CODE_TOLERANCE:
                self._problem(f"{uri}: another vector is in the index")

    def _compare_links(self, links: Iterable[Linked]) -> None:
        stored, indexed = _by_ends(links), _by_ends(self._snapshot.linked())
        for one, other in sorted({ends for ends, _ in stored.items() ^ indexed.items()}):
            self._problem(f"{one} and {other} have different links in index and store")

    def _compare_stats(self) -> None:
        """Compare each directory's counts and means with those computed again from its rows."""
        snapshot = self._snapshot
        fresh, _, _ = compacted(snapshot)
        names = Names(fresh)
        for new in range(len(fresh.dir_parent)):
            old = snapshot.find(names.directory_uri(new, fresh.dir_parent))
            if old is None or is_file(old):
                self._problem(f"directory {new} of a new base is not in the index")
                continue
            uri, stats = snapshot.directory_uri(old), snapshot.stats
            slot = stats.slot[old]
            if not np.array_equal(fresh.counts[new], stats.counts[slot]):
                self._problem(f"{uri}: its counts are not those of its rows")
            for script, at in enumerate(fresh.mean_slot[new]):
                kept = int(stats.centroid_slot[slot, script])
                count = int(stats.centroid_count[kept]) if kept >= 0 else 0
                if count != (int(fresh.mean_count[at]) if at >= 0 else 0):
                    self._problem(f"{uri}: it counts {count} vectors")
                elif count and not np.array_equal(fresh.mean[at], snapshot.mean_row(kept)):
                    self._problem(f"{uri}: its mean is not that of its rows")


def _by_ends(links: Iterable[Linked]) -> dict[tuple[str, str], str]:
    return {(min(link.uri, link.other), max(link.uri, link.other)): link.reason for link in links}


def _word_sums(snapshot: Snapshot) -> npt.NDArray[np.uint64]:
    """Return a checksum of each text's postings, [T]: the sum of term hash * tf modulo 2^64."""
    base = snapshot.base
    sums = np.zeros(len(snapshot.tree.texts.directory), np.uint64)
    keys = np.repeat(base.term_key, np.diff(base.term_at))
    np.add.at(sums, base.posting_text, keys * base.posting_tf.astype(np.uint64))
    for tail in snapshot.tail_postings:
        keys = np.repeat(tail.keys, np.diff(tail.at))
        texts = (tail.packed >> np.uint64(16)).astype(np.int64)
        np.add.at(sums, texts, keys * (tail.packed & np.uint64(MAX_COUNT)))
    return sums
