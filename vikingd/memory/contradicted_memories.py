"""Changes of known facts: a newer memory replaces those that it contradicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from vikingd.domain.answers import Degradation, DegradationReason
from vikingd.domain.contexts import MAX_COUNTER, Draft, Entry, Prepared
from vikingd.domain.errors import InvalidField
from vikingd.domain.extract import Ending
from vikingd.domain.pinned_text import is_pinned, with_pin
from vikingd.domain.rights import LOCAL, Caller
from vikingd.domain.text import approximate_tokens, one_line
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.limits import MAX_CONTENT_BYTES
from vikingd.memory import entries
from vikingd.memory.entries import Written
from vikingd.memory.memory_file_changes import Near, Outcome, Remembering, draft_of
from vikingd.memory.memory_file_series import Compared, Key, Known, Series, is_full
from vikingd.memory.memory_types import (
    EARLIER,
    MemoryFile,
    Remembered,
    Rewritten,
    StoredEntry,
    is_earlier,
    laid_out,
)
from vikingd.memory.relations import Relation, relations_of
from vikingd.memory.third_person import HAN

_MAX_WORDING = 140  # tokens of each wording in the journal's note on a change


class FileChanged(Exception):
    """A file has changed since the comparison: compare and try again."""


class NoPlace(Exception):
    """The text of a memory cannot be put into its file, for example because the file is too large.

    The message gives the reason.

    Attributes:
        memory: the change that the text belongs to.
    """

    def __init__(self, memory: Changing, reason: str) -> None:
        super().__init__(reason)
        self.memory = memory


class Changing(Remembering):
    """Writes a text as Remembering does, and replaces the entries of its file that it contradicts.

    Two entries contradict each other if they state different values of one relation, such as two
    homes; see `relations`. Replaced entries move below the heading "Earlier" of the file, with
    their ids, times and counters. The text takes the place of the first of them, or of the entry
    that it repeats. If they were said later than the text, they stay, and the text goes below
    "Earlier".

    Args:
        replaces: the id of an entry that the text may replace too; 0: none.

    Attributes:
        may_replace: the wording that this entry must have to be replaced; "": it stays.
    """

    def __init__(
        self,
        uri: str,
        title: str,
        text: str,
        section: str,
        time: int,
        now: int,
        caller: Caller = LOCAL,
        replaces: int = 0,
    ) -> None:
        super().__init__(uri, title, text, section, time, now, caller)
        self._relations = relations_of(text)
        self._relation = next(iter(self._relations), None)
        self._replaces, self.may_replace = replaces, ""

    def __call__(self, series: Series, new_id: Callable[[], int]) -> Sequence[Rewritten]:
        """Return the changes of the series as it is now.

        Raises:
            NoPlace: the file has no place for the text.
        """
        try:
            return self._changed(self._compared(series), new_id)
        except InvalidField as error:
            raise NoPlace(self, f"{self.uri} {error.description}") from None

    def prepare(self, series: Series, known: Mapping[Key, Known]) -> None:
        """Compare the text, see Remembering; raise NoPlace if the file has no place."""
        try:
            super().prepare(series, known)
        except InvalidField as error:
            raise NoPlace(self, f"{self.uri} {error.description}") from None

    def _changed(self, files: Compared, new_id: Callable[[], int]) -> Sequence[Rewritten]:
        self.outcome = None
        contradicted = self._contradicted(files)
        if contradicted:
            return self._replaced(files, contradicted, new_id)
        return self._remembered(files, new_id)

    def _repeated(self, files: Compared) -> Near | None:
        met = super()._repeated(files)
        if met is not None or self._relation is None:
            return met
        for uri, known in files.files:
            for one, relation in known.relations:
                if relation == self._relation and is_earlier(one.section) == self._is_earlier:
                    return Near(uri, one, entries.said(one.passage))
        return None

    def _contradicted(self, files: Compared) -> list[tuple[str, StoredEntry]]:
        """Return (URI, entry) of each present entry that the text contradicts, in order."""
        found: dict[int, tuple[str, StoredEntry]] = {}
        for uri, known in files.files:
            related = {one.entry.id: relation for one, relation in known.relations}
            for one, other in known.relations:
                contradicts = any(mine.contradicts(other) for mine in self._relations)
                if contradicts and not is_earlier(one.section):
                    found[one.entry.id] = uri, one
            named = known.find(self._replaces)
            # Of two relations the values decide, but one habit may take the place of another.
            if (
                named is not None
                and named.ordinal
                and not is_earlier(named.section)
                and _may_decide(self._relation, related.get(named.entry.id))
                and entries.said(named.passage) == self.may_replace
            ):
                found[named.entry.id] = uri, named
        order = {uri: number for number, (uri, _) in enumerate(files.files)}
        return sorted(found.values(), key=lambda at: (order[at[0]], at[1].start))

    def _replaced(
        self,
        files: Compared,
        found: list[tuple[str, StoredEntry]],
        new_id: Callable[[], int],
    ) -> Sequence[Rewritten]:
        older = [(uri, files.fresh(uri, one)[1]) for uri, one in found]
        first, place = older[0]
        said = entries.said(place.passage)
        is_past = self.time < max(one.entry.time or 0 for _, one in older)
        again = self._repeated(files)
        if again is not None and (is_past or not again.stored.ordinal):
            return self._remembered(files, new_id)
        if again is not None:
            _, same = files.fresh(again.uri, again.stored)
            count = min(same.entry.reinforcement + 1, MAX_COUNTER)
            entry = replace(same.entry, reinforcement=count, time=self.time)
            return self._moved(files, (again.uri, same), older, entry, said, new_id)
        entry = Entry(new_id(), time=self.time, created_at=self.now)
        if not is_past:
            file = files.series.read(first)
            at = None if file is None or is_full(file) else (first, place)
            return self._moved(files, at, older, entry, said, new_id)
        work = _EditedFiles(files)
        uri, _ = self._place(files)
        work.of(uri).add(self.text, EARLIER, self.title, entry)
        self.outcome = Outcome(Remembered.ADDED, entry, said, uri=uri)
        return work.changes(self)

    def _moved(
        self,
        files: Compared,
        place: tuple[str, StoredEntry] | None,
        older: list[tuple[str, StoredEntry]],
        entry: Entry,
        said: str,
        new_id: Callable[[], int],
    ) -> Sequence[Rewritten]:
        """Put the text in place of an entry, and the older entries below "Earlier".

        Return the files.

        If `place` is None, the text is added as a new entry, since a full file must not grow.
        """
        work = _EditedFiles(files)
        try:
            if place is None:
                uri, _ = self._place(files)
                work.of(uri).add(self.text, self.section, self.title, entry)
            else:
                uri, taken = place
                work.of(uri).replace(taken, self._with_pin_mark(self.text, taken.passage), entry)
            for at, one in older:
                if (at, one) != place:
                    work.of(at).remove(one)
            for at, one in older:
                work.of(at).add(entries.clean(one.passage), EARLIER, self.title, one.entry)
        except InvalidField as error:
            if error.field != "text":
                raise
            done = self._remembered(files, new_id)
            assert self.outcome is not None
            detail = "the older wording stays in the file, since it is no entry of a list"
            note = Degradation(DegradationReason.WORDING_KEPT, detail)
            self.outcome = replace(self.outcome, degraded=(*self.outcome.degraded, note))
            return done
        self.outcome = Outcome(Remembered.REPLACED, entry, said, uri=uri)
        return work.changes(self)


def _may_decide(new: Relation | None, old: Relation | None) -> bool:
    """Return True if relations alone do not decide whether one text replaces another."""
    return new is None or old is None or (new.is_habit and old.is_habit)


class Ended(Remembering):
    """Moves the entries that the user ended below the heading "Earlier", with the user's sentence.

    "I no longer live in Paris" ends the present entries that state the relation "home" with the
    value "Paris"; an ending without a value ends all of the relation. The entries keep their ids,
    times and counters. An entry that was said later than the ending stays.
    """

    def __init__(
        self, uri: str, title: str, ending: Ending, time: int, now: int, caller: Caller = LOCAL
    ) -> None:
        super().__init__(uri, title, ending.sentence, "", time, now, caller)
        self.ending = ending
        self._ends = Relation(ending.key, ending.value, holds=False)

    def __call__(self, series: Series, _: Callable[[], int]) -> Sequence[Rewritten]:
        """Return the changes of the series as it is now; no changes if no entry ends."""
        self.outcome = None
        files = self._compared(series)
        work = _EditedFiles(files)
        ended: list[tuple[str, StoredEntry]] = []
        for uri, known in files.files:
            for one, relation in known.relations:
                if is_earlier(one.section) or not self._ends.contradicts(relation):
                    continue
                fresh = files.fresh(uri, one)[1]
                if (fresh.entry.time or 0) <= self.time:
                    ended.append((uri, fresh))
        for uri, one in ended:
            text = ended_text(entries.said(one.passage), self.ending.sentence)
            try:
                work.of(uri).end(one, with_pin(text, is_pinned(one.passage)), self.title)
            except InvalidField:
                continue  # It is no entry of a list, or the file has no place.
            if self.outcome is None:
                self.text = text
                met = entries.said(one.passage)
                self.outcome = Outcome(Remembered.ENDED, one.entry, met, uri=uri)
        return [] if self.outcome is None else work.changes(self)


def ended_text(said: str, sentence: str) -> str:
    """Return the text of an entry followed by `(Ended: "SENTENCE")`, the sentence that ended it."""
    sentence = _cut(sentence)
    if HAN.search(said):
        return f"{said}（已结束：“{sentence}”）"
    return f'{said} (Ended: "{sentence.replace(chr(34), chr(39))}")'


class Noting(Remembering):
    """Writes a note on a changed memory into the journal of the day; nothing if it did not change.

    Args:
        changed: the writer of the new memory, which ran before.

    Attributes:
        skipped: the reason why the note cannot be written into the journal; "" if it can.
    """

    def __init__(
        self,
        uri: str,
        title: str,
        changed: Remembering,
        time: int,
        now: int,
        caller: Caller = LOCAL,
    ) -> None:
        super().__init__(uri, title, changed.text, "", time, now, caller, exact=True)
        self._memory = changed
        self.skipped = ""

    def __call__(self, series: Series, new_id: Callable[[], int]) -> Sequence[Rewritten]:
        """Return the changes of the journal as it is now."""
        outcome, self.skipped = self._memory.outcome, ""
        if outcome is None or outcome.did not in (Remembered.REPLACED, Remembered.ENDED):
            return []
        is_ended = outcome.did is Remembered.ENDED
        self.text = self._memory.text if is_ended else note_of(self._memory.text, outcome.met)
        self._last = None
        try:
            return super().__call__(series, new_id)
        except InvalidField as error:
            self.skipped = f"{self.uri} {error.description}"
            return []


def note_of(now: str, before: str) -> str:
    """Return the note on a change: "NEW (Before: OLD)", with long wordings cut."""
    now, before = (_cut(text) for text in (now, before))
    return f"{now}（之前：{before}）" if now.endswith("。") else f"{now} (Before: {before})"


def _cut(text: str) -> str:
    text = one_line(text)
    if approximate_tokens(text) <= _MAX_WORDING:
        return text
    while approximate_tokens(text) >= _MAX_WORDING:
        text = text[: len(text) * 9 // 10]
    return f"{text}…"


class _EditedFiles:
    """The edited files of one series of memory files."""

    def __init__(self, files: Compared) -> None:
        self._files = files
        self._works: dict[str, _EditedFile] = {}

    def of(self, uri: str) -> _EditedFile:
        """Return the edited file of a URI."""
        if uri not in self._works:
            self._works[uri] = _EditedFile(self._files.series.read(uri))
        return self._works[uri]

    def changes(self, text: Remembering) -> Sequence[Rewritten]:
        """Return the edited files in the form that the store writes."""
        return [
            Rewritten(work.prepared(Draft(uri, title=text.title, time=text.time)))
            for uri, work in self._works.items()
        ]


class _EditedFile:
    """A memory file that is edited several times.

    The entries that stay keep their counters and times.
    """

    def __init__(self, file: MemoryFile | None) -> None:
        self._file = file
        self._content = file.content if file else ""
        self._stored = [one for one in file.entries if one.ordinal] if file else []

    def replace(self, older: StoredEntry, text: str, entry: Entry) -> None:
        """Replace the text of an entry.

        Raises:
            InvalidField: the text cannot be an entry there.
        """
        self._stored = [one for one in self._stored if one.entry.id != older.entry.id]
        self._take(entries.replaced(self._content, older.start, older.end, text), entry)

    def add(self, text: str, section: str, title: str, entry: Entry) -> None:
        """Add an entry below a heading.

        Raises:
            InvalidField: the text cannot be an entry there.
        """
        self._take(entries.added(self._content, text, section, title), entry)

    def remove(self, older: StoredEntry) -> None:
        """Remove an entry."""
        gone = next(one for one in self._stored if one.entry.id == older.entry.id)
        self._stored = [one for one in self._stored if one is not gone]
        self._content, edits = entries.removed(self._content, [(gone.start, gone.end)])
        starts = entries.moved([one.start for one in self._stored], edits)
        self._stored = [one.moved(start) for one, start in zip(self._stored, starts, strict=True)]

    def end(self, older: StoredEntry, text: str, title: str) -> None:
        """Move an entry below "Earlier" and give it another text.

        Raises:
            InvalidField: the text cannot be an entry there; nothing is changed.
        """
        before = self._content, list(self._stored)
        try:
            entries.replaced(self._content, *self._span(older), text)  # Prose of a person stays.
            self.remove(older)
            self.add(text, EARLIER, title, older.entry)
        except InvalidField:
            self._content, self._stored = before
            raise

    def _span(self, one: StoredEntry) -> tuple[int, int]:
        here = next(other for other in self._stored if other.entry.id == one.entry.id)
        return here.start, here.end

    def prepared(self, made: Draft) -> Prepared:
        """Return the file in the form that the store writes; `made` is the draft of a new file.

        Raises:
            InvalidField: the file would be too large.
        """
        if len(self._content.encode()) > MAX_CONTENT_BYTES:
            raise InvalidField(
                "text", f"has no place: the file would have more than {MAX_CONTENT_BYTES:,} bytes"
            )
        cut, kept = laid_out(self._stored)
        file = self._file
        draft = draft_of(file, self._content) if file else replace(made, content=self._content)
        return replace(prepare(replace(draft, passages=cut)), entries=kept)

    def _take(self, written: Written, entry: Entry) -> None:
        grown = len(written.content) - len(self._content)
        moved = [replace(written.stored(entry), ordinal=1)]
        for one in self._stored:
            for start in (one.start, one.start + grown):
                end = start + len(one.passage)
                if (end <= written.start or start >= written.end) and (
                    written.content[start:end] == one.passage
                ):
                    moved.append(one.moved(start))
                    break
            else:
                raise InvalidField("text", "has no place: the entries of the file overlap")
        self._content, self._stored = written.content, sorted(moved, key=lambda one: one.start)
