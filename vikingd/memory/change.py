"""Changes of what is known: a newer memory takes the place of those that it contradicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vikingd.domain.answers import Degradation, DegradationReason
from vikingd.domain.contexts import MAX_COUNTER, Entry, Passage, Prepared
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import approximate_tokens, one_line
from vikingd.ingest.prepare import MAX_CONTENT_BYTES, prepare
from vikingd.memory import entries
from vikingd.memory.entries import Written
from vikingd.memory.model import EARLIER, MemoryFile, Remembered, Rewritten, StoredEntry, is_earlier
from vikingd.memory.relations import relation_of
from vikingd.memory.remember import Outcome, Remembering, draft_of

_MAX_WORDING = 140  # tokens of each wording in the journal's note on a change


class FileChanged(Exception):
    """A file has changed since the comparison: compare and try again."""


class NoPlace(Exception):
    """A memory that its file has no place for; the message gives the reason.

    Attributes:
        memory: the writer of the memory.
    """

    def __init__(self, memory: Changing, reason: str) -> None:
        super().__init__(reason)
        self.memory = memory


class Changing(Remembering):
    """Writes a text as Remembering does, and replaces the entries of its file that it contradicts.

    Two entries contradict each other if they state another value of one relation, see `relations`.
    Replaced entries move below the heading "Earlier" of the file, with their ids, times and
    counters. The text stands in the place of the first of them, or of the entry that it
    repeats. If they were said later than the
    text, the text itself is history: it goes below "Earlier".

    Args:
        replaces: the id of an entry that the text may replace too; 0: none.
        may_replace: decides whether it does, by the vectors of both (b"" for none) and its wording.
    """

    def __init__(
        self,
        uri: str,
        title: str,
        text: str,
        section: str,
        time: int,
        now: int,
        replaces: int = 0,
        may_replace: Callable[[bytes, bytes, str], bool] = lambda _new, _old, _said: False,
    ) -> None:
        super().__init__(uri, title, text, section, time, now)
        self._relation = relation_of(text)
        self._replaces = replaces
        self._may_replace = may_replace

    def __call__(self, file: MemoryFile | None, new_id: Callable[[], int]) -> Rewritten:
        """Return the change of the file as it is now.

        Raises:
            FileChanged: an entry of the same wording is gone since the comparison.
            NoPlace: the file has no place for the text.
        """
        try:
            return self._changed(file, new_id)
        except InvalidField as error:
            raise NoPlace(self, f"{self.uri} {error.description}") from None

    def indexed_text(self, file: MemoryFile | None) -> str | None:
        """Return the text to embed, see Remembering; raise NoPlace if the file has no place."""
        try:
            return super().indexed_text(file)
        except InvalidField as error:
            raise NoPlace(self, f"{self.uri} {error.description}") from None

    def _changed(self, file: MemoryFile | None, new_id: Callable[[], int]) -> Rewritten:
        self.outcome = None
        contradicted = self._contradicted(file)
        if file is not None and contradicted:
            return self._replaced(file, contradicted, new_id)
        done = super().__call__(file, new_id)
        if self.outcome is None:
            raise FileChanged
        return done

    def _nearest(self, stored: Sequence[StoredEntry]) -> tuple[StoredEntry | None, str, float]:
        met, said, cosine = super()._nearest(stored)
        if met is None and self._relation is not None:
            for one in stored:
                text = entries.clean(one.passage)
                if self._compares(one) and one.ordinal and relation_of(text) == self._relation:
                    return one, text, 1.0
        return met, said, cosine

    def _contradicted(self, file: MemoryFile | None) -> list[StoredEntry]:
        """Return the present entries that the text contradicts, in order."""
        found = []
        for one in file.entries if file is not None else ():
            if not one.ordinal or is_earlier(one.section):
                continue
            text = entries.clean(one.passage)
            other = relation_of(text)
            if other is not None and self._relation is not None:
                if other.key == self._relation.key and other.value != self._relation.value:
                    found.append(one)
            elif one.entry.id == self._replaces and self._may_replace(
                self._vector.astype("<f4").tobytes(), one.vector, text
            ):
                found.append(one)
        return found

    def _replaced(
        self, file: MemoryFile, older: list[StoredEntry], new_id: Callable[[], int]
    ) -> Rewritten:
        said = entries.clean(older[0].passage)
        is_past = self.time < max(one.entry.time or 0 for one in older)
        again, _, _ = self._nearest(file.entries)
        if again is not None and again.ordinal and not is_past:
            count = min(again.entry.reinforcement + 1, MAX_COUNTER)
            entry = replace(again.entry, reinforcement=count, time=self.time)
            return self._moved(file, again, older, entry, said, new_id)
        if again is not None:
            return super().__call__(file, new_id)
        entry = Entry(new_id(), time=self.time, created_at=self.now)
        if is_past:
            work = _Rewriting(file)
            work.add(self.text, EARLIER, self.title, entry)
            self.outcome = Outcome(Remembered.ADDED, entry, said)
            return Rewritten(work.prepared(file, entry.id, "", b""))
        return self._moved(file, older[0], older, entry, said, new_id)

    def _moved(
        self,
        file: MemoryFile,
        place: StoredEntry,
        older: list[StoredEntry],
        entry: Entry,
        said: str,
        new_id: Callable[[], int],
    ) -> Rewritten:
        """Return the file with the text in the place of an entry, and the older ones moved."""
        try:
            work = _Rewriting(file)
            work.replace(place, self.text, entry)
            for one in older:
                if one is not place:
                    work.remove(one)
            for one in older:
                work.add(entries.clean(one.passage), EARLIER, self.title, one.entry)
        except InvalidField as error:
            if error.field != "text":
                raise
            done = super().__call__(file, new_id)
            if self.outcome is None:
                raise FileChanged from None
            detail = "the older wording stays in the file, since it is no entry of a list"
            note = Degradation(DegradationReason.WORDING_KEPT, detail)
            self.outcome = replace(self.outcome, degraded=(*self.outcome.degraded, note))
            return done
        self.outcome = Outcome(Remembered.REPLACED, entry, said)
        vector = self._vector.astype("<f4").tobytes()
        return Rewritten(work.prepared(file, entry.id, self._embedded, vector))


class Noting(Remembering):
    """Writes a note on a change into the journal of its day, if there was a change.

    Args:
        changed: the writer of the new memory, which ran before.

    Attributes:
        skipped: the reason why the journal has no place for the note; "": it has one.
    """

    def __init__(self, uri: str, title: str, changed: Remembering, time: int, now: int) -> None:
        super().__init__(uri, title, changed.text, "", time, now)
        self._memory = changed
        self.skipped = ""

    def __call__(self, file: MemoryFile | None, new_id: Callable[[], int]) -> Rewritten:
        """Return the change of the journal as it is now."""
        outcome, self.skipped = self._memory.outcome, ""
        if outcome is None or outcome.did is not Remembered.REPLACED:
            return Rewritten()
        self.text = note_of(self._memory.text, outcome.met)
        self._last = None
        try:
            return super().__call__(file, new_id)
        except InvalidField as error:
            self.skipped = f"{self.uri} {error.description}"
            return Rewritten()


def note_of(now: str, before: str) -> str:
    """Return the note on a change, with both wordings, which are cut if they are long."""
    now, before = (_cut(text) for text in (now, before))
    return f"{now}（之前：{before}）" if now.endswith("。") else f"{now} (Before: {before})"


def _cut(text: str) -> str:
    text = one_line(text)
    if approximate_tokens(text) <= _MAX_WORDING:
        return text
    while approximate_tokens(text) >= _MAX_WORDING:
        text = text[: len(text) * 9 // 10]
    return f"{text}…"


class _Rewriting:
    """A content under several changes; the entries of its passages keep their states."""

    def __init__(self, file: MemoryFile) -> None:
        self._content = file.content
        self._stored = [one for one in file.entries if one.ordinal]

    def replace(self, older: StoredEntry, text: str, entry: Entry) -> None:
        """Put a text in the place of an entry; raise InvalidField if it has no place."""
        self._stored = [one for one in self._stored if one.entry.id != older.entry.id]
        self._take(entries.replaced(self._content, older.start, older.end, text), entry)

    def add(self, text: str, section: str, title: str, entry: Entry) -> None:
        """Add an entry below a heading; raise InvalidField if it has no place."""
        self._take(entries.added(self._content, text, section, title), entry)

    def remove(self, older: StoredEntry) -> None:
        """Remove an entry."""
        gone = next(one for one in self._stored if one.entry.id == older.entry.id)
        self._stored = [one for one in self._stored if one is not gone]
        self._content, edits = entries.removed(self._content, [(gone.start, gone.end)])
        starts = entries.moved([one.start for one in self._stored], edits)
        self._stored = [
            replace(one, start=start, end=start + len(one.passage))
            for one, start in zip(self._stored, starts, strict=True)
        ]

    def prepared(self, file: MemoryFile, new: int, embedded: str, vector: bytes) -> Prepared:
        """Return the file for a write; the entry `new` gets the vector if it is of its text."""
        if len(self._content.encode()) > MAX_CONTENT_BYTES:
            raise InvalidField(
                "text", f"has no place: the file would have more than {MAX_CONTENT_BYTES:,} bytes"
            )
        cut = [Passage(one.section, one.start, one.end) for one in self._stored]
        made = prepare(replace(draft_of(file, self._content), passages=cut))
        kept = {i: one.entry for i, one in enumerate(self._stored, start=1)}
        texts = tuple(
            replace(text, vector=vector)
            if text.ordinal and kept[text.ordinal].id == new and text.text == embedded
            else text
            for text in made.texts
        )
        return replace(made, entries=kept, texts=texts)

    def _take(self, written: Written, entry: Entry) -> None:
        grown, at = len(written.content) - len(self._content), written.passage
        moved = []
        for one in self._stored:
            for start in (one.start, one.start + grown):
                end = start + len(one.passage)
                if (end <= at.start or start >= at.end) and (
                    written.content[start:end] == one.passage
                ):
                    moved.append(replace(one, start=start, end=end))
                    break
            else:
                raise InvalidField("text", "has no place: the entries of the file overlap")
        text = written.content[at.start : at.end]
        moved.append(StoredEntry("", entry, 1, at.section, at.start, at.end, text))
        self._content, self._stored = written.content, sorted(moved, key=lambda one: one.start)
