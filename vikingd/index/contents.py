"""What a reply shows of the rows and no kernel reads: names, abstracts, passages.

Of the base it is mapped, of the tail it is in memory. One thread appends; a string that is there
never changes, so others read it without a lock.
"""

from __future__ import annotations

from array import array

import numpy as np
from viking_kernels import compact
from viking_kernels.arrays import I32, I64, U8

from vikingd.domain.changes import IndexedText
from vikingd.domain.reply_budget import MESSAGE_BYTES, UNBOUNDED, ReplyBudget, size_of
from vikingd.index.base import Base

_CHUNK = 1 << 20


class Strings:
    """UTF-8 strings by number: first those of the base, then those that were appended."""

    def __init__(self, at: I64, data: U8) -> None:
        self.base_size = len(at) - 1
        self._base = at, data
        self._at, self._data = at.data, data.data
        self._tail_at = array("q", [0])
        self._tail = bytearray()

    def __getitem__(self, number: int) -> str:
        tail = number - self.base_size
        if tail < 0:
            # What is damaged may be shown for a moment, until its checksum is looked at.
            return str(self._data[self._at[number] : self._at[number + 1]], "utf-8", "replace")
        return self._tail[self._tail_at[tail] : self._tail_at[tail + 1]].decode()

    def shown(self, number: int, most: int) -> tuple[str | None, int]:
        """(a string of at most so many bytes, its bytes); None for a longer one."""
        tail = number - self.base_size
        data: memoryview | bytearray
        if tail < 0:
            data, start, end = self._data, self._at[number], self._at[number + 1]
        else:
            data, start, end = self._tail, self._tail_at[tail], self._tail_at[tail + 1]
        size = end - start
        return (None if size > most else str(data[start:end], "utf-8", "replace")), size

    def size(self, number: int) -> int:
        """The bytes of a string."""
        tail = number - self.base_size
        at, first = (self._at, number) if tail < 0 else (self._tail_at, tail)
        return int(at[first + 1] - at[first])

    def append(self, text: str) -> int:
        """Adds a string and returns its number."""
        self._tail += text.encode()
        self._tail_at.append(len(self._tail))
        return self.base_size + len(self._tail_at) - 2

    def gather(self, numbers: I32) -> tuple[I64, U8]:
        """Some strings as those of a new base: (at, data); runs beside the writer."""
        # The bounds first: what they bound is there then. An array can't grow while its memory is
        # lent, so copies are made by single calls under the GIL, and of the long one in parts.
        tail_at = np.frombuffer(bytearray(self._tail_at.tobytes()), np.int64)
        tail = np.empty(tail_at[-1], np.uint8)
        for start in range(0, len(tail), _CHUNK):
            end = min(start + _CHUNK, len(tail))
            tail[start:end] = np.frombuffer(self._tail[start:end], np.uint8)
        return compact.gather_strings(*self._base, tail_at, tail, numbers)


class Abstracts:
    """An abstract a row, which a later revision may replace."""

    def __init__(self, at: I64, data: U8) -> None:
        self._strings = Strings(at, data)
        # (revision, string), rising; only of rows whose abstract is not that of their base row.
        self._versions: dict[int, list[tuple[int, int]]] = {}

    def at(self, row: int, revision: int) -> str:
        """The abstract that a row has at a revision."""
        return self._strings[self.number(row, revision)]

    def number(self, row: int, revision: int) -> int:
        """The number of the abstract that a row has at a revision."""
        for since, number in reversed(self._versions.get(row, ())):
            if since <= revision:
                return number
        return row

    def put(self, row: int, abstract: str, revision: int) -> None:
        """From `revision` on, which is the newest, this is the abstract of a row."""
        versions = self._versions.get(row)
        if versions is not None:
            if self._strings[versions[-1][1]] != abstract:
                versions.append((revision, self._strings.append(abstract)))
        elif row >= self._strings.base_size or self._strings[row] != abstract:
            self._versions[row] = [(revision, self._strings.append(abstract))]

    def gather(self, rows: I32, revision: int) -> tuple[I64, U8]:
        """As `Strings.gather`, of the abstracts that rows have at a revision."""
        numbers = np.arange(rows.max(initial=-1) + 1, dtype=np.int32)
        for row in list(self._versions):
            if row < len(numbers):
                numbers[row] = self.number(row, revision)
        return self._strings.gather(numbers[rows])


class Contents:
    """The abstracts of directories and files, and the passages of texts, of one generation."""

    def __init__(self, base: Base) -> None:
        self.directories = Abstracts(base.dir_abstract_at, base.dir_abstracts)
        self.files = Abstracts(base.file_abstract_at, base.file_abstracts)
        self.texts = Strings(base.text_shown_at, base.text_shown)
        self._base_start = base.text_start
        self._start = base.text_start.data
        self._tail_start = array("i")

    def add_text(self, text: IndexedText) -> None:
        """Takes what is shown of the next text of the tail."""
        self._tail_start.append(text.start)
        self.texts.append(f"{text.section}\0{text.passage}")

    def passage(self, row: int, budget: ReplyBudget | None = None) -> tuple[str, str, int, int]:
        """(section, passage, start, end) of a text, of the passage what there is room for."""
        tail = row - self.texts.base_size
        start = self._start[row] if tail < 0 else self._tail_start[tail]
        budget = budget or ReplyBudget(UNBOUNDED)
        shown, size = self.texts.shown(row, budget.left - MESSAGE_BYTES)
        if shown is None:
            section, passage, length = _beginning(self.texts[row], budget)
        else:
            budget.left -= MESSAGE_BYTES + size
            section, _, passage = shown.partition("\0")
            length = len(passage)
        return section, passage, start, start + length

    def starts(self, rows: I32) -> I32:
        """[rows] where the passages of texts start; runs beside the writer."""
        tail = np.frombuffer(self._tail_start.tobytes(), np.int32)
        out = np.empty(len(rows), np.int32)
        of_base = rows < len(self._base_start)
        out[of_base] = self._base_start[rows[of_base]]
        out[~of_base] = tail[rows[~of_base] - len(self._base_start)]
        return out


def _beginning(shown: str, budget: ReplyBudget) -> tuple[str, str, int]:
    """(section, what there is room for, length of the whole passage) of a text."""
    section, _, passage = shown.partition("\0")
    if not budget.take(MESSAGE_BYTES + size_of(section)):
        section = ""
    return section, budget.fit(passage), len(passage)
