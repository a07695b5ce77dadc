"""A reader as a child process of the writer, which has started it."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from multiprocessing.connection import Connection

from vikingd.config import ConfigError, Settings
from vikingd.daemon.logs import configure_logs
from vikingd.daemon.writer_link import WriterLink
from vikingd.domain.errors import VikingError
from vikingd.system.hidden_packages import without
from vikingd.system.platform import end_with_parent


def serve(pipe: Connection, settings: Settings, address: str) -> None:
    """Run a reader; this is the main function of the child.

    Args:
        pipe: the pipe to the writer.
        settings: the writer's settings, with the addresses that it listens on.
        address: the writer's private unix socket.
    """
    for number in (signal.SIGINT, signal.SIGHUP):  # the writer handles them
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)  # even if it hangs; the link notices the end everywhere
    link = WriterLink(address, pipe)
    configure_logs(settings.log_level)
    gc.disable()  # as `vikingd serve`
    with without("cffi", "coverage"):
        # It imports this module.
        daemon_lifecycle = importlib.import_module("vikingd.daemon.daemon_lifecycle")
    try:
        code = daemon_lifecycle.run(settings, reader=True, writer=link)
    except (ConfigError, VikingError, OSError) as error:
        print(f"vikingd: a reader does not start: {error}", file=sys.stderr, flush=True)
        code = 1
    os._exit(code)
