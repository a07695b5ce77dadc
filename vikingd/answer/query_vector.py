"""The vector of a text, embedded within a share of the time that its call has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from viking_kernels.arrays import F32

from vikingd.answer.deadline import Deadline, Threads
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.errors import EmbedderFailed, EmbedderRefused, EmbedderTimedOut
from vikingd.domain.rights import CALLER
from vikingd.engine import Engine

_SHARE = 0.7  # of the time left: the embedder's part, before words alone answer

_T = TypeVar("_T")


class QueryVectors:
    """Embeds the texts of queries.

    Callers of different names share no entry of the cache, so that times tell nothing of others.
    """

    def __init__(self, engine: Engine, threads: Threads) -> None:
        self._engine = engine
        self._threads = threads

    async def embed(self, text: str, deadline: Deadline) -> F32 | None:
        """Return the vector [dim] of a text; None if the daemon has no embedder.

        Raises:
            EmbedderFailed: the embedder failed, or did not answer in its share of the time left.
        """
        embedder = self._engine.embedding.query_embedder
        if embedder is None:
            return None
        caller = CALLER.get().name  # threads do not see it
        vector = embedder.cached(text, caller)
        if vector is not None:
            return vector

        def embed(text: str) -> F32:
            return embedder.embed(text, caller)

        return await embed_in_share(self._threads, deadline, embed, text)

    async def embed_or_note(self, text: str, deadline: Deadline) -> tuple[F32 | None, Degraded]:
        """Return the vector of a text, or None and a note for the reply about the failure.

        A daemon without an embedder needs no note.
        """
        try:
            return await self.embed(text, deadline), ()
        except EmbedderFailed as error:
            return None, (embedder_failed(error, "answered by text alone"),)


def embedder_failed(error: EmbedderFailed, instead: str) -> Degradation:
    """Return the note on a text that has no vector."""
    return Degradation(DegradationReason.EMBEDDER, f"{error}: {instead}")


async def embed_in_share(
    threads: Threads, deadline: Deadline, embed: Callable[[str], _T], text: str
) -> _T:
    """Embed a text within a share of the time left.

    Raises:
        EmbedderFailed: the embedder failed, or did not answer in time.
    """
    left = deadline.left()
    try:
        async with asyncio.timeout(None if left is None else left * _SHARE):
            return await threads.embed(deadline, embed, text)
    except EmbedderRefused as error:
        raise EmbedderRefused(f"the embedder refused ({error})") from None
    except EmbedderFailed as error:
        raise EmbedderFailed(f"the embedder failed ({error})", retryable="true") from None
    except TimeoutError:
        why = "the embedder did not answer in time"
        raise EmbedderTimedOut(why, retryable="true") from None
