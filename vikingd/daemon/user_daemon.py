"""A command that starts the one daemon of a user: `python -m vikingd.daemon.user_daemon`.

It starts `vikingd serve` with the store and the socket of the user, in a session of its own, and
exits at once. If that daemon runs or starts already, it does nothing. If that daemon is stopping,
it waits for the end first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib

from vikingd import __version__
from vikingd.system import daemon_lock
from vikingd.system.daemon_lock import Holder
from vikingd.system.daemon_log import open_log
from vikingd.system.regular_files import read_text
from vikingd.system.user_paths import make_socket_directory, user_config, user_socket, user_store

_IDLE = "24h"  # unless the configuration says another time
_LOOK = 0.05  # seconds


def start() -> None:
    """Start the user's daemon, unless it runs or is starting.

    Raises:
        ValueError: the environment gives no usable directory for the store or the socket.
        OSError: a file cannot be created, or the process cannot be started.
    """
    path, directory = user_socket(), make_socket_directory()
    while (lock := daemon_lock.take(directory)) is None:
        if daemon_lock.listens(path):
            return
        time.sleep(_LOOK)  # it starts or stops
    try:
        if not daemon_lock.listens(path):  # one with the same socket may be started in another way
            process = _spawn(path, lock)
            daemon_lock.write_holder(lock, Holder(process, __version__))
    finally:
        os.close(lock)


def _spawn(path: str, lock: int) -> int:
    """Start the daemon, which inherits the lock file; return its process id."""
    config = _config()
    environment = dict(os.environ)
    if not (environment.get("VIKINGD_STOP_WHEN_IDLE") or _names_idle_time(config)):
        environment["VIKINGD_STOP_WHEN_IDLE"] = _IDLE
    log = open_log()
    try:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "vikingd.daemon.server", "serve"),
                *("--path", user_store(), "--listen", f"unix:{path}", "--config", config),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment,
            start_new_session=True,
            pass_fds=(lock,),
        )
    finally:
        os.close(log)
    process.returncode = 0  # this process does not wait for it
    return process.pid


def _config() -> str:
    """Return the path of the configuration file: `VIKINGD_CONFIG`, or the user's default.

    If neither exists it is the null device, an empty file.
    """
    named = os.environ.get("VIKINGD_CONFIG", "")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    return path if os.path.exists(path := user_config()) else os.devnull


def _names_idle_time(config: str) -> bool:
    if config == os.devnull:
        return False
    try:
        return "stop_when_idle" in tomllib.loads(read_text(config))
    except (OSError, ValueError):  # the daemon tells what is wrong with it
        return False


def main() -> None:
    """Start the daemon; print an error as one line to stderr and exit with code 1."""
    try:
        start()
    except ValueError as error:
        sys.exit(f"vikingd: {error}")
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        sys.exit(f"vikingd: {error.strerror or error}{where}")


if __name__ == "__main__":
    main()
