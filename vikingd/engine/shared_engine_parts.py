"""The parts that the engines of one process share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from viking_kernels.arrays import F32, SCRIPTS

from vikingd.domain.checksums import opened, sealed
from vikingd.domain.errors import DiskFull, EmbedderFailed
from vikingd.engine.store_opening import Progress
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.describe.describer_thread import DescriberThread
from vikingd.models.embed.backlog_thread import Backlogs
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.prior_centroids import prior_means
from vikingd.models.embed.provider_choice import open_provider
from vikingd.store.sqlite.sqlite_reader import StoreReader
from vikingd.store.store_writes import WritableStore
from vikingd.telemetry.metrics import Metrics
from vikingd.times.time_phrases import spans

if TYPE_CHECKING:
    from vikingd.store.postgres.postgres_database import Database

_BYTES = 4  # of a float32


class Shared:
    """The parts that all engines of a process use: embedder, describer, database and metrics.

    Any number of engines may use them, on any threads.

    Args:
        settings: the settings of the embedding provider.
        metrics: records the times of compactions and query vectors.
        store: the URL of the PostgreSQL database; "" with SQLite.
        describer: the endpoint of the model that describes contexts. None, or settings without the
            name of a model: no contexts are described.

    Attributes:
        send_accesses: in a reader, sends the counted accesses of a tenant's memories to the writer;
            None: there is no writer to send them to.
        describer: the thread that asks this model; None without a model.
        database: the database of this node; None with SQLite.

    Raises:
        EmbedderFailed: the embedder cannot run here.
        StoreAway, StoreMismatch, StoreFailed: the database cannot be used.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        metrics: Metrics | None = None,
        store: str = "",
        describer: PlannerSettings | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.describer: DescriberThread | None = None
        if describer is not None and describer.model:
            record_call = partial(self.metrics.model_called, "describer", describer.model)
            self.describer = DescriberThread(describer, record_call)
        self.send_accesses: Callable[[str, Mapping[int, int]], object] | None = None
        self.provider = open_provider(settings)
        self.backlogs = Backlogs(settings)
        self._lock = Lock()
        self._prior: F32 | None = None
        self._is_warm = False
        self.database = _open_database(store) if store else None

    def prior(self, store: WritableStore | StoreReader, progress: Progress) -> F32:
        """Return the embedding model's mean vector of each script, and write it to the store.

        The mean vectors are computed at most once in a process. They are read from the store if it
        has them.

        Returns:
            [SCRIPTS, dim] float32; zeros without an embedder, or if it fails.
        """
        provider = self.provider
        dimension = provider.dimension or store.dimension or 0
        if provider.dimension is None:
            return np.zeros((SCRIPTS, dimension), np.float32)
        key = f"prior/{provider.model}/{dimension}"
        kept = opened(store.get_meta(key))
        if kept is not None and len(kept) == _BYTES * SCRIPTS * dimension:
            return np.frombuffer(kept, "<f4").reshape(SCRIPTS, dimension).astype(np.float32)
        with self._lock:
            if self._prior is None:
                try:
                    self._prior = prior_means(provider)
                except EmbedderFailed as error:
                    progress(f"the model's prior is missing until the next start: {error}")
                    return np.zeros((SCRIPTS, dimension), np.float32)
            prior = self._prior.astype(np.float32)
        if isinstance(store, WritableStore):
            try:
                store.set_meta(key, sealed(prior.astype("<f4").tobytes()))
            except DiskFull as error:
                progress(f"the next start must compute the model's prior again: {error}")
        return prior

    def warm(self, progress: Progress) -> None:
        """Embed a question once, because the first one takes long; show an error by `progress`."""
        with self._lock:
            if self._is_warm:
                return
            self._is_warm = True
            spans("yesterday", datetime.now(UTC))  # compiles the patterns of time
            try:
                self.provider.embed_query("a first question")
            except EmbedderFailed as error:
                progress(f"queries are answered by text alone for now: {error}")

    def stop(self) -> None:
        """Stop the background work at once; waiting texts and contexts wait for the next start."""
        if self.describer is not None:
            self.describer.stop()
        self.backlogs.stop()

    def close(self) -> None:
        """Close the embedder and the database; call `stop` and close all engines before."""
        self.provider.close()
        if self.database is not None:
            self.database.close()


def _open_database(url: str) -> Database:
    from vikingd.store.postgres.postgres_database import Database  # it needs an extra

    return Database(url)
