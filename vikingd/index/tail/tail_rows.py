"""The rows of a tail: directories, files and texts, and the linked lists (chains) of rows."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from viking_kernels.arrays import (
    I32,
    NEVER,
    Directories,
    Files,
    Node,
    Texts,
    Tree,
    decode_file,
    encode_file,
    is_file,
)

from vikingd.domain import uri as uris
from vikingd.domain.store_changes import IndexedText
from vikingd.index.array_growth import grown
from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.turns import turn_of
from vikingd.index.segment.segment_arrays import GrowingArrays, Segment, Sizes
from vikingd.index.shown_strings import Names

_SPARE = 1024  # unused rows to add, at least; fewer if the first room is small


class Rows:
    """The rows of the base, and those that were appended behind them.

    Published rows stay as they are; only the revision of their end is set. A chain is a linked list
    of rows, such as the files of a directory. It may lead through rows that are newer than a
    snapshot; the snapshot skips these.

    Attributes:
        directories, files, texts: number of rows in use.
        dead_texts: number of texts that were tombstoned since the base was written.
    """

    def __init__(self, base: Segment, growing: GrowingArrays, names: Names, room: int) -> None:
        self.arrays = growing
        self.directories, self.files, self.texts = base.sizes
        self.dead_texts = 0
        self._base = base
        self._base_sizes = base.sizes
        self._names = names
        self._text_older: I32 = np.zeros(0, np.int32)
        self._dir_older: I32 = np.zeros(0, np.int32)
        self._files_by_name: dict[int, list[tuple[str, int]]] = {}  # of directories asked for
        self._spare = min(_SPARE, room)
        self._reserve(Sizes(room, room, room))

    @property
    def used(self) -> Sizes:
        """The number of rows in use."""
        return Sizes(self.directories, self.files, self.texts)

    def make_room(self, more: Sizes) -> None:
        """Extend the arrays if they are too small for `more` rows; add some spare rows then."""
        needed = (used + new for used, new in zip(self.used, more, strict=True))
        if any(need > has for need, has in zip(needed, self.arrays.room, strict=True)):
            spare = max(self.texts // 4, self._spare)
            self._reserve(Sizes(*(new + spare for new in more)))

    def _reserve(self, more: Sizes) -> None:
        """Make all arrays large enough for `more` rows; copy them only if they are too small.

        All arrays are copied together, so that the views of an older snapshot stay consistent: a
        chain and its rows are in the same memory.
        """
        used, base = self.used, self._base_sizes
        room = Sizes(*(have + new for have, new in zip(used, more, strict=True)))
        if any(has < needs for has, needs in zip(self.arrays.room, room, strict=True)):
            self.arrays = self.arrays.grown(used, room)
        room = self.arrays.room
        texts, directories = used.texts - base.texts, used.directories - base.directories
        self._text_older = grown(self._text_older[:texts], room.texts - base.texts)
        self._dir_older = grown(self._dir_older[:directories], room.directories - base.directories)

    # Writing

    def add_directory(self, parent: int, uri: str, context_id: int) -> int:
        """Append a directory and return its row."""
        row, a = self.directories, self.arrays
        a.dir_parent[row] = parent
        a.dir_died[row] = NEVER
        a.dir_first[row] = a.dir_tail[row] = a.dir_text[row] = -1
        a.dir_key[row] = tokens.term_hash(uri)
        a.dir_id[row] = context_id
        a.dir_type[row] = int(a.dir_type[parent]) or uris.context_type(uri)
        self._dir_older[row - self._base_sizes.directories] = a.dir_tail[parent]
        self._names.directories.append(uris.name(uri))
        self._names.add(uri, row)
        self.directories += 1
        a.dir_tail[parent] = row
        return row

    def add_file(self, parent: int, uri: str, context_id: int) -> int:
        """Append a file, insert it into the chain of its directory's files, and return its row."""
        row, a = self.files, self.arrays
        name = uris.name(uri)
        siblings = self.files_by_name(parent)
        at = bisect_left(siblings, (name, -1))
        previous = siblings[at - 1][1] if at else -1
        following = int(a.file_next[previous] if at else a.dir_first[parent])
        a.file_dir[row] = parent
        a.file_died[row] = NEVER
        a.file_tail[row] = -1
        a.file_id[row] = context_id
        a.file_next[row] = following
        a.file_previous[row] = previous
        self._names.files.append(name)
        self._names.add(uri, encode_file(row))
        self.files += 1
        # The links to the row come last: a reader of the chain finds a complete row.
        if following >= 0:
            a.file_previous[following] = row
        if at:
            a.file_next[previous] = row
        else:
            a.dir_first[parent] = row
        insort(siblings, (name, row))
        return row

    def add_text(self, owner: Node, text: IndexedText) -> int:
        """Append a text of a node and return its row; its vector and length are set later."""
        row, a = self.texts, self.arrays
        a.text_script[row] = text.script
        a.text_died[row] = NEVER
        a.text_id[row] = text.text_id
        a.text_ordinal[row] = text.ordinal
        a.text_embeddable[row] = text.embeddable
        a.text_turn[row] = turn_of(text)
        a.vector_at[row] = NEVER
        tail = row - self._base_sizes.texts
        if not is_file(owner):
            a.text_file[row], a.text_dir[row] = -1, owner
            self._text_older[tail] = -1
            a.dir_text[owner] = row
        else:
            file = decode_file(owner)
            a.text_file[row], a.text_dir[row] = file, a.file_dir[file]
            self._text_older[tail] = a.file_tail[file]
            a.file_tail[file] = row
        self.texts += 1
        return row

    def end_text(self, row: int, revision: int) -> None:
        """Tombstone a text from a revision on."""
        a = self.arrays
        if a.text_file[row] < 0:
            a.dir_text[a.text_dir[row]] = -1
        a.text_died[row] = revision
        self.dead_texts += 1

    def forget_file(self, row: int) -> None:
        """Remove a file from the cached list of its directory's files."""
        siblings = self.files_by_name(int(self.arrays.file_dir[row]))
        del siblings[bisect_left(siblings, (self._names.files[row], -1))]

    def end_directory(self, row: int, revision: int) -> None:
        """Tombstone a directory from a revision on."""
        self._files_by_name.pop(row, None)
        self.arrays.dir_died[row] = revision

    # Reading, by the writer in the middle of a commit

    def find(self, uri: str) -> Node | None:
        """Return the living node with a URI; None if there is none."""
        return self._names.find(uri, self._is_alive, self._uri)

    def _is_alive(self, node: Node) -> bool:
        a = self.arrays
        died = a.file_died[decode_file(node)] if is_file(node) else a.dir_died[node]
        return bool(died == NEVER)

    def _uri(self, node: Node) -> str:
        a = self.arrays
        if not is_file(node):
            return self._names.directory_uri(node, a.dir_parent)
        file = decode_file(node)
        above = self._names.directory_uri(int(a.file_dir[file]), a.dir_parent)
        return uris.join(above, self._names.files[file])

    def texts_of(self, node: Node) -> list[int]:
        """Return the rows of a node's living texts, ascending."""
        if not is_file(node):
            row = int(self.arrays.dir_text[node])
            return [row] if row >= 0 else []
        file, died = decode_file(node), self.arrays.text_died
        rows: list[int] = []
        if file < self._base_sizes.files:
            rows = list(range(*self._base.file_texts[file].tolist()))
        tail: list[int] = []
        row = int(self.arrays.file_tail[file])
        while row >= 0:
            tail.append(row)
            row = int(self._text_older[row - self._base_sizes.texts])
        return [row for row in rows + tail[::-1] if died[row] == NEVER]

    def files_by_name(self, directory: int) -> list[tuple[str, int]]:
        """Return the sorted (name, row) of a directory's living files; the list is kept current."""
        known = self._files_by_name.get(directory)
        if known is None:
            known = self._files_by_name[directory] = []
            following, died = self.arrays.file_next, self.arrays.file_died
            row = int(self.arrays.dir_first[directory])
            while row >= 0:
                if died[row] == NEVER:
                    known.append((self._names.files[row], row))
                row = int(following[row])
        return known

    def subdirectories(self, directory: int) -> list[int]:
        """Return the rows of the living directories directly below a directory."""
        died = self.arrays.dir_died
        found: list[int] = []
        if directory < self._base_sizes.directories:
            ends = self._base.dir_end
            child, end = directory + 1, int(ends[directory])
            while child < end:
                found.append(child)
                child = int(ends[child])
        child = int(self.arrays.dir_tail[directory])
        while child >= 0:
            found.append(child)
            child = int(self._dir_older[child - self._base_sizes.directories])
        return [row for row in found if died[row] == NEVER]

    def tree(self) -> Tree:
        """Return views of the rows in use, for a snapshot.

        Chains are not cut to the rows in use: they may lead through newer rows, which readers skip.
        """
        a, base = self.arrays, self._base
        dirs, files, texts = self.used
        return Tree(
            Directories(
                a.dir_parent[:dirs],
                base.dir_end,
                base.dir_files,
                base.dir_texts,
                a.dir_died[:dirs],
                a.dir_first[:dirs],
                a.dir_tail[:dirs],
                self._dir_older,
                a.dir_key[:dirs],
            ),
            Files(
                a.file_dir[:files],
                a.file_next,
                a.file_previous,
                a.file_died[:files],
                base.file_texts,
                a.file_tail[:files],
            ),
            Texts(
                a.text_file[:texts],
                a.text_dir[:texts],
                a.text_script[:texts],
                a.text_length[:texts],
                a.text_ordinal[:texts],
                a.text_turn[:texts],
                a.text_died[:texts],
                self._text_older,
            ),
        )
