"""The settings of an engine, and functions that open its store and its index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from viking_kernels.arrays import F32

from vikingd.domain.rights import DEFAULT_TENANT
from vikingd.index.index import Index
from vikingd.index.segment.disk import manifest_of
from vikingd.index.segment.manifest import Manifest
from vikingd.index.settings import IndexSettings
from vikingd.models.describe.describer_settings import DescriberSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.provider import Provider
from vikingd.store.history import Point
from vikingd.store.sqlite.sqlite_reader import StoreReader
from vikingd.store.sqlite.sqlite_schema import CACHE_KIB
from vikingd.store.sqlite.sqlite_store import Store
from vikingd.store.store_writes import WritableStore

if TYPE_CHECKING:
    from vikingd.store.postgres.postgres_database import Database

Progress = Callable[[str], None]
"""A function that gets a line for the operator at each step of a long start."""

_SMALL_CACHE_KIB = 4096  # of the database, for an engine of many
_INDEX = "index"  # the directory of the bases, within that of the store


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of an engine."""

    path: Path  # the directory of the store, or of the index alone if `store` is a URL
    embedding: EmbedSettings = field(default_factory=EmbedSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    exhaustive_texts: int = 150_000  # a scope of at most this many texts is scored whole
    reembed: bool = False  # if the store has vectors of another model, drop them
    accept_loss: bool = False  # accept a store that is older than it was
    reader: bool = False  # another process writes the store, and this one only reads it
    writer_address: str = ""  # of that other process; "" if it is unknown
    store: str = ""  # the URL of a PostgreSQL database; "" for SQLite in the directory
    tenant: str = DEFAULT_TENANT  # the part of the database
    small: bool = False  # one of many engines of the process: it takes less memory
    describer: DescriberSettings = field(default_factory=DescriberSettings)


def open_store(
    settings: EngineSettings, provider: Provider, database: Database | None
) -> WritableStore | StoreReader:
    """Open the store that the settings name.

    Args:
        settings: the settings; with `reader`, the store is only read.
        provider: the embedding provider, whose model and dimension the store must have.
        database: the PostgreSQL database; None with SQLite.

    Raises:
        StoreMismatch: the store has vectors of another model.
        StoreInUse: another process writes the store.
    """
    model, dimension = provider.model, provider.dimension
    if settings.reader:
        return StoreReader(
            settings.path, model=model, dimension=dimension, is_one_of_many=settings.small
        )
    if database is not None:
        from vikingd.store.postgres.postgres_store import PostgresStore  # it needs an extra

        settings.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return PostgresStore(
            database,
            settings.tenant,
            model=model,
            dimension=dimension,
            reembed=settings.reembed,
            make=not settings.small,
        )
    manifest = manifest_of(settings.path / _INDEX)
    # A base of revision 0 was written before the index had all contexts.
    indexed = _point(manifest) if manifest and manifest.store and manifest.revision else None
    return Store(
        settings.path,
        model=model,
        dimension=dimension,
        reembed=settings.reembed,
        indexed=indexed,
        accept_loss=settings.accept_loss,
        cache_kib=_SMALL_CACHE_KIB if settings.small else CACHE_KIB,
    )


def open_index(
    settings: EngineSettings,
    store: WritableStore | StoreReader,
    model: str,
    prior: F32,
    compacted: Callable[[float], None],
    origin: Callable[[], tuple[str, str]],
) -> Index:
    """Return the index of a store; it is empty until it is loaded.

    Args:
        store: the store; records of removed contexts are deleted once a base on disk has them.
        prior: [SCRIPTS, dim] float32; the model's mean vector of each script.
        compacted: called with the seconds of each compaction.
        origin: returns the store id and the epoch to write into a base.
    """

    def why_unusable(manifest: Manifest) -> str:
        return store.why_unusable(_point(manifest)) if manifest.revision else ""

    return Index(
        settings.path / _INDEX,
        model,
        prior,
        settings.index,
        written=store.forget_removals if isinstance(store, WritableStore) else lambda _: None,
        read_only=settings.reader,
        compacted=compacted,
        origin=origin,
        why_unusable=why_unusable,
        small=settings.small,
    )


def _point(manifest: Manifest) -> Point:
    """Return the store's Point at which a base was written, from its manifest."""
    return Point(manifest.store, manifest.epoch, manifest.revision)
