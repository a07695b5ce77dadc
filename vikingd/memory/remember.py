"""Remembering and forgetting: changes of memory files, decided in the write transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from vikingd.domain import uri as uris
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.contexts import MAX_COUNTER, Draft, Entry, Passage, Prepared
from vikingd.domain.errors import InvalidField
from vikingd.domain.products import products
from vikingd.ingest.abstracts import derive_abstract, stated_abstract
from vikingd.ingest.kinds import Kind, kind_of
from vikingd.ingest.passages import MEANING
from vikingd.ingest.prepare import MAX_CONTENT_BYTES, prepare
from vikingd.memory import entries
from vikingd.memory.entries import Written
from vikingd.memory.model import EARLIER, MemoryFile, Remembered, Rewritten, StoredEntry, is_earlier
from vikingd.memory.same import differs, normalized

F32 = npt.NDArray[np.float32]
_NO_VECTOR: F32 = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class SimilarityThreshold:
    """The least cosine of a repeat; with `with_words`, words that differ rule a repeat out."""

    cosine: float
    with_words: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of remembering.

    `met` is the wording of the reinforced entry, or of the nearest entry above the threshold if one
    was added; "" for none.
    """

    did: Remembered
    entry: Entry
    met: str = ""
    similarity: float = 0.0  # the cosine to that wording
    degraded: Degraded = ()  # why the comparison was limited


_Written = tuple[Prepared, int]
"""A file with the text in it, and the ordinal of the text's passage."""


class Remembering:
    """Writes a text into a memory file, or reinforces the entry that it repeats.

    An entry below the heading "Earlier" was replaced, so a present text does not repeat it. The
    text is clean and checked, see `entries`. `title` is that of a new file. The text was said at
    `time` and is written `now`, both in microseconds.

    Attributes:
        outcome: set by the committed call. None means that nothing was written, since the wording
            that `indexed_text` saw in the file was gone: compare and try again.
    """

    def __init__(self, uri: str, title: str, text: str, section: str, time: int, now: int) -> None:
        self.uri, self.title, self.text, self.section = uri, title, text, section
        self.time, self.now = time, now
        self.outcome: Outcome | None = None
        self._stood = False
        self._embedded, self._vector = "", _NO_VECTOR
        self._threshold = SimilarityThreshold(2.0)
        # The last arguments of `_written` and its result.
        self._last: tuple[tuple[MemoryFile | None, StoredEntry | None], _Written] | None = None

    def indexed_text(self, file: MemoryFile | None) -> str | None:
        """Return the text to embed for this file; None if an entry has the same wording."""
        self._stood = file is not None and self._equal(file.entries) is not None
        if self._stood:
            return None
        prepared, ordinal = self._written(file, None)
        return next(text.text for text in prepared.texts if text.ordinal == ordinal)

    def compare_by_meaning(
        self, embedded: str, vector: F32, threshold: SimilarityThreshold
    ) -> None:
        """Treat an entry above the threshold as a repeat; the vector is of the text `embedded`."""
        self._embedded, self._vector, self._threshold = embedded, vector, threshold

    def __call__(self, file: MemoryFile | None, new_id: Callable[[], int]) -> Rewritten:
        """Return the change of the file as it is now."""
        met, wording, cosine = self._nearest(file.entries if file else ())
        if met is None and self._stood:  # The text was not embedded.
            return Rewritten()
        if met is None:
            entry = Entry(new_id(), time=self.time, created_at=self.now)
            degraded = self._not_compared(file.entries if file else ())
            self.outcome = Outcome(Remembered.ADDED, entry, wording, cosine, degraded)
            return Rewritten(self._with_entry(self._written(file, None), entry))
        return self._reinforced(file, met, wording, cosine)

    def _reinforced(
        self, file: MemoryFile | None, met: StoredEntry, wording: str, cosine: float
    ) -> Rewritten:
        """Return the change that reinforces an entry, and gives it the newer wording."""
        old = met.entry
        said_before = self.time if old.time is None else old.time
        count = min(old.reinforcement + 1, MAX_COUNTER)
        entry = replace(old, reinforcement=count, time=max(said_before, self.time))
        self.outcome = Outcome(Remembered.REINFORCED, entry, wording, cosine)
        if entries.clean(met.passage) == self.text or self.time < said_before:
            return Rewritten(counters=(entry,))
        try:
            return Rewritten(self._with_entry(self._written(file, met), entry))
        except InvalidField:
            detail = "the older wording stays in the file, since it is no list item"
            kept = Degradation(DegradationReason.WORDING_KEPT, detail)
            self.outcome = replace(self.outcome, degraded=(kept,))
            return Rewritten(counters=(entry,))

    def _not_compared(self, stored: Sequence[StoredEntry]) -> Degraded:
        """Return the note on entries that have no vector yet."""
        waiting = sum(1 for one in stored if one.ordinal and not one.vector)
        if not waiting or not len(self._vector):
            return ()
        detail = (
            f"of {waiting:,} entries of the file, which have no vector yet, the wordings alone "
            "were compared"
        )
        return (Degradation(DegradationReason.VECTORS_PENDING, detail),)

    def _nearest(self, stored: Sequence[StoredEntry]) -> tuple[StoredEntry | None, str, float]:
        """Return the entry that the text repeats, or None; and the nearest wording, its cosine."""
        equal = self._equal(stored)
        if equal is not None:
            return equal, entries.clean(equal.passage), 1.0
        above: list[tuple[float, str, StoredEntry]] = []
        size = 4 * len(self._vector)
        compared = [
            one
            for one in stored
            if one.ordinal and one.vector and len(one.vector) == size and self._compares(one)
        ]
        if not compared:
            return None, "", 0.0
        joined = bytearray().join(one.vector for one in compared)
        vectors = np.frombuffer(joined, "<f4").reshape(len(compared), -1)
        cosines = np.minimum(products(vectors, self._vector), 1.0)
        for cosine, one in zip(cosines.tolist(), compared, strict=True):
            if cosine >= self._threshold.cosine:
                above.append((cosine, entries.clean(one.passage), one))
        above.sort(key=itemgetter(0), reverse=True)
        for cosine, said, one in above:
            if not (self._threshold.with_words and differs(self.text, said)):
                return one, said, cosine
        if not above:
            return None, "", 0.0
        cosine, said, _ = above[0]
        return None, said, cosine

    def _equal(self, stored: Sequence[StoredEntry]) -> StoredEntry | None:
        wanted = normalized(self.text)
        return next(
            (
                one
                for one in stored
                if self._compares(one) and normalized(entries.clean(one.passage)) == wanted
            ),
            None,
        )

    def _compares(self, one: StoredEntry) -> bool:
        """Return True unless one of text and entry is below the heading "Earlier"."""
        return is_earlier(one.section) == (self.section == EARLIER)

    def _written(self, file: MemoryFile | None, instead_of: StoredEntry | None) -> _Written:
        """Return the file with the text as a new entry or in place of one.

        All other passages stay as they are, so that each keeps its entry.
        """
        key = (file, instead_of)
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        content, others = (file.content, list(file.entries)) if file else ("", [])
        if others and not others[0].ordinal:
            # The only text of the file is its abstract, which becomes an entry like others.
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
        return self._last[1]

    def _listed(self, content: str, abstract: StoredEntry) -> tuple[str, StoredEntry]:
        """Return the content with the abstract as an entry, and that entry with its place."""
        try:
            text = entries.check_text(abstract.passage)
        except InvalidField:
            raise InvalidField(
                "text",
                "has no place: the file has only an abstract, which is too long for an entry; put "
                "it as the content first",
            ) from None
        content, at, _ = entries.added(content, text, "", self.title)
        passage = content[at.start : at.end]
        return content, replace(
            abstract, section=at.section, start=at.start, end=at.end, passage=passage
        )

    def _with_entry(self, written: _Written, entry: Entry) -> Prepared:
        """Return the file with the state of the entry, and its vector if that is of this text."""
        prepared, ordinal = written
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
    """Return the passages of a changed content, and the states of memories to move, by ordinal.

    The states are those of a former abstract, and of passages that are cut again. The first piece
    of such a passage takes its state. `stored` has the entries that stay, and `length` is that of
    the content before the change.
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
    """Removes entries from memory files; a file without any text left is removed.

    Args:
        wanted: the entries to remove by id.
        unchanged: keep an entry that has been reinforced since `wanted` was read.

    Attributes:
        gone: ids of the removed entries, set by the committed call.
    """

    def __init__(self, wanted: Mapping[int, Entry], *, unchanged: bool) -> None:
        self._wanted = wanted
        self._unchanged = unchanged
        self.gone: set[int] = set()

    def __call__(self, file: MemoryFile | None, _: Callable[[], int]) -> Rewritten:
        """Return the change of the file as it is now."""
        stored = file.entries if file else ()
        gone = [one for one in stored if self._goes(one.entry)]
        if file is None or not gone:
            return Rewritten()
        self.gone.update(one.entry.id for one in gone)
        content, edits = entries.removed(
            file.content, [(s.start, s.end) for s in gone if s.ordinal]
        )
        left = [one for one in stored if one.entry.id not in self.gone]
        if not left and (not gone[0].ordinal or _says_nothing(file.uri, content)):
            return Rewritten(removed=True)
        at = entries.moved([one.start for one in left], edits)
        cut = [
            Passage(one.section, start, start + len(one.passage))
            for one, start in zip(left, at, strict=True)
        ]
        # Each passage keeps its entry, also among equal texts. Overlapping passages are cut again.
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


def _says_nothing(uri: str, content: str) -> bool:
    if kind_of(uris.name(uri)) is Kind.MARKDOWN:
        return entries.is_bare(content)
    return not MEANING.search(content)


def draft_of(file: MemoryFile, content: str) -> Draft:
    """Return the put of the file with another content; a derived abstract is derived again."""
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
