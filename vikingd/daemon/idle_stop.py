"""The stop of a daemon that nobody uses or nobody can reach."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import structlog

from vikingd.daemon.open_tenants import Tenants
from vikingd.daemon.reader_processes import ReaderProcesses
from vikingd.domain.daemon_addresses import Address
from vikingd.wire.call_interceptor import Boundary

_LOOK = 1.0  # seconds between two looks

_log = structlog.stdlib.get_logger("vikingd")


class IdleStop:
    """Stops the daemon when no call came for some time and no work is left.

    When it stops, new calls are refused: one that arrives just then gets Stopping, and its client
    may repeat it. The unix socket is removed, so new clients do not find it.

    It also stops a daemon that nobody can reach any more, because all its addresses are unix
    sockets and their files are gone. This happens when the system removes a user's runtime
    directory at the last logout. The user's next daemon can then open the store.

    Args:
        seconds: the time without a call.
        addresses: all addresses of the daemon.
        readers: the readers that this daemon has started, whose calls count, too.
    """

    def __init__(
        self,
        seconds: float,
        addresses: Sequence[Address],
        boundary: Boundary,
        tenants: Tenants,
        readers: ReaderProcesses | None = None,
    ) -> None:
        self._readers = readers
        self._seconds = seconds
        self._sockets = [Path(one.path) for one in addresses if one.path]
        self._has_ports = len(self._sockets) < len(addresses)
        self._boundary = boundary
        self._tenants = tenants

    async def watch(self, stop: asyncio.Event) -> None:
        """Check repeatedly until cancelled; set `stop` when the daemon must stop."""
        while True:
            await asyncio.sleep(min(_LOOK, self._seconds / 4))
            idle = self._boundary.idle_seconds()
            if idle >= self._seconds and self._readers is not None:
                idle = min(idle, await self._readers.idle_seconds())
            if idle >= self._seconds and not self._tenants.has_work:
                _log.info("no call came for stop_when_idle", seconds=self._seconds)
                self._end(stop)
            elif idle and not self._can_be_reached():
                _log.warning("the unix socket was removed, and nobody can connect any more")
                self._end(stop)

    def _end(self, stop: asyncio.Event) -> None:
        self._boundary.refuse_calls()
        for socket in self._sockets:
            socket.unlink(missing_ok=True)
        stop.set()

    def _can_be_reached(self) -> bool:
        return self._has_ports or any(socket.exists() for socket in self._sockets)
