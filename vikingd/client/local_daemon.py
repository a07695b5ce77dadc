"""Daemons as child processes, and clients with one of their own: `vikingd.open("./data")`."""

from __future__ import annotations

import asyncio
import collections
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

import grpc

from vikingd.client.argument_checks import wrong_type
from vikingd.client.client_errors import ClientError, StoreInUse
from vikingd.client.clients import AsyncClient, Client
from vikingd.client.daemon_starts import check_installed, event_of, not_started, note
from vikingd.domain.daemon_addresses import LONGEST_PATH
from vikingd.system import platform
from vikingd.system.regular_files import open_regular

_SOCKET = "socket"
_LOCK = "lock"
_SERVING = re.compile(r"vikingd \S+ serving on (\S+)")
_STOP = 10.0  # seconds to end by itself


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
        address: the address of the daemon.
        pid: the process id of the daemon.
    """

    def __init__(
        self,
        options: Iterable[str],
        *,
        said: Callable[[str], None] = lambda _: None,
        log: BinaryIO | None = None,
    ) -> None:
        check_installed()
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
        """End the daemon and wait for it; a second call does nothing."""
        self._end()


_children: weakref.WeakSet[subprocess.Popen[str]] = weakref.WeakSet()


def _close_pipes() -> None:
    """Close the pipes to the daemons in a forked process; open ones keep the daemons running."""
    for process in list(_children):
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


os.register_at_fork(after_in_child=_close_pipes)


def _address(
    process: subprocess.Popen[str], said: Callable[[str], None], log: BinaryIO | None
) -> str:
    """Wait until the daemon serves, and return its address; a thread goes on reading its log."""
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
                    last.append(event_of(line))
                    said(last[-1])

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    assert process.stdout is not None
    found = _SERVING.match(process.stdout.readline())
    serves.set()
    if found is None:
        process.wait()
        listener.join()
        raise not_started(last)
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


class LocalClient(Client):
    """A Client with a daemon of its own; see vikingd.open.

    The daemon ends with `close`, at the end of `with`, when the client is garbage-collected, and
    with this process.

    Attributes:
        path: the directory.
    """

    path: Path

    def __init__(self, path: Path, daemon: Daemon, timeout: float | None) -> None:
        # The key and the tenant of the environment are for other daemons.
        super().__init__(daemon.address, timeout, key="", tenant="")
        self.path = path
        self._daemon = daemon  # copies of this client share it

    def close(self) -> None:
        """End the connection and the daemon."""
        super().close()
        self._daemon.stop()


class AsyncLocalClient(AsyncClient):
    """An AsyncClient with a daemon of its own; see vikingd.open_async."""

    path: Path

    def __init__(self, path: Path, daemon: Daemon, timeout: float | None) -> None:
        super().__init__(daemon.address, timeout, key="", tenant="")
        self.path = path
        self._daemon = daemon

    async def close(self) -> None:
        """End the connection and the daemon."""
        await super().close()
        await asyncio.to_thread(self._daemon.stop)


def started(
    path: str | os.PathLike[str],
    provider: str | None,
    config: str | os.PathLike[str] | None,
    log: str | os.PathLike[str] | None,
) -> tuple[Path, Daemon]:
    """Start a daemon for a directory, and return the directory and the daemon; see vikingd.open."""
    if not isinstance(path, (str, os.PathLike)):
        raise wrong_type("path", path, "a str or a Path", '"./data"')
    if "://" in os.fspath(path):
        raise ValueError(
            f"path is {os.fspath(path)!r}, and open() takes a directory, such as "
            f'vikingd.open("./data"); Client("{os.fspath(path).partition("://")[2]}") connects to '
            "a daemon that runs"
        )
    where = Path(path).expanduser().absolute()
    if where.exists() and not where.is_dir():
        raise ValueError(f"path is the file {where}; open() takes a directory for the data")
    _check_free(where)
    socket = where / _SOCKET
    short = len(os.fsencode(socket)) <= LONGEST_PATH
    # Only the owner reaches a socket. Its path may be too long; any user reaches a port.
    options = ["--path", str(where), "--listen", f"unix:{socket}" if short else "127.0.0.1:0"]
    options += ["--config", os.devnull if config is None else os.fspath(config)]
    if provider is not None:
        options += ["--provider", provider]
    with ExitStack() as stack:
        file = None if log is None else Path(log).expanduser().open("ab")  # its thread closes it
        said = stack.enter_context(note(f"a daemon for {where}"))
        try:
            return where, Daemon(options, said=said, log=file)
        except ClientError as error:
            if error.reason == "SERVER_NOT_STARTED":
                _check_free(where)  # another process may have been faster
                if _is_locked(where):
                    raise _in_use(where, "another process") from None
            raise


def _check_free(path: Path) -> None:
    """Raise StoreInUse, which names the holder, if a process holds the lock of the directory."""
    holder = platform.holder_of(path / _LOCK)
    if holder is not None:
        raise _in_use(path, _holder(holder), holder)


def _is_locked(path: Path) -> bool:
    """Return True if a process holds the lock of a store directory."""
    try:
        with open_regular(path / _LOCK) as lock:
            return not platform.lock(lock.fileno(), shared=True)
    except OSError:
        return False


def _in_use(path: Path, holder: str, pid: int = 0) -> StoreInUse:
    return StoreInUse(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"{path} is in use by {holder}; end it, or let several programs share one daemon: "
        f"`vikingd serve --path {path}`, and Client() in each of them",
        "STORE_IN_USE",
        {"path": str(path), **({"pid": str(pid)} if pid else {})},
    )


def _holder(pid: int) -> str:
    """Return a text that names the process which holds a store, or the parent of that process."""
    command = _command(pid)
    if "vikingd.daemon.child_daemon" not in command:
        return f"process {pid}" + (f" ({command})" if command else "")
    parent = platform.parent_of(pid)
    if parent is None:
        return f"process {pid} ({command})"
    if parent == os.getpid():
        return "this process, which has opened it already"
    return f"process {parent} ({_command(parent) or 'unknown'}), which opened it (daemon {pid})"


def _command(pid: int) -> str:
    text = platform.command_of(pid)
    return text if len(text) <= 80 else f"{text[:80]}..."
