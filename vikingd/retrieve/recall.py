"""Recall: known files first, then the journal, then a search ranked by salience; to a budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from time import perf_counter
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from viking_kernels import salience as kernel
from viking_kernels.arrays import F32, F64, I32, I64, NEVER
from viking_kernels.fusion import rrf

from vikingd.context.cut import cut
from vikingd.context.tokenizers import Tokenizer, open_tokenizer
from vikingd.engine import Engine
from vikingd.memory import entries
from vikingd.memory.model import (
    Memory,
    RecallQuery,
    RecallResult,
    Salience,
    SalienceParts,
)
from vikingd.memory.routes import Days, Routes, candidates, days_of
from vikingd.model import Entry, Stage
from vikingd.query import RecallPath, RetrieveQuery, Rrf
from vikingd.retrieve.strategies import Ranked, Strategy

_SIDES = 2  # times top_k: what each side of a search looks at
_ATTEMPTS = 5  # to read index and store at one revision
_PATIENCE = 1.0  # seconds for the index to follow the store
_JOURNAL = re.compile(r".*/journal/([0-9]{4}-[0-9]{2}-[0-9]{2})\.md", re.DOTALL)
_HEADINGS_AT_END = re.compile(r"(?:\s*^#{1,6}(?:[ \t][^\n]*)?$)+\s*\Z", re.MULTILINE)


class _Read(NamedTuple):
    """What was read without a search, and why; the files may have been too long."""

    memories: list[Memory]
    reason: str


def read_known(engine: Engine, query: RecallQuery, routes: Routes) -> RecallResult | str:
    """The answer of the fast path or the timeline; else why neither has one.

    It reads the store, so it belongs on a thread.
    """
    started = perf_counter()
    tokenizer = open_tokenizer(query.tokenizer)
    revision = engine.snapshot.revision
    reasons = []
    for path, look in _PATHS.items():
        found = "switched off" if path in query.without else look(engine, query, routes, tokenizer)
        if isinstance(found, _Read):
            return RecallResult(
                tuple(found.memories), path, found.reason, query.max_tokens,
                tokenizer.approximate, revision, 0, (Stage("read", started, perf_counter()),),
            )  # fmt: skip
        if found:
            reasons.append(f"{path.name.lower()}: {found}")
    return "; ".join(reasons)


def _fast(engine: Engine, query: RecallQuery, routes: Routes, tokenizer: Tokenizer) -> _Read | str:
    matched = routes.match(query.text)
    if matched is None:
        return ""
    route, trigger = matched
    places = candidates(
        route, with_global=query.scope.with_global, project=query.scope.project or None
    )
    for uri in places:
        memory = _whole(engine, uri, query.max_tokens, tokenizer)
        if memory is not None:
            reason = f"{trigger!r} names {uri}"
            if not memory.content:
                return _Read([], f"{reason}, of which nothing fits into {query.max_tokens} tokens")
            return _Read([memory], reason + (", cut to the budget" if memory.truncated else ""))
    return f"{trigger!r} names {route.name}, and there is no such file in the scope"


def _timeline(engine: Engine, query: RecallQuery, _: Routes, tokenizer: Tokenizer) -> _Read | str:
    days = days_of(query.text, _today(query))
    if days is None:
        return ""
    files = _journal(engine, query, days)
    spoken = f"{days.words!r} means {days.first}" + (
        f" to {days.last}" if days.last != days.first else ""
    )
    if not files:
        return f"{spoken}, and there is no journal of that time in the scope"
    memories: list[Memory] = []
    left, passed = query.max_tokens, 0
    for uri in files:
        memory = _whole(engine, uri, left, tokenizer)
        if memory is None:  # gone meanwhile
            continue
        if query.skip_oversize and memory.truncated:
            passed += 1
            continue
        if memory.content:
            memories.append(memory)
            left -= memory.token_count
        if memory.truncated:
            passed = len(files) - len(memories)
            break
    end = f"; {passed} of {len(files)} days left out for the budget" if passed else ""
    return _Read(memories, spoken + end)


def _journal(engine: Engine, query: RecallQuery, days: Days) -> list[str]:
    """The journal's files of some days, newest first; of one day in the order of the scope."""
    found: list[str] = []
    for root in query.scope.roots():
        low, high = (f"{root}/journal/{day}.md" for day in (days.first, days.last))
        found.extend(uri for uri in engine.store.files_between(low, high) if _day_of(uri))
    return sorted(found, key=lambda uri: _day_of(uri) or date.min, reverse=True)


def _day_of(uri: str) -> date | None:
    """The day of a journal's file; None of any other."""
    named = _JOURNAL.fullmatch(uri)
    try:
        return date.fromisoformat(named[1]) if named else None
    except ValueError:
        return None


def _today(query: RecallQuery) -> date:
    seconds = query.now // 1_000_000
    return datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(query.time_zone)).date()


def _whole(engine: Engine, uri: str, budget: int, tokenizer: Tokenizer) -> Memory | None:
    """A file within a budget, cut where it is longer; None where there is no such file."""
    file = engine.store.memory_file(uri)
    if file is None:
        return None
    content = file.content or file.abstract
    used = tokenizer.count(content)
    truncated = used > budget
    if truncated:
        kept, mark = cut(content, lambda text, mark: tokenizer.count(text + mark) <= budget)
        # A heading without anything below it says nothing.
        content = _HEADINGS_AT_END.sub("", kept) + mark if kept else ""
        used = tokenizer.count(content)
    reinforcement = sum(stored.entry.reinforcement for stored in file.entries)
    accesses = sum(stored.entry.access_count for stored in file.entries)
    return Memory(
        uri, content, 1.0, used, Entry(0, reinforcement, accesses, file.time), truncated=truncated
    )


def nothing(engine: Engine, query: RecallQuery, why: str) -> RecallResult:
    """The answer where no path has one and a search is switched off."""
    reason = f"{why}; hybrid: switched off"
    approximate = open_tokenizer(query.tokenizer).approximate
    revision = engine.snapshot.revision
    return RecallResult((), None, reason, query.max_tokens, approximate, revision, 0, ())


_PATHS = {RecallPath.FAST: _fast, RecallPath.TIMELINE: _timeline}
"""Those without a search, in the order in which they are tried."""


class _Candidates(NamedTuple):
    """Memories that a search found, by URI and place; `semantic` [n] in [0, 1]."""

    memories: list[Memory]
    semantic: F64


class Recall:
    """A search for memories on one snapshot.

    Raises:
        InvalidField: `tokenizer` is none.
    """

    def __init__(self, engine: Engine, query: RecallQuery, why: str) -> None:
        self._engine = engine
        self._query = query
        self._why = why
        self._tokenizer = open_tokenizer(query.tokenizer)

    def needs_vector(self) -> bool:
        """Whether the query is not answered by words alone: identifiers are what they are."""
        return all(strategy.by_meaning for strategy in self._strategies())

    def _strategies(self) -> list[Strategy]:
        snapshot = self._engine.snapshot
        found = []
        for root in self._query.scope.roots():
            row = snapshot.find(root)
            if row is not None and row >= 0:
                asked = RetrieveQuery(self._query.text, root, fusion=self._query.fusion)
                found.append(Strategy(self._engine, asked, snapshot))
        return found

    def answer(self, vector: F32 | None, degraded: tuple[str, ...] = ()) -> RecallResult:
        """The memories that matter most, within the budget."""
        started = perf_counter()
        strategies = self._strategies()
        found = self._candidates(strategies, vector)
        for _ in range(_ATTEMPTS):
            if found is not None:
                break
            strategies = self._strategies()
            found = self._candidates(strategies, vector)
        memories, semantic = found or _Candidates([], np.zeros(0))
        searched = perf_counter()
        query = self._query
        memories = [
            replace(memory, token_count=self._tokenizer.count(memory.content))
            for memory in memories
        ]
        counted = perf_counter()
        chosen, scores, parts = kernel.recall(
            semantic, known_of(memories), weights_of(query.salience), query.now, query.max_tokens,
            query.top_k, query.skip_oversize,
        )  # fmt: skip
        result = tuple(
            replace(memories[i], score=scores.item(i), parts=SalienceParts(*parts[i].tolist()))
            for i in chosen.tolist()
        )
        revision = strategies[0].snapshot.revision if strategies else self._engine.snapshot.revision
        stages = (
            Stage("search", started, searched), Stage("count", searched, counted),
            Stage("rank", counted, perf_counter()),
        )  # fmt: skip
        return RecallResult(
            result, RecallPath.HYBRID, self._reason(memories, scores, chosen), query.max_tokens,
            self._tokenizer.approximate, revision, len(memories), stages, degraded,
        )  # fmt: skip

    def _candidates(self, strategies: Sequence[Strategy], vector: F32 | None) -> _Candidates | None:
        """What a search finds; None where the store is ahead of the snapshot that was searched."""
        if not strategies:
            return _Candidates([], np.zeros(0))
        rows, semantic = self._fused(strategies, vector)
        snapshot = strategies[0].snapshot
        text_ids = snapshot.text_id[rows].tolist()
        known, revision = self._engine.store.entries(text_ids)
        files: dict[int, str] = {}
        found: dict[str, tuple[str, int, float, Memory]] = {}
        for row, text_id, meaning in zip(rows.tolist(), text_ids, semantic.tolist(), strict=True):
            entry, ordinal = known.get(text_id), snapshot.text_ordinal.item(row)
            if entry is None:
                if ordinal and revision > snapshot.revision:
                    self._engine.wait_for_revision(revision, _PATIENCE)
                    return None
                continue  # an abstract, which is no memory of its own
            file = snapshot.tree.texts.file.item(row)
            uri = files.get(file) or files.setdefault(file, snapshot.file_uri(file))
            section, text, _, _ = strategies[0].shown(row)
            content = entries.shown(text)
            memory = Memory(uri, content, 0.0, 0, entry, ordinal, section)
            one = (uri, ordinal, meaning, memory)
            other = found.get(content)
            if other is None or (-meaning, uri, ordinal) < (-other[2], other[0], other[1]):
                found[content] = one
        listed = sorted(found.values(), key=lambda one: one[:2])
        return _Candidates([one[3] for one in listed], np.array([one[2] for one in listed]))

    def _fused(self, strategies: Sequence[Strategy], vector: F32 | None) -> tuple[I32, F64]:
        """Rows of texts with their fused scores in [0, 1], the best possible one being 1."""
        fusion = self._query.fusion
        if not all(strategy.by_meaning for strategy in strategies):
            vector = None
        by_rank = isinstance(fusion, Rrf) and vector is not None
        depth = _SIDES * self._query.top_k
        # A list that is fused already stands for both sides.
        asked = depth if by_rank or vector is None else 2 * depth
        lists = [
            _merged(sides, asked)
            for sides in zip(*(s.lists(vector, asked) for s in strategies), strict=True)
        ]
        weights = np.array([fusion.vector_weight, fusion.keyword_weight], np.float64)
        if not by_rank or not isinstance(fusion, Rrf):
            ((rows, scores),) = lists
            return rows, scores / (1.0 if vector is None else weights.sum())
        rows = np.concatenate([rows for rows, _ in lists])
        ends = np.cumsum([len(rows) for rows, _ in lists])
        rows, scores = rrf(rows, ends, weights, float(fusion.k))
        return rows, scores / (weights.sum() / (fusion.k + 1.0))

    def _reason(self, memories: Sequence[Memory], scores: F64, chosen: I64) -> str:
        """Why a search, and why it ends where it does."""
        query = self._query
        said = [self._why] if self._why else []
        if not self._strategies():
            said.append(f"there is nothing below {' and '.join(query.scope.roots())}")
        elif not memories:
            said.append("nothing matches")
        elif len(chosen) < min(len(memories), query.top_k):
            left = query.max_tokens - sum(memories[i].token_count for i in chosen.tolist())
            waiting = scores.copy()
            waiting[chosen] = -1.0
            next_one = memories[int(waiting.argmax())]
            said.append(f"the next memory takes {next_one.token_count} tokens, {left} are left")
        return "; ".join(said)


def _merged(sides: Sequence[Ranked], depth: int) -> tuple[I32, F64]:
    """The best of some lists of one kind, ties by row."""
    if len(sides) == 1:
        return sides[0].rows, sides[0].scores
    rows = np.concatenate([side.rows for side in sides])
    scores = np.concatenate([side.scores for side in sides])
    order = np.lexsort((rows, -scores))[:depth]
    return rows[order], scores[order]


def known_of(memories: Sequence[Memory]) -> I64:
    """[n, 4] what the kernel knows of candidates."""
    rows = [
        (m.entry.reinforcement, m.entry.access_count,
         NEVER if m.entry.time is None else m.entry.time, m.token_count)
        for m in memories
    ]  # fmt: skip
    return np.array(rows, np.int64).reshape(-1, 4)


def weights_of(salience: Salience) -> F64:
    """[5] as the kernel takes them."""
    return np.array([
        salience.semantic, salience.reinforcement, salience.recency, salience.access,
        salience.half_life_days,
    ])  # fmt: skip
