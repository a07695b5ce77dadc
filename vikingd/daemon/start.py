"""The entry points of vikingd and vikingctl; they make Ctrl-C quiet before anything is loaded."""

from __future__ import annotations

import importlib
import os
import signal
import sys

from vikingd.system.standard_streams import open_closed

_INTERRUPTED = 130  # a shell's 128 + SIGINT


def vikingd() -> None:
    """Run the daemon's command line."""
    _run("vikingd.daemon.server")


def vikingctl() -> None:
    """Run the admin command line, or answer a hook before anything else is loaded."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        open_closed()
        importlib.import_module("vikingd.hooks.hook_command").main(sys.argv[2:])
    _run("vikingd.ctl.main")


def _run(module: str) -> None:
    open_closed()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime's, to its maker
    before = signal.getsignal(signal.SIGINT)
    if callable(before):  # otherwise a shell ignores it
        # An import might wrap or swallow an exception.
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    main = importlib.import_module(module).main
    signal.signal(signal.SIGINT, before)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
