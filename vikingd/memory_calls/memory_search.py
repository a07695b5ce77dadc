"""Recall: known files, the journal, or a search ranked by salience, in a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from functools import lru_cache
from itertools import groupby
from time import perf_counter
from typing import NamedTuple, TypeVar

import numpy as np
from viking_kernels import salience as kernel
from viking_kernels.arrays import F32, F64, I32, I64, NEVER, is_file

from vikingd.answer.deadline import Runner, wait_for_revision
from vikingd.answer.query_vector import QueryVectors
from vikingd.answer.ranked_lists import fused, merged
from vikingd.answer.shown_texts import key_of, name_of, shown
from vikingd.answer.text_ranking import lists
from vikingd.context.tokenizers import Tokenizer, open_tokenizer
from vikingd.domain import pace
from vikingd.domain.answers import (
    MESSAGE_BYTES,
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
from vikingd.domain.prompt import RecallPath
from vikingd.domain.retrieve_query import RetrieveQuery, Rrf
from vikingd.engine import Engine
from vikingd.memory import entries
from vikingd.memory.model import (
    Memory,
    RecallQuery,
    RecallResult,
    Salience,
    SalienceParts,
    is_earlier,
)
from vikingd.memory.routes import Routes
from vikingd.memory_calls.direct_recall import DirectRecall
from vikingd.memory_calls.long_memories import best_texts, long_memory
from vikingd.memory_calls.used_memories import count_used, named
from vikingd.plan.retrieve_plan import TextScope

_T = TypeVar("_T")
_MEMORY = MESSAGE_BYTES + 128  # bytes of a memory without its texts
_DEEPER = 2  # times top_k: the texts of each list of a search
_PAST = 0.5  # times the score of a memory that was replaced by a newer one
_LEAST = 1e-9  # the least score of a match
_ATTEMPTS = 5  # at reading index and store at one revision
_PATIENCE = 1.0  # seconds for the index to follow the store
_COUNTED = 1 << 12  # memories whose tokens are kept: recalls mostly return the same ones
_SHORT = 1000  # characters of such a memory, at most
_LETTERS = 32  # characters for a token, at most, in a long text that is worth counting


class _Candidates(NamedTuple):
    """The memories that a search found."""

    rows: list[int]  # of their texts; of a long memory its best one
    entries: list[Entry]
    semantic: F64  # [n] in [0, 1]
    changed: int = 0  # further memories that were rewritten or removed since the snapshot
    long: frozenset[int] = frozenset()  # ids of the memories of several passages


class Recaller:
    """Answers Recall; the memories in a reply have about `most_bytes`."""

    def __init__(
        self, engine: Engine, vectors: QueryVectors, routes: Routes, most_bytes: int
    ) -> None:
        self._engine = engine
        self._vectors = vectors
        self._routes = routes
        self._most_bytes = most_bytes

    async def answer(
        self, query: RecallQuery, vector: F32 | None, run: Runner
    ) -> tuple[RecallResult, Stage]:
        """Return the answer, and the stage that embedded the query.

        The first path with an answer gives it: a known file, the journal, a search.
        """
        engine = self._engine
        await wait_for_revision(engine, query.min_revision, run)
        direct = DirectRecall(engine, query, self._routes, self._most_bytes)
        known = await (run.here if direct.is_light else run.away)(direct.answer)
        started = perf_counter()
        embed = Stage("embed", started, started)
        if not isinstance(known, str):
            result = known
        else:
            search = await run.here(MemorySearch, engine, query, known, self._most_bytes)
            degraded: Degraded = ()
            if vector is None and search.needs_vector:
                vector, degraded = await self._vectors.embed_or_note(query.text, run)
            embed = Stage("embed", started, perf_counter())
            result = await run.away(search.answer, vector, degraded)
        if not query.no_touch:
            ids = [memory.entry.id for memory in result.memories if query.counts_returned]
            if query.used:
                ids += await run.away(named, engine, query.used, query.scope.caller)
            result = replace(result, degraded=(*result.degraded, *count_used(engine, ids)))
        return result, embed


class MemorySearch:
    """A search for memories by a checked query, in a reply of about `most_bytes`.

    `why` is the reason why no other path had an answer.
    """

    def __init__(
        self, engine: Engine, query: RecallQuery, why: str, most_bytes: int = UNBOUNDED
    ) -> None:
        self._engine = engine
        self._query = query
        self._why = why
        self._most_bytes = most_bytes
        self._bind()

    def _bind(self) -> None:
        """Bind the query to the newest snapshot."""
        self._snapshot = snapshot = self._engine.snapshot
        self._scopes: list[TextScope] = []
        most = self._engine.settings.exhaustive_texts
        # Each part is a scope of its own: its scores depend on no memory outside of it.
        query, scope = self._query, self._query.scope
        for part in scope.parts():
            row = snapshot.find(part)
            if row is not None and not is_file(row):
                within = scope.caller.readable_above(part) or part
                asked = RetrieveQuery(query.text, part, fusion=query.fusion, within=within)
                self._scopes.append(TextScope(snapshot, asked, most))

    @property
    def needs_vector(self) -> bool:
        """True if a vector is needed. Identifiers are found by words alone."""
        return bool(self._scopes) and all(one.by_meaning for one in self._scopes)

    def answer(self, vector: F32 | None, degraded: Degraded = ()) -> RecallResult:
        """Return the memories of the highest salience, within the budget."""
        started, query = perf_counter(), self._query
        found = self._candidates(vector)
        for _ in range(_ATTEMPTS):
            if not found.changed:
                break
            self._bind()
            found = self._candidates(vector)
        if found.changed:
            detail = f"{found.changed:,} memories were being rewritten and are left out: ask again"
            degraded += (Degradation(DegradationReason.CONCURRENT_WRITE, detail),)
        searched = perf_counter()
        order, scores, parts = kernel.rank(
            found.semantic, known_of(found.entries), weights_of(query.salience), query.now
        )
        past = [is_earlier(shown(self._snapshot, row)[0]) for row in found.rows]
        if any(past):
            scores = np.where(past, _PAST * scores, scores)
            order = np.argsort(-scores, kind="stable")
        budget = ReplyBudget(self._most_bytes)
        taken: list[Memory] = []
        missed: list[int] = []  # tokens of those that do not fit
        for memory, fits in within_budget(
            self._memories(found, order.tolist(), scores, parts, budget),
            lambda memory: memory.token_count,
            query.max_tokens,
            query.top_k,
            query.skip_oversize,
        ):
            if fits:
                taken.append(memory)
            else:
                missed.append(memory.token_count)
        if budget.left_out:
            degraded += (
                too_large(
                    "the reply has no room for more memories; ask for less, or let the operator "
                    "raise limits.max_reply_bytes"
                ),
            )
        stages = (Stage("search", started, searched), Stage("rank", searched, perf_counter()))
        return RecallResult(
            tuple(taken),
            RecallPath.HYBRID,
            self._reason(found.rows, taken, missed, sum(past)),
            query.max_tokens,
            open_tokenizer(query.tokenizer).approximate,
            self._snapshot.revision,
            len(found.rows),
            stages,
            degraded,
        )

    def _memories(
        self, found: _Candidates, order: Sequence[int], scores: F64, parts: F64, budget: ReplyBudget
    ) -> Iterator[Memory]:
        """Yield memories by salience, then URI and place, as far as the reply has room.

        Each text comes once. A long memory is whole if that fits into the tokens that are left,
        else it is the passage that was found. `order`, `scores` and `parts` are the kernel's.
        """
        query, snapshot = self._query, self._snapshot
        tokenizer = open_tokenizer(query.tokenizer)
        left = query.max_tokens
        said: set[bytes] = set()
        for _, tied in groupby(order, key=scores.item):
            named = [(*name_of(snapshot, found.rows[i]), i) for i in tied]
            for uri, passage, i in sorted(named):
                if (key := key_of(snapshot, found.rows[i])) in said:
                    continue
                said.add(key)
                section, text, _, _ = shown(snapshot, found.rows[i])
                pace.step()
                entry, pinned, is_part = found.entries[i], is_pinned(text), False
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
                yield Memory(
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

    def _candidates(self, vector: F32 | None) -> _Candidates:
        """Return the memories that a search finds. After changes it waits for the index."""
        if not self._scopes:
            return _Candidates([], [], np.zeros(0))
        snapshot = self._snapshot
        found, semantic, most = self._fused(vector)
        text_ids = snapshot.text_id[found].tolist()
        known, revision = self._engine.store.entries(text_ids)
        at = [i for i, text_id in enumerate(text_ids) if text_id in known]
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
        at = best_texts(at, [known[text_ids[i]].id for i in at])
        long = self._engine.store.long_memories([text_ids[i] for i in at])
        found, semantic = found[at], semantic[at]
        # Even the best fused score is seldom above .5. Counters and age reach 1, so without this
        # division meaning would hardly count.
        semantic = semantic / (semantic.max(initial=_LEAST) if most is None else most)
        entries_of = [known[text_ids[i]] for i in at]
        ids = frozenset(known[text_id].id for text_id in long)
        return _Candidates(found.tolist(), entries_of, semantic, changed, ids)

    def _fused(self, vector: F32 | None) -> tuple[I32, F64, float | None]:
        """Return rows of texts with their fused scores; by rank, also the best possible score."""
        fusion = self._query.fusion
        if not self.needs_vector:
            vector = None
        depth = _DEEPER * self._query.top_k
        found_lists = [
            merged(sides, depth)
            for sides in zip(*(lists(scope, vector, depth) for scope in self._scopes), strict=True)
        ]
        if vector is None or not isinstance(fusion, Rrf):
            (found,) = found_lists
            return found.rows, found.scores, None
        weights = (fusion.vector_weight, fusion.keyword_weight)
        found = fused(found_lists, weights, float(fusion.k))
        return found.rows, found.scores, sum(weights) / (fusion.k + 1.0)

    def _reason(
        self, rows: Sequence[int], taken: Sequence[Memory], missed: Sequence[int], past: int
    ) -> str:
        """Return the reasons for a search and for its end."""
        said = [self._why] if self._why else []
        if not self._scopes:
            said.append(f"there is nothing below {' and '.join(self._query.scope.roots())}")
        elif not rows:
            said.append("nothing matches")
        elif missed:
            left = self._query.max_tokens - sum(memory.token_count for memory in taken)
            said.append(f"a memory of {missed[0]} tokens did not fit, {left} are left")
        if past:
            said.append(f"{past} replaced memories, below the heading Earlier, count half")
        return "; ".join(said)


def within_budget(
    texts: Iterable[_T], tokens_of: Callable[[_T], int], budget: int, limit: int, skip: bool
) -> Iterator[tuple[_T, bool]]:
    """Yield texts and whether they fit; it reads no further than it must.

    Args:
        texts: best first; `tokens_of` returns the tokens of one.
        budget: tokens of the chosen texts together, at most.
        limit: chosen texts, at most.
        skip: go on after a text that does not fit; else the choice ends there.
    """
    taken = 0
    for text in texts:
        tokens = tokens_of(text)
        fits = tokens <= budget
        yield text, fits
        if fits:
            budget -= tokens
            taken += 1
        if taken == limit or not (fits or skip):
            return


def _tokens(tokenizer: Tokenizer, content: str) -> int:
    if len(content) > _SHORT:
        return tokenizer.count(content)
    return _tokens_of_short(tokenizer.name, content)


@lru_cache(maxsize=_COUNTED)
def _tokens_of_short(name: str, content: str) -> int:
    return open_tokenizer(name).count(content)


def known_of(entries: Sequence[Entry]) -> I64:
    """Return int64 [n, 3]: reinforcement, accesses and time of entries, for the kernel."""
    rows = [(e.reinforcement, e.access_count, NEVER if e.time is None else e.time) for e in entries]
    return np.array(rows, np.int64).reshape(-1, 3)


def weights_of(salience: Salience) -> F64:
    """Return the weights and the half-life [5]; a Salience has them in the kernel's order."""
    return np.array(astuple(salience))
