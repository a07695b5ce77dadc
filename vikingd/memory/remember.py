"""Remembering and forgetting: what becomes of a memory file, decided where it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vikingd.domain import uri as uris
from vikingd.domain.degradation import Degradation, DegradationReason, Degraded
from vikingd.domain.errors import InvalidField
from vikingd.domain.model import MAX_COUNTER, Draft, Entry, Passage, Prepared
from vikingd.ingest.abstracts import derive_abstract, stated_abstract
from vikingd.ingest.kinds import Kind, kind_of
from vikingd.ingest.passages import MEANING
from vikingd.ingest.prepare import MAX_CONTENT_BYTES, prepare
from vikingd.memory import entries
from vikingd.memory.entries import Written
from vikingd.memory.model import MemoryFile, Remembered, Rewritten, StoredEntry
from vikingd.memory.same import differs, normalized

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
    "" for none. `degraded` says what it had to do without.
    """

    did: Remembered
    entry: Entry
    met: str = ""
    similarity: float = 0.0
    degraded: Degraded = ()


class Remembering:
    """Writes a text into a memory file, or reinforces the entry that says the same.

    Args:
        uri: the file.
        title: that of a file which is new.
        text: clean and checked, see `entries`.
        section: the heading; "" for none.
        time: when it was said; `now` when it is written, both in microseconds.

    Attributes:
        outcome: set by the call that was committed; None after it: the wording that `indexed_text`
            saw in the file was gone, and nothing was written. To be compared and tried again.
    """

    def __init__(self, uri: str, title: str, text: str, section: str, time: int, now: int) -> None:
        self.uri, self.title, self.text, self.section = uri, title, text, section
        self.time, self.now = time, now
        self.outcome: Outcome | None = None
        self._stood = False
        self._embedded, self._vector = "", _NO_VECTOR
        self._bar = Bar(2.0)
        # What `_written` made last, and of what.
        self._last: (
            tuple[tuple[MemoryFile | None, StoredEntry | None], tuple[Prepared, int]] | None
        ) = None

    def indexed_text(self, file: MemoryFile | None) -> str | None:
        """What will be embedded of it in this file; None where an entry has its wording already."""
        self._stood = file is not None and self._equal(file.entries) is not None
        if self._stood:
            return None
        prepared, ordinal = self._written(file, None)
        return next(text.text for text in prepared.texts if text.ordinal == ordinal)

    def compare_by_meaning(self, embedded: str, vector: F32, bar: Bar) -> None:
        """From now on an entry that passes the bar says the same; the vector is of `embedded`."""
        self._embedded, self._vector, self._bar = embedded, vector, bar

    def __call__(self, file: MemoryFile | None, new_id: Callable[[], int]) -> Rewritten:
        """What becomes of the file as it stands now."""
        met, near = self._met(file.entries if file else ())
        if met is None and self._stood:  # so its meaning is not known
            return Rewritten()
        if met is None:
            entry = Entry(new_id(), time=self.time, created_at=self.now)
            degraded = self._not_compared(file.entries if file else ())
            self.outcome = Outcome(Remembered.ADDED, entry, *near, degraded)
            return Rewritten(self._with_entry(*self._written(file, None), entry))
        old = met.entry
        said_before = self.time if old.time is None else old.time
        count = min(old.reinforcement + 1, MAX_COUNTER)
        entry = replace(old, reinforcement=count, time=max(said_before, self.time))
        self.outcome = Outcome(Remembered.REINFORCED, entry, *near)
        if entries.shown(met.passage) == self.text or self.time < said_before:
            return Rewritten(counters=(entry,))
        try:
            return Rewritten(self._with_entry(*self._written(file, met), entry))
        except InvalidField:
            detail = "the older wording stays in the file: it is no entry of a list"
            kept = Degradation(DegradationReason.WORDING_KEPT, detail)
            self.outcome = Outcome(Remembered.REINFORCED, entry, *near, (kept,))
            return Rewritten(counters=(entry,))

    def _not_compared(self, stored: Sequence[StoredEntry]) -> Degraded:
        """What to say of entries whose meaning is not known yet."""
        waiting = sum(1 for one in stored if one.ordinal and not one.vector)
        if not waiting or not len(self._vector):
            return ()
        detail = (
            f"of {waiting:,} entries of the file, which have no vector yet, the wordings alone "
            "were compared"
        )
        return (Degradation(DegradationReason.VECTORS_PENDING, detail),)

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
        return next((s for s in stored if normalized(entries.shown(s.passage)) == wanted), None)

    def _written(
        self, file: MemoryFile | None, instead_of: StoredEntry | None
    ) -> tuple[Prepared, int]:
        """The file with the text, as a new entry or instead of one; which passage it is.

        All others stay cut as they are, so that each keeps its entry.
        """
        key = (file, instead_of)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        content, others = (file.content, list(file.entries)) if file else ("", [])
        if others and not others[0].ordinal:
            # Its only text so far is its abstract: that becomes an entry like others.
            first = others.pop()
            if first is not instead_of:
                content, listed = self._listed(content, first)
                others.append(listed)
        if instead_of is None or not instead_of.ordinal:
            written = entries.added(content, self.text, self.section, self.title)
        else:
            others.remove(instead_of)
            written = entries.replaced(content, instead_of.start, instead_of.end, self.text)
        if len(written.content.encode()) > MAX_CONTENT_BYTES:
            raise InvalidField(
                "text", f"has no place: the file would have more than {MAX_CONTENT_BYTES:,} bytes"
            )
        cut, kept = _cut(others, len(content), written)
        draft = (
            replace(draft_of(file, written.content), passages=cut)
            if file
            else Draft(self.uri, content=written.content, title=self.title, time=self.time)
        )
        prepared = replace(prepare(draft), entries=kept)
        at = written.passage.start
        ordinal = next(t.ordinal for t in prepared.texts if t.ordinal and t.start == at)
        self._last = key, (prepared, ordinal)
        return prepared, ordinal

    def _listed(self, content: str, abstract: StoredEntry) -> tuple[str, StoredEntry]:
        """The content with what was an abstract only as an entry, and where that stands.

        Raises:
            InvalidField: it is too long for one.
        """
        try:
            text = entries.check_text(abstract.passage)
        except InvalidField:
            raise InvalidField(
                "text",
                "has no place: the file has an abstract without a content, too long for an entry; "
                "put it as the content first",
            ) from None
        content, at, _ = entries.added(content, text, "", self.title)
        passage = content[at.start : at.end]
        return content, replace(
            abstract, section=at.section, start=at.start, end=at.end, passage=passage
        )

    def _with_entry(self, prepared: Prepared, ordinal: int, entry: Entry) -> Prepared:
        """With its entry, and with its vector where that is of just this text."""
        vector = self._vector.astype("<f4").tobytes()
        texts = tuple(
            replace(text, vector=vector)
            if text.ordinal == ordinal and text.text == self._embedded
            else text
            for text in prepared.texts
        )
        return replace(prepared, texts=texts, entries={**prepared.entries, ordinal: entry})


def _cut(
    stored: Sequence[StoredEntry], length: int, written: Written
) -> tuple[list[Passage], dict[int, Entry]]:
    """The passages of a content of `length` with one more or another entry.

    Entries by ordinal come with them: that of what was an abstract, and where a passage is cut
    anew, its own for the first piece.
    """
    start, grown = written.passage.start, len(written.content) - length
    found: list[tuple[Passage, Entry | None]] = [(written.passage, None)]
    for one in stored:
        for at in (one.start, one.start + grown):
            end = at + one.end - one.start
            apart = end <= start or at >= written.passage.end
            if apart and written.content[at:end] == one.passage:
                found.append((Passage(one.section, at, end), None if one.ordinal else one.entry))
                break
        else:
            pieces = [
                p
                for p in written.cut
                if p != written.passage and one.start <= p.start and p.end <= one.end + grown
            ]
            found += zip(pieces, [one.entry, *[None] * len(pieces)], strict=False)
    found.sort(key=lambda one: one[0].start)
    kept = {i: entry for i, (_, entry) in enumerate(found, start=1) if entry is not None}
    return [passage for passage, _ in found], kept


class Forgetting:
    """Takes entries out of memory files; a file that says nothing any more goes itself.

    Args:
        wanted: them by id; with `unchanged` one that was said again meanwhile stays.

    Attributes:
        gone: the ids of those that were taken out, by the call that was committed.
    """

    def __init__(self, wanted: Mapping[int, Entry], *, unchanged: bool) -> None:
        self._wanted = wanted
        self._unchanged = unchanged
        self.gone: set[int] = set()

    def __call__(self, file: MemoryFile | None, _: Callable[[], int]) -> Rewritten:
        """What becomes of the file as it stands now."""
        stored = file.entries if file else ()
        gone = [one for one in stored if self._goes(one.entry)]
        if file is None or not gone:
            return Rewritten()
        self.gone.update(one.entry.id for one in gone)
        content, edits = entries.removed(
            file.content, [(s.start, s.end) for s in gone if s.ordinal]
        )
        left = [one for one in stored if one.entry.id not in self.gone]
        if not left and (not gone[0].ordinal or self._says_nothing(file.uri, content)):
            return Rewritten(removed=True)
        at = entries.moved([one.start for one in left], edits)
        cut = [
            Passage(one.section, start, start + len(one.passage))
            for one, start in zip(left, at, strict=True)
        ]
        # One for one, so that equal texts keep their own. Only passages that overlap are cut anew.
        if any(content[p.start : p.end] != one.passage for p, one in zip(cut, left, strict=True)):
            return Rewritten(prepare(draft_of(file, content)))
        prepared = prepare(replace(draft_of(file, content), passages=cut or None))
        kept = {i: one.entry for i, one in enumerate(left, start=1)}
        return Rewritten(replace(prepared, entries=kept))

    def _goes(self, entry: Entry) -> bool:
        wanted = self._wanted.get(entry.id)
        if wanted is None:
            return False
        said = (entry.reinforcement, entry.time)
        return not self._unchanged or said == (wanted.reinforcement, wanted.time)

    @staticmethod
    def _says_nothing(uri: str, content: str) -> bool:
        if kind_of(uris.name(uri)) is Kind.MARKDOWN:
            return entries.is_bare(content)
        return not MEANING.search(content)


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
