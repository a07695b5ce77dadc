"""The tail: the mutable segment behind a base.

A commit appends rows behind those that are published, and marks rows as dead from its revision on.
Nothing that a published snapshot shows is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from viking_kernels.arrays import (
    DIRECTORIES,
    F32,
    FILES,
    NEVER,
    Node,
    decode_file,
    encode_file,
    is_file,
    row_of,
)

from vikingd.domain import uri as uris
from vikingd.domain.errors import Corrupt
from vikingd.domain.store_changes import (
    Change,
    Filled,
    IndexedText,
    Linked,
    Remove,
    Unlinked,
    Upsert,
)
from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.tail_postings import TermWriter
from vikingd.index.lexicon.vocabulary import Vocabulary
from vikingd.index.metadata.columns import Columns
from vikingd.index.metadata.days import with_day
from vikingd.index.segment.disk import Base
from vikingd.index.segment.segment_arrays import Sizes, growing_of
from vikingd.index.shown_strings import Contents, Names
from vikingd.index.snapshot import Links, Snapshot
from vikingd.index.tail.subtree_statistics import Delta, StatsWriter
from vikingd.index.tail.tail_rows import Rows
from vikingd.index.tail.tail_vectors import TailVectors
from vikingd.ingest.code.headings import defined_names


class Tail:
    """The mutable segment behind a base. One thread writes; others read its snapshots.

    Attributes:
        revision: the newest commit that was applied.
        rewritten: the number of times that an existing context was written again in its row.
    """

    def __init__(self, base: Base, prior: F32, room: int, vocabulary: Vocabulary) -> None:
        """Begin an empty tail that has memory for `room` rows of each kind.

        `prior` is the model's mean vector of each script, [SCRIPTS, dim].
        """
        segment = base.segment
        self.base = base
        self.revision = base.manifest.revision
        self.names = Names(segment)
        self.rows = Rows(segment, base.growing or growing_of(segment), self.names, room)
        self.vectors = TailVectors(segment)
        self.stats = StatsWriter(segment)
        self.terms = TermWriter(vocabulary)
        self.contents = Contents(segment)
        self.links: Links = {}
        self.rewritten = 0
        self._prior = prior
        self._make_room(Sizes(0, 0, 0))
        self.snapshot = self._publish()

    @property
    def texts(self) -> int:
        """The number of text rows in the tail, living or dead."""
        return self.rows.texts - self.base.segment.sizes.texts

    @property
    def changed(self) -> int:
        """The number of changed rows, which decides when to compact.

        It is the greater of two numbers: changed texts, or new directories and rewritten contexts,
        since the latter take memory even if no text changes.
        """
        directories = self.rows.directories - self.base.segment.sizes.directories
        return max(
            self.texts + self.vectors.filled_in_base + self.rows.dead_texts,
            directories + self.rewritten,
        )

    def columns_of(self, node: Node) -> Columns:
        """Return the columns that have the metadata of a node: those of files or of directories."""
        return self.base.file_columns if is_file(node) else self.base.dir_columns

    def _make_room(self, more: Sizes) -> None:
        self.rows.make_room(more)
        self.vectors.make_room(self.rows.texts, self.rows.arrays.room.texts)

    def apply(self, changes: Sequence[Change], revision: int) -> Snapshot:
        """Apply one commit and return the snapshot of its revision.

        Raises:
            Corrupt: a change contradicts the rows. The tail must not be used any more.
        """
        upserts = [change for change in changes if isinstance(change, Upsert)]
        directories = sum(change.is_directory for change in upserts)
        texts = sum(len(change.texts) for change in upserts)
        self._make_room(Sizes(directories, len(upserts), texts))
        commit = Commit(self, revision, [change.uri for change in upserts])
        for change in changes:
            commit.take(change)
        commit.finish()
        self.revision = revision
        before, self.snapshot = self.snapshot, self._publish()
        self.stats.published(before)
        return self.snapshot

    def _publish(self) -> Snapshot:
        arrays, base = self.rows.arrays, self.base
        directories, files, texts = self.rows.used
        return Snapshot(
            revision=self.revision,
            generation=base.manifest.generation,
            tree=self.rows.tree(),
            vectors=self.vectors.views(arrays.vector_at[:texts]),
            stats=self.stats.views(),
            dir_type=arrays.dir_type[:directories],
            dir_id=arrays.dir_id[:directories],
            file_id=arrays.file_id[:files],
            text_id=arrays.text_id[:texts],
            text_ordinal=arrays.text_ordinal[:texts],
            text_embeddable=arrays.text_embeddable[:texts],
            names=self.names,
            contents=self.contents,
            links=self.links,
            tail_postings=self.terms.postings,
            dir_columns=base.dir_columns,
            file_columns=base.file_columns,
            prior=self._prior,
            inverted_file=base.inverted_file,
            waiting=len(self.vectors.waiting),
        )


class Commit:
    """One commit while it is applied to a tail.

    `take` appends the rows of each change. `finish` then writes the terms, vectors, links and
    statistics of all changes together.
    """

    def __init__(self, tail: Tail, revision: int, upserts: Sequence[str]) -> None:
        """Begin a commit; `upserts` has the URIs that it writes."""
        self._tail = tail
        self._rows = tail.rows
        self._revision = revision
        self._maybe_in_base = tail.names.maybe_in_base(upserts)
        self._parents: dict[str, int] = {}  # rows of the directories that upserts were put in
        self._delta = Delta()
        self._given: list[tuple[int, bytes]] = []  # row of a text, its new vector
        self._links: dict[Node, dict[Node, str]] = {}  # of the nodes whose links change

    def take(self, change: Change) -> None:
        """Apply one change to the rows.

        Raises:
            Corrupt: it contradicts the rows.
        """
        if isinstance(change, Upsert):
            self._upsert(change)
        elif isinstance(change, Remove):
            self._remove(change.uri)
        elif isinstance(change, Filled):
            self._fill(change.text_id, change.vector)
        elif isinstance(change, Linked):
            self._link(change)
        elif isinstance(change, Unlinked):
            if ends := self._nodes_of(change):
                one, other = ends
                self._links_of(one).pop(other, None)
                self._links_of(other).pop(one, None)
        else:
            self._tail.links, self._links = {}, {}
            for link in change.links:
                self._link(link)

    def _upsert(self, change: Upsert) -> None:
        """Write a new context, or a new version of the context at this URI.

        The old metadata and the texts from the first changed one on are removed.
        """
        tail, uri = self._tail, change.uri
        may_exist = uri in self._maybe_in_base or tail.names.has_in_tail(uri)
        node = self._rows.find(uri) if may_exist else None
        kept = 0
        if node is None:
            node = self._add_node(change)
        elif is_file(node) == change.is_directory:
            kind = "file" if is_file(node) else "directory"
            raise Corrupt(f"{uri} is a {kind} in the index")
        else:
            if not is_file(node):
                self._rows.arrays.dir_id[node] = change.context_id
            kept = self._keep_texts(node, change)
            tail.columns_of(node).remove(row_of(node), self._revision)
            tail.rewritten += 1
        tail.contents.abstracts_of(node).put(row_of(node), change.abstract, self._revision)
        metadata = with_day(change.metadata, change.time) if is_file(node) else change.metadata
        if metadata:
            tail.columns_of(node).add(row_of(node), metadata, self._revision)
        for text in change.texts[kept:]:
            self._add_text(node, change, text)

    def _add_node(self, change: Upsert) -> Node:
        parent = self._parent(change.uri)
        if change.is_directory:
            row = self._rows.add_directory(parent, change.uri, change.context_id)
            self._delta.nodes.append((row, 1, DIRECTORIES))
            return row
        row = self._rows.add_file(parent, change.uri, change.context_id)
        self._delta.nodes.append((parent, 1, FILES))
        return encode_file(row)

    def _parent(self, uri: str) -> int:
        above = uris.parent(uri)
        row = self._parents.get(above)
        if row is None:
            row = self._rows.find(above)
            if row is None or is_file(row):
                raise Corrupt(f"{uri} has no directory above it in the index")
            self._parents[above] = row
        return row

    def _add_text(self, node: Node, change: Upsert, text: IndexedText) -> None:
        tail, is_first = self._tail, text is change.texts[0]
        tail.contents.add_text(text)
        row = self._rows.add_text(node, text)
        if is_first and change.title and not change.is_directory:
            tail.terms.add_title(row, change.title)
        name = uris.name(change.uri) if is_first else ""
        heading = tokens.heading_of(text, change.abstract)
        defined = defined_names(text.section, change.uri)
        tail.terms.add(tokens.parts(text.text, name, heading, defined), len(text.text))
        self._delta.texts.append((row, 1))
        if tail.terms.is_full:
            self._post_terms()
        if text.vector:
            self._set_vector(row, text.vector)
        elif text.embeddable:
            tail.vectors.waiting[text.text_id] = row

    def _post_terms(self) -> None:
        self._tail.terms.write_postings(self._rows.arrays.text_length, self._rows.texts)

    def _set_vector(self, row: int, vector: bytes) -> None:
        self._tail.vectors.check(vector)
        self._rows.arrays.vector_at[row] = self._revision
        self._delta.vectors.append((row, 1))
        self._given.append((row, vector))

    def _fill(self, text_id: int, vector: bytes) -> None:
        """Store the vector of a text that waits for one; ignore any other text."""
        row = self._tail.vectors.waiting.pop(text_id, None)
        if row is not None:
            self._set_vector(row, vector)

    def _keep_texts(self, node: Node, change: Upsert) -> int:
        """Tombstone a node's texts from the first changed one on; return how many are kept.

        The order of texts is the order of rows, so no text behind a changed one is kept.
        """
        rows = self._rows.texts_of(node)
        kept = 0
        for row, text in zip(rows, change.texts, strict=False):
            if not self._keep(row, text):
                break
            kept += 1
        self._end_texts(rows[kept:])
        return kept

    def _keep(self, row: int, text: IndexedText) -> bool:
        """Return True if this row already has this text; store the vector if it was missing."""
        arrays = self._rows.arrays
        if arrays.text_id[row] != text.text_id:
            return False
        if arrays.vector_at[row] == NEVER:
            if text.vector:
                self._fill(text.text_id, text.vector)
            return True
        return bool(self._tail.vectors.raw([row]).tobytes() == text.vector)

    def _end_texts(self, rows: list[int]) -> None:
        arrays = self._rows.arrays
        for row in rows:
            self._rows.end_text(row, self._revision)
            self._delta.texts.append((row, -1))
            self._tail.vectors.waiting.pop(int(arrays.text_id[row]), None)
            if arrays.vector_at[row] != NEVER:
                self._delta.vectors.append((row, -1))

    def _remove(self, uri: str) -> None:
        """Tombstone a context and everything below it; do nothing if it does not exist."""
        self._parents.clear()
        node = self._rows.find(uri)
        if node is None:
            return  # it was added and removed since the base was written
        if is_file(node):
            row = decode_file(node)
            self._rows.forget_file(row)
            self._end_file(row)
        else:
            self._end_directory(node)

    def _end_file(self, row: int) -> None:
        self._end_texts(self._rows.texts_of(encode_file(row)))
        self._tail.base.file_columns.remove(row, self._revision)
        self._rows.arrays.file_died[row] = self._revision
        self._delta.nodes.append((int(self._rows.arrays.file_dir[row]), -1, FILES))

    def _end_directory(self, row: int) -> None:
        for _, file in self._rows.files_by_name(row):
            self._end_file(file)
        for child in self._rows.subdirectories(row):
            self._end_directory(child)
        self._end_texts(self._rows.texts_of(row))
        self._tail.base.dir_columns.remove(row, self._revision)
        self._rows.end_directory(row, self._revision)
        self._delta.nodes.append((row, -1, DIRECTORIES))

    def _link(self, link: Linked) -> None:
        if ends := self._nodes_of(link):
            one, other = ends
            self._links_of(one)[other] = self._links_of(other)[one] = link.reason

    def _links_of(self, node: Node) -> dict[Node, str]:
        """Return the commit's own copy of a node's links, to change; snapshots keep the old one."""
        if node not in self._links:
            self._links[node] = dict(self._tail.links.get(node, {}))
        return self._links[node]

    def _nodes_of(self, change: Linked | Unlinked) -> tuple[Node, Node] | None:
        """Return the nodes of both contexts of a link; None if one is not in the index.

        A context that is damaged in the store is not in the index.
        """
        one, other = self._rows.find(change.uri), self._rows.find(change.other)
        return None if one is None or other is None else (one, other)

    def finish(self) -> None:
        """Write terms, vectors and links, and update the statistics of the changed directories."""
        tail, delta = self._tail, self._delta
        self._post_terms()
        tail.vectors.write(self._given)
        if self._links:
            tail.links = {**tail.links, **self._links}
        raw = tail.vectors.raw([row for row, _ in delta.vectors])
        tail.stats.apply(delta, self._rows.arrays, self._rows.directories, raw)
