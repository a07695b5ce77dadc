"""The entry points of vikingd and vikingctl, which handle Ctrl-C without a traceback."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vikingd.system.standard_streams import open_closed

_INTERRUPTED = 130  # a shell's 128 + SIGINT
_AGAIN = 0.01  # seconds


def vikingd() -> None:
    """Run the daemon's command line."""
    _run("vikingd.daemon.server", raises=True)


def vikingctl() -> None:
    """Run vikingctl; a call of a hook is answered without loading the rest of vikingctl."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        open_closed()
        importlib.import_module("vikingd.hooks.hook_command").main(sys.argv[2:])
    _run("vikingd.ctl.main", raises=False)


@contextmanager
def raised_interrupts() -> Iterator[None]:
    """Within the block, let Ctrl-C raise KeyboardInterrupt instead of ending the process."""
    before = signal.getsignal(signal.SIGINT)
    if before is not _quit:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _quit(*_: object) -> None:
    os._exit(_INTERRUPTED)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Send Ctrl-C again if Python dropped its KeyboardInterrupt, as it does in a callback."""
    if lost.exc_type is KeyboardInterrupt:
        from threading import Timer

        Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)


def _run(module: str, *, raises: bool) -> None:
    """Import a module and call its `main`.

    Args:
        module: the name of the module.
        raises: True: in `main`, Ctrl-C raises KeyboardInterrupt. False: it ends the process, except
            within `raised_interrupts`.
    """
    before = signal.getsignal(signal.SIGINT)
    if callable(before):  # otherwise a shell ignores it
        # An import might wrap or swallow an exception.
        signal.signal(signal.SIGINT, _quit)
        sys.unraisablehook = _interrupt_again
    open_closed()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime's, to its maker
    main = importlib.import_module(module).main
    if raises:
        signal.signal(signal.SIGINT, before)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
