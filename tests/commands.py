"""Command lines of the daemon, for tests that run it as a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VIKINGD = (sys.executable, "-m", "vikingd.daemon.server")


def serve(store: Path, *options: str) -> list[str]:
    """Return the command of a daemon on a store; it takes a free port and no configuration file."""
    return serve_only(store, "--listen", "127.0.0.1:0", *options)


def serve_only(store: Path, *options: str) -> list[str]:
    """Return the same command for the addresses that the options name."""
    where = ("--path", str(store), "--config", os.devnull)
    return [*VIKINGD, "serve", *where, *options]
