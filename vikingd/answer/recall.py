"""Recall by a search: meaning and words, ranked by salience, to a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from time import perf_counter
from typing import NamedTuple

import numpy as np
from viking_kernels import salience as kernel
from viking_kernels.arrays import F32, F64, I32, I64, NEVER, is_file
from viking_kernels.fusion import rrf

from vikingd.answer.strategies import Ranked, Strategy, key_of, shown
from vikingd.context.tokenizers import Tokenizer, open_tokenizer
from vikingd.domain import pace
from vikingd.domain.errors import RevisionNotReached
from vikingd.domain.model import Entry, Stage
from vikingd.domain.query import RecallPath, RetrieveQuery, Rrf
from vikingd.domain.reply_budget import MESSAGE, UNBOUNDED, Room, size_of
from vikingd.engine import Engine
from vikingd.memory import entries
from vikingd.memory.model import Memory, RecallQuery, RecallResult, Salience, SalienceParts

_MEMORY = MESSAGE + 128  # bytes of a memory without its texts
_DEEPER = 2  # times top_k: how many each list of a search has
_LEAST = 1e-9  # score that counts as a match
_ATTEMPTS = 5  # to read index and store at one revision
_PATIENCE = 1.0  # seconds for the index to follow the store
_COUNTED = 1 << 12  # memories whose tokens are known: mostly the same ones are recalled
_SHORT = 1000  # characters that those have at most


class _Candidates(NamedTuple):
    """Texts that a search found and that are memories; `semantic` [n] in [0, 1].

    Beside them `changed` ones were rewritten or removed since.
    """

    rows: list[int]
    entries: list[Entry]
    semantic: F64
    changed: int = 0


_NO_CANDIDATES = _Candidates([], [], np.zeros(0))


class Recall:
    """A search for memories.

    Args:
        engine: holds index and store.
        query: checked; its revision has been reached.
        why: no other path had an answer; part of the reason.
    """

    def __init__(self, engine: Engine, query: RecallQuery, why: str) -> None:
        self._engine = engine
        self._query = query
        self._why = why
        self.most_bytes = UNBOUNDED
        self._bind()

    def _bind(self) -> None:
        """Binds the query to the newest snapshot."""
        self._snapshot = snapshot = self._engine.snapshot
        self._strategies = []
        for root in self._query.scope.roots():
            row = snapshot.find(root)
            if row is not None and not is_file(row):
                asked = RetrieveQuery(self._query.text, root, fusion=self._query.fusion)
                self._strategies.append(Strategy(self._engine, asked, snapshot))

    @property
    def needs_vector(self) -> bool:
        """Whether meaning counts: identifiers are found by what they are."""
        return bool(self._strategies) and all(s.by_meaning for s in self._strategies)

    def answer(self, vector: F32 | None, degraded: tuple[str, ...] = ()) -> RecallResult:
        """The memories that matter most, within the budget."""
        started, query = perf_counter(), self._query
        found = self._candidates(vector)
        for _ in range(_ATTEMPTS):
            if not found.changed:
                break
            self._bind()
            found = self._candidates(vector)
        rows, known, semantic, changed = found
        if changed:
            degraded += (f"{changed:,} memories were being rewritten and are left out: ask again",)
        searched = perf_counter()
        order, scores, parts = kernel.rank(
            semantic, known_of(known), weights_of(query.salience), query.now
        )
        tokenizer = open_tokenizer(query.tokenizer)
        listed = self._listed(order.tolist(), scores, rows)
        memories: list[Memory] = []
        taken: list[int] = []
        room = Room(self.most_bytes)

        def counted() -> Iterator[int]:
            for i, uri, section, text in listed:
                pace.step()
                if memories and len(memories) - 1 not in taken[-1:]:
                    memories[-1] = replace(memories[-1], content="")  # only its tokens count
                content = entries.shown(text)
                tokens = _tokens(tokenizer, content)
                size = _MEMORY + size_of(uri) + size_of(section) + size_of(content)
                if tokens <= query.max_tokens and not room.take(size):
                    room.left_out += 1
                    return
                memories.append(
                    Memory(
                        uri,
                        content,
                        scores.item(i),
                        tokens,
                        known[i],
                        self._snapshot.text_ordinal.item(rows[i]),
                        section,
                        SalienceParts(*parts[i].tolist()),
                    )
                )
                yield tokens

        for i in within_budget(counted(), query.max_tokens, query.top_k, query.skip_oversize):
            taken.append(i)  # noqa: PERF402  # `counted` looks at it meanwhile
        result = tuple(memories[i] for i in taken)
        stages = (Stage("search", started, searched), Stage("rank", searched, perf_counter()))
        return RecallResult(
            result,
            RecallPath.HYBRID,
            self._reason(rows, memories, taken),
            query.max_tokens,
            tokenizer.approximate,
            self._snapshot.revision,
            len(rows),
            stages,
            (
                *degraded,
                *(
                    (
                        "the reply has no room for more memories; ask for less, or let the "
                        "operator raise limits.max_reply_bytes",
                    )
                    if room.left_out
                    else ()
                ),
            ),
        )

    def _candidates(self, vector: F32 | None) -> _Candidates:
        """What a search finds; where some of that has changed, the index has followed by then."""
        if not self._strategies:
            return _NO_CANDIDATES
        snapshot = self._snapshot
        found, semantic = self._fused(vector)
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
            with suppress(RevisionNotReached):
                self._engine.wait_for_revision(revision, _PATIENCE)
        # The others are abstracts, which are no memories of their own.
        found, semantic = found[at], semantic[at]
        if not self._is_by_rank(vector):
            # Even the best has seldom half of what a fusion by score can give: beside counters and
            # age, which have their best at 1, it would hardly count.
            semantic = semantic / semantic.max(initial=_LEAST)
        return _Candidates(found.tolist(), [known[text_ids[i]] for i in at], semantic, changed)

    def _is_by_rank(self, vector: F32 | None) -> bool:
        return isinstance(self._query.fusion, Rrf) and vector is not None and self.needs_vector

    def _fused(self, vector: F32 | None) -> tuple[I32, F64]:
        """Rows of texts with their fused scores; by rank the best possible one is 1."""
        fusion, by_rank = self._query.fusion, self._is_by_rank(vector)
        if not self.needs_vector:
            vector = None
        depth = _DEEPER * self._query.top_k
        lists = [
            _merged(sides, depth)
            for sides in zip(*(s.lists(vector, depth) for s in self._strategies), strict=True)
        ]
        if not by_rank or not isinstance(fusion, Rrf):
            (fused,) = lists
            return fused
        weights = np.array([fusion.vector_weight, fusion.keyword_weight], np.float64)
        rows = np.concatenate([rows for rows, _ in lists])
        ends = np.cumsum([len(rows) for rows, _ in lists])
        rows, scores = rrf(rows, ends, weights, float(fusion.k))
        return rows, scores / (weights.sum() / (fusion.k + 1.0))

    def _listed(
        self, order: Sequence[int], scores: F64, rows: Sequence[int]
    ) -> Iterator[tuple[int, str, str, str]]:
        """(candidate, URI, section, text) by salience, ties by URI and place; each text once."""
        snapshot = self._snapshot
        said: set[str | bytes] = set()
        for _, tied in groupby(order, key=scores.item):
            named = [
                (
                    snapshot.file_uri(snapshot.tree.texts.file.item(rows[i])),
                    snapshot.text_ordinal.item(rows[i]),
                    i,
                )
                for i in tied
            ]
            for uri, _, i in sorted(named):
                section, text, _, _ = shown(snapshot, rows[i])
                if (key := key_of(text)) not in said:
                    said.add(key)
                    yield i, uri, section, text

    def _reason(self, rows: Sequence[int], counted: Sequence[Memory], taken: Sequence[int]) -> str:
        """Why a search, and why it ends where it does."""
        said = [self._why] if self._why else []
        if not self._strategies:
            said.append(f"there is nothing below {' and '.join(self._query.scope.roots())}")
        elif not rows:
            said.append("nothing matches")
        elif len(taken) < len(counted):
            left = self._query.max_tokens - sum(counted[i].token_count for i in taken)
            first = next(i for i in range(len(counted)) if i not in taken)
            said.append(
                f"a memory of {counted[first].token_count} tokens did not fit, {left} are left"
            )
        return "; ".join(said)


def within_budget(tokens: Iterable[int], budget: int, limit: int, skip: bool) -> Iterator[int]:
    """Which of some texts, best first, are taken; no more are asked for than that needs.

    Args:
        tokens: of each text.
        budget: tokens that those which are taken may have together.
        limit: how many may be taken.
        skip: whether to go on behind one that does not fit; else the choice ends there.
    """
    taken = 0
    for i, one in enumerate(tokens):
        if one <= budget:
            budget -= one
            taken += 1
            yield i
            if taken == limit:
                return
        elif not skip:
            return


def _tokens(tokenizer: Tokenizer, content: str) -> int:
    if len(content) > _SHORT:
        return tokenizer.count(content)
    return _tokens_of_short(tokenizer.name, content)


@lru_cache(maxsize=_COUNTED)
def _tokens_of_short(name: str, content: str) -> int:
    return open_tokenizer(name).count(content)


def known_of(entries: Sequence[Entry]) -> I64:
    """[n, 3] what the kernel knows of candidates."""
    rows = [(e.reinforcement, e.access_count, NEVER if e.time is None else e.time) for e in entries]
    return np.array(rows, np.int64).reshape(-1, 3)


def _merged(sides: Sequence[Ranked], depth: int) -> tuple[I32, F64]:
    """The best of some lists of one kind, ties by row."""
    if len(sides) == 1:
        return sides[0].rows, sides[0].scores
    rows = np.concatenate([side.rows for side in sides])
    scores = np.concatenate([side.scores for side in sides])
    order = np.lexsort((rows, -scores))[:depth]
    return rows[order], scores[order]


def weights_of(salience: Salience) -> F64:
    """[5] as the kernel takes them."""
    return np.array(
        [
            salience.semantic,
            salience.reinforcement,
            salience.recency,
            salience.access,
            salience.half_life_days,
        ]
    )
