"""Series of memory files: a full file is continued in the next one, and readers see one file.

The files of `notes.md` are `notes.md`, `notes/2.md`, `notes/3.md` and so on. A file that was read
is kept, prepared for comparisons, until it changes.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import NamedTuple

from vikingd.memory import entries
from vikingd.memory.entry_comparison import Wording, differs, wording_of
from vikingd.memory.memory_types import MemoryFile, Rewritten, StoredEntry, is_earlier
from vikingd.memory.numbered_files import MOST_CHARACTERS, MOST_ENTRIES, file_of, number_of
from vikingd.memory.relations import Relation, relations_of

MOST_KEPT = 48 << 20
"""The approximate bytes of the files that a process keeps for comparisons."""

_PER_ENTRY = 1024  # bytes of an entry besides its text and vector, about


def is_full(file: MemoryFile) -> bool:
    """Return True if the next entry goes to the next file of the series."""
    return len(file.entries) >= MOST_ENTRIES or len(file.content) >= MOST_CHARACTERS


def is_large(file: MemoryFile) -> bool:
    """Return True if a change of the file takes much longer than one of a full file."""
    return len(file.entries) > 2 * MOST_ENTRIES or len(file.content) > 2 * MOST_CHARACTERS


class Key(NamedTuple):
    """The key of a file's state: files of equal keys have equal entries, but for their counters."""

    context_id: int
    revision: int
    content_hash: bytes


@dataclass(frozen=True, slots=True)
class Series:
    """The files of a series as one transaction or snapshot sees them.

    Attributes:
        uri: the URI of the first file.
        files: the URI and the key of each file that exists, by number.
        read: returns a file by its URI; None if it does not exist.
    """

    uri: str
    files: tuple[tuple[str, Key], ...]
    read: Callable[[str], MemoryFile | None]

    @property
    def next_uri(self) -> str:
        """The URI of the file after the last one."""
        last = number_of(self.uri, self.files[-1][0]) if self.files else 0
        return file_of(self.uri, last + 1)


class Known:
    """The entries of a file, indexed by their wordings.

    Those below "Earlier" are found separately.
    """

    def __init__(self, file: MemoryFile) -> None:
        self.file, self.entries = file, file.entries
        texts = sum(2 * sys.getsizeof(one.passage) + len(one.vector) for one in file.entries)
        self.size = texts + sys.getsizeof(file.content) + _PER_ENTRY * len(file.entries)
        self._equal: dict[tuple[str, bool], StoredEntry] = {}
        self._alike: dict[tuple[int, bool], list[StoredEntry]] = {}
        for one in file.entries:
            text, words = wording_of(entries.said(one.passage))
            is_past = is_earlier(one.section)
            self._equal.setdefault((text, is_past), one)
            if words:
                self._alike.setdefault((words, is_past), []).append(one)

    def equal(self, wording: Wording, *, earlier: bool) -> StoredEntry | None:
        """Return the first entry with an equal wording; None if there is none."""
        return self._equal.get((wording.text, earlier))

    def alike(self, text: str, wording: Wording, *, earlier: bool) -> StoredEntry | None:
        """Return the first entry whose words do not differ from those of a text.

        None if there is none.
        """
        found = self._alike.get((wording.words, earlier), ())
        return next((one for one in found if not differs(text, entries.said(one.passage))), None)

    def find(self, entry_id: int) -> StoredEntry | None:
        """Return an entry by its id."""
        return next((one for one in self.entries if one.entry.id == entry_id), None)

    @cached_property
    def relations(self) -> tuple[tuple[StoredEntry, Relation], ...]:
        """The entries that state a relation of the user ("lives in Paris"), each with the relation.

        An entry that states two relations occurs twice. See `vikingd.memory.relations`.
        """
        return tuple(
            (one, relation)
            for one in self.entries
            if one.ordinal and not one.spans
            for number, relation in enumerate(relations_of(entries.said(one.passage)))
            if relation.holds or not number
        )


class KnownFiles:
    """A cache of `Known` files with a limit of bytes, for any number of threads.

    The files that were not used for the longest time are dropped first.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._files: OrderedDict[Key, Known] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def all(self) -> dict[Key, Known]:
        """Return all files of the cache by their keys."""
        with self._lock:
            return dict(self._files)

    def keep(self, files: Mapping[Key, Known]) -> None:
        """Add files to the cache, as the last used ones."""
        with self._lock:
            for key, known in files.items():
                if (old := self._files.pop(key, None)) is not None:
                    self._size -= old.size
                self._files[key] = known
                self._size += known.size
            while self._size > self._most:
                _, gone = self._files.popitem(last=False)
                self._size -= gone.size


@dataclass(frozen=True, slots=True)
class Compared:
    """The files of a series with their entries: (URI, `Known`) by number."""

    series: Series
    files: tuple[tuple[str, Known], ...]

    @classmethod
    def of(
        cls, series: Series, files: Sequence[tuple[str, Key]], known: Mapping[Key, Known]
    ) -> Compared:
        """Return the files with their entries; only files that are not in `known` are read."""
        found: list[tuple[str, Known]] = []
        for uri, key in files:
            one = known.get(key)
            if one is None and (file := series.read(uri)) is not None:
                one = Known(file)
            if one is not None:
                found.append((uri, one))
        return cls(series, tuple(found))

    @property
    def last(self) -> MemoryFile | None:
        """The last file of the series; None if it has none."""
        if not self.files:
            return None
        uri, known = self.files[-1]
        return self.series.read(uri) or replace(known.file, uri=uri)

    def fresh(self, uri: str, stored: StoredEntry) -> tuple[MemoryFile, StoredEntry]:
        """Read a file again; return it and the entry with its present counters."""
        file = self.series.read(uri)
        assert file is not None
        return file, next(one for one in file.entries if one.entry.id == stored.entry.id)

    def repeated(self, text: str, *, earlier: bool, exact: bool) -> tuple[str, StoredEntry] | None:
        """Return the entry that a text repeats, and the URI of its file; None if it repeats none.

        An equal wording is preferred. With `exact` only an equal wording counts.
        """
        wording = wording_of(text)
        for uri, known in self.files:
            if (one := known.equal(wording, earlier=earlier)) is not None:
                return uri, one
        for uri, known in self.files if wording.words and not exact else ():
            if (one := known.alike(text, wording, earlier=earlier)) is not None:
                return uri, one
        return None

    def entries(self) -> Iterator[tuple[str, StoredEntry]]:
        """Yield all entries with their files."""
        for uri, known in self.files:
            for one in known.entries:
                yield uri, one


Rewrite = Callable[[Series, Callable[[], int]], Sequence[Rewritten]]
"""A function that decides the changes of a series within the write transaction.

The arguments are the series, and a function that gives new ids.
"""
