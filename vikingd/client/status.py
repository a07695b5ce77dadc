"""The results about the daemon, with the names of admin.proto, which explains each field."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """The state of the embedder; `backlog` texts wait for their vector."""

    provider: str
    model: str
    dimension: int
    backlog: int
    embedded: int
    last_error: str
    retry_time: datetime | None
    query_cache_hits: int
    query_cache_misses: int
    backlog_characters: int
    characters_per_second: float
    stalled: str
    reused: int


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The state of the index."""

    generation: int
    base_revision: int
    base_texts: int
    tail_texts: int
    dead_texts: int
    compacting: bool
    bytes_on_disk: int
    problem: str
    rebuilt: str
    old_bases: int


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The calls of one queue that wait for a thread, and the calls refused since the start."""

    queue: str
    waiting: int
    refused: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of the store, the index, the embedder and the queues."""

    version: str
    start_time: datetime | None
    revision: int
    directories: int
    files: int
    texts: int
    vectors: int
    relations: int
    store_bytes: int
    embedder: EmbedderStats
    index: IndexStats
    store_path: str
    reader: bool
    problem: str
    queues: tuple[QueueStats, ...]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The numbers of a comparison of index and store, and the differences."""

    ok: bool
    contexts: int
    texts: int
    vectors: int
    problems: tuple[str, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """The base in use now with its revision, and the room that was given back."""

    generation: int
    base_revision: int
    given_back_bytes: int
    removed_directories: int


@dataclass(frozen=True, slots=True)
class BackupPiece:
    """The next bytes of a backup, which has `size` bytes and the store at `revision`."""

    size: int
    revision: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ReembedResult:
    """The number of texts without a vector from `revision` on."""

    texts: int
    revision: int
