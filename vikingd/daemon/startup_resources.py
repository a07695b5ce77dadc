"""The resources that a daemon opens at its start: keys, models, tokenizers, tracing, metrics."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import structlog

from vikingd.access.keys import KeyStore
from vikingd.answer.search_answer import Models
from vikingd.config import ConfigError, Settings
from vikingd.context import tokenizers
from vikingd.domain.daemon_addresses import Address, parse
from vikingd.engine import Shared
from vikingd.models.intent.planner import Planner
from vikingd.models.rerank.reranker_protocol import RerankFailed
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.system.install_command import install_command
from vikingd.telemetry.metrics import Metrics
from vikingd.telemetry.metrics_endpoint import Endpoint

if TYPE_CHECKING:
    from vikingd.telemetry.tracing import Tracing

_log = structlog.stdlib.get_logger("vikingd")


def open_keys(settings: Settings, shared: Shared, accept_older: bool) -> KeyStore:
    """Return the keys of this data directory, or those that all nodes share."""
    if shared.database is None:
        return KeyStore(settings.path, accept_older=accept_older)
    from vikingd.access.shared_keys import SharedKeys
    from vikingd.store.postgres.postgres_key_tables import AccessTables

    return SharedKeys(settings.path, AccessTables(shared.database))


def open_tracing() -> Tracing:
    """Return the tracing object.

    Raises:
        ConfigError: its package is not installed, or an OTEL_* variable is wrong.
    """
    try:
        from vikingd.telemetry.tracing import Tracing
    except ImportError as error:
        raise ConfigError(
            f"tracing: {error.name} is not installed; install it with: {install_command('otel')}"
        ) from None
    try:
        return Tracing()
    except ValueError as error:
        raise ConfigError(f"tracing: {error} (from OTEL_* in the environment)") from None


def open_models(settings: Settings, metrics: Metrics) -> Models:
    """Open the planner and the rerankers, without a call to them."""
    planned = partial(metrics.model_called, "planner", settings.planner.model)
    reranked = partial(metrics.model_called, "reranker")
    try:
        return Models(
            Planner(settings.planner, planned), Rerankers(settings.rerank.backends, reranked)
        )
    except RerankFailed as error:
        raise ConfigError(f"rerank: {error}") from None


def open_tokenizers(settings: Settings) -> None:
    """Open the tokenizers of the configuration now, so that no request waits for it."""
    try:
        tokenizers.configure(settings.context.tokenizers)
    except ValueError as error:
        raise ConfigError(f"context.tokenizers.{error}") from None


def expose(metrics: Metrics, settings: Settings) -> Endpoint | None:
    """Serve the metrics by HTTP; return None if no address is configured for them."""
    if not settings.metrics_listen:
        return None
    address = parse(settings.metrics_listen)
    try:
        endpoint = metrics.listen(address.host, address.port, settings.metrics_token)
    except OSError as error:
        raise OSError(
            f"cannot serve metrics on {address}: {os.strerror(error.errno or 0)}"
        ) from None
    url = f"http://{Address(address.host, endpoint.port)}/metrics"
    _log.info("serving metrics", url=url)
    return endpoint
