"""Power failures: data that was not yet synced to the disk is lost, torn or garbled.

A daemon under load is stopped (SIGSTOP), and its files are copied at that moment. The copy then
loses data that SQLite and the index had not synced:

- Frames of the log after `mxFrame` of the wal-index header are dropped, cut, zeroed, or garbled by
  sectors of 512 bytes. SQLite raises `mxFrame` only after it has synced the frames of a commit
  (`synchronous = FULL`).
- Pages of the database that the log still has are garbled, unless the mark `nBackfill` shows a
  checkpoint.
- The wal-index (-shm), which is never synced, is removed, zeroed, or left.
- Files of an unfinished base (`*.tmp`) are cut or emptied.

A daemon on the copy has to have every write that was acknowledged before the stop. With strace, if
it is installed, another step checks that SQLite syncs the log before each acknowledgement.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

from tests.chaos import model
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong, eventually
from tests.chaos.kills import SMALL
from vikingd.client import ClientError, Draft

KIND = "power"
WRITERS = 3
SECTOR = 512
_FAILURES = 15  # power failures under one load


def run(run: Run) -> None:
    """Let the power fail until the time is over."""
    syncs(run)
    for number in run.step_numbers(KIND):
        directory = run.directory / f"power-{number}"
        with run.step(KIND, str(number), directory):
            failures(run, number, directory)


def failures(run: Run, number: int, directory: Path) -> None:
    """Copy the store of a daemon under load several times; damage and start each copy."""
    dice = run.dice(KIND, number)
    writers = [model.Writer(n, f"{run.seed}/{KIND}/{number}") for n in range(WRITERS)]
    directory.mkdir()
    store = directory / "store"
    daemon = Daemon(run.nursery, store, **SMALL)
    daemon.is_serving()
    for again in range(_FAILURES):
        if time.monotonic() > run.until:
            break
        load = model.Load(writers, daemon.client)
        time.sleep(dice.expovariate(1 / 0.25))
        copy = directory / f"copy-{again}"
        known = copy_of(daemon, writers, store, copy)
        load.end()
        lost = tear(copy, dice)
        run.count(KIND, "failures")
        try:
            start(run, copy, known, dice)
        except (Wrong, ClientError) as error:
            raise Wrong(f"after {lost}: {error}") from error
        shutil.rmtree(copy)
    daemon.stop()
    run.count(KIND, "acknowledged", sum(writer.acknowledged for writer in writers))


def copy_of(
    daemon: Daemon, writers: list[model.Writer], store: Path, copy: Path
) -> list[model.Writer]:
    """Copy a store at one moment, and the writers just before it."""
    known = [writer.copy() for writer in writers]  # later acknowledged writes may be in the copy
    daemon.signal(signal.SIGSTOP)
    try:
        if not eventually(lambda: _state(daemon.pid) == "T", 10):
            raise Wrong("it does not stop for a moment")
        shutil.copytree(store, copy)
    finally:
        daemon.signal(signal.SIGCONT)
    time.sleep(0.05)
    for before, after in zip(known, writers, strict=True):
        # Some replies were on their way during the copy, and one operation may be unanswered.
        passed = [world for _, world in after.since[len(before.since) :]]
        before.worlds = [*before.worlds, *passed, *after.worlds]
    return known


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def start(run: Run, store: Path, writers: list[model.Writer], dice: random.Random) -> None:
    """Check that all acknowledged writes are in the store."""
    daemon = Daemon(run.nursery, store, **SMALL)
    run.count(KIND, "starts")
    with daemon.client() as client:
        model.check(client, writers, dice)
    daemon.kill()


def tear(store: Path, dice: random.Random) -> str:
    """Drop unsynced data, and return a description."""
    lost = []
    log, index = store / "store.sqlite3-wal", store / "store.sqlite3-shm"
    if log.exists() and index.exists() and len(index.read_bytes()) > 136:
        # https://www.sqlite.org/walformat.html#walidxfmt, in the machine's byte order
        header = index.read_bytes()[:136]
        page, most = (
            struct.unpack_from("=H", header, 14)[0],
            struct.unpack_from("=I", header, 16)[0],
        )
        filled = struct.unpack_from("=I", header, 96)[0]
        page = 65536 if page == 1 else page
        synced = 32 + most * (page + 24) if most else 0
        lost.append(_tear_log(log, synced, dice))
        lost.append(_tear_pages(store / "store.sqlite3", log, filled, most, page, dice))
    kind = dice.choice(("gone", "zeroed", "as it is"))
    if index.exists() and kind != "as it is":
        index.unlink() if kind == "gone" else index.write_bytes(bytes(index.stat().st_size))
    lost.append(f"wal-index {kind}")
    for path in sorted(store.glob("index/*.tmp/**/*")):
        if path.is_file() and dice.random() < 0.6:
            data = path.read_bytes()
            path.write_bytes(data[: dice.choice((0, len(data) // 2, len(data)))])
            lost.append(f"{path.name} cut")
    return ", ".join(filter(None, lost))


def _tear_log(log: Path, synced: int, dice: random.Random) -> str:
    data = bytearray(log.read_bytes())
    if synced == 0 and dice.random() < 0.5:
        synced = min(len(data), 32)
    tail = len(data) - synced
    kind = dice.choice(("dropped", "cut", "zeroed", "garbled"))
    if kind == "dropped":
        del data[synced:]
    elif kind == "cut":
        del data[synced + dice.randrange(tail + 1) if tail > 0 else len(data) :]
    else:
        for at in range(synced, len(data), SECTOR):
            if dice.random() < 0.5:
                piece = data[at : at + SECTOR]
                new = bytes(len(piece)) if kind == "zeroed" else dice.randbytes(len(piece))
                data[at : at + SECTOR] = new
    log.write_bytes(data)
    return f"log of {tail + synced} {kind} behind {synced}"


def _tear_pages(
    database: Path, log: Path, filled: int, most: int, page: int, dice: random.Random
) -> str:
    """Garble database pages that the log has, unless a checkpoint has synced them."""
    frames = log.read_bytes()
    numbers = set()
    for frame in range(most):
        at = 32 + frame * (page + 24)
        if at + 4 <= len(frames):
            numbers.add(struct.unpack_from(">I", frames, at)[0])
    if filled or not numbers or dice.random() < 0.5:
        return ""
    some = dice.sample(sorted(numbers), min(len(numbers), 3))
    size = database.stat().st_size
    with database.open("r+b") as file:
        for number in some:
            at = (number - 1) * page + dice.randrange(page // SECTOR) * SECTOR
            # SQLite writes page 1 as a whole if the disk keeps sectors whole.
            if number > 1 and at + SECTOR <= size:
                file.seek(at)
                file.write(dice.randbytes(SECTOR))
    return f"pages {some} garbled"


def syncs(run: Run) -> None:
    """Check with strace, if it is installed, that each write is synced before its reply."""
    strace = shutil.which("strace")
    if not strace:
        run.count(KIND, "no strace")
        return
    directory = run.directory / "power-syncs"
    with run.step(KIND, "syncs", directory):
        daemon = Daemon(run.nursery, directory / "store")
        with daemon.client() as client:
            client.put([Draft("viking://resources/sync.md", content="first")])
            log = directory / "strace"
            tracer = subprocess.Popen(
                [
                    strace,
                    "-f",
                    "-y",
                    "-e",
                    "trace=fsync,fdatasync",
                    "-o",
                    log,
                    "-p",
                    str(daemon.pid),
                ],
                stderr=subprocess.PIPE,
                text=True,
            )
            assert tracer.stderr is not None
            attached = "attached" in tracer.stderr.readline()
            if not attached:
                tracer.kill()
                run.count(KIND, "no strace")
            else:
                puts = 20
                for number in range(puts):
                    client.put([Draft("viking://resources/sync.md", content=f"again {number}")])
                    seen = len(re.findall(r"sync\(.*sqlite3-wal", log.read_text()))
                    if seen < number + 1:
                        raise Wrong(f"{number + 1} writes were acknowledged after {seen} syncs")
                run.count(KIND, "syncs seen", puts)
                tracer.terminate()
            tracer.wait()
        daemon.kill()
