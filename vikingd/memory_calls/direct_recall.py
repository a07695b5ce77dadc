"""Recall without a search: known files and days of the journal that a query names.

In the default form a query must ask for the file or the days as a whole. In the strict form a
trigger word alone decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from time import perf_counter
from typing import NamedTuple
from zoneinfo import ZoneInfo

from vikingd.context.text_cuts import cut
from vikingd.context.tokenizers import open_tokenizer
from vikingd.domain import cancellation
from vikingd.domain.answers import MESSAGE_BYTES, NAMED, NO_CONFIDENCE, ReplyBudget, Stage, size_of
from vikingd.domain.contexts import Entry
from vikingd.domain.prompt_options import RecallPath
from vikingd.domain.rights import Right
from vikingd.domain.search_query import SESSION_ID
from vikingd.engine import Engine
from vikingd.ingest.limits import MIN_TIME
from vikingd.memory.known_file_routes import Routes, candidates
from vikingd.memory.memory_types import Memory, RecallQuery, RecallResult
from vikingd.memory.named_days import Days, days_of
from vikingd.memory.numbered_files import number_of

# Matches ".../journal/2026-05-03.md", and ".../journal/2026-05-03/session-ID/2.md" of a session.
_JOURNAL = re.compile(
    rf"(.*/journal/([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(/session-{SESSION_ID.pattern})?)(?:/[0-9]+)?\.md",
    re.DOTALL,
)
_HEADING = re.compile(r"#{1,6}(?:[ \t].*)?")


_Read = tuple[list[Memory], str]
"""(memories read without a search, the reason); [] if none of them fits into the budget."""


class Dated(NamedTuple):
    """The days that a query such as "lunch on 3 May" names, and the journal files of these days.

    A search uses them to rank memories of these days higher.
    """

    days: Days
    files: Sequence[str]


class Direct(NamedTuple):
    """The answer of the fast path or of the timeline; both read known files without a search.

    `path` names the path that answered; None if neither did. `reason` explains the choice.
    """

    path: RecallPath | None
    memories: Sequence[Memory]
    reason: str
    stages: tuple[Stage, ...] = ()
    dated: Dated | None = None


NOTHING_READ = Direct(None, (), "")


class DirectRecall:
    """A recall of the known file or the days that a query asks for.

    Replies have about `most_bytes`.
    """

    def __init__(self, engine: Engine, query: RecallQuery, routes: Routes, most_bytes: int) -> None:
        self._engine = engine
        self._query = query
        self._most_bytes = most_bytes
        text, strict = query.text, bool(query.paths)
        self._matched = routes.match(text) if query.tries(RecallPath.FAST) else None
        if self._matched and not (strict or routes.asks_for_file(text)):
            self._matched = None
        named = days_of(text, _local(query))
        self._preferred = None if strict or named is None or named.vague else named
        self._days = named if query.tries(RecallPath.TIMELINE) else None
        if self._days and not (strict or self._days.only):
            self._days = None

    @property
    def is_light(self) -> bool:
        """True if the query asks for no file and no day, so that nothing is read."""
        return self._matched is None and self._days is None and self._preferred is None

    def answer(self) -> Direct:
        """Return the answer of the first path that has one, else the reasons why none has.

        The fast path reads a known file, such as the profile, by a word that names it. The timeline
        reads days of the journal by a phrase of time.
        """
        started, query = perf_counter(), self._query
        dated = None
        if (days := self._preferred) is not None and query.tries(RecallPath.HYBRID):
            dated = Dated(days, self._journal(days))
        looks = {RecallPath.FAST: self._fast, RecallPath.TIMELINE: self._timeline}
        reasons = []
        for path in query.paths or looks:
            if path is RecallPath.HYBRID:
                break
            found = looks[path]() if query.tries(path) else "switched off"
            if not isinstance(found, str):
                stage = Stage("read", started, perf_counter())
                return Direct(path, *found, (stage,), dated)
            if found:
                reasons.append(f"{path.name.lower()}: {found}")
        if not query.tries(RecallPath.HYBRID):
            reasons.append("hybrid: switched off")
        elif dated and self._days is None:
            reasons.append(f"{dated.days}, whose memories come first among equals")
        return Direct(None, (), "; ".join(reasons), (), dated)

    def _fast(self) -> _Read | str:
        if self._matched is None:
            return ""
        (route, trigger), query = self._matched, self._query
        for uri in candidates(route, query.scope):
            files = self._series(uri)
            memories, truncated = self._within(files)
            if not files:
                continue
            reason = f"{trigger!r} names {uri}"
            if not memories:
                return [], f"{reason}, of which nothing fits into {query.max_tokens} tokens"
            return memories, reason + (", cut to the budget" if truncated else "")
        return f"{trigger!r} names {route.name}, and there is no such file in the scope"

    def _series(self, first: str) -> list[str]:
        """Return the files of a series that the caller may read, by number."""
        may = self._query.scope.caller.may
        files = self._engine.store.series_files(first)
        return [uri for uri in files if may(Right.READ, uri)]

    def _within(self, files: Sequence[str]) -> tuple[list[Memory], bool]:
        """Return (the first files that fit into the budget, True if some or a part is left out)."""
        left, budget, memories = (
            self._query.max_tokens,
            ReplyBudget(self._most_bytes),
            list[Memory](),
        )
        for uri in files:
            cancellation.check()
            memory = self._whole(uri, left)
            if memory is None:  # gone since the listing
                continue
            if memories and not budget.take(MESSAGE_BYTES + size_of(memory.content)):
                return memories, True
            if memory.content:
                memories.append(memory)
                left -= memory.token_count
            if memory.truncated:
                return memories, True
        return memories, False

    def _timeline(self) -> _Read | str:
        days, query = self._days, self._query
        if days is None:
            return ""
        files = self._journal(days)
        spoken = str(days)
        if not files:
            return f"{spoken}, and there is no journal of that time in the scope"
        memories: list[Memory] = []
        left, passed, budget = query.max_tokens, 0, ReplyBudget(self._most_bytes)
        for uri in files:
            cancellation.check()
            memory = self._whole(uri, left)
            if memory is None:  # gone since the listing
                continue
            if not budget.take(MESSAGE_BYTES + size_of(memory.content)):
                left_out = len(files) - len(memories)
                return memories, (
                    f"{spoken}; {left_out} of {len(files)} files left out: the reply has no room "
                    "for more, see limits.max_reply_bytes"
                )
            if query.skip_oversize and memory.truncated:
                passed += 1
                continue
            if memory.content:
                memories.append(memory)
                left -= memory.token_count
            if memory.truncated:
                passed = len(files) - len(memories)
                break
        end = f"; {passed} of {len(files)} files left out for the budget" if passed else ""
        return memories, spoken + end

    def _journal(self, days: Days) -> list[str]:
        """Return the journal files of some days, newest day first, then in the order of the scope.

        For each day its own files come first, then those of its sessions by their times.
        """
        store, caller, found = self._engine.store, self._query.scope.caller, list[str]()
        for root in self._query.scope.roots():
            there = {
                uri: time
                for first, last in days.spans
                for uri, time in store.files_between(
                    f"{root}/journal/{first}.md",
                    f"{root}/journal/{last}0",  # "0" follows "/"
                )
                if _day_of(uri) and caller.may(Right.READ, uri)
            }

            def place(uri: str, times: Mapping[str, int] = there) -> tuple[int, int, str]:
                return times[uri] if _is_session(uri) else MIN_TIME, _number_of(uri), uri

            found.extend(sorted(there, key=place))
        return sorted(found, key=lambda uri: _day_of(uri) or date.min, reverse=True)

    def _whole(self, uri: str, budget: int) -> Memory | None:
        """Return a file as a memory, cut to a budget of tokens.

        None if it is missing or not readable.
        """
        if not self._query.scope.caller.may(Right.READ, uri):
            return None
        file = self._engine.store.memory_file(uri)
        if file is None:
            return None
        tokenizer = open_tokenizer(self._query.tokenizer)
        content = file.content or file.abstract
        used = tokenizer.count(content)
        truncated = used > budget
        if truncated:

            def fits(text: str, mark: str) -> bool:
                cancellation.check()
                return tokenizer.count(text + mark) <= budget

            kept, mark = cut(content, fits)
            kept = _without_headings_at_end(kept)
            content = kept + mark if kept.strip() else ""
            used = tokenizer.count(content)
        reinforcement = sum(stored.entry.reinforcement for stored in file.entries)
        accesses = sum(stored.entry.access_count for stored in file.entries)
        entry = Entry(0, reinforcement, accesses, file.time)
        return Memory(uri, content, 1.0, used, entry, truncated=truncated)


def query_after(query: RecallQuery, read: Direct) -> RecallQuery | None:
    """Return the query for the search after a direct answer; None if no search is needed.

    The query has the tokens and the number of memories that the direct answer leaves.
    """
    if not query.tries(RecallPath.HYBRID):
        return None
    if read.path is None:
        return query
    tokens = query.max_tokens - sum(memory.token_count for memory in read.memories)
    places = query.top_k - len(read.memories)
    is_full = tokens <= 0 or places <= 0 or any(memory.truncated for memory in read.memories)
    return None if query.paths or is_full else replace(query, max_tokens=tokens, top_k=places)


def result_of_direct(engine: Engine, query: RecallQuery, read: Direct) -> RecallResult:
    """Return a direct answer as the result of a recall; nothing is searched."""
    return RecallResult(
        tuple(read.memories),
        read.path,
        read.reason,
        query.max_tokens,
        open_tokenizer(query.tokenizer).approximate,
        engine.snapshot.revision,
        0,
        read.stages,
        NAMED if read.memories else NO_CONFIDENCE,
    )


def _without_headings_at_end(text: str) -> str:
    """Return a text without headings that have nothing below them."""
    lines = text.split("\n")
    while lines and (not lines[-1].strip() or _HEADING.fullmatch(lines[-1])):
        lines.pop()
    return "\n".join(lines).rstrip()


def _day_of(uri: str) -> date | None:
    """Return the day of a journal file by its URI; None for any other file."""
    named = _JOURNAL.fullmatch(uri)
    try:
        return date.fromisoformat(named[2]) if named and _number_of(uri) else None
    except ValueError:
        return None


def _is_session(uri: str) -> bool:
    """Return True for a journal file with the turns of a session."""
    named = _JOURNAL.fullmatch(uri)
    return named is not None and named[3] is not None


def _number_of(uri: str) -> int:
    """Return the number of a journal file in its series; 0 for any other file."""
    named = _JOURNAL.fullmatch(uri)
    return number_of(f"{named[1]}.md", uri) if named else 0


def _local(query: RecallQuery) -> datetime:
    seconds = query.now // 1_000_000
    return datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(query.time_zone))
