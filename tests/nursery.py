"""A process that loads the daemon's code and kernels once, and forks daemons.

A fork takes a tenth of the processor time of a new start, and runs the same code in its own
process. The nursery has one thread of Python. A message on its socket, standard input, is an order:
JSON, with the descriptors of the new process and the end of a pipe. The nursery writes two lines to
the pipe: the process id, and the exit code when the process has ended. The processes end with the
nursery.
"""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
LARGEST = 1 << 18  # bytes of an order
DESCRIPTORS = 4  # standard input, output, error, and the pipe of the report
READY = b"ready"


def become(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Turn the forked process into the one of the order."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(len(descriptors), max(map(int, os.listdir("/proc/self/fd"))) + 1)
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    os.chdir(order["directory"])
    os.umask(order["umask"])
    if order["address_space"]:
        resource.setrlimit(resource.RLIMIT_AS, (order["address_space"],) * 2)
    if order["fresh"]:
        os.execv(sys.executable, [sys.executable, *order["fresh"]])
    tempfile.tempdir = None  # it comes from the environment
    sys.argv = [order["module"], *order["arguments"]]
    code = 1
    try:
        module = importlib.import_module(order["module"])
        sys.modules["__main__"] = module  # a child by multiprocessing imports it
        module.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def load() -> None:
    """Load all code and kernels of a start."""
    import openai  # noqa: F401

    from vikingd.context import tokenizers
    from vikingd.daemon import (
        child_daemon,  # noqa: F401
        daemon_lifecycle,  # noqa: F401
        kernel_warm_up,
    )
    from vikingd.gateway import http_server as gateway  # noqa: F401

    kernel_warm_up.compile_kernels(lambda _: None)
    kernel_warm_up.load_modules()
    kernel_warm_up.load_find()
    kernel_warm_up.run_kernels()
    tokenizers.open_tokenizer(tokenizers.DEFAULT)


def main(*more: str) -> None:
    """Serve orders until the socket ends. `more` are modules to import and to warm."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = socket.socket(fileno=os.dup(0))
    load()
    for name in more:
        importlib.import_module(name).warm()
    gc.collect()
    gc.freeze()  # the collector of a fork leaves these objects alone
    if threading.active_count() > 1:  # BLAS has others, which it starts again after a fork
        raise RuntimeError(f"a fork would lose {threading.enumerate()[1:]}")
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    reports: dict[int, int] = {}
    orders.send(READY)
    while True:
        readable, _, _ = select.select([orders, woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            reap(reports)
        if orders in readable:
            text, descriptors = receive(orders)
            if not text:
                return
            pid = os.fork()
            if pid == 0:
                become(json.loads(text), descriptors[:-1])
            for descriptor in descriptors[:-1]:
                os.close(descriptor)
            reports[pid] = descriptors[-1]
            say(reports[pid], pid)


def receive(orders: socket.socket) -> tuple[bytes, list[int]]:
    """Return an order and its descriptors."""
    numbers = array.array("i")
    text, more, _, _ = orders.recvmsg(LARGEST, socket.CMSG_SPACE(DESCRIPTORS * numbers.itemsize))
    for _, _, data in more:
        numbers.frombytes(data)
    return text, list(numbers)


def say(report: int, number: int) -> None:
    """Write a line to a pipe."""
    with suppress(BrokenPipeError):  # nobody waits for this process
        os.write(report, b"%d\n" % number)


def reap(reports: dict[int, int]) -> None:
    """Report every process that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        report = reports.pop(pid)
        say(report, os.waitstatus_to_exitcode(status))
        os.close(report)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(*sys.argv[1:])
