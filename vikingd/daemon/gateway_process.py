"""The gateway as a child process of the daemon."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
from multiprocessing.connection import Connection

import structlog

from vikingd.config import ConfigError, Settings, config_errors
from vikingd.daemon.logs import configure_logs
from vikingd.daemon.restarted_child import RestartedChild
from vikingd.domain.daemon_addresses import Address
from vikingd.gateway import http_address
from vikingd.system import pem
from vikingd.system.install_command import install_command
from vikingd.system.platform import end_with_parent

_PACKAGES = ("mcp", "starlette", "uvicorn")
_GRACE = 5.5  # seconds for the end; the gateway itself takes five for running requests

_log = structlog.stdlib.get_logger("vikingd")


def missing_package() -> str:
    """Return the name of a package that the gateway needs and that is not installed; else ""."""
    return next((name for name in _PACKAGES if importlib.util.find_spec(name) is None), "")


def page_hint() -> str:
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
            with config_errors("tls"):
                pem.read_pair(tls.certificate, tls.key)
        self._settings = settings
        self._listener = http_address.listener(address)
        self._child: RestartedChild | None = None

    def start(self, bound: list[Address]) -> None:
        """Start the child. It calls the daemon at the first of its addresses without TLS.

        Raises:
            ConfigError: all addresses of the daemon use TLS.
        """
        gateway = self._settings.gateway
        daemon = gateway.daemon or str(http_address.plain(bound))
        told = gateway.model_copy(update={"daemon": daemon})
        settings = self._settings.model_copy(update={"gateway": told})
        arguments = (settings, self._listener, os.getpid())
        self._child = RestartedChild("gateway", _serve, arguments, _started, _GRACE)
        self._child.start()

    async def stop(self) -> None:
        """End the child after the requests that it is answering."""
        if self._child is not None:
            await self._child.stop()
        self._listener.close()


def _started(url: str, pid: int) -> None:
    _log.info("gateway started", url=url, pid=pid)


def _serve(started: Connection, settings: Settings, listener: socket.socket, parent: int) -> None:
    """Run the gateway; this is the main function of the child."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the daemon handles them
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL, parent)
    configure_logs(settings.log_level)
    from vikingd.gateway import http_server

    http_server.run(settings, listener, started.send)
