"""Changes of memory files by Remember and Forget, decided in the write transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from vikingd.domain import uri as uris
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.contexts import MAX_COUNTER, Draft, Entry, Passage, Prepared
from vikingd.domain.errors import InvalidField
from vikingd.domain.pinned_text import is_pinned, with_pin, without_pin
from vikingd.domain.rights import LOCAL, Caller, Right
from vikingd.ingest.abstracts import is_derived
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.file_syntax import Syntax, syntax_of
from vikingd.ingest.limits import MAX_CONTENT_BYTES
from vikingd.ingest.passages import MEANING
from vikingd.memory import entries
from vikingd.memory.entries import Written
from vikingd.memory.memory_file_series import Compared, Key, Known, Series, is_full, is_large
from vikingd.memory.memory_types import (
    EARLIER,
    MemoryFile,
    Remembered,
    Rewritten,
    StoredEntry,
    laid_out,
)
from vikingd.memory.numbered_files import MOST_CHARACTERS, MOST_ENTRIES, file_of, number_of
from vikingd.memory.protected_memories import spared


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of remembering.

    `met` is the wording of the entry that was reinforced or replaced; "" for none.
    """

    did: Remembered
    entry: Entry
    met: str = ""
    degraded: Degraded = ()  # why a text stays as it was
    uri: str = ""  # of the file that holds the entry


_Written = tuple[Prepared, int]
"""A file with the text in it, and the ordinal of the text's first passage."""

_Place = tuple[str, MemoryFile | None, StoredEntry | None, str]
"""The place of a text: URI and content of a file, the entry to replace, the text with its pin."""


@dataclass(frozen=True, slots=True)
class Near:
    """An entry that a text repeats: the URI of its file, the entry, and its wording."""

    uri: str
    stored: StoredEntry
    said: str


class Remembering:
    """Writes a text into a series of memory files, or reinforces the entry that it repeats.

    A new entry goes to the last file, or to the next one if that is full. Files that the caller may
    not write are left out. An entry below the heading "Earlier" was replaced, so a present text
    does not repeat it. The text is clean and checked, see `entries`. `pinned` pins it or not; with
    None a text with the mark is pinned, and an entry that is repeated stays as it is. With `exact`
    only equal wordings are repeats. `uri` is the first file, and `title` that of a new series. The
    text was said at `time` and is written `now`, both in microseconds.

    Attributes:
        outcome: set by the committed call. None means that nothing was written, because another
            writer took the next file of a large text: prepare and try again.
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
        pinned: bool | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self.uri, self.title, self.section = uri, title, section
        self.text = without_pin(text)
        self.pinned = True if pinned is None and is_pinned(text) else pinned
        self.time, self.now = time, now
        self.outcome: Outcome | None = None
        self._caller, self._exact = caller, exact
        self._known: Mapping[Key, Known] = {}  # of committed files
        # The last arguments of `_written` and its result.
        self._last: tuple[_Place, _Written] | None = None

    def prepare(self, series: Series, known: Mapping[Key, Known]) -> None:
        """Compare the text and make its file, so that little is left to do in the transaction.

        `known` has files of the series that need not be read there.
        """
        self._known = known
        files = self._compared(series)
        if self._repeated(files) is None:
            self._written(*self._place(files), None, self._with_pin_mark())

    def __call__(self, series: Series, new_id: Callable[[], int]) -> Sequence[Rewritten]:
        """Return the changes of the series as it is now."""
        return self._remembered(self._compared(series), new_id)

    def _compared(self, series: Series) -> Compared:
        """Return the files of the series that the caller may write, ready for comparisons."""
        files = tuple(f for f in series.files if self._caller.may(Right.WRITE, f[0]))
        return Compared.of(series, files, self._known)

    def _remembered(self, files: Compared, new_id: Callable[[], int]) -> Sequence[Rewritten]:
        met = self._repeated(files)
        if met is not None:
            return [self._reinforced(files, met)]
        uri, file = self._place(files)
        marked = self._with_pin_mark()
        if self._is_large and (self._last is None or self._last[0] != (uri, file, None, marked)):
            return []  # The file is made again before the next try.
        entry = Entry(new_id(), time=self.time, created_at=self.now)
        self.outcome = Outcome(Remembered.ADDED, entry, uri=uri)
        written = self._written(uri, file, None, marked)
        return [Rewritten(self._with_entry(written, entry))]

    def _place(self, files: Compared) -> tuple[str, MemoryFile | None]:
        """Return the URI and the content of the file for a new entry; None for a file that is new.

        Raises:
            InvalidField: the caller may not write the next file.
        """
        last = files.last
        if last is not None and not is_full(last) and not self._is_large:
            return last.uri, last
        uri = files.series.next_uri
        if last is not None:
            self.title = last.title
        if not self._caller.may(Right.WRITE, uri):
            visible = number_of(self.uri, last.uri) if last else 0
            raise InvalidField(
                "text",
                "has no place: the file is full and goes on in "
                f"{file_of(self.uri, visible + 1)}, which the key may not write: give it the right",
            )
        return uri, None

    def _reinforced(self, files: Compared, near: Near) -> Rewritten:
        """Return the change that reinforces an entry, with the newer wording and the pin mark."""
        file, met = files.fresh(near.uri, near.stored)
        old = met.entry
        said_before = self.time if old.time is None else old.time
        count = min(old.reinforcement + 1, MAX_COUNTER)
        entry = replace(old, reinforcement=count, time=max(said_before, self.time))
        self.outcome = Outcome(Remembered.REINFORCED, entry, near.said, uri=near.uri)
        stands = entries.clean(met.passage)
        text = self._with_pin_mark(near.said if self.time < said_before else self.text, stands)
        if stands == text:
            return Rewritten(counters=(entry,))
        why = "it is no list item"
        if is_large(file):  # Other writes would wait for a change of its content.
            why = f"the file has more than {2 * MOST_ENTRIES} entries or is very long"
        else:
            with suppress(InvalidField):
                written = self._written(near.uri, file, met, text)
                return Rewritten(self._with_entry(written, entry))
        stays = "the older wording" if is_pinned(text) == is_pinned(stands) else "the pin as it was"
        detail = f"{stays} stays in the file, since {why}"
        kept = Degradation(DegradationReason.WORDING_KEPT, detail)
        self.outcome = replace(self.outcome, degraded=(kept,))
        return Rewritten(counters=(entry,))

    def _repeated(self, files: Compared) -> Near | None:
        """Return the entry that the text repeats; None if it repeats none."""
        found = files.repeated(self.text, earlier=self._is_earlier, exact=self._exact)
        if found is None:
            return None
        uri, one = found
        return Near(uri, one, entries.said(one.passage))

    def _with_pin_mark(self, text: str = "", instead_of: str = "") -> str:
        """Return a text with a pin mark if the request says so.

        By default if the replaced text had it.
        """
        pinned = is_pinned(instead_of) if self.pinned is None else self.pinned
        return with_pin(text or self.text, pinned)

    @property
    def _is_large(self) -> bool:
        """True for a text as long as a full file, which is never made within the transaction."""
        return len(self.text) > MOST_CHARACTERS

    @property
    def _is_earlier(self) -> bool:
        return self.section == EARLIER

    def _written(
        self, uri: str, file: MemoryFile | None, instead_of: StoredEntry | None, marked: str
    ) -> _Written:
        """Return the file with a text as a new entry, or in place of the entry `instead_of`.

        All other passages stay as they are, so that each memory keeps its entry: its id, counters
        and times.

        Args:
            uri: the URI of the file.
            file: the file as it is stored; None for a new file.
            instead_of: the entry whose text is replaced; None adds an entry.
            marked: the text, with the pin mark if the memory is pinned.

        Raises:
            InvalidField: the text does not fit into the file.
        """
        key = (uri, file, instead_of, marked)
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
            written = entries.added(content, marked, self.section, self.title)
        else:
            others.remove(instead_of)
            written = entries.replaced(content, instead_of.start, instead_of.end, marked)
        if len(written.content.encode()) > MAX_CONTENT_BYTES:
            raise InvalidField(
                "text", f"has no place: the file would have more than {MAX_CONTENT_BYTES:,} bytes"
            )
        cut, kept = _cut(others, len(content), written)
        draft = (
            replace(draft_of(file, written.content), passages=cut)
            if file
            else Draft(uri, content=written.content, title=self.title, time=self.time)
        )
        prepared = replace(prepare(draft), entries=kept)
        ordinal = next(t.ordinal for t in prepared.texts if t.ordinal and t.start == written.start)
        self._last = key, (prepared, ordinal)
        return self._last[1]

    def _listed(self, content: str, abstract: StoredEntry) -> tuple[str, StoredEntry]:
        """Add the abstract of a file without content as an entry.

        Return the content and the entry.
        """
        try:
            text = entries.check_text(abstract.passage)
        except InvalidField:
            raise InvalidField(
                "text",
                "has no place: the file has only an abstract, which is too long for an entry; put "
                "it as the content first",
            ) from None
        written = entries.added(content, text, "", self.title)
        return written.content, replace(
            written.stored(abstract.entry), uri=abstract.uri, ordinal=0, vector=abstract.vector
        )

    def _with_entry(self, written: _Written, entry: Entry) -> Prepared:
        """Return the written file with `entry` as the id, counters and times of the text."""
        prepared, ordinal = written
        return replace(prepared, entries={**prepared.entries, ordinal: entry})


def _cut(
    stored: Sequence[StoredEntry], length: int, written: Written
) -> tuple[list[Passage], dict[int, Entry]]:
    """Return the passages of a changed content, and entries that get a new passage, by its ordinal.

    An entry gets a new passage if its text was the abstract of the file, or is cut differently now;
    then the first part of its text becomes its passage. `stored` has the entries that stay, and
    `length` is that of the content before the change.
    """
    grown = len(written.content) - length
    found: list[tuple[Passage, Entry | None]] = [(passage, None) for passage in written.passages]
    for one in stored:
        for at in (one.start, one.start + grown):
            end = at + one.end - one.start
            apart = end <= written.start or at >= written.end
            if apart and written.content[at:end] == one.passage:
                pieces = one.moved(at).passages()
                state = None if one.ordinal else one.entry
                break
        else:
            pieces = [
                p
                for p in written.cut
                if p not in written.passages and one.start <= p.start and p.end <= one.end + grown
            ]
            state = one.entry
        found += zip(pieces, [state, *[None] * len(pieces)], strict=False)
    found.sort(key=lambda one: one[0].start)
    kept = {i: entry for i, (_, entry) in enumerate(found, start=1) if entry is not None}
    return [passage for passage, _ in found], kept


class Forgetting:
    """Removes entries from memory files; a file without any text left is removed.

    Args:
        wanted: the entries to remove by id.
        unchanged: keep an entry that is spared, or that has been reinforced since `wanted` was
            read.
        spares: returns the reason why an unchanged entry is spared, "" for none.

    Attributes:
        gone: ids of the removed entries, set by the committed call.
    """

    def __init__(
        self,
        wanted: Mapping[int, Entry],
        *,
        unchanged: bool,
        spares: Callable[[StoredEntry], str] = spared,
    ) -> None:
        self._wanted = wanted
        self._spares = spares
        self._unchanged = unchanged
        self.gone: set[int] = set()

    def __call__(self, series: Series, _: Callable[[], int]) -> Sequence[Rewritten]:
        """Return the change of the first file of a series as it is now."""
        return [self._forgotten(series.read(series.uri))]

    def _forgotten(self, file: MemoryFile | None) -> Rewritten:
        stored = file.entries if file else ()
        gone = [one for one in stored if self._goes(one)]
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
        left = [one.moved(start) for one, start in zip(left, at, strict=True)]
        # Each passage keeps its entry, also among equal texts. Overlapping passages are cut again.
        if any(content[one.start : one.end] != one.passage for one in left):
            return Rewritten(prepare(draft_of(file, content)))
        cut, kept = laid_out(left)
        prepared = prepare(replace(draft_of(file, content), passages=cut or None))
        return Rewritten(replace(prepared, entries=kept))

    def _goes(self, one: StoredEntry) -> bool:
        wanted = self._wanted.get(one.entry.id)
        if wanted is None or not self._unchanged:
            return wanted is not None
        said = (one.entry.reinforcement, one.entry.time)
        return said == (wanted.reinforcement, wanted.time) and not self._spares(one)


def _says_nothing(uri: str, content: str) -> bool:
    if syntax_of(uris.name(uri)) is Syntax.MARKDOWN:
        return entries.is_bare(content)
    return not MEANING.search(content)


def draft_of(file: MemoryFile, content: str) -> Draft:
    """Return a draft of the file with another content.

    An abstract that was derived is derived again.
    """
    name = uris.name(file.uri)
    return Draft(
        file.uri,
        abstract="" if is_derived(file.abstract, file.content, name) else file.abstract,
        overview=file.overview,
        content=content,
        title=file.title,
        metadata=file.metadata,
    )
