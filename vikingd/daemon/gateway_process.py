"""The gateway as a child process of the daemon."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import structlog

from vikingd.config import ConfigError, Settings, usable
from vikingd.daemon.logs import configure_logs
from vikingd.domain.daemon_addresses import Address
from vikingd.gateway import http_address
from vikingd.system import pem
from vikingd.system.install_command import install_command
from vikingd.system.platform import end_with_parent

_PACKAGES = ("mcp", "starlette", "uvicorn")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds before another start
_STEADY = 60.0  # seconds of work after which the next pause is a short one
_GRACE = 5.5  # seconds for the end; the gateway itself takes five for running requests

_log = structlog.stdlib.get_logger("vikingd")


def missing_package() -> str:
    """Return the name of a package that the gateway needs and that is not installed; else ""."""
    return next((name for name in _PACKAGES if importlib.util.find_spec(name) is None), "")


def way_to_the_page() -> str:
    """Return one line that tells how to get the browser page from a daemon without a gateway."""
    start = "start with --gateway 127.0.0.1:7717"
    return f"{install_command('gateway')}, then {start}" if missing_package() else start


class GatewayProcess:
    """The gateway in a child process, which is started again if it dies.

    The daemon holds the listening socket, so connections wait while no child runs. The child ends
    with the daemon.

    Raises:
        ConfigError: a package is not installed, or the files of TLS cannot be used.
        OSError: the address is taken.
    """

    def __init__(self, settings: Settings) -> None:
        if name := missing_package():
            raise ConfigError(
                f"{name} is not installed; install it with: {install_command('gateway')}"
            )
        address, tls = settings.gateway.address, settings.tls
        if address.tls:
            with usable("tls"):
                pem.read_pair(tls.certificate, tls.key)
        self._settings = settings
        self._listener = http_address.listener(address)
        self._process: SpawnProcess | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, bound: list[Address]) -> None:
        """Start the child. It calls the daemon at the first of its addresses without TLS.

        Raises:
            ConfigError: all addresses of the daemon use TLS.
        """
        gateway = self._settings.gateway
        daemon = gateway.daemon or str(http_address.plain(bound))
        told = gateway.model_copy(update={"daemon": daemon})
        settings = self._settings.model_copy(update={"gateway": told})
        self._task = asyncio.create_task(self._run(settings))

    async def stop(self) -> None:
        """End the child after the requests that it is answering."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._listener.close()
        if self._process is not None:
            self._process.terminate()
            await asyncio.to_thread(_reap, self._process)

    async def _run(self, settings: Settings) -> None:
        """Start the child, and start it again each time it has ended."""
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                process = await self._run_child(settings)
                await asyncio.to_thread(_reap, process)
                how = f"exit code {process.exitcode}"
            except OSError as error:  # for example, no process can be started
                how = str(error)
            self._process = None
            if time.monotonic() - began > _STEADY:
                pause = _FIRST_PAUSE
            _log.error("gateway ended", how=how, starts_again_in_s=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _run_child(self, settings: Settings) -> SpawnProcess:
        """Start a child, wait until it ends and so closes the pipe, and return it."""
        context = get_context("spawn")
        reads, writes = context.Pipe(duplex=False)
        arguments = (writes, settings, self._listener, os.getpid())
        process = context.Process(
            target=_serve, args=arguments, name="vikingd-gateway", daemon=True
        )
        process.start()
        self._process = process
        writes.close()
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(reads.fileno(), readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                if reads.poll():  # the loop may have set the event twice for one message
                    _log.info("gateway started", url=reads.recv(), pid=process.pid)
        except EOFError:
            return process
        finally:
            loop.remove_reader(reads.fileno())
            reads.close()


def _reap(process: SpawnProcess) -> None:
    process.join(_GRACE)
    if process.exitcode is None:
        process.kill()
        process.join()


def _serve(started: Connection, settings: Settings, listener: socket.socket, parent: int) -> None:
    """Run the gateway; this is the main function of the child."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the daemon handles them
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL, parent)
    configure_logs(settings.log_level)
    from vikingd.gateway import http_server

    http_server.run(settings, listener, started.send)
