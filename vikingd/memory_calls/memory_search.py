"""A search for memories, ranked by salience, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import lru_cache
from itertools import groupby, pairwise, zip_longest
from time import perf_counter
from typing import NamedTuple

import numpy as np
from viking_kernels import salience as kernel
from viking_kernels.arrays import F32, F64, I32, I64, NEVER, is_file
from viking_kernels.second_stage import DATE_WEIGHT

from vikingd.answer.confidence import Features
from vikingd.answer.find_hits import taking_turns
from vikingd.answer.hybrid_ranking import DEEPER, MOST_DEPTH, lists, ranked_in_files
from vikingd.answer.ranked_lists import fused, merged
from vikingd.answer.texts_by_row import key_of, name_of, section_of, shown, vector_of
from vikingd.context.tokenizers import Tokenizer, open_tokenizer
from vikingd.domain import cancellation
from vikingd.domain.answers import (
    MESSAGE_BYTES,
    NAMED,
    UNBOUNDED,
    Degradation,
    DegradationReason,
    Degraded,
    ReplyBudget,
    Stage,
    size_of,
    too_large,
)
from vikingd.domain.contexts import Entry
from vikingd.domain.errors import RevisionNotReached, StoreAway
from vikingd.domain.pinned_text import is_pinned
from vikingd.domain.prompt_options import RecallPath
from vikingd.domain.retrieve_query import RetrieveQuery, Rrf, WeightedSum
from vikingd.domain.uri import is_within
from vikingd.engine import Engine
from vikingd.memory import entries
from vikingd.memory.memory_types import (
    Memory,
    RecallQuery,
    RecallResult,
    Salience,
    SalienceParts,
    is_earlier,
)
from vikingd.memory.relations import Asked, asked_of, in_first_person
from vikingd.memory_calls.budget_choice import within_budget
from vikingd.memory_calls.direct_recall import NOTHING_READ, Direct
from vikingd.memory_calls.long_memories import best_texts, long_memory
from vikingd.memory_calls.newest_first import newest_first
from vikingd.memory_calls.present_facts_first import found_in, known_facts, ranked_now
from vikingd.memory_calls.recall_floor import features_of, kept_by_floor
from vikingd.plan.query_scope import note_on_waiting
from vikingd.plan.query_text import questions_of
from vikingd.plan.retrieve_plan import TextScope

_MEMORY = MESSAGE_BYTES + 128  # bytes of a memory without its texts
_DEEPER = 2  # a search finds at least this many times top_k texts
_LEAST = 1e-9  # the least score of a match
_ATTEMPTS = 5  # at reading index and store at one revision
_PATIENCE = 1.0  # seconds for the index to follow the store
_COUNTED = 1 << 12  # memories whose number of tokens is cached: recalls mostly return the same
_SHORT = 1000  # characters of such a memory, at most
_LETTERS = 32  # characters for a token, at most, in a long text that is worth counting
_HALVES = WeightedSum(0.5, 0.5)


_Fused = tuple[I32, F64, float | None]
"""(rows of texts, their scores, the best possible score or None)."""

_Parts = Sequence[Features | None]
"""The confidence features of each scope that was searched for a question."""


class _Candidates(NamedTuple):
    """The memories that a search found, before they are ranked."""

    rows: list[int]  # of their texts; of a long memory its best one
    entries: list[Entry]
    semantic: F64  # [n] in [0, 1]
    changed: int = 0  # further memories that were rewritten or removed since the snapshot
    long: frozenset[int] = frozenset()  # ids of the memories of several passages
    features: Sequence[_Parts] = ()  # of each question


class _Ranked(NamedTuple):
    """A memory and the row of its text in the index."""

    memory: Memory
    row: int


_NONE_FOUND = _Candidates([], [], np.zeros(0))


class MemorySearch:
    """A search for memories by a checked query; its reply has about `most_bytes`.

    Args:
        read: the direct answer; the search leaves out the files that it has read.
        is_whole: search the text as one question, even if it asks several.

    Attributes:
        texts: the questions that are searched for; one, unless the query asks several.
    """

    def __init__(
        self,
        engine: Engine,
        query: RecallQuery,
        read: Direct = NOTHING_READ,
        most_bytes: int = UNBOUNDED,
        is_whole: bool = False,
    ) -> None:
        self._engine = engine
        self._query = query
        self._read = read
        sizes = (MESSAGE_BYTES + size_of(memory.content) for memory in read.memories)
        self._most_bytes = max(0, most_bytes - sum(sizes))
        self._files = frozenset(memory.uri for memory in read.memories)
        # The words of days that are understood count as these days, not as words.
        dated = read.dated
        text = query.text if dated is None or dated.days.only else dated.days.rest
        is_one = is_whole or bool(query.paths)
        self.texts = tuple(map(in_first_person, (text,) if is_one else questions_of(text)))
        self._bind()

    def _bind(self) -> None:
        """Bind each question to the newest snapshot: one scope for each readable subtree."""
        self._snapshot = snapshot = self._engine.snapshot
        asked: list[list[TextScope]] = [[] for _ in self.texts]
        most = self._engine.settings.exhaustive_texts
        # Each part is a scope of its own: its scores depend on no memory outside of it.
        query, scope = self._query, self._query.scope
        for part in scope.parts():
            row = snapshot.find(part)
            if row is not None and not is_file(row):
                within = scope.caller.readable_above(part) or part
                fusion = query.fusion or _HALVES
                for text, scopes in zip(self.texts, asked, strict=True):
                    of_part = RetrieveQuery(text, part, fusion=fusion, within=within)
                    scopes.append(TextScope(snapshot, of_part, most))
        self._asked, self._scopes = asked, asked[0]

    @property
    def needs_vector(self) -> bool:
        """True if a question needs a vector; identifiers are found by words alone."""
        return any(scopes and all(one.by_meaning for one in scopes) for scopes in self._asked)

    def answer(self, vectors: Sequence[F32 | None], degraded: Degraded = ()) -> RecallResult:
        """Return the memories of the highest salience that fit into the query's budget of tokens.

        Salience is the rank of a memory by meaning, reinforcement, age and accesses.

        Args:
            vectors: the vectors of the questions `texts`, in their order. A question is searched by
                words alone if its vector is None or missing at the end.
            degraded: notes for the reply.
        """
        started, query = perf_counter(), self._query
        found = self._candidates(vectors)
        for _ in range(_ATTEMPTS):
            if not found.changed:
                break
            self._bind()
            found = self._candidates(vectors)
        if found.changed:
            detail = f"{found.changed:,} memories were being rewritten and are left out: ask again"
            degraded += (Degradation(DegradationReason.CONCURRENT_WRITE, detail),)
        confidence, is_kept = kept_by_floor(
            found.features, self._engine.embedding.model, query.floor, len(found.rows)
        )
        asked = self._asked_now()
        known = known_facts(asked, self._snapshot, found.rows)
        left_out = 0
        if known:
            confidence = NAMED
        elif not is_kept:
            kept = self._of_named_days(found)
            left_out, found = len(found.rows) - len(kept.rows), kept
            confidence = NAMED if kept.rows else confidence
        if self.needs_vector and any(vector is not None for vector in vectors):
            degraded += note_on_waiting(self._engine, self._snapshot, self._scopes)
        searched = perf_counter()
        order, scores, parts = kernel.rank(
            found.semantic, known_of(found.entries), weights_of(query.salience), query.now
        )
        past = sum(is_earlier(section_of(self._snapshot, row)) for row in found.rows)
        if past or known:
            said = found_in(self._snapshot, found.rows, found.entries)
            scores = ranked_now(asked, said, known, scores)
            order = np.argsort(-scores, kind="stable")
        budget = ReplyBudget(self._most_bytes)
        taken: list[_Ranked] = []
        missed: list[int] = []  # tokens of those that do not fit
        for ranked, fits in within_budget(
            self._memories(found, order.tolist(), scores, parts, budget),
            lambda ranked: ranked.memory.token_count,
            query.max_tokens,
            query.top_k,
            query.skip_oversize,
        ):
            if fits:
                taken.append(ranked)
            else:
                missed.append(ranked.memory.token_count)
        if budget.left_out:
            degraded += (
                too_large(
                    "the reply has no room for more memories; ask for less, or let the operator "
                    "raise limits.max_reply_bytes"
                ),
            )
        memories = self._in_order(taken)
        stages = (Stage("search", started, searched), Stage("rank", searched, perf_counter()))
        return RecallResult(
            tuple(memories),
            RecallPath.HYBRID,
            self._reason(found.rows, memories, missed, past, left_out),
            query.max_tokens,
            open_tokenizer(query.tokenizer).approximate,
            self._snapshot.revision,
            len(found.rows) + left_out,
            stages,
            confidence,
            left_out,
            degraded,
            self.texts if len(self.texts) > 1 else (),
        )

    def _asked_now(self) -> Asked:
        """Return the relations that the questions ask for; none in an order by scores alone."""
        is_by_scores = not self._query.newest_first or self._read.dated is not None
        return Asked(is_past=True) if is_by_scores else asked_of(self.texts)

    def _of_named_days(self, found: _Candidates) -> _Candidates:
        """Return the candidates that were said on the days that the query names.

        They are returned even if the confidence of the recall is below the floor.
        """
        dated = self._read.dated
        if dated is None:
            return _NONE_FOUND
        held = dated.days.contain([entry.time for entry in found.entries], self._query.time_zone)
        at = np.flatnonzero(held).tolist()
        rows, of_days = [found.rows[i] for i in at], [found.entries[i] for i in at]
        return found._replace(rows=rows, entries=of_days, semantic=found.semantic[at])

    def _memories(
        self, found: _Candidates, order: Sequence[int], scores: F64, parts: F64, budget: ReplyBudget
    ) -> Iterator[_Ranked]:
        """Yield memories by salience, ties by URI and position, until the reply is full.

        Of equal texts one is yielded. A long memory is yielded as a whole if it fits into the
        remaining tokens, else as the passage that was found. `order`, `scores` and `parts` are
        results of the ranking kernel.
        """
        query, snapshot = self._query, self._snapshot
        tokenizer = open_tokenizer(query.tokenizer)
        left = query.max_tokens
        said: set[bytes] = set()
        for _, tied in groupby(order, key=scores.item):
            named = [(*name_of(snapshot, found.rows[i]), i) for i in tied]
            for uri, passage, i in sorted(named):
                if uri in self._files:
                    continue
                entry, is_part = found.entries[i], False
                # Long memories may begin alike.
                if entry.id not in found.long:
                    if (key := key_of(snapshot, found.rows[i])) in said:
                        continue
                    said.add(key)
                section, text, *_ = shown(snapshot, found.rows[i])
                cancellation.check()
                pinned = is_pinned(text)
                content = entries.said(text)
                if entry.id in found.long:
                    text, pinned = long_memory(self._engine, entry.id) or (content, pinned)
                    is_part = (
                        len(text) > _LETTERS * left
                        or size_of(text) > budget.left
                        or tokenizer.count(text) > left
                    )
                    content = content if is_part else text
                tokens = _tokens(tokenizer, content)
                size = _MEMORY + size_of(uri) + size_of(section) + size_of(content)
                if tokens <= query.max_tokens and not budget.take(size):
                    budget.left_out += 1
                    return
                score, of_score = scores.item(i), SalienceParts(*parts[i].tolist())
                if tokens <= left:
                    left -= tokens
                memory = Memory(
                    uri,
                    content,
                    score,
                    tokens,
                    entry,
                    passage,
                    section,
                    of_score,
                    truncated=is_part,
                    pinned=pinned,
                )
                yield _Ranked(memory, found.rows[i])

    def _in_order(self, taken: Sequence[_Ranked]) -> list[Memory]:
        """Return the memories that fit; of several about the same thing the newest comes first.

        If the question names days, the order stays as it is.
        """
        memories = [ranked.memory for ranked in taken]
        if not self._query.newest_first or self._read.dated is not None or len(taken) < 2:
            return memories
        times = [memory.entry.time for memory in memories]
        known = [time for time in times if time is not None]
        if all(time >= later for time, later in pairwise(known)):
            return memories
        vectors = np.zeros((len(taken), self._snapshot.dimension), np.float32)
        for i, (memory, row) in enumerate(taken):
            scope = next(s for s in self._scopes if is_within(memory.uri, s.query.target_uri))
            vector = vector_of(self._snapshot, scope.scope, row)
            if vector is not None:
                script = self._snapshot.tree.texts.script[row]
                vectors[i] = vector - scope.coded.raw[script]
        scores = [memory.score for memory in memories]
        order = newest_first(scores, times, vectors)
        return [memories[i] for i in order]

    def _scopes_with_vectors(
        self, vectors: Sequence[F32 | None]
    ) -> Iterator[tuple[Sequence[TextScope], F32 | None]]:
        """Yield (scopes, vector) for each question; the vector is None for a search by words."""
        return zip_longest(self._asked, vectors[: len(self._asked)])

    def _candidates(self, vectors: Sequence[F32 | None]) -> _Candidates:
        """Search each question; return the memories that were found, with their entries.

        If the store has replaced some of the found texts since the snapshot, `changed` counts them,
        and this waits up to _PATIENCE seconds for a snapshot that has the new texts.
        """
        if not self._scopes:
            return _NONE_FOUND
        snapshot, depth = self._snapshot, _DEEPER * self._query.top_k
        while True:
            searched = [
                self._fused(scopes, vector, depth)
                for scopes, vector in self._scopes_with_vectors(vectors)
            ]
            lists = [found for found, _ in searched]
            found, semantic, most = lists[0] if len(lists) == 1 else _in_rounds(lists)
            text_ids = snapshot.text_id[found].tolist()
            known, revision = self._engine.store.entries(text_ids)
            at = [
                i
                for i, text_id in enumerate(text_ids)
                if text_id in known
                and not (self._files and name_of(snapshot, found.item(i))[0] in self._files)
            ]
            memories = [known[text_ids[i]].id for i in at]
            # Passages of one memory, and of files that were read, take places of the list.
            if len(set(memories)) >= self._query.top_k or len(found) < depth or depth >= MOST_DEPTH:
                break
            depth = min(DEEPER * depth, MOST_DEPTH)
        changed = 0
        if revision > snapshot.revision:
            changed = sum(
                text_id not in known and bool(snapshot.text_ordinal.item(row))
                for text_id, row in zip(text_ids, found.tolist(), strict=True)
            )
        if changed:
            with suppress(RevisionNotReached, StoreAway):
                self._engine.wait_for_revision(revision, _PATIENCE)
        # The other texts are abstracts, which are not memories.
        at = best_texts(at, memories)
        long = self._engine.store.long_memories([text_ids[i] for i in at])
        found, semantic = found[at], semantic[at]
        if most is not None:
            semantic = semantic / most
        if self._read.dated is not None:
            times = [known[text_ids[i]].time for i in at]
            held = self._read.dated.days.contain(times, self._query.time_zone)
            semantic = semantic + DATE_WEIGHT * np.array(held, np.float64)
            most = None
        # Even the best fused score is seldom above .5. Counters and age reach 1, so without this
        # division meaning would hardly count.
        if most is None:
            semantic = semantic / semantic.max(initial=_LEAST)
        entries_of = [known[text_ids[i]] for i in at]
        ids = frozenset(known[text_id].id for text_id in long)
        features = [of_question for _, of_question in searched]
        return _Candidates(found.tolist(), entries_of, semantic, changed, ids, features)

    def _fused(
        self, scopes: Sequence[TextScope], vector: F32 | None, depth: int
    ) -> tuple[_Fused, _Parts]:
        """Search one question; return its results and the confidence features of each scope.

        The results are (rows, scores, best possible score). The last is None unless the fusion is
        by rank.
        """
        fusion = self._query.fusion
        if not scopes or not all(one.by_meaning for one in scopes):
            vector = None
        if vector is not None and fusion is None:
            dated = self._read.dated
            files = () if dated is None else dated.files
            both = [ranked_in_files(scope, vector, depth, files) for scope in scopes]
            ranked = [in_files for in_files, _ in both]
            features = [
                features_of(scope, vector, (texts,))
                for scope, (_, texts) in zip(scopes, both, strict=True)
            ]
            found = merged(ranked, max(depth, *(len(one.rows) for one in ranked)))
            return (found.rows, found.scores, None), features
        of_scopes = [lists(scope, vector, depth) for scope in scopes]
        features = [
            features_of(scope, vector, sides)
            for scope, sides in zip(scopes, of_scopes, strict=True)
        ]
        found_lists = [merged(sides, depth) for sides in zip(*of_scopes, strict=True)]
        if vector is None or not isinstance(fusion, Rrf):
            (found,) = found_lists
            return (found.rows, found.scores, None), features
        weights = (fusion.vector_weight, fusion.keyword_weight)
        found = fused(found_lists, weights, float(fusion.k))
        return (found.rows, found.scores, sum(weights) / (fusion.k + 1.0)), features

    def _reason(
        self,
        rows: Sequence[int],
        taken: Sequence[Memory],
        missed: Sequence[int],
        past: int,
        left_out: int,
    ) -> str:
        """Return the text that explains why memories were searched, and why the results end."""
        read = self._read
        said = [read.reason] if read.reason else []
        if read.path is not None and taken:
            said.append(f"a search fills the rest with {len(taken)} memories")
        if not self._scopes:
            said.append(f"there is nothing below {' and '.join(self._query.scope.roots())}")
        elif left_out:
            known = "no more" if rows or read.memories else "nothing"
            said.append(f"{known} is known about that: {left_out} memories are below the floor")
        elif not rows:
            said.append("nothing matches")
        elif missed:
            left = self._query.max_tokens - sum(memory.token_count for memory in taken)
            said.append(f"a memory of {missed[0]} tokens did not fit, {left} are left")
        if past:
            said.append(f"{past} replaced memories, below the heading Earlier, count half")
        return "; ".join(said)


def _in_rounds(found: Sequence[_Fused]) -> _Fused:
    """Interleave the results of several questions: first the best of each, then the second, ..."""
    lists = [list(zip(rows.tolist(), scores.tolist(), strict=True)) for rows, scores, _ in found]
    turns = list(taking_turns(lists, lambda one: one[0], lambda one: one[1]))
    rows = np.array([row for (row, _), _ in turns], np.int32)
    return rows, np.array([score for _, score in turns], np.float64), found[0][2]


def _tokens(tokenizer: Tokenizer, content: str) -> int:
    if len(content) > _SHORT:
        return tokenizer.count(content)
    return _tokens_of_short(tokenizer.name, content)


@lru_cache(maxsize=_COUNTED)
def _tokens_of_short(name: str, content: str) -> int:
    return open_tokenizer(name).count(content)


def known_of(entries: Sequence[Entry]) -> I64:
    """Return int64 [n, 3] for the ranking kernel: reinforcement, accesses and time of entries."""
    rows = [(e.reinforcement, e.access_count, NEVER if e.time is None else e.time) for e in entries]
    return np.array(rows, np.int64).reshape(-1, 3)


def weights_of(salience: Salience) -> F64:
    """Return the four weights and the half-life [5], in the order of the ranking kernel."""
    return np.array(astuple(salience))
