"""Strings of rows that replies show and no kernel reads: URIs, names, abstracts, passages.

The strings of the base are mapped from disk, those of the tail are in memory. One thread appends. A
string never changes, so other threads read without a lock.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from viking_kernels import compact
from viking_kernels.arrays import I32, I64, U8, Node, is_file

from vikingd.domain import uri as uris
from vikingd.domain.answers import MESSAGE_BYTES, UNBOUNDED, ReplyBudget
from vikingd.domain.line_numbers import last_line
from vikingd.domain.store_changes import IndexedText
from vikingd.index.array_growth import gathered
from vikingd.index.lexicon import tokens
from vikingd.index.segment.segment_arrays import Segment

_CHUNK = 1 << 20


class Strings:
    """Numbered UTF-8 strings: those of the base have the first numbers, appended ones the next."""

    def __init__(self, at: I64, data: U8) -> None:
        self.base_size = len(at) - 1
        self._base = at, data
        self._at, self._data = at.data, data.data
        self._tail_at = array("q", [0])
        self._tail = bytearray()

    def __getitem__(self, number: int) -> str:
        # A damaged string may be shown for a moment, until its checksum is checked.
        return str(self.encoded(number), "utf-8", "replace")

    def encoded(self, number: int) -> memoryview | bytearray:
        """Return the UTF-8 bytes of the string with this number."""
        tail = number - self.base_size
        if tail < 0:
            return self._data[self._at[number] : self._at[number + 1]]
        return self._tail[self._tail_at[tail] : self._tail_at[tail + 1]]

    def size(self, number: int) -> int:
        """Return the number of UTF-8 bytes of the string with this number."""
        tail = number - self.base_size
        at, first = (self._at, number) if tail < 0 else (self._tail_at, tail)
        return int(at[first + 1] - at[first])

    def append(self, text: str) -> int:
        """Append a string and return its number."""
        self._tail += text.encode()
        self._tail_at.append(len(self._tail))
        return self.base_size + len(self._tail_at) - 2

    def joined(self) -> str:
        """Concatenate all strings, also those of dead rows, without separators."""
        return str(self._data, "utf-8", "replace") + str(self._tail, "utf-8", "replace")

    def gather(self, numbers: I32) -> tuple[I64, U8]:
        """Return (offsets, bytes) of the strings with these numbers, to be written to a new base.

        Another thread may append meanwhile.
        """
        # The offsets are copied first, so the bytes that they name exist. A buffer can't grow while
        # its memory is exported: each copy is one call under the GIL, the long one in parts.
        tail_at = np.frombuffer(bytearray(self._tail_at.tobytes()), np.int64)
        tail = np.empty(tail_at[-1], np.uint8)
        for start in range(0, len(tail), _CHUNK):
            end = min(start + _CHUNK, len(tail))
            tail[start:end] = np.frombuffer(self._tail[start:end], np.uint8)
        return compact.gather_strings(*self._base, tail_at, tail, numbers)


class Names:
    """The names of all directories and files, and the lookup of rows by URI.

    One thread appends; others read without a lock.
    """

    def __init__(self, base: Segment) -> None:
        self.base = base
        self.directories = Strings(base.dir_name_at, base.dir_names)
        self.files = Strings(base.file_name_at, base.file_names)
        self.known_uris: dict[int, str] = {0: uris.ROOT}  # by row, of directories asked for
        # All nodes that ever had a URI, in order of arrival: older snapshots find dead ones.
        self._tail_nodes: dict[str, list[Node]] = {}

    def add(self, uri: str, node: Node) -> None:
        """Record that a new node of the tail has this URI."""
        self._tail_nodes.setdefault(uri, []).append(node)

    def are_canonical(self) -> bool:
        """Return True if the names of all directories and files have the canonical form of URIs.

        Those of dead rows (removed contexts) count, too.
        """
        names = self.directories.joined(), self.files.joined()
        return all(uris.canonical(joined) == joined for joined in names)

    def has_in_tail(self, uri: str) -> bool:
        """Return True if a node of the tail has or had this URI."""
        return uri in self._tail_nodes

    def directory_uri(self, row: int, parents: I32) -> str:
        """Return the URI of a directory by its row; it is cached."""
        known = self.known_uris.get(row)
        if known is None:
            above = self.directory_uri(int(parents[row]), parents)
            known = self.known_uris[row] = uris.join(above, self.directories[row])
        return known

    def maybe_in_base(self, uris: Sequence[str]) -> set[str]:
        """Return the URIs whose hash is in the base. The base has none of the other URIs."""
        keys = np.array([tokens.term_hash(uri) for uri in uris], np.uint64)
        known = self.base.uri_key
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return {uris[i] for i in (known[at] == keys).nonzero()[0].tolist()}

    def find(
        self, uri: str, is_alive: Callable[[Node], bool], uri_of: Callable[[Node], str]
    ) -> Node | None:
        """Return the living node with a URI; None if there is none.

        Args:
            uri: the URI.
            is_alive: returns True for a node that is not tombstoned.
            uri_of: returns the URI of a node of the base.
        """
        for node in reversed(self._tail_nodes.get(uri, ())):
            if is_alive(node):
                return node
        keys, key = self.base.uri_key, tokens.term_hash(uri)
        at = int(np.searchsorted(keys, np.uint64(key)))
        while at < len(keys) and int(keys[at]) == key:
            node = int(self.base.uri_row[at])
            if uri_of(node) == uri:
                return node if is_alive(node) else None
            at += 1
        return None


class Abstracts:
    """The abstracts of rows. A row has one abstract at each revision."""

    def __init__(self, at: I64, data: U8) -> None:
        self._strings = Strings(at, data)
        # (revision, string), ascending; only for rows whose abstract differs from the base.
        self._versions: dict[int, list[tuple[int, int]]] = {}

    def at(self, row: int, revision: int) -> str:
        """Return the abstract of a row at a revision."""
        return self._strings[self.string_number(row, revision)]

    def string_number(self, row: int, revision: int) -> int:
        """Return the number in `Strings` of the abstract that a row has at a revision."""
        for since, number in reversed(self._versions.get(row, ())):
            if since <= revision:
                return number
        return row

    def put(self, row: int, abstract: str, revision: int) -> None:
        """Set the abstract of a row from this revision on; no later revision has been set yet."""
        is_new = row >= self._strings.base_size and row not in self._versions
        if is_new or self.at(row, revision) != abstract:
            versions = self._versions.setdefault(row, [])
            versions.append((revision, self._strings.append(abstract)))

    def gather(self, rows: I32, revision: int) -> tuple[I64, U8]:
        """Return (offsets, bytes) of the rows' abstracts at a revision; see `Strings.gather`."""
        numbers = np.arange(rows.max(initial=-1) + 1, dtype=np.int32)
        for row in list(self._versions):
            if row < len(numbers):
                numbers[row] = self.string_number(row, revision)
        return self._strings.gather(numbers[rows])


class ShownPassage(NamedTuple):
    """A passage as a reply shows it. For an abstract, `text` alone is set.

    Attributes:
        section: the headings above the passage.
        text: the text, cut to the size that the reply still has.
        start, end: the offsets of the whole passage in the content, in code points.
        first_line, last_line: the lines of the whole passage, from 1.
    """

    section: str
    text: str
    start: int = 0
    end: int = 0
    first_line: int = 0
    last_line: int = 0


class Contents:
    """The abstracts of directories and files, and the passages of texts."""

    def __init__(self, base: Segment) -> None:
        self.directories = Abstracts(base.dir_abstract_at, base.dir_abstracts)
        self.files = Abstracts(base.file_abstract_at, base.file_abstracts)
        self.texts = Strings(base.text_shown_at, base.text_shown)
        self._base_start, self._base_line = base.text_start, base.text_line
        self._start, self._line = base.text_start.data, base.text_line.data
        self._tail_start, self._tail_line = array("i"), array("i")

    def abstracts_of(self, node: Node) -> Abstracts:
        """Return the `Abstracts` with the abstract of a node: those of files or of directories."""
        return self.files if is_file(node) else self.directories

    def add_text(self, text: IndexedText) -> None:
        """Append the section and the passage of the next text row of the tail."""
        self._tail_start.append(text.start)
        self._tail_line.append(text.line)
        self.texts.append(f"{text.section}\0{text.passage}")

    def passage(self, row: int, room: ReplyBudget | None = None) -> ShownPassage:
        """Return the passage of a text; if the budget is used up, only its beginning."""
        tail = row - self.texts.base_size
        if tail < 0:
            start, line = self._start[row], self._line[row]
        else:
            start, line = self._tail_start[tail], self._tail_line[tail]
        room = room or ReplyBudget(UNBOUNDED)
        encoded = self.texts.encoded(row)
        if room.take(MESSAGE_BYTES + len(encoded)):
            section, _, passage = str(encoded, "utf-8", "replace").partition("\0")
            length, last = len(passage), last_line(line, passage)
        else:
            section, passage, length, further = _beginning(encoded, room)
            last = line + further if line else 0
        return ShownPassage(section, passage, start, start + length, line, last)

    def section(self, row: int) -> str:
        """Return the section of a text: the headings above its passage."""
        return str(bytes(self.texts.encoded(row)).partition(b"\0")[0], "utf-8", "replace")

    def passage_bytes(self, row: int) -> bytes:
        """Return the passage of a text as UTF-8."""
        return bytes(self.texts.encoded(row)).partition(b"\0")[2]

    def starts(self, rows: I32) -> tuple[I32, I32]:
        """Return (start in code points, first line) of the passages of text rows, [rows] each.

        Another thread may append meanwhile.
        """
        start = np.frombuffer(self._tail_start.tobytes(), np.int32)
        line = np.frombuffer(self._tail_line.tobytes(), np.int32)
        return gathered(self._base_start, start, rows), gathered(self._base_line, line, rows)


def _beginning(encoded: memoryview | bytearray, budget: ReplyBudget) -> tuple[str, str, int, int]:
    """Decode as much of a long passage as the budget allows, and measure all of it.

    Only that part is decoded, since a request may ask for many passages of a megabyte.

    Returns:
        (section, beginning of the passage, length of the whole passage in code points, number of
        its lines after the first).
    """
    data = np.frombuffer(encoded, np.int8)
    end = int(data.view(np.uint8).argmin())  # a zero stands between section and passage
    section = str(encoded[:end], "utf-8", "replace")
    if not budget.take(MESSAGE_BYTES + end):
        section = ""
    # Bytes 0x80 to 0xBF continue a character in UTF-8. As int8 they are below -64.
    length = int(np.count_nonzero(data[end + 1 :] >= -64))
    further = int(np.count_nonzero(data[end + 1 : -1] == ord("\n")))
    return section, budget.fit_encoded(encoded[end + 1 :]), length, further
