"""Damage of each kind of file in a data directory, and the outcome of a start.

A daemon on a damaged copy of a store has to answer as the model does, or to refuse. It refuses a
start with exit code 1 and one line, or a call with a code for damaged data. One or two values may
differ if Verify reports it ("told by verify"). Two outcomes are failures by the rule of `strict`:

- "undetectable value": one or two values differ from the model, and Verify finds nothing.
- "undetectable tail": the log lacks the newest commits. Then the state is that of an earlier
  revision, which is not below the revision of the index's base.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import model, strict, templates, worlds
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong, eventually
from tests.chaos.templates import SMALL, Template
from vikingd.client import ClientError, Draft
from vikingd.client.messages import MessageClient

KIND = "damage"
DATABASE = ("store.sqlite3", "store.sqlite3-wal", "store.sqlite3-shm")
REFUSALS = {"DATA_LOSS", "FAILED_PRECONDITION"}
"""Codes for data that a damaged store cannot give; none of them invites a retry."""

ACCEPT = "--accept-data-loss"
_TOLD = 15.0  # seconds in which damage that quick_check finds has to be reported
PROBE = "viking://resources/probe/probe.md"


@dataclass
class Case:
    """A damaged copy of a store."""

    template: Template
    other: Template
    store: Path
    what: str = ""

    @property
    def is_of_database(self) -> bool:
        """Return whether the database was damaged, not only the index."""
        return any(name in self.what for name in DATABASE)


Act = Callable[[Path, random.Random], str]


def flip(path: Path, dice: random.Random) -> str:
    """Flip one bit."""
    data = bytearray(path.read_bytes())
    at = _place(data, dice)
    data[at] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    return f"at {at}"


def burst(path: Path, dice: random.Random) -> str:
    """Replace some bytes."""
    data = bytearray(path.read_bytes())
    at, length = _place(data, dice), dice.choice((2, 8, 64, 512, 4096))
    data[at : at + length] = dice.randbytes(len(data[at : at + length]))
    path.write_bytes(data)
    return f"{length} at {at}"


def truncate(path: Path, dice: random.Random) -> str:
    """Truncate the file."""
    size = path.stat().st_size
    left = dice.choice((0, dice.randrange(size), size - 1, size // 4096 * 4096 // 2))
    with path.open("r+b") as file:
        file.truncate(left)
    return f"to {left}"


def zero_tail(path: Path, dice: random.Random) -> str:
    """Zero the end of the file."""
    size = path.stat().st_size
    at = dice.randrange(size)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(size - at))
    return f"from {at}"


def grow(path: Path, dice: random.Random) -> str:
    """Append to the file."""
    more = dice.randbytes(dice.choice((1, 512, 4096)))
    with path.open("ab") as file:
        file.write(more)
    return f"by {len(more)}"


def delete(path: Path, dice: random.Random) -> str:
    """Delete the file."""
    del dice
    path.unlink()
    return ""


ACTS: tuple[Act, ...] = (flip, flip, flip, burst, burst, truncate, zero_tail, grow, delete)


def _place(data: bytearray, dice: random.Random) -> int:
    """Return an offset, often near the beginning, where headers are."""
    return dice.randrange(min(len(data), 256) if dice.random() < 0.4 else len(data))


def files_of(store: Path) -> list[str]:
    """Return all files of a data directory, by their relative names."""
    return sorted(str(path.relative_to(store)) for path in store.rglob("*") if path.is_file())


def harm(case: Case, dice: random.Random) -> None:
    """Damage a store in one way."""
    if dice.random() < 0.12:
        case.what = whole(case, dice)
        return
    names = files_of(case.store)
    base = [n for n in names if n.count("/") > 1 and not n.endswith("manifest.json")]
    groups = [
        (15, [DATABASE[0]]),
        (15, [DATABASE[1]]),
        (4, [DATABASE[2]]),
        (2, ["lock", "ports"]),
        (7, ["index/CURRENT"]),
        (10, [n for n in names if n.endswith("manifest.json")]),
        (4, [n for n in base if "ivf" in n]),
        (6, [n for n in base if "_columns" in n]),
        (40, base),
    ]
    weights = [weight for weight, _ in groups]
    while True:
        (group,) = dice.choices([members for _, members in groups], weights)
        present = [name for name in group if name in names]
        if present:
            break
    name = dice.choice(present)
    path = case.store / name
    kind = dice.random()
    if kind < 0.12:
        case.what = f"swap {name} with {_swap(case, name, dice)}"
    elif kind < 0.24 and (older := counterpart(case.template.older, name)):
        shutil.copyfile(older, path)
        case.what = f"older copy of {name}"
    elif path.stat().st_size == 0:
        path.write_bytes(dice.randbytes(100))
        case.what = f"grow {name}"
    else:
        act = dice.choice(ACTS)
        case.what = f"{act.__name__} {name} {act(path, dice)}"


def counterpart(store: Path, name: str) -> Path | None:
    """Return the file of another store for the same part."""
    if not name.startswith("index/base-"):
        found = [store / name]
    else:
        found = sorted(store.glob(f"index/base-*/{name.split('/', 2)[2]}"))
    return found[-1] if found and found[-1].exists() else None


def _swap(case: Case, name: str, dice: random.Random) -> str:
    """Replace a file by one of another store, or swap it with one of the same store."""
    foreign = counterpart(case.other.store, name)
    if foreign and dice.random() < 0.5:
        shutil.copyfile(foreign, case.store / name)
        return "another store's"
    names = [n for n in files_of(case.store) if n.rpartition(".")[2] == name.rpartition(".")[2]]
    second = dice.choice(names)
    a, b = case.store / name, case.store / second
    a_data, b_data = a.read_bytes(), b.read_bytes()
    a.write_bytes(b_data)
    b.write_bytes(a_data)
    return second


def whole(case: Case, dice: random.Random) -> str:
    """Damage a database or an index as a whole."""
    store, older, other = case.store, case.template.older, case.other

    def replace_database(by: Path | None) -> None:
        for name in DATABASE:
            (store / name).unlink(missing_ok=True)
            if by and (by / name).exists():
                shutil.copyfile(by / name, store / name)

    def replace_index(by: Path | None) -> None:
        shutil.rmtree(store / "index", ignore_errors=True)
        if by and (by / "index").exists():
            shutil.copytree(by / "index", store / "index")

    what = dice.choice(
        (
            "store.sqlite3 and its log deleted",
            "store.sqlite3 and its log, older copies put back",
            "store.sqlite3 and its log of another store",
            "index deleted",
            "index of another store",
            "index, older copy put back",
            "CURRENT elsewhere",
            "index beside older store.sqlite3",
        )
    )
    match what:
        case "store.sqlite3 and its log deleted":
            replace_database(None)
        case "store.sqlite3 and its log, older copies put back":
            replace_database(older)
        case "store.sqlite3 and its log of another store":
            replace_database(other.store)
        case "index deleted":
            replace_index(None)
        case "index of another store":
            replace_index(other.store)
        case "index, older copy put back":
            replace_index(older)
        case "index beside older store.sqlite3":
            replace_database(older)
            replace_index(other.store)
        case _:
            target = dice.choice(("..", ".", "base-99999999", "../../..", "\x00", "base-*", ""))
            (store / "index" / "CURRENT").write_text(target)
            what += f": {target!r}"
    return what


def run(run: Run) -> None:
    """Damage copies until the time is over."""
    pair = templates.pair(run)
    for number in run.step_numbers(KIND):
        dice = run.dice(KIND, number)
        at = dice.randrange(2)
        directory = run.directory / f"damage-{number}"
        case = Case(pair[at], pair[1 - at], directory / "store")
        shutil.copytree(case.template.store, case.store)
        harm(case, dice)
        with run.step(KIND, f"{number} ({case.what})", directory):
            run.count(KIND, "directories")
            run.count(KIND, judge(run, case))


def judge(run: Run, case: Case) -> str:
    """Start a daemon on a damaged store, and return the outcome.

    Raises:
        Wrong: the daemon answered wrong, or did not end cleanly.
    """
    damaged = case.store.with_name("damaged")
    shutil.copytree(case.store, damaged)
    daemon = Daemon(run.nursery, case.store, **SMALL)
    run.count(KIND, "starts")
    if not daemon.is_serving():
        daemon.check(may_refuse=True)
        if ACCEPT in daemon.message():
            accept(run, case)
            return "refused until accepted"
        return "start refused"
    generation_before = _current(damaged)
    try:
        with daemon.client() as client:
            outcome = compare(client, case, damaged)
            if outcome == "harmless" and "rebuilt from the store" in daemon.said():
                outcome = "rebuilt"
            if outcome in ("harmless", "rebuilt"):
                put_probe(client)
    except ClientError as error:
        return refused(daemon, error)
    if outcome == "harmless" and _current(case.store) != generation_before:
        outcome = "rebuilt"
    daemon.kill()
    if outcome in ("harmless", "rebuilt"):
        again(run, case)
    return outcome


def _current(store: Path) -> bytes:
    path = store / "index" / "CURRENT"
    return path.read_bytes() if path.exists() else b""


def refused(daemon: Daemon, error: ClientError) -> str:
    """Return the code of a refused call."""
    code = error.code.name
    if code == "UNAVAILABLE" and eventually(lambda: daemon.code is not None, 2):
        daemon.check(may_refuse=True)
        if daemon.code == 0:
            raise Wrong("it ended with 0 while it was asked")
        return "ended with a message"
    daemon.kill()
    if code in REFUSALS:
        return "call refused"
    raise Wrong(f"a call was refused with {error.code.name}: {error.message}")


def compare(client: MessageClient, case: Case, damaged: Path, *, probed: bool = False) -> str:
    """Compare a daemon with the model, without scores if `probed`, and return the outcome."""
    writer = case.template.writer
    revision, found = client.stats().revision, writer.read(client)
    faults = writer.world.differences(found)
    if not faults:
        try:
            same_answers(client, case, probed=probed)
            return "harmless"
        except Wrong as error:
            faults = [str(error)]
    if not case.is_of_database:
        raise Wrong("; ".join(faults[:4]))
    if cut_off(case, revision, found):
        if revision < case.template.base_revision:
            raise Wrong(
                f"the store went back to revision {revision} of {writer.revision}, the base of "
                f"the index is of {case.template.base_revision}, and nobody was told: {faults[:2]}"
            )
        consistent(client, writer, found)
        return strict.undetectable("undetectable tail", faults[:2])
    if served := other_world(client, case):
        # The other store has its own identity, so it is served, but never with this store's index.
        consistent(client, case.other.writer, served)
        return "another store served"
    problems = quick_check(damaged)
    if problems:
        if eventually(lambda: is_told(client), _TOLD):
            return "told later"
        if all(fault.startswith("verify: ") for fault in faults):
            return "told by verify"  # all answers are right
        raise Wrong(f"quick_check says {problems[:2]}, nobody was told: {faults[:3]}")
    if len(faults) > 2:
        raise Wrong(f"quick_check finds nothing, but: {faults[:5]}")
    if not client.verify().ok:
        return "told by verify"
    return strict.undetectable("undetectable value", faults)


def cut_off(case: Case, revision: int, found: worlds.World) -> bool:
    """Return whether the found state is that of an earlier revision."""
    if revision >= case.template.writer.revision:
        return False
    if revision <= 1:
        return found == worlds.World()
    known = [world for at, world in case.template.history if at <= revision]
    return bool(known) and not known[-1].differences(found)


def other_world(client: MessageClient, case: Case) -> worlds.World | None:
    """Return the other store's state at a revision, if nothing of this store is there."""
    mine, others = case.template.writer, case.other
    revision, found = client.stats().revision, others.writer.read(client)
    known = [world for at, world in others.history if at <= revision]
    is_other = not known[-1].differences(found) and mine.read(client) == worlds.World()
    return found if is_other else None


def consistent(client: MessageClient, writer: model.Writer, world: worlds.World) -> None:
    """Check that index and store agree on an older state."""
    other = model.Writer(writer.number, 0)
    other.worlds = [world]
    model.check_words(client, [other], random.Random(0))
    report = client.verify()
    if not report.ok:
        raise Wrong(f"verify: {list(report.problems)[:10]}")


def same_answers(client: MessageClient, case: Case, *, probed: bool = False) -> None:
    """Check that all queries are answered as before the damage."""
    pairs = zip(templates.answers(client), case.template.answers, strict=True)
    for number, (answer, right) in enumerate(() if probed else pairs):
        if differs := templates.difference(answer, right):
            raise Wrong(f"query {number}: {differs}")
    model.check(client, [case.template.writer.copy()], random.Random(0))


def is_told(client: MessageClient) -> bool:
    """Return whether a write is refused with a code for damaged data."""
    try:
        put_probe(client)
    except ClientError as error:
        return error.code.name in REFUSALS
    return False


def quick_check(store: Path) -> list[str]:
    """Return the findings of SQLite in a damaged store; empty if there are none."""
    copy = store.with_name("checked")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store, copy)
    try:
        db = sqlite3.connect(copy / DATABASE[0])
        try:
            rows = [str(row[0]) for row in db.execute("PRAGMA quick_check")]
        finally:
            db.close()
    except sqlite3.Error as error:
        return [str(error)]
    return [] if rows == ["ok"] else rows


def put_probe(client: MessageClient) -> int:
    """Make a new acknowledged write, and return its revision."""
    return client.put([Draft(PROBE, content="note prbx of the harbour")]).revision


def again(run: Run, case: Case) -> None:
    """Check that the store is the same after a kill, and that the new write is found."""
    daemon = Daemon(run.nursery, case.store, **SMALL)
    run.count(KIND, "starts")
    with daemon.client() as client:
        try:
            model.check(client, [case.template.writer.copy()], random.Random(1))
            found = [m.uri for m in client.find("prbx", limit=1).resources]
            if found != [PROBE] or not client.get(PROBE).context.content:
                raise Wrong(f"a write after the damage is lost by the next start: {found}")
        except ClientError as error:
            raise Wrong(f"the second start: {error}") from error
    daemon.kill()


def accept(run: Run, case: Case) -> None:
    """Accept the data loss, and check that the rest is served and index and store agree."""
    daemon = Daemon(run.nursery, case.store, ACCEPT, **SMALL)
    run.count(KIND, "starts")
    if not daemon.is_serving():
        daemon.check(may_refuse=True)
        raise Wrong(f"the loss was accepted, but: {daemon.message()}")
    with daemon.client() as client:
        found = case.template.writer.read(client)
        is_known = cut_off(case, client.stats().revision, found) or other_world(client, case)
        if not is_known:
            raise Wrong("what is left is nothing that ever was")
        consistent(client, case.template.writer, found)
        put_probe(client)
    daemon.kill()
    daemon = Daemon(run.nursery, case.store, **SMALL)
    run.count(KIND, "starts")
    with daemon.client() as client:
        found_uris = [m.uri for m in client.find("prbx", limit=1).resources]
        if found_uris != [PROBE]:
            raise Wrong("a write after the accepted loss is not found")
    daemon.kill()
