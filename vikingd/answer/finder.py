"""The steps of Find and BatchFind: embed the query, score the scope, let a reranker decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeVar

from viking_kernels.arrays import F32

from vikingd.answer.deadline import Runner, wait_for_revision
from vikingd.answer.find import Find, Finds, Gather, bound
from vikingd.answer.query_scope import LIGHT_BYTES
from vikingd.answer.query_vector import QueryVectors
from vikingd.answer.reranking import answer_finds
from vikingd.domain import pace
from vikingd.domain.answers import Degraded, Stage
from vikingd.domain.errors import InvalidField
from vikingd.domain.find import FindQuery, FindResult
from vikingd.domain.rights import Caller
from vikingd.engine import Engine
from vikingd.models.rerank.rerankers import Rerankers

_T = TypeVar("_T")
Reply = Callable[[FindResult, Stage], _T]
"""Makes a reply of a result and of the stage that embedded its query."""


class Finder:
    """Answers Find and BatchFind; the results in a reply have about `most_bytes`."""

    def __init__(
        self,
        engine: Engine,
        vectors: QueryVectors,
        rerankers: Rerankers,
        gather: Gather,
        most_bytes: int,
    ) -> None:
        self._engine = engine
        self._vectors = vectors
        self._rerankers = rerankers
        self._gather = gather
        self._most_bytes = most_bytes

    async def answer(
        self, query: FindQuery, vector: F32 | None, caller: Caller, run: Runner, reply: Reply[_T]
    ) -> _T:
        """Return the reply to a checked query; without a vector [dim] its text is embedded.

        Only what the caller may read answers.

        Raises:
            NotFound: nothing readable exists below the target.
            InvalidField: the target is a file, or `where` is malformed.
        """
        find, embed = await self._bind(query, vector, caller, run)
        if query.thinking:
            return await run.away(reply, await self._rerank(find, run), embed)
        if find.is_light and not run.is_heavy:
            result = await run.here(find.answer, LIGHT_BYTES, self._gather)
            if not result.is_cut:
                return reply(result, embed)
        return await run.away(lambda: reply(find.answer(self._most_bytes, self._gather), embed))

    async def result(
        self, query: FindQuery, vector: F32 | None, caller: Caller, run: Runner, most_bytes: int
    ) -> tuple[FindResult, Stage]:
        """Return the result for a caller in this process, and the stage that embedded the query.

        `most_bytes` is the size in QUICK. Errors are those of `answer`.
        """
        find, embed = await self._bind(query, vector, caller, run)
        if query.thinking:
            return await self._rerank(find, run), embed
        return await run.away(find.answer, most_bytes), embed

    async def answer_batch(
        self,
        queries: Sequence[tuple[FindQuery, F32 | None]],
        caller: Caller,
        run: Runner,
        embedded: Callable[[Stage], None],
        reply: Reply[bytes],
    ) -> list[bytes]:
        """Return the replies to checked queries; without a vector [dim] the text is embedded.

        `embedded` takes the stage that embedded all texts.

        Raises:
            NotFound: a target does not exist.
            InvalidField: `requests[i]` has a target that is a file, or a malformed `where`.
        """
        await wait_for_revision(self._engine, max(query.min_revision for query, _ in queries), run)
        started = perf_counter()
        texts = list(dict.fromkeys(query.text for query, vector in queries if vector is None))
        vectors = await asyncio.gather(*(self._vectors.embed_or_note(text, run) for text in texts))
        made = dict(zip(texts, vectors, strict=True))
        embed = Stage("embed", started, perf_counter())
        embedded(embed)

        def answer(number: int, most_bytes: int) -> bytes:
            pace.step()
            query, vector = queries[number]
            vector, degraded = made[query.text] if vector is None else (vector, ())
            try:
                find = bound(self._engine, query, vector, degraded, caller)
                result = find.answer(most_bytes, self._gather)
            except InvalidField as error:
                raise error.below(f"requests[{number}]") from None
            return reply(result, embed)

        def answer_share(numbers: Sequence[int]) -> list[bytes]:
            """Return the replies to a share of the queries. Each may use the bytes left over."""
            left, replies = self._most_bytes * len(numbers) // len(queries), list[bytes]()
            for number in numbers:
                replies.append(answer(number, left // (len(numbers) - len(replies))))
                left -= len(replies[-1])
            return replies

        count = run.at_once
        parts = [range(first, len(queries), count) for first in range(count)]
        shares = await asyncio.gather(*(run.away(answer_share, part) for part in parts if part))
        return [shares[i % count][i // count] for i in range(len(queries))]

    async def _bind(
        self, query: FindQuery, vector: F32 | None, caller: Caller, run: Runner
    ) -> tuple[Find | Finds, Stage]:
        """Return the find on the newest snapshot, and the stage that embedded its query."""
        await wait_for_revision(self._engine, query.min_revision, run)
        degraded: Degraded = ()
        started = perf_counter()
        if vector is None:
            vector, degraded = await self._vectors.embed_or_note(query.text, run)
        embed = Stage("embed", started, perf_counter())
        find = await run.here(bound, self._engine, query, vector, degraded, caller)
        find.most_bytes = self._most_bytes
        return find, embed

    async def _rerank(self, find: Find | Finds, run: Runner) -> FindResult:
        (result,) = await answer_finds(find.query.text, [find], self._rerankers, run)
        return result
