"""The one daemon of this user, for clients with the address `user`; it is started if needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import grpc

from vikingd import __version__
from vikingd.client.client_errors import ClientError, Stopping, Unreachable
from vikingd.client.daemon_starts import check_installed, event_of, not_started, note
from vikingd.system import daemon_lock, platform
from vikingd.system.daemon_log import last_lines
from vikingd.system.user_paths import user_log, user_socket, user_store

UNSENT = "failed to connect to all addresses"
"""The beginning of gRPC's message for a call that was not sent."""

_FRESH = 1.0  # seconds after an answer in which the daemon is not looked for
_LOOK = 0.05  # seconds between two looks during a start
_TELL = 1.0  # seconds between two events of the log that a note shows
_PAUSE = 0.1  # seconds before a call is repeated; gRPC waits up to a second to connect again
_MOST = 20  # repetitions
_LINES = 10  # of the log, in an error


class UsersDaemon:
    """The daemon at the socket of this user. Any thread may use it.

    Raises:
        ValueError: there is no safe place for the socket; see `user_socket`.

    Attributes:
        socket: the path of the socket.
    """

    def __init__(self) -> None:
        self.socket = user_socket()
        self._starting = threading.Lock()
        self._answered = -_FRESH  # monotonic, in seconds
        self._has_told = False

    @property
    def is_fresh(self) -> bool:
        """True if the daemon answered a short time ago, so that no check is needed."""
        return time.monotonic() - self._answered < _FRESH

    def answered(self) -> None:
        """Record that the daemon answered a call now."""
        self._answered = time.monotonic()

    def reach(self) -> None:
        """Start the daemon if it does not run, and wait until it serves.

        Raises:
            ClientError: the daemon is not installed (SERVER_NOT_INSTALLED) or does not start
                (SERVER_NOT_STARTED).
        """
        try:
            if not daemon_lock.listens(self.socket):
                with self._starting:
                    self._start()
            self._tell_difference()
        except OSError as error:
            raise not_started([f"{self.socket}: {error.strerror or error}"]) from None

    def recovers(self, error: ClientError, attempt: int, *, is_repeatable: bool) -> bool:
        """Start the daemon again after a failed call; return True if the call should be repeated.

        If it should not, nothing is started. A call that was certainly not sent may always be
        repeated.

        Args:
            attempt: the number of failures of this call.
            is_repeatable: a repetition does no harm even if the daemon has done the work.

        Raises:
            ClientError: the daemon cannot be started, see `reach`.
        """
        if attempt > _MOST or not isinstance(error, Unreachable | Stopping):
            return False
        if not (is_repeatable or UNSENT in error.message):
            return False
        time.sleep(_PAUSE)
        self.reach()
        return True

    def _start(self) -> None:
        check_installed()
        with note("the daemon of this user") as said:
            starter = subprocess.run(
                [sys.executable, "-P", "-m", "vikingd.daemon.user_daemon"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                start_new_session=True,  # Ctrl-C ends the wait alone
            )
            if starter.returncode:
                raise not_started([starter.stderr.strip().removeprefix("vikingd: ")])
            directory, told = os.path.dirname(self.socket), time.monotonic()
            while not daemon_lock.listens(self.socket):
                is_over = daemon_lock.holder_in(directory) is None
                if is_over and not daemon_lock.listens(self.socket):
                    said_last = [*map(event_of, last_lines(_LINES)), *_holder_of_store()]
                    raise not_started(said_last, user_log())
                if time.monotonic() - told > _TELL:
                    told = time.monotonic()
                    for line in last_lines(1):
                        said(event_of(line))
                time.sleep(_LOOK)

    def _tell_difference(self) -> None:
        """Print once, on a terminal's stderr, that the daemon has another version."""
        if not self._has_told and sys.stderr.isatty() and (text := version_difference(self.socket)):
            print(f"vikingd: {text}", file=sys.stderr, flush=True)
        self._has_told = True


def _holder_of_store() -> list[str]:
    """Return who else holds the user's store, with a remedy; nothing if no holder is known."""
    pid = platform.holder_of(Path(user_store()) / "lock")
    if pid is None:
        return []
    command = platform.command_of(pid) or "unknown"
    return [
        f"process {pid} has the store ({command[:80]}): connect to its address instead of user "
        "(127.0.0.1:7716 unless it says another), or end it"
    ]


def version_difference(path: str) -> str:
    """Return a text if the daemon at this socket has another version than this client; else "".

    Raises:
        OSError: the lock of the daemon cannot be read.
    """
    holder = daemon_lock.holder_in(os.path.dirname(path))
    if holder is None or holder.version in ("", __version__):
        return ""
    return (
        f"the daemon of this user is vikingd {holder.version}, and this is {__version__}: "
        "`vikingctl stop` ends it, and the next call starts the new one"
    )


def stop() -> bool:
    """Stop the daemon, and wait for its end; return False if none runs.

    Raises:
        ValueError: as `UsersDaemon`.
        OSError: the lock of the daemon cannot be read.
        ClientError: the daemon was started in another way, or its process is not known
            (NOT_STOPPED).
    """
    socket = user_socket()
    directory = os.path.dirname(socket)
    holder = daemon_lock.holder_in(directory)
    if holder is None:
        if daemon_lock.listens(socket):
            raise _not_stopped(f"the daemon at unix:{socket} was not started by the address user")
        return False
    command = platform.command_of(holder.pid) if holder.pid else "unknown"
    if command and "vikingd" not in command:
        raise _not_stopped(f"the process of the daemon at unix:{socket} is not known")
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(holder.pid, signal.SIGTERM)
    while daemon_lock.holder_in(directory) == holder:
        time.sleep(_LOOK)
    return True


def _not_stopped(why: str) -> ClientError:
    return ClientError(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"{why}: stop it where it was started, or send SIGTERM to its process",
        "NOT_STOPPED",
    )
