"""TCP proxies that can go silent, or end their connections."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum
from typing import Any

_PIECE = 65536  # bytes
_NOW = struct.pack("ii", 1, 0)  # of SO_LINGER: close with a reset


class State(Enum):
    """What a proxy does with the bytes of its connections."""

    OPEN = "open"
    SILENT = "silent"  # holds them until it is open again, as a network that stalls
    CLOSED = "closed"  # resets all connections, old and new ones


class Proxies:
    """The thread of all proxies."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def make(self, target: Callable[[], int]) -> Proxy:
        """Return a proxy of a port of loopback, which may change."""
        return self.run(Proxy.made(self, target))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run work of the proxies."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """End all."""
        self.run(_end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class Proxy:
    """A proxy; see `Proxies.make`.

    Attributes:
        port: of loopback.
    """

    port: int

    def __init__(self, proxies: Proxies, target: Callable[[], int]) -> None:
        self._proxies = proxies
        self._target = target
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_closed = False
        self._writers: set[asyncio.StreamWriter] = set()

    @classmethod
    async def made(cls, proxies: Proxies, target: Callable[[], int]) -> Proxy:
        """Return a proxy that listens."""
        proxy = cls(proxies, target)
        server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        return proxy

    def set(self, state: State) -> None:
        """Change the state, also for connections that exist."""
        self._proxies.run(self._set(state))

    async def _set(self, state: State) -> None:
        self._is_closed = state is State.CLOSED
        if state is State.OPEN:
            self._is_open.set()
        else:
            self._is_open.clear()
        if self._is_closed:
            for writer in list(self._writers):
                _reset(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._is_closed:
                _reset(writer)
                return
            await self._is_open.wait()
            there, onward = await asyncio.open_connection("127.0.0.1", self._target())
            self._writers.add(onward)
            try:
                await asyncio.gather(self._pump(reader, onward), self._pump(there, writer))
            finally:
                self._writers.discard(onward)
                onward.close()
        except (OSError, asyncio.CancelledError):
            _reset(writer)
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                await self._is_open.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
    writer.transport.abort()


async def _end_all() -> None:
    """End all connections and the work on them."""
    own = asyncio.current_task()
    tasks = [task for task in asyncio.all_tasks() if task is not own]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
