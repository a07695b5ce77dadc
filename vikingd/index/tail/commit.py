"""One commit on its way into a tail."""

from __future__ import annotations

from dataclasses import dataclass

from viking_kernels.arrays import (
    DIRECTORIES,
    FILES,
    NEVER,
    Node,
    decode_file,
    encode_file,
    is_file,
    row_of,
)

from vikingd.domain import uri as uris
from vikingd.domain.changes import (
    AllLinks,
    Change,
    Filled,
    IndexedText,
    Linked,
    Remove,
    Unlinked,
    Upsert,
)
from vikingd.domain.errors import Corrupt
from vikingd.index.contents import Contents
from vikingd.index.lexicon import tokens
from vikingd.index.metadata.columns import Columns
from vikingd.index.names import Names
from vikingd.index.tail.links import LinkWriter
from vikingd.index.tail.rows import Rows
from vikingd.index.tail.stats import Delta, StatsWriter
from vikingd.index.tail.terms import TermWriter
from vikingd.index.tail.vectors import TailVectors


@dataclass(slots=True)
class TailParts:
    """The parts of a tail that a commit writes to.

    Attributes:
        rewritten: contexts that were written again and kept their row.
    """

    names: Names
    rows: Rows
    vectors: TailVectors
    stats: StatsWriter
    terms: TermWriter
    contents: Contents
    links: LinkWriter
    dir_columns: Columns
    file_columns: Columns
    rewritten: int = 0


class Commit:
    """One commit on its way into a tail.

    Rows are made at once. Terms, vectors and the statistics of directories follow at the end, all
    together.
    """

    def __init__(self, parts: TailParts, revision: int, in_base: set[str]) -> None:
        """Begin a commit; `in_base` has the URIs of its upserts that the base may have."""
        self._parts = parts
        self._rows = parts.rows
        self._revision = revision
        self._in_base = in_base
        self._parents: dict[str, int] = {}  # rows of the directories that upserts were put in
        self._delta = Delta()
        self._given: list[tuple[int, bytes]] = []  # row of a text, its new vector

    def take(self, change: Change) -> None:
        """Take one change.

        Raises:
            Corrupt: it does not fit the rows.
        """
        if isinstance(change, Upsert):
            self._upsert(change)
        elif isinstance(change, Remove):
            self._remove(change.uri)
        elif isinstance(change, Filled):
            self._fill(change)
        elif isinstance(change, Linked):
            self._parts.links.link(*self._ends(change), change.reason)
        elif isinstance(change, Unlinked):
            self._parts.links.unlink(*self._ends(change))
        else:
            self._relink(change)

    def _upsert(self, change: Upsert) -> None:
        """Put a context in the place of the one that its URI has, if any.

        Its old metadata end, and so do its texts from the first one on that changed.
        """
        parts = self._parts
        is_new = not (parts.names.has_in_tail(change.uri) or change.uri in self._in_base)
        node = None if is_new else self._rows.find(change.uri)
        kept = 0
        if node is None:
            node = self._add_node(change)
        elif is_file(node) == change.is_directory:
            kind = "file" if is_file(node) else "directory"
            raise Corrupt(f"{change.uri} is a {kind} in the index")
        else:
            if not is_file(node):
                self._rows.arrays.dir_id[node] = change.context_id
            kept = self._keep_texts(node, change)
            self._columns_of(node).remove(row_of(node), self._revision)
            parts.rewritten += 1
        contents = parts.contents
        abstracts = contents.directories if change.is_directory else contents.files
        abstracts.put(row_of(node), change.abstract, self._revision)
        if change.metadata:
            self._columns_of(node).add(row_of(node), change.metadata, self._revision)
        for text in change.texts[kept:]:
            self._add_text(node, change, text)

    def _columns_of(self, node: Node) -> Columns:
        return self._parts.file_columns if is_file(node) else self._parts.dir_columns

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
        parts, is_first = self._parts, text is change.texts[0]
        parts.contents.add_text(text)
        row = self._rows.add_text(node, text)
        if is_first and change.title and not change.is_directory:
            parts.terms.add_title(row, change.title)
        name = uris.name(change.uri) if is_first else ""
        heading = tokens.heading_of(text, change.abstract)
        parts.terms.add(tokens.parts(text.text, name, heading), len(text.text))
        self._delta.texts.append((row, 1))
        if parts.terms.is_full:
            self._post_terms()
        if text.vector:
            self._set_vector(row, text.vector)
        elif text.embeddable:
            parts.vectors.waiting[text.text_id] = row

    def _post_terms(self) -> None:
        self._parts.terms.post(self._rows.arrays.text_length, self._rows.texts)

    def _set_vector(self, row: int, vector: bytes) -> None:
        self._parts.vectors.check(vector)
        self._rows.arrays.vector_at[row] = self._revision
        self._delta.vectors.append((row, 1))
        self._given.append((row, vector))

    def _fill(self, change: Filled) -> None:
        """Take a late vector; nothing happens if its text is gone or has a vector."""
        row = self._parts.vectors.waiting.pop(change.text_id, None)
        if row is not None:
            self._set_vector(row, change.vector)

    def _keep_texts(self, node: Node, change: Upsert) -> int:
        """End the texts from the first one on that changed; return the number of kept ones.

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
        """Return True if a row can stay for a text; take the vector that it may bring."""
        arrays = self._rows.arrays
        if arrays.text_id[row] != text.text_id:
            return False
        if arrays.vector_at[row] == NEVER:
            if text.vector:
                self._fill(Filled(text.text_id, text.vector))
            return True
        return bool(self._parts.vectors.raw([row]).tobytes() == text.vector)

    def _end_texts(self, rows: list[int]) -> None:
        arrays = self._rows.arrays
        for row in rows:
            self._rows.end_text(row, self._revision)
            self._delta.texts.append((row, -1))
            self._parts.vectors.waiting.pop(int(arrays.text_id[row]), None)
            if arrays.vector_at[row] != NEVER:
                self._delta.vectors.append((row, -1))

    def _remove(self, uri: str) -> None:
        """End a context and all below it."""
        self._parents.clear()
        node = self._rows.find(uri)
        if node is None:
            return  # it came and went since the base was written
        if is_file(node):
            row = decode_file(node)
            self._rows.forget_file(row)
            self._end_file(row)
        else:
            self._end_directory(node)

    def _end_file(self, row: int) -> None:
        self._end_texts(self._rows.texts_of(encode_file(row)))
        self._parts.file_columns.remove(row, self._revision)
        self._rows.end_file(row, self._revision)
        self._delta.nodes.append((int(self._rows.arrays.file_dir[row]), -1, FILES))

    def _end_directory(self, row: int) -> None:
        for _, file in self._rows.files_by_name(row):
            self._end_file(file)
        for child in self._rows.subdirectories(row):
            self._end_directory(child)
        self._end_texts(self._rows.texts_of(row))
        self._parts.dir_columns.remove(row, self._revision)
        self._rows.end_directory(row, self._revision)
        self._delta.nodes.append((row, -1, DIRECTORIES))

    def _relink(self, change: AllLinks) -> None:
        """Replace all links."""
        links = self._parts.links
        links.clear()
        for link in change.links:
            links.link(*self._ends(link), link.reason)

    def _ends(self, change: Linked | Unlinked) -> tuple[Node, Node]:
        one, other = self._rows.find(change.uri), self._rows.find(change.other)
        if one is None or other is None:
            raise Corrupt(f"a link of {change.uri} and {change.other} has an end that is not here")
        return one, other

    def finish(self) -> None:
        """Write terms, vectors and links, and update the statistics of all directories above."""
        parts, delta = self._parts, self._delta
        self._post_terms()
        parts.vectors.write(self._given)
        parts.links.publish()
        raw = parts.vectors.raw([row for row, _ in delta.vectors])
        parts.stats.apply(delta, self._rows.arrays, self._rows.directories, raw)
