"""The state of an engine in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from vikingd.index.index import IndexState


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """The state of the embedder.

    Attributes:
        backlog: the number of texts that wait for their vector.
        embedded: the number of texts that got their vector since the start.
        last_error: why no text is embedded now, or why texts are skipped; "" otherwise.
        retry_at: the time of the next attempt, in microseconds since the epoch.
        backlog_cost: the work of the backlog, see `Backlog`.
        rate: work done per second; 0 while it is unknown.
        stalled: why no vector has come for long although texts wait; "" otherwise.
        reused: the number of embedded texts that took the vector of an equal text.
    """

    provider: str
    model: str
    dimension: int
    backlog: int
    embedded: int
    last_error: str
    retry_at: int | None
    query_cache_hits: int
    query_cache_misses: int
    backlog_cost: int
    rate: float
    stalled: str
    reused: int


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The state of an engine; `problem` is why writes are refused, "" while they are accepted."""

    revision: int
    directories: int
    files: int
    texts: int
    vectors: int
    relations: int
    store_bytes: int
    store_path: str
    started_at: int
    reader: bool
    embedder: EmbedderStats
    index: IndexState
    problem: str
