"""The running gateway, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from vikingd import __version__
from vikingd.config import Settings, config_errors
from vikingd.gateway import connections, http_address
from vikingd.gateway.app import application
from vikingd.gateway.https_certificates import HttpsCertificates
from vikingd.system.platform import raise_file_limit
from vikingd.system.standard_streams import ends_by_hangup, say

_GRACE = 5  # seconds for running requests when the gateway stops
_NEVER = 24 * 3600  # seconds
_SWITCH_INTERVAL = 0.0005  # seconds; with Python's 5 ms a request waits so long for a busy thread

# Handshakes count among open files, but not among connections yet.
_FILES = 2 * connections.MOST + 64


class _Server(uvicorn.Server):
    """A uvicorn server that does not handle signals; the gateway does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(
    settings: Settings,
    listener: socket.socket | None = None,
    started: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM, SIGHUP or Ctrl-C.

    Args:
        settings: the settings of the gateway, and of the daemon that it calls.
        listener: a socket that listens at the address; None: one is opened here.
        started: called with the URL when the gateway listens.

    Raises:
        ConfigError: a setting cannot be used.
        OSError: the address cannot be used.
    """
    raise_file_limit(_FILES)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    # The gateway itself logs what fails; uvicorn would add a line, and the traceback.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with listener or http_address.listener(settings.gateway.address) as opened:
        asyncio.run(_serve(settings, opened, started))


async def _serve(
    settings: Settings, listener: socket.socket, started: Callable[[str], None]
) -> None:
    listen = http_address.with_bound_port(settings.gateway.address, listener)
    tls = settings.tls
    with config_errors("tls"):
        certificates = (
            HttpsCertificates(tls.certificate, tls.key, tls.client_ca) if listen.tls else None
        )
        context = certificates.context() if certificates else None
    async with application(settings, listen) as app:
        server = _Server(_configuration(app, context))
        loop = asyncio.get_running_loop()
        hangup = (signal.SIGHUP,) if ends_by_hangup() else ()
        for number in (signal.SIGTERM, signal.SIGINT, *hangup):
            loop.add_signal_handler(number, setattr, server, "should_exit", True)
        watch = asyncio.create_task(certificates.watch()) if certificates else None
        url = http_address.url(listen)
        say(f"vikingd {__version__} gateway on {url}")
        started(url)
        await server.serve([listener])
        if watch is not None:
            watch.cancel()


def _configuration(app: ASGIApp, context: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connections.Connection,
        h11_max_incomplete_event_size=connections.HEAD_BYTES,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        loop="none",
        proxy_headers=False,
        server_header=False,
        ssl_context_factory=(lambda *_: context) if context else None,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=_NEVER,  # the deadline of the next head comes first
        ws="none",
    )
