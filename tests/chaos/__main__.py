"""`python -m tests.chaos`: damage a daemon for some minutes and compare it with a model."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos import (
    churn,
    damage,
    disk,
    doors,
    files,
    fuzz,
    kills,
    logs,
    older,
    power,
    rows,
    strict,
    table,
)
from tests.chaos.common import Run
from tests.chaos.daemon import Nursery

KINDS: dict[str, Callable[[Run], None]] = {
    kills.KIND: kills.run,
    power.KIND: power.run,
    damage.KIND: damage.run,
    logs.KIND: logs.run,
    rows.KIND: rows.run,
    rows.BITS: rows.run_bits,
    older.KIND: older.run,
    files.KIND: files.run,
    disk.KIND: disk.run,
    fuzz.KIND: fuzz.run,
    doors.KIND: doors.run,
}
_MOST_TOLD = 30  # failures in the final report
SHARES = {
    kills.KIND: 6,
    power.KIND: 3,
    damage.KIND: 6,
    logs.KIND: 3,
    rows.KIND: 5,
    rows.BITS: 2,
    older.KIND: 2,
    files.KIND: 3,
    disk.KIND: 3,
    fuzz.KIND: 5,
    doors.KIND: 4,
}
"""The share of the time for each kind."""


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "command",
        nargs="?",
        choices=["run", "table", "churn"],
        default="run",
        help="table: what one request does to others, as Markdown; churn: whether descriptors, "
        "memory, files and bytes level off under writes, moves, deletes and recalls",
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, all kinds together")
    parser.add_argument("--seed", type=int, default=1, help="of all dice")
    parser.add_argument(
        "--only",
        action="append",
        metavar="KIND",
        help=f"one of {', '.join(KINDS)}; may be repeated; of a table, what the "
        "names of its rows contain",
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first step")
    parser.add_argument("--steps", type=int, default=0, help="at most so many steps of a kind")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument(
        "--slower", type=float, default=1.0, help="kill so many times later, under an emulator"
    )
    parser.add_argument(
        "--vaults", type=int, default=4, choices=[1, 2, 3, 4], help="stores that are damaged"
    )
    parser.add_argument("--lenient", action="store_true", help="count what is silent, do not fail")
    parser.add_argument("--postgres", action="store_true", help="of churn: two nodes")
    parser.add_argument("--provider", default="none", help="of churn: the embedder")
    parser.add_argument("--every", type=float, default=5.0, help="of churn: minutes of a row")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--directory", type=Path, help="where the stores lie; else a new one")
    return parser.parse_args()


def main() -> int:
    """Run the kinds one after the other; return 1 after a failure, 130 after Ctrl-C."""
    given = arguments()
    if given.command == "table":
        table.run((given.only or [""])[0])
        return 0
    if given.command == "churn":
        return churn.run(
            given.minutes,
            given.seed,
            postgres=given.postgres,
            provider=given.provider,
            every=given.every,
        )
    wanted = given.only or list(KINDS)
    if unknown := set(wanted) - KINDS.keys():
        print(f"--only: there is no {', '.join(unknown)}", file=sys.stderr)
        return 2
    strict.STRICT = not given.lenient
    directory = given.directory or Path(tempfile.mkdtemp(prefix="vikingd-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    interrupted = False
    with Nursery() as nursery:
        first, steps, keep_going = given.first, given.steps, given.keep_going
        run = Run(
            nursery, given.seed, directory, first, steps, keep_going, given.slower, given.vaults
        )
        whole, seconds = sum(SHARES[kind] for kind in wanted), given.minutes * 60
        finished = threading.Event()
        if not given.json:
            threading.Thread(target=progress, args=(run, finished), daemon=True).start()
        try:
            for kind in wanted:
                run.until = time.monotonic() + seconds * SHARES[kind] / whole
                KINDS[kind](run)
        except KeyboardInterrupt:
            interrupted = True
        finished.set()
    report(run, given.json)
    if not run.failures and not given.directory:
        shutil.rmtree(directory, ignore_errors=True)
    return 130 if interrupted else int(bool(run.failures))


def progress(run: Run, finished: threading.Event) -> None:
    """Show the progress on a terminal."""
    while not finished.wait(1) and sys.stderr.isatty():
        if run.counts:
            kind = list(run.counts)[-1]
            print(f"\r\x1b[K{line(run, kind)}"[:160], end="", file=sys.stderr, flush=True)


def line(run: Run, kind: str) -> str:
    """Return the counters of a kind."""
    return f"{kind}: " + ", ".join(f"{what} {n:,}" for what, n in run.counts[kind].items())


def report(run: Run, as_json: bool) -> None:
    """Print the counters of all kinds, and the failures."""
    if as_json:
        failures = [
            {"kind": f.kind, "step": f.step, "message": f.message, "directory": str(f.directory)}
            for f in run.failures
        ]
        counts = {kind: dict(counter) for kind, counter in run.counts.items()}
        print(json.dumps({"seed": run.seed, "counts": counts, "failures": failures}))
        return
    for kind in run.counts:
        print(line(run, kind))
    for failure in run.failures[:_MOST_TOLD]:
        what = failure.message.splitlines()[0][:300]
        print(f"WRONG {failure.kind}, step {failure.step}: {what}")
        print(
            f"  again: python -m tests.chaos --only {failure.kind} --seed {run.seed} "
            f"--first {failure.step.split()[0]} --steps 1 --vaults {run.vaults}; "
            f"kept in {failure.directory}"
        )
    print(f"seed {run.seed}: {'WRONG' if run.failures else 'nothing wrong'}")


if __name__ == "__main__":
    sys.exit(main())
