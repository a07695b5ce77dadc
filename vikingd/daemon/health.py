"""The gRPC health service, and the states that it reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

import structlog
from grpc_health.v1 import health, health_pb2

from vikingd.engine import Engine
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

SERVICES = tuple(
    service.full_name
    for file in (retrieval_pb2, contexts_pb2, memories_pb2, admin_pb2, access_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
)
EMBEDDER = "viking.embedder"
"""The embedder's name in the health service."""

_INTERVAL = 0.5

_log = structlog.stdlib.get_logger("vikingd")


class Health:
    """Updates the states of the health service, and logs each change.

    Args:
        engine: the engine of the default tenant.
        readers: returns for each reader that this process starts, by its name, True if it serves.
    """

    def __init__(self, engine: Engine, readers: Callable[[], Mapping[str, bool]] = dict) -> None:
        self._readers = readers
        self.servicer = health.aio.HealthServicer()
        self._engine = engine
        self._known: dict[str, str | None] = {"": None, EMBEDDER: None}

    async def refresh(self) -> None:
        """Set the state of each service by the failures of the engine and its embedder."""
        faults = {"": self._engine.failure(), EMBEDDER: self._engine.embedding.failure()}
        for name, fault in faults.items():
            if fault != self._known[name]:
                level = logging.INFO if not fault else logging.WARNING if name else logging.ERROR
                _log.log(level, "health", service=name or "vikingd", fault=fault or "none")
            for service in (name,) if name else ("", *SERVICES):
                await self._set(service, serves=not fault)
        for reader, serves in self._readers().items():
            await self._set(f"viking.{reader}", serves=serves)
        self._known = faults

    async def _set(self, service: str, *, serves: bool) -> None:
        states = health_pb2.HealthCheckResponse
        await self.servicer.set(service, states.SERVING if serves else states.NOT_SERVING)

    @property
    def is_serving(self) -> bool:
        """True unless the last `refresh` found that the engine must not answer calls."""
        return self._known[""] is None

    async def watch(self, stop: asyncio.Event) -> None:
        """Refresh the states repeatedly until cancelled; set `stop` if the engine is lost."""
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                await self.refresh()
            except Exception:
                _log.exception("the health check failed")
            if self._engine.is_lost:
                stop.set()
