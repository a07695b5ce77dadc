"""Files that are truncated, replaced or deleted while a daemon runs.

The daemon has to answer right or to end with a message. A mapped file that is overwritten in place
with data of the same size is out of scope, because no process can detect that.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

from tests.chaos import damage, model, templates
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong, eventually
from tests.chaos.damage import ACCEPT, DATABASE, REFUSALS, Case
from tests.chaos.templates import SMALL
from vikingd.client import ClientError, NotFound
from vikingd.client.messages import MessageClient

KIND = "files"
_GRACE = 3.0  # seconds in which a deleted database has to be noticed
_ASKED = 1.2  # seconds of calls after a change


def run(run: Run) -> None:
    """Change files until the time is over."""
    pair = templates.pair(run)
    for number in run.step_numbers(KIND):
        dice = run.dice(KIND, number)
        at = dice.randrange(2)
        directory = run.directory / f"files-{number}"
        case = Case(pair[at], pair[1 - at], directory / "store")
        shutil.copytree(case.template.store, case.store)
        with run.step(KIND, str(number), directory):
            run.count(KIND, "directories")
            try:
                run.count(KIND, change_and_ask(run, case, dice))
            except Wrong as error:
                raise Wrong(f"{case.what}: {error}") from error


def change(case: Case, dice: random.Random) -> None:
    """Change one file, or all files of the database."""
    names = damage.files_of(case.store)
    index = [name for name in names if name.startswith("index/")]
    database = [name for name in names if name in DATABASE]
    if dice.random() < 0.2:
        for name in database:
            (case.store / name).unlink()
        case.what = "store.sqlite3 deleted with all that belongs to it"
        return
    if dice.random() < 0.1:
        shutil.rmtree(case.store / "index")
        case.what = "index deleted"
        return
    name = dice.choice(index if dice.random() < 0.6 else database)
    path = case.store / name
    kind = dice.choice(("truncated", "truncated", "emptied", "deleted", "replaced"))
    if kind == "truncated":
        left = dice.randrange(max(1, path.stat().st_size))
        os.truncate(path, left)
        kind += f" to {left}"
    elif kind == "emptied":
        os.truncate(path, 0)
    elif kind == "deleted":
        path.unlink()
    else:
        by = damage.counterpart(case.other.store, name) or case.store / dice.choice(names)
        scratch = path.with_name("scratch")
        shutil.copyfile(by, scratch)
        scratch.rename(path)
    case.what = f"{name} {kind}"


def change_and_ask(run: Run, case: Case, dice: random.Random) -> str:
    """Change files of a running daemon, and return the outcome.

    Raises:
        Wrong: the daemon answered wrong, lost an acknowledged write, or ended without a message.
    """
    daemon = Daemon(run.nursery, case.store, **SMALL)
    run.count(KIND, "starts")
    writer = case.template.writer.copy()
    with daemon.client() as client:
        if dice.random() < 0.7:
            model.check(client, [writer], dice)
        change(case, dice)
        outcome = "right"
        changed = time.monotonic()
        try:
            while time.monotonic() - changed < _ASKED:
                model.check_words(client, [writer], dice)
            if dice.random() < 0.5:
                client.optimize()
            if case.is_of_database:
                time.sleep(_GRACE)
            damage.same_answers(client, case)
            damage.put_probe(client)
        except ClientError as error:
            if error.code.name == "UNAVAILABLE":
                if not eventually(lambda: daemon.code is not None, 5):
                    raise Wrong(f"a call was refused with UNAVAILABLE: {error}") from None
                outcome = "ended with a message"
                if not _told(daemon):
                    raise Wrong(
                        f"it ended with {daemon.code}, saying {daemon.message()!r}"
                    ) from None
            elif error.code.name in REFUSALS:
                outcome = "call refused"
            else:
                raise Wrong(f"a call was refused with {error}") from None
    if outcome != "ended with a message":
        daemon.kill()
    elif daemon.code != -signal.SIGBUS:
        daemon.check(may_refuse=True)
    return f"{outcome}, {start_again(run, case, probed=outcome == 'right')}"


def _told(daemon: Daemon) -> bool:
    """Return whether an ended daemon gave a reason.

    SQLite maps its -shm file. The system kills the process after that file is truncated, and
    Python's handler of fatal signals writes the reason.
    """
    if daemon.code == -signal.SIGBUS:
        return "Fatal Python error: Bus error" in daemon.said()
    return daemon.code != 0 and daemon.message().startswith("vikingd:")


def start_again(run: Run, case: Case, *, probed: bool) -> str:
    """Start a daemon on the changed files, and return the outcome."""
    daemon = Daemon(run.nursery, case.store, **SMALL)
    run.count(KIND, "starts")
    if not daemon.is_serving():
        daemon.check(may_refuse=True)
        if probed:
            raise Wrong(f"it took a write that the next start refuses: {daemon.message()}")
        return "then refused until accepted" if ACCEPT in daemon.message() else "then refused"
    with daemon.client() as client:
        try:
            if probed and not client.get(damage.PROBE).context.content:
                raise Wrong("a write after the change is lost")
            # A write without an answer may be there, and changes scores.
            there = probed or _is_there(client, damage.PROBE)
            outcome = damage.compare(client, case, _copy(case.store), probed=there)
        except ClientError as error:
            if probed:
                raise Wrong(f"a write after the change is lost: {error}") from None
            return f"then {damage.refused(daemon, error)}"
    daemon.kill()
    return f"then {outcome}"


def _is_there(client: MessageClient, uri: str) -> bool:
    try:
        client.get(uri)
    except NotFound:
        return False
    return True


def _copy(store: Path) -> Path:
    copy = store.with_name("damaged")
    shutil.rmtree(copy, ignore_errors=True)
    # A compaction may remove its unfinished base at any time.
    return shutil.copytree(store, copy, ignore=shutil.ignore_patterns("base-*.tmp"))
