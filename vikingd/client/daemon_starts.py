"""The start of a daemon by a client: checks, a note on the terminal, and the error."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import grpc

from vikingd.client.client_errors import ClientError
from vikingd.system.install_command import install_command

_PATIENCE = 1.0  # seconds before a note

_SERVER_MODULES = (
    "faiss",
    "grpc_health",
    "grpc_reflection",
    "numba",
    "numpy",
    "prometheus_client",
    "pydantic_settings",
    "re2",
    "Stemmer",
    "structlog",
)
_EVENT = re.compile(r'\bevent=(?:"((?:[^"\\]|\\.)*)"|(\S+))')
_NOT_DONE = grpc.StatusCode.FAILED_PRECONDITION


def check_installed() -> None:
    """Raise a ClientError (SERVER_NOT_INSTALLED) if packages of the daemon are missing."""
    if not all(map(importlib.util.find_spec, _SERVER_MODULES)):
        raise ClientError(
            _NOT_DONE,
            f"the daemon is not installed; install it with: {install_command('server')}",
            "SERVER_NOT_INSTALLED",
        )


def event_of(line: str) -> str:
    """Return the event in a line of a daemon's log; the line itself if it has none."""
    event = _EVENT.search(line)
    return (event[1] or event[2]) if event else line.strip()


def not_started(last: Iterable[str], log: str = "") -> ClientError:
    """Return the error of a daemon that did not start (SERVER_NOT_STARTED).

    Args:
        last: the last events of its log.
        log: the file with the whole log, if there is one.
    """
    more = [f"its log: {log}"] if log else []
    return ClientError(
        _NOT_DONE, "\n  ".join(["the daemon did not start", *last, *more]), "SERVER_NOT_STARTED"
    )


@contextmanager
def note(daemon: str) -> Iterator[Callable[[str], None]]:
    """Within the block, tell a user at a terminal (on stderr) that the start takes long.

    Yields a function that the block calls with each event of the daemon's log. It prints the event
    if the user was told that the start takes long.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    last = "the first start compiles its kernels, which takes up to a minute"
    shown = threading.Event()

    def tell() -> None:
        print(f"vikingd: starting {daemon}: {last}", file=sys.stderr, flush=True)
        shown.set()

    def said(event: str) -> None:
        if shown.is_set():
            print(f"vikingd: {event}", file=sys.stderr, flush=True)

    timer = threading.Timer(_PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield said
    finally:
        timer.cancel()
