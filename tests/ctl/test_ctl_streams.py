"""Ends of readers, and Ctrl-C, of processes of vikingctl."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ctl.test_ctl_output import TEA, TOP
from tests.daemons import Forked, nursery
from vikingd.client import Draft
from vikingd.client.messages import MessageClient

PROGRAM = [sys.executable, "-c", "from vikingd.daemon.entry_points import vikingctl; vikingctl()"]
BEGUN = [*PROGRAM[:2], PROGRAM[2].replace("; ", "; print(flush=True); ")]
"""The same; a line on stdout tells that the interpreter has loaded the entry point."""
SEED = int(os.environ.get("TEST_SEED", "51"))


@pytest.fixture(autouse=True)
def _notes(client: MessageClient) -> None:
    client.put([Draft(TEA, content="Oolong tea.\n" * 9000)])


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "command",
    [
        "tree",
        "--help",
        "find oolong",
        "find --help",
        f"get {TEA}",
        "stats",
        "grep -i oolong",
        "ls -o json",
    ],
)
def test_an_end_of_the_reader_is_no_failure(daemon: str, command: str) -> None:
    """A command whose output nobody reads any more ends with 0, and says nothing."""
    read, write = os.pipe()
    os.close(read)
    words = ["--address", daemon, *shlex.split(command)]
    run = Forked(
        nursery(), "tests.ctl.forked_ctl", words, stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (run.communicate(timeout=60)[1], run.returncode) == ("", 0)


def test_head_takes_the_first_line(daemon: str) -> None:
    """In a shell, all programs of a pipeline with `head -1` end with 0."""
    words = shlex.join([*PROGRAM, "--address", daemon, "get", TEA])
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | head -1"], capture_output=True, text=True
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "Oolong tea.\n", "")


COMMANDS = ("find oolong", f"import DOCS {TOP}/docs", "--help", "stats", "tree")
ENDS = (0, 130, -signal.SIGINT)
"""Over before, ended by the program, or by the signal alone, which a shell shows as 130."""


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    ("command", "moments"), [*((one, 2) for one in COMMANDS[:2]), *((one, 12) for one in COMMANDS)]
)
def test_ctrl_c_ends_with_130_at_any_moment(
    daemon: str, tmp_path: Path, command: str, moments: int
) -> None:
    """An interrupt ends a command with 130 and without a traceback, unless it was over before."""
    for number in range(30):
        (tmp_path / f"{number}.md").write_text(f"# Page {number}\n\nA page about oolong.\n" * 20)
    dice = random.Random(SEED)
    words = shlex.split(command.replace("DOCS", str(tmp_path)))
    began = time.monotonic()
    whole = subprocess.run([*PROGRAM, "--address", daemon, *words], capture_output=True)
    longest = time.monotonic() - began
    assert whole.returncode == 0, whole.stderr
    codes = []
    for _ in range(moments):
        run = subprocess.Popen(
            [*BEGUN, "--address", daemon, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(dice.uniform(0.02, longest))
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        assert run.returncode in ENDS, err
        assert "Traceback" not in err
        codes.append(run.returncode)
    assert set(codes) - {0}


def test_an_interrupt_that_python_drops_comes_again() -> None:
    """KeyboardInterrupt in a callback of a weak reference is dropped, but ends the program."""
    code = """
import signal, sys, time, types, weakref
from vikingd.daemon import entry_points

class One: ...

def main():
    one = One()
    reference = weakref.ref(one, lambda _: signal.raise_signal(signal.SIGINT))
    del one
    time.sleep(30)

sys.modules["interrupted"] = module = types.ModuleType("interrupted")
module.main = main
entry_points._run("interrupted", raises=True)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (130, "")
