"""Remembering and forgetting: what becomes of a memory file, decided where it is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vikingd import uri as uris
from vikingd.ingest.abstracts import derive_abstract, stated_abstract
from vikingd.ingest.prepare import prepare
from vikingd.memory import entries
from vikingd.memory.model import MemoryFile, Remembered, Rewritten, StoredEntry
from vikingd.memory.same import differs, normalized
from vikingd.model import Draft, Entry, Prepared

F32 = npt.NDArray[np.float32]
_NO_VECTOR: F32 = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Bar:
    """From which cosine on two say the same; `with_words`: unless their words rule it out."""

    cosine: float
    with_words: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What remembering came to.

    `met` is the wording that it met, or of what was added the nearest one that might mean the same;
    "" for none.
    """

    did: Remembered
    entry: Entry
    met: str = ""
    similarity: float = 0.0


class Remembering:
    """Writes a text into a memory file, or reinforces the entry that says the same.

    Args:
        uri: the file.
        title: that of a file which is new.
        text: clean and checked, see `entries`.
        section: the heading; "" for none.
        time: when it was said; `now` when it is written, both in microseconds.

    Attributes:
        outcome: set by the call that was committed.
    """

    def __init__(self, uri: str, title: str, text: str, section: str, time: int, now: int) -> None:
        self.uri, self.title, self.text, self.section = uri, title, text, section
        self.time, self.now = time, now
        self.outcome: Outcome | None = None
        self._embedded, self._vector = "", _NO_VECTOR
        self._bar = Bar(2.0)

    def indexed_text(self, file: MemoryFile | None) -> str | None:
        """What will be embedded of it in this file; None where an entry has its wording already."""
        if file is not None and self._equal(file.entries) is not None:
            return None
        prepared, ordinal = self._written(file, None)
        return next(text.text for text in prepared.texts if text.ordinal == ordinal)

    def compare_by_meaning(self, embedded: str, vector: F32, bar: Bar) -> None:
        """From now on an entry that passes the bar says the same; the vector is of `embedded`."""
        self._embedded, self._vector, self._bar = embedded, vector, bar

    def __call__(self, file: MemoryFile | None, new_id: Callable[[], int]) -> Rewritten:
        """What becomes of the file as it stands now."""
        met, near = self._met(file.entries if file else ())
        if met is None:
            entry = Entry(new_id(), time=self.time, created_at=self.now)
            self.outcome = Outcome(Remembered.ADDED, entry, *near)
            return Rewritten(self._with_entry(*self._written(file, None), entry))
        old = met.entry
        said_before = old.time or 0
        entry = replace(old, reinforcement=old.reinforcement + 1, time=max(said_before, self.time))
        self.outcome = Outcome(Remembered.REINFORCED, entry, *near)
        if entries.shown(met.passage) == self.text or self.time < said_before:
            return Rewritten(counters=(entry,))
        return Rewritten(self._with_entry(*self._written(file, met), entry))

    def _met(self, stored: Sequence[StoredEntry]) -> tuple[StoredEntry | None, tuple[str, float]]:
        """The entry that says the same, and the wording and the cosine of the nearest one."""
        equal = self._equal(stored)
        if equal is not None:
            return equal, (entries.shown(equal.passage), 1.0)
        met, best, near = None, 0.0, ("", 0.0)
        for one in stored:
            vector = np.frombuffer(one.vector, "<f4")
            if not one.ordinal or not len(vector) or len(vector) != len(self._vector):
                continue
            cosine = min(1.0, float(vector @ self._vector))
            if cosine < self._bar.cosine:
                continue
            said = entries.shown(one.passage)
            if cosine > best and not (self._bar.with_words and differs(self.text, said)):
                met, best = one, cosine
            if cosine > near[1]:
                near = said, cosine
        return met, (near if met is None else (entries.shown(met.passage), best))

    def _equal(self, stored: Sequence[StoredEntry]) -> StoredEntry | None:
        wanted = normalized(self.text)
        return next(
            (s for s in stored if s.ordinal and normalized(entries.shown(s.passage)) == wanted),
            None,
        )

    def _written(
        self, file: MemoryFile | None, instead_of: StoredEntry | None
    ) -> tuple[Prepared, int]:
        """The file with the text, as a new entry or instead of one; which passage it is."""
        content = file.content if file else ""
        if instead_of is None:
            content, start = entries.added(content, self.text, self.section, self.title)
        else:
            start = instead_of.start
            content = entries.replaced(content, start, instead_of.end, self.text)
        prepared = prepare(
            draft_of(file, content)
            if file
            else Draft(self.uri, content=content, title=self.title, time=self.time)
        )
        return prepared, next(t.ordinal for t in prepared.texts if t.ordinal and t.start == start)

    def _with_entry(self, prepared: Prepared, ordinal: int, entry: Entry) -> Prepared:
        """With its entry, and with its vector where that is of just this text."""
        vector = self._vector.astype("<f4").tobytes()
        texts = tuple(
            replace(text, vector=vector)
            if text.ordinal == ordinal and text.text == self._embedded
            else text
            for text in prepared.texts
        )
        return replace(prepared, texts=texts, entries={ordinal: entry})


class Forgetting:
    """Takes entries out of a memory file; one that says nothing any more goes itself."""

    def __init__(self, ids: Collection[int]) -> None:
        self._ids = ids

    def __call__(self, file: MemoryFile | None, _: Callable[[], int]) -> Rewritten:
        """What becomes of the file as it stands now."""
        gone = [s for s in file.entries if s.entry.id in self._ids] if file else []
        if file is None or not gone:
            return Rewritten()
        content = file.content
        for stored in reversed(gone):
            content = entries.removed(content, stored.start, stored.end)
        if entries.is_bare(content):
            return Rewritten(removed=True)
        prepared = prepare(draft_of(file, content))
        # One for one, so that equal texts keep their own.
        left = [s for s in file.entries if s.entry.id not in self._ids]
        held = [text for text in prepared.texts if text.ordinal]
        said = [content[text.start : text.end] for text in held]
        if said == [stored.passage for stored in left]:
            kept = {t.ordinal: s.entry for t, s in zip(held, left, strict=True)}
            prepared = replace(prepared, entries=kept)
        return Rewritten(prepared)


def draft_of(file: MemoryFile, content: str) -> Draft:
    """A Put of the file with another content; an abstract that came from its text is made anew."""
    name = uris.name(file.uri)
    derived = stated_abstract(file.content, name) or derive_abstract(file.content, name)
    return Draft(
        file.uri,
        abstract="" if file.abstract == derived else file.abstract,
        overview=file.overview,
        content=content,
        title=file.title,
        metadata=file.metadata,
    )
