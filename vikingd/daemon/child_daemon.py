"""A daemon that runs as a child process: it ends when its parent closes the pipe to its stdin."""

from __future__ import annotations

import os
import signal
import threading

from vikingd.daemon import server

_STDIN = 0


def _end_with_parent() -> None:
    os.read(_STDIN, 1)  # returns at the end of stdin
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server.main()
