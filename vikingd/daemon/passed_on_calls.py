"""The readers of a writer: their processes, and a server for the calls that they pass on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import ExitStack

import grpc
import structlog

from vikingd.config import ConfigError, Settings
from vikingd.daemon.open_tenants import Tenants
from vikingd.daemon.reader_processes import ReaderProcesses
from vikingd.domain.daemon_addresses import Address
from vikingd.domain.errors import VikingError
from vikingd.system.scratch import scratch
from vikingd.wire.call_interceptor import Boundary

# All calls of a reader share one connection. So there is no limit of its streams and its age, and
# room for more metadata than a caller may send. The sizes of requests are checked by the readers.
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 17),
    ("grpc.absolute_max_metadata_size", 1 << 17),
)
_LONGEST = 107  # bytes of the path of a unix socket; Linux has room for a zero after them

_log = structlog.stdlib.get_logger("vikingd")


class Readers:
    """The readers that a writer starts, and a server for the calls that they pass on.

    The server listens on a unix socket in a directory that this user alone can enter.

    Args:
        number: the number of readers.
        settings: the writer's settings.
        tenants: the writer's tenants.
        boundary: the interceptor of the calls that readers pass on.

    Raises:
        ConfigError: the directory for temporary files has too long a name.

    Attributes:
        server: the server, which needs the handlers of all services.
        processes: the processes of the readers.
    """

    def __init__(
        self, number: int, settings: Settings, tenants: Tenants, boundary: Boundary
    ) -> None:
        self._opened = ExitStack()
        path = self._opened.enter_context(scratch("calls")) / "socket"
        if len(os.fsencode(path)) > _LONGEST:
            self._opened.close()
            raise ConfigError(
                f"processes: the path {path} is too long: set TMPDIR to a shorter one"
            )
        self._address = f"unix:{path}"
        self.server = grpc.aio.server(interceptors=(boundary,), options=_OPTIONS)
        self.server.add_insecure_port(self._address)
        self.processes = ReaderProcesses(number, settings, self._accessed)
        self._tenants = tenants
        self._boundary = boundary
        self._counting = set[asyncio.Task[None]]()

    async def start(self, bound: list[Address]) -> None:
        """Start the server, then the readers, which share the TCP addresses of `bound`."""
        await self.server.start()
        self.processes.start(bound, self._address)

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
