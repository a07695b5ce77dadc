"""A process that loads the daemon's code and kernels once, and forks daemons and askers.

A fork takes a tenth of the processor time of a new start, and runs the same code in its own
process. The nursery has one thread. It reads a line of JSON for each start, and writes one for each
start and each end. Its daemons end with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import traceback
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1


def become_daemon(order: dict[str, Any]) -> NoReturn:
    """Turn the forked process into the daemon of the order."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    for number, path in ((0, os.devnull), (1, order["out"]), (2, order["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    for name in [name for name in os.environ if name.startswith("VIKINGD_")]:
        del os.environ[name]
    os.environ.update(order["environment"])
    if order["address_space"]:
        resource.setrlimit(resource.RLIMIT_AS, (order["address_space"],) * 2)
    sys.argv = ["vikingd", *order["arguments"]]
    if order["fresh"]:
        code = "from vikingd.daemon.entry_points import vikingd; vikingd()"
        os.execv(sys.executable, [sys.executable, "-c", code, *sys.argv[1:]])
    code = 1
    try:
        if "ask" in order:
            from tests.chaos import asking

            asking.main(order)
            code = 0
        else:
            from vikingd.daemon.server import main

            main()
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

    from tests.chaos import asking
    from vikingd.daemon import (
        daemon_lifecycle,  # noqa: F401
        kernel_warm_up,
    )

    kernel_warm_up.compile_kernels(lambda _: None)
    kernel_warm_up.load_find()
    kernel_warm_up.run_kernels()
    asking.warm()
    gc.collect()
    gc.freeze()  # the collector of a fork leaves these objects alone


def say(**record: object) -> None:
    """Write one line of JSON."""
    print(json.dumps(record), flush=True)


def main() -> None:
    """Serve orders until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    say(ready=True)
    while True:
        readable, _, _ = select.select([sys.stdin, woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            reap()
        if sys.stdin in readable:
            line = sys.stdin.readline()
            if not line:
                return
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                become_daemon(order)
            say(started=pid)


def reap() -> None:
    """Report every daemon that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        say(ended=pid, code=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
