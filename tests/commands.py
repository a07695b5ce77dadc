"""Command lines of the daemon, for tests that run it as a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VIKINGD = (sys.executable, "-m", "vikingd.daemon.server")


def serve(store: Path, *options: str) -> list[str]:
    """Return the command of a daemon on a store, without a configuration file.

    It takes a free port unless the options name an address.
    """
    where = ["--path", str(store), "--config", os.devnull]
    if "--listen" not in options:
        where += ["--listen", "127.0.0.1:0"]
    return [*VIKINGD, "serve", *where, *options]
