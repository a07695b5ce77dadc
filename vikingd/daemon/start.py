"""Where vikingd and vikingctl start, before anything is loaded, so that Ctrl-C is always quiet."""

from __future__ import annotations

import importlib
import os
import signal
import sys

_INTERRUPTED = 130  # a shell's 128 + SIGINT


def vikingd() -> None:
    """Runs the daemon's command line."""
    _run("vikingd.daemon.server")


def vikingctl() -> None:
    """Runs the admin command line."""
    _run("vikingd.ctl.main")


def _run(module: str) -> None:
    before = signal.getsignal(signal.SIGINT)
    if callable(before):  # else a shell had it ignored
        # An import might wrap or swallow an exception.
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    main = importlib.import_module(module).main
    signal.signal(signal.SIGINT, before)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
