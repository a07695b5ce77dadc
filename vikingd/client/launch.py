"""The start of a daemon as a child process, and its end."""

from __future__ import annotations

import collections
import importlib.util
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from typing import BinaryIO

import grpc

from vikingd.client.errors import ClientError

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
_SERVING = re.compile(r"vikingd \S+ serving on (\S+)")
_EVENT = re.compile(r'\bevent=(?:"((?:[^"\\]|\\.)*)"|(\S+))')
_STOP = 10.0  # seconds to end by itself
_NOT_DONE = grpc.StatusCode.FAILED_PRECONDITION


class Daemon:
    """A daemon that is a child of this process. It ends with the object, or with this process.

    Args:
        options: options of `vikingd serve`.
        said: called on a thread with each event of the log until the daemon serves.
        log: a file for the log, which is closed in the end; None: the log is dropped.

    Raises:
        ClientError: the daemon is not installed (SERVER_NOT_INSTALLED) or does not start
            (SERVER_NOT_STARTED).

    Attributes:
        address: its address.
        pid: its process id.
    """

    def __init__(
        self,
        options: Iterable[str],
        *,
        said: Callable[[str], None] = lambda _: None,
        log: BinaryIO | None = None,
    ) -> None:
        if not all(map(importlib.util.find_spec, _SERVER_MODULES)):
            raise ClientError(
                _NOT_DONE,
                "the daemon is not installed; install it with: pip install 'vikingd[server]'",
                "SERVER_NOT_INSTALLED",
            )
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "vikingd.daemon.child_daemon", "serve", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C reaches only this process, which then ends the daemon.
            start_new_session=True,
        )
        _children.add(process)
        self.pid = process.pid
        self._end = weakref.finalize(self, _stop, process, os.getpid())
        try:
            self.address = _address(process, said, log)
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        """Ends the daemon and waits for it; a second call does nothing."""
        self._end()


_children: weakref.WeakSet[subprocess.Popen[str]] = weakref.WeakSet()


def _let_go() -> None:
    """Close this process's ends of the pipes: a fork must not keep the daemons of its parent."""
    for process in list(_children):
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


os.register_at_fork(after_in_child=_let_go)


def _address(
    process: subprocess.Popen[str], said: Callable[[str], None], log: BinaryIO | None
) -> str:
    """Wait until the daemon serves; its log goes on being read."""
    last: collections.deque[str] = collections.deque(maxlen=10)
    serves = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        with process.stderr, log or nullcontext():
            for line in process.stderr:
                if log is not None:
                    log.write(line.encode())
                    log.flush()
                if not serves.is_set():
                    event = _EVENT.search(line)
                    last.append((event[1] or event[2]) if event else line.strip())
                    said(last[-1])

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    assert process.stdout is not None
    found = _SERVING.match(process.stdout.readline())
    serves.set()
    if found is None:
        process.wait()
        listener.join()
        lines = "\n  ".join(["the daemon did not start", *last])
        raise ClientError(_NOT_DONE, lines, "SERVER_NOT_STARTED")
    return found[1]


def _stop(process: subprocess.Popen[str], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner
        return
    process.terminate()
    try:
        process.wait(_STOP)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C does not wait
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
