"""A full disk: a small file system that is filled while a daemon writes.

The kind runs in its own mount namespace, as a second `python -m tests.chaos`. Without permission
for a namespace it is skipped.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.chaos import model
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong
from tests.chaos.kills import SMALL
from vikingd.client import ClientError

KIND = "disk"
_ALONE = ("unshare", "--user", "--map-root-user", "--mount")
_SIZE = 24  # MiB
_INSIDE = "VIKING_CHAOS_DISK"
_WRITERS = 2


def run(run: Run) -> None:
    """Fill disks until the time is over."""
    if os.environ.get(_INSIDE):
        for number in run.step_numbers(KIND):
            directory = run.directory / f"disk-{number}"
            with run.step(KIND, str(number), directory):
                try:
                    fill(run, number, directory)
                finally:
                    run.nursery.kill_all()
                    shutil.rmtree(directory)  # the next step needs the room
        return
    if subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode:
        run.count(KIND, "skipped: no file system of one's own can be had here")
        return
    directory = run.directory / "disk"
    directory.mkdir()
    minutes = (run.until - time.monotonic()) / 60
    again = [
        sys.executable,
        "-m",
        "tests.chaos",
        "--only",
        KIND,
        "--seed",
        str(run.seed),
        "--json",
        "--minutes",
        str(minutes),
        "--first",
        str(run.first),
        "--steps",
        str(run.steps),
        "--directory",
        str(directory),
        *["--keep-going"] * run.keep_going,
    ]
    script = f'mount -t tmpfs -o size={_SIZE}m tmpfs "$0" && exec "$@"'
    done = subprocess.run(
        [*_ALONE, "sh", "-c", script, str(directory), *again],
        cwd=Path(__file__).parents[2],
        env=os.environ | {_INSIDE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        said = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        run.failed(KIND, "inside", f"it ended with {done.returncode}: {done.stderr}", directory)
        return
    for what, number in said["counts"].get(KIND, {}).items():
        if what != "WRONG":
            run.count(KIND, what, number)
    for failure in said["failures"]:
        run.failed(KIND, failure["step"], failure["message"], None)


def fill(run: Run, number: int, directory: Path) -> None:
    """Write on a full disk, after a kill and a start, and after there is room again."""
    dice = run.dice(KIND, number)
    writers = [model.Writer(n, f"{run.seed}/{KIND}/{number}") for n in range(_WRITERS)]
    directory.mkdir()
    store, ballast = directory / "store", directory / "ballast"
    daemon = Daemon(run.nursery, store, **SMALL)
    run.count(KIND, "starts")
    _write(daemon, writers, dice.uniform(0.2, 0.8))
    for _ in range(3):
        _take(ballast, directory, leave=dice.choice((0, 4096, 40_000, 200_000, 900_000)))
        run.count(KIND, "full disks")
        with daemon.client() as client:
            refusals = write_until_full(writers, client)
            run.count(KIND, "refused writes", refusals)
            _check(client, writers, dice, "while the disk is full")
            try:
                client.optimize()
            except ClientError as error:
                _is_full(error, "Optimize")
        daemon.kill()
        run.count(KIND, "kills")
        daemon = Daemon(run.nursery, store, **SMALL)
        run.count(KIND, "starts")
        if not daemon.is_serving():
            raise Wrong(f"on a full disk it does not start: {daemon.message()}")
        with daemon.client() as client:
            _check(client, writers, dice, "after a start on a full disk")
            write_until_full(writers, client)
            _check(client, writers, dice, "after writes on a full disk")
        if dice.random() < 0.5:
            daemon.kill()
            ballast.unlink()
            daemon = Daemon(run.nursery, store, **SMALL)
            run.count(KIND, "starts")
        else:
            ballast.unlink()
        _write(daemon, writers, 0.3, wait=True)
        with daemon.client() as client:
            _check(client, writers, dice, "after there was room again")
    daemon.stop()
    run.count(KIND, "acknowledged", sum(writer.acknowledged for writer in writers))


def _take(ballast: Path, directory: Path, leave: int) -> None:
    """Fill the disk, except for some bytes."""
    state = os.statvfs(directory)
    left = max(0, state.f_bavail * state.f_frsize - leave)
    with suppress(OSError), ballast.open("wb") as file:
        file.write(bytes(left // state.f_frsize * state.f_frsize))


def _write(
    daemon: Daemon, writers: list[model.Writer], seconds: float, *, wait: bool = False
) -> None:
    """Let writers write; each write must succeed, with `wait` after 30 seconds at the latest."""
    until, patience = time.monotonic() + seconds, time.monotonic() + 30 * wait
    with daemon.client() as client:
        while time.monotonic() < until:
            for writer in writers:
                done = writer.acknowledged
                if not writer.step(client):
                    raise Wrong(f"a write was not answered: {list(writer.trace)[-2:]}")
                if writer.acknowledged > done:
                    patience = 0.0
                elif time.monotonic() > patience:
                    raise Wrong(f"there is room, but: {list(writer.trace)[-2:]}")


def write_until_full(writers: list[model.Writer], client: object) -> int:
    """Write until writes are refused; return the number of refused writes."""
    refusals = 0
    for _ in range(400):
        for writer in writers:
            done = writer.acknowledged
            if not writer.step(client):  # type: ignore[arg-type]
                raise Wrong(f"on a full disk: {list(writer.trace)[-2:]}")
            refusals += writer.acknowledged == done
        if refusals >= 12:
            break
    return refusals


def _is_full(error: ClientError, what: str) -> None:
    if error.code.name != "RESOURCE_EXHAUSTED":
        raise Wrong(f"{what} on a full disk is {error}, RESOURCE_EXHAUSTED is right")


def _check(client: object, writers: list[model.Writer], dice: random.Random, when: str) -> None:
    try:
        model.check(client, writers, dice)  # type: ignore[arg-type]
    except (Wrong, ClientError) as error:
        raise Wrong(f"{when}: {error}") from error
