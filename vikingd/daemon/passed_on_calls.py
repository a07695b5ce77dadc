"""The writer's side of its readers: their processes, and the socket for calls that they pass on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack

import grpc
import structlog

from vikingd.config import Settings
from vikingd.daemon.open_tenants import Tenants
from vikingd.daemon.reader_processes import ReaderProcesses
from vikingd.daemon.server_options import server_options
from vikingd.domain.daemon_addresses import Address
from vikingd.domain.errors import VikingError
from vikingd.system.scratch import scratch
from vikingd.wire.boundary import Boundary

_CONNECTIONS = 1000  # one for each reader, and new ones of those that start again

_log = structlog.stdlib.get_logger("vikingd")


class Readers:
    """The readers that a writer starts, and a server for the calls that they pass on.

    The server listens on a unix socket in a directory that this user alone can enter.

    Args:
        number: the number of readers.
        settings: the writer's settings.
        tenants: the writer's tenants.
        boundary: the interceptor of the calls that readers pass on.

    Attributes:
        server: the server, which needs the handlers of all services.
        processes: the processes of the readers.
    """

    def __init__(
        self, number: int, settings: Settings, tenants: Tenants, boundary: Boundary
    ) -> None:
        self.server = grpc.aio.server(
            interceptors=(boundary,),
            options=server_options(settings.limits.max_message_bytes, _CONNECTIONS, tls=False),
        )
        self.processes = ReaderProcesses(number, settings, self._accessed)
        self._tenants = tenants
        self._boundary = boundary
        self._opened = ExitStack()
        self._counting = set[asyncio.Task[None]]()

    async def start(self, bound: list[Address]) -> None:
        """Start the server, then the readers, which share the writer's TCP addresses."""
        directory = self._opened.enter_context(scratch("calls"))
        address = f"unix:{directory / 'socket'}"
        self.server.add_insecure_port(address)
        await self.server.start()
        self.processes.start(bound, address)

    async def stop(self) -> None:
        """End the readers after the calls that they are answering, then the server."""
        await self.processes.stop()
        if self._counting:
            await asyncio.wait(self._counting)
        await self.server.stop(None)
        self._boundary.close()
        self._opened.close()

    def _accessed(self, tenant: str, counts: Mapping[int, int]) -> None:
        task = asyncio.create_task(self._count(tenant, counts))
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)

    async def _count(self, tenant: str, counts: Mapping[int, int]) -> None:
        try:
            await self._tenants.add_accesses(tenant, counts)
        except VikingError as error:  # such as a tenant that was deleted meanwhile
            _log.warning("accesses are not counted", tenant=tenant, reason=str(error))
