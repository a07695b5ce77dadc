"""The vector of a query that came as text, within the time that its call has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from vikingd.domain.degradation import Degradation, DegradationReason, Degraded
from vikingd.domain.errors import EmbedderFailed, EmbedderRefused, EmbedderTimedOut
from vikingd.engine import Engine
from vikingd.wire.calls import Deadline, Threads, on
from vikingd.wire.messages.decode import Vector

SHORT = 200
"""Characters of a typed question; a longer text takes the embedder several times as long."""

_SHARE = 0.7  # of the time left: what the embedder may take before words alone answer

_T = TypeVar("_T")
Embedded = tuple[Vector | None, Degraded]


async def vector_or_note(
    engine: Engine, threads: Threads, text: str, deadline: Deadline
) -> Embedded:
    """The vector of a text; without one, what to say about that.

    No note where the daemon is configured to have no embedder.
    """
    try:
        return await vector_of(engine, threads, text, deadline), ()
    except EmbedderFailed as error:
        return None, (embedder_failed(error, "answered by text alone"),)


def embedder_failed(error: EmbedderFailed, instead: str) -> Degradation:
    """Return what to say of a text without a vector."""
    return Degradation(DegradationReason.EMBEDDER, f"{error}: {instead}")


async def vector_of(
    engine: Engine, threads: Threads, text: str, deadline: Deadline
) -> Vector | None:
    """The vector of a text; None where the daemon is configured to have no embedder.

    Raises:
        EmbedderFailed: it failed, or did not answer in its share of the time left.
    """
    embedder = engine.query_embedder
    if embedder is None:
        return None
    vector = embedder.cached(text)
    if vector is not None:
        return vector
    return await in_share(threads, deadline, embedder.embed, text)


async def in_share(
    threads: Threads, deadline: Deadline, embed: Callable[[str], _T], text: str
) -> _T:
    """What embedding a text comes to, within its share of the time left.

    Short texts have threads of their own: they never wait until a long one is embedded.

    Raises:
        EmbedderFailed: the embedder failed, or did not answer in time.
    """
    left = deadline.left()
    try:
        async with asyncio.timeout(None if left is None else left * _SHARE):
            pool = threads.embedding_short if len(text) <= SHORT else threads.embedding
            return await on(pool, deadline, embed, text)
    except EmbedderRefused as error:
        raise EmbedderRefused(f"the embedder refused ({error})") from None
    except EmbedderFailed as error:
        raise EmbedderFailed(f"the embedder failed ({error})", retryable="true") from None
    except TimeoutError:
        why = "the embedder did not answer in time"
        raise EmbedderTimedOut(why, retryable="true") from None
