"""Two network namespaces with a link: the machine of a daemon, and another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.programs import unshared

DAEMON, UNNAMED, OTHER = "10.77.16.1", "10.77.16.3", "10.77.16.2"
"""Addresses: two of the daemon's machine, and one of the other."""

NEW = ("unshare", "--user", "--map-root-user", "--net")


@dataclass(frozen=True, slots=True)
class Network:
    """The beginnings of commands that run on either machine."""

    daemon: tuple[str, ...]
    other: tuple[str, ...]


@contextmanager
def network() -> Iterator[Network]:
    """Make both namespaces; the test is skipped where a user may not make them."""
    unshared(*NEW, check=("ip", "link"))
    with ExitStack() as stack:
        first = stack.enter_context(_kept(*NEW))
        second = stack.enter_context(_kept(*_inside(first), "unshare", "--net"))
        made = Network(_inside(first), _inside(second))
        for where, command in (
            (made.daemon, f"link add inner type veth peer name outer netns {second}"),
            (made.daemon, f"address add {DAEMON}/24 dev inner"),
            (made.daemon, f"address add {UNNAMED}/24 dev inner"),
            (made.daemon, "link set inner up"),
            (made.other, f"address add {OTHER}/24 dev outer"),
            (made.other, "link set outer up"),
        ):
            subprocess.run([*where, "ip", *command.split()], check=True)
        yield made


def _inside(process: int) -> tuple[str, ...]:
    """Return the beginning of a command that runs in the namespaces of a process."""
    return ("nsenter", f"--target={process}", "--user", "--net", "--preserve-credentials")


@contextmanager
def _kept(*command: str) -> Iterator[int]:
    """Yield the id of a process that keeps a namespace until the context ends."""
    script = "ip link set lo up && echo ready && exec cat"
    with subprocess.Popen(
        [*command, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.terminate()


def python(module: str, call: str) -> list[str]:
    """Return a command that calls a function of a module of tests."""
    code = f"import sys; sys.path = {sys.path}; from {module} import *; {call}"
    return [sys.executable, "-c", code]
