"""Episodes: conversations turn by turn, in one file for each session and day.

A turn of the user or the assistant is an entry of `journal/DAY/session-NAME.md`, or several ones if
it is long. Turns are not compared by meaning: a turn that the file has already, with its speaker,
time and text, is not written again. All others are appended in one rewrite.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft, Entry, Prepared
from vikingd.domain.rights import Caller, Right
from vikingd.domain.search_query import SearchSession, id_of
from vikingd.domain.spoken_text import QUOTED, SAID, SPEAKERS, beginning
from vikingd.domain.text import approximate_tokens, without_invisible
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.passages import MAX_TOKENS, TokenCount, split
from vikingd.memory import entries
from vikingd.memory.contradicted_memories import FileChanged
from vikingd.memory.memory_file_changes import draft_of
from vikingd.memory.memory_file_series import Key, Known, Series, is_full
from vikingd.memory.memory_types import MemoryFile, Rewritten, is_earlier, laid_out
from vikingd.memory.numbered_files import MOST_CHARACTERS, MOST_ENTRIES, file_of, number_of
from vikingd.memory.said_dates import with_dates
from vikingd.memory.statements import MAX_READ
from vikingd.memory.unquoted_text import Part, is_private, parts

_ROOM = MAX_TOKENS - 24  # tokens of an entry's lines, besides its beginning
_BREAKS = (re.compile(r"[.!?] |[。！？]"), re.compile(r"[ ,，、；]"))  # ends of pieces, best first
_QUOTES = ("“”", "「」", "『』", "«»", '""', "‘’", "''")
_BLANK_LINES = re.compile(r"\n\s*\n")


class Turn(NamedTuple):
    """A turn: the index of its message, its time in microseconds, its day, and its entries."""

    message: int
    time: int
    day: str
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Episode:
    """The turns of a conversation that may be kept, and the reasons for leaving others out."""

    name: str
    turns: tuple[Turn, ...] = ()
    left_out: tuple[str, ...] = ()

    def days(self) -> Iterator[tuple[str, list[Turn]]]:
        """Yield the days in the order of their first turns, each with its turns."""
        for day in dict.fromkeys(turn.day for turn in self.turns):
            yield day, [turn for turn in self.turns if turn.day == day]


def read(session: SearchSession, first: int, time: int, zone: str) -> Episode:
    """Return the turns of messages[first:]; a message without a time was said at `time`.

    A private message of the user and the replies to it are left out, and so are the messages of
    the system and of tools.
    """
    turns, others, private, replies, hidden = list[Turn](), 0, 0, 0, False
    for i, message in enumerate(session.messages):
        cancellation.check()
        if message.role == "user":
            hidden = is_private(message.content)
        if i < first:
            continue
        if message.role not in SPEAKERS:
            others += 1
        elif hidden:
            private += message.role == "user"
            replies += message.role != "user"
        else:
            at = time if message.time is None else message.time
            local = datetime.fromtimestamp(at // 1_000_000, UTC).astimezone(ZoneInfo(zone))
            texts = _texts(message.role, message.content[:MAX_READ], local)
            turns.append(Turn(i, at, local.date().isoformat(), texts))
    left_out = {"of system and tools": others, "private": private, "replies to these": replies}
    reasons = tuple(f"{count} {of}" for of, count in left_out.items() if count)
    name = session.id or (id_of(session.messages[0]) if session.messages else "")
    return Episode(name, tuple(turn for turn in turns if turn.texts), reasons)


def file_beside(journal: str, name: str) -> str:
    """Return the URI of the first file for a session's turns of a day.

    `journal` is the URI of the journal of that day.
    """
    return f"{journal.removesuffix('.md')}/session-{name}.md"


def is_turn(uri: str) -> bool:
    """Return True for the URI of a file of a session's turns."""
    return "/session-" in uri.rpartition("/journal/")[2]


class Recording:
    """Appends turns to a series of files, except those that the files have already.

    `uri` is the first file, and `title` that of a new one.

    Attributes:
        written: (index of the message, id of the memory) of each new entry, set by the call.
        skipped: the reason why the last turns cannot be written; "": all can.
    """

    def __init__(
        self, uri: str, title: str, turns: Sequence[Turn], now: int, caller: Caller
    ) -> None:
        self.uri, self.title = uri, title
        self.written: list[tuple[int, int]] = []
        self.skipped = ""
        self._turns, self._now, self._caller = turns, now, caller
        self._seen: tuple[tuple[str, Key], ...] = ()
        self._made: list[_Made] = []

    def compare(self, series: Series, known: Mapping[Key, Known]) -> None:
        """Prepare the files with the new turns; `known` has all files of the series."""
        self._seen, self._made, self.skipped = series.files, [], ""
        files = [known[key].file for _, key in series.files if key in known]
        stands = Counter(
            (one.entry.time, entries.said(one.passage)) for file in files for one in file.entries
        )
        lines = list[_Line]()
        for turn in self._turns:
            for text in turn.texts:
                line = _Line(turn.message, turn.time, text)
                key = line.time, entries.said(text)
                if stands[key]:
                    stands[key] -= 1
                else:
                    lines.append(line)
        number = number_of(self.uri, series.files[-1][0]) if series.files else 0
        last = files[-1] if files and not is_full(files[-1]) else None
        while lines:
            cancellation.check()
            number += last is None
            uri = file_of(self.uri, number)
            if not self._caller.may(Right.WRITE, uri):
                self.skipped = f"{len(lines)} parts have no place: the caller may not write {uri}"
                return
            made = _made(uri, self.title, last, lines)
            if made is not None:
                self._made.append(made)
                del lines[: len(made.lines)]
            elif last is None:
                raise ValueError(f"{uri}: the turns cannot be read as they were written")
            last = None  # it is full, or takes no entry at its end

    def __call__(self, series: Series, new_id: Callable[[], int]) -> Sequence[Rewritten]:
        """Return the changes of the series.

        Raises:
            FileChanged: the series is no longer the one that `compare` saw.
        """
        if series.files != self._seen:
            raise FileChanged
        self.written, changes = [], list[Rewritten]()
        for made in self._made:
            given = {}
            for ordinal, line in enumerate(made.lines, start=made.first):
                given[ordinal] = Entry(new_id(), time=line.time, created_at=self._now)
                self.written.append((line.message, given[ordinal].id))
            changes.append(Rewritten(replace(made.prepared, entries=given)))
        return changes


class _Line(NamedTuple):
    """A new entry, with the index and the time of its message."""

    message: int
    time: int
    text: str


class _Made(NamedTuple):
    """A file with new entries; `first` is the ordinal of the first new passage."""

    prepared: Prepared
    first: int
    lines: Sequence[_Line]


def _made(uri: str, title: str, file: MemoryFile | None, lines: Sequence[_Line]) -> _Made | None:
    """Return a file with as many of the lines as fit appended as entries after its last one.

    None if they would not be entries there: below "Earlier", or in a code block that is open.
    """
    stored = file.entries if file else ()
    if any(not one.ordinal for one in stored):  # its only text is its abstract
        return None
    content = file.content if file else f"# {title}\n\n"
    items = [content if content.endswith("\n") else f"{content}\n"]
    at, places = len(items[0]), list[tuple[int, int]]()
    for line in lines[: MOST_ENTRIES - len(stored)]:
        if at >= MOST_CHARACTERS:
            break
        items.append("- {}\n".format(line.text.replace("\n", "\n  ")))
        places.append((at + 2, at + len(items[-1]) - 1))
        at += len(items[-1])
    content = "".join(items)
    new = split(content, uris.name(uri), entries=True)[-len(places) :]
    if [(one.start, one.end) for one in new] != places or any(
        one.continues or is_earlier(one.section) for one in new
    ):
        return None
    before, _ = laid_out(stored)
    if file is not None:
        draft = draft_of(file, content)
    else:
        abstract, time = f"A conversation of {title}.", lines[0].time
        draft = Draft(uri, abstract=abstract, content=content, title=title, time=time)
    prepared = prepare(replace(draft, passages=[*before, *new]))
    return _Made(prepared, len(before) + 1, lines[: len(places)])


def _texts(role: str, content: str, local: datetime) -> list[str]:
    """Return the entries of a turn: the speaker, then its lines with their quotation marks `>`.

    Phrases of time in the user's own words are followed by their dates.
    """
    said = [Part(without_invisible(content), True)]
    if role == "user":
        said = [
            part._replace(text=with_dates(part.text, local)) if part.is_own else part
            for part in parts(content)
        ]
    pieces = list(_pieces(list(_lines(said))))
    texts = []
    for number, piece in enumerate(pieces, start=1):
        text = beginning(role, f"{local:%H:%M}", number, len(pieces))
        for i, (mark, line) in enumerate(piece):
            text += f" {line}" if not i and mark == SAID else f"\n{mark} {line}".rstrip()
        texts.append(text)
    return texts


def _lines(said: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """Yield (mark, line) of a turn, where the mark is `>` or `>>`.

    Blank ones only between others.
    """
    own = before = ""
    for part in said:
        # A quotation within a line has its own marks.
        if part.is_own or _is_quotation(part.text):
            own += part.text
        else:
            begins_line = not before or before.endswith("\n")
            yield from _marked(SAID, own.strip())
            yield from _marked(QUOTED, part.text.strip("\n" if begins_line else None))
            own = ""
        before = part.text
    yield from _marked(SAID, own.strip())


def _is_quotation(text: str) -> bool:
    return len(text) > 1 and text[0] + text[-1] in _QUOTES and "\n" not in text


def _marked(mark: str, text: str) -> Iterator[tuple[str, str]]:
    for line in _BLANK_LINES.sub("\n\n", text).split("\n") if text.strip() else ():
        yield mark, line.rstrip()


def _pieces(lines: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Group the lines so that each group is one passage; a line that is too long is cut."""
    piece, used = list[tuple[str, str]](), 0
    for mark, whole in lines:
        for line in _cut(whole):
            cost = approximate_tokens(f"  {mark} {line}\n")
            if piece and used + cost > _ROOM:
                yield piece
                piece, used = [], 0
            piece.append((mark, line))
            used += cost
    if piece:
        yield piece


def _cut(line: str) -> Iterator[str]:
    """Yield a line in parts of at most _ROOM tokens, cut after a sentence or a word if possible."""
    tokens, start, most = TokenCount(line), 0, _ROOM - 2  # without mark and indentation
    while tokens.count(start, len(line)) > most:
        end = tokens.reach(start, len(line), most)
        for pattern in _BREAKS:
            if ends := [found.end() for found in pattern.finditer(line, (start + end) // 2, end)]:
                end = ends[-1]
                break
        yield line[start:end].strip()
        start = end
    yield line[start:].rstrip() if start == 0 else line[start:].strip()
