"""Rounds of damage that must not be silent: one round, and the judgement of its answers.

The answers are those before the damage, or the start is refused, or each difference belongs to a
URI or a key that the log or Verify names. A dead key never works, and nothing is a traceback.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos import vaults, worlds
from tests.chaos.asking import PROBE, REFUSED
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Wrong, eventually
from tests.chaos.strict import excused
from tests.chaos.vaults import LOCAL, Vault
from vikingd.client import ClientError, Mode
from vikingd.client.messages import MessageClient

Harm = Callable[[Vault, Path, random.Random], str]
"""Damages a copy of a vault, and returns the damage in words."""

_NAMES = re.compile(r"viking://[^\s,;:'\")\]]*|\b[0-9a-f]{8}\b")
_SHARE_OF_DAEMONS = 0.03
_SHARE_OF_PROBES = 0.25
_TOLERANCE = 1e-9
_TOLERANCE_TOLD = 0.25  # of a score by meaning: without a damaged vector the mean is another
_REFUSALS = ("StoreDamaged", "StoreMismatch", "StoreFailed", "Corrupt")
_WAYS_OUT = re.compile(
    r"restore|accept|configure|remove|move|put|use|create|delete|start", re.IGNORECASE
)
_TOLD_SOON = 20.0  # seconds for the check in the background of a daemon


class Difference(NamedTuple):
    """A part of an answer that is not that before the damage."""

    query: str
    name: str
    found: Any
    right: Any

    @property
    def of(self) -> str:
        """The URI or the id of a key to which it belongs."""
        return self.name.split()[0] if self.name else ""

    def __str__(self) -> str:
        found, right = repr(self.found)[:160], repr(self.right)[:160]
        return f"{self.query}: {self.name}: {found} was found, {right} is right"


def run_rounds(run: Run, kind: str, harm: Harm) -> None:
    """Damage copies of vaults until the time is over."""
    for number in run.step_numbers(kind):
        dice = run.dice(kind, number)
        vault = vaults.chosen(run, dice)
        directory = run.directory / f"{kind}-{number}"
        directory.mkdir()
        store = directory / "store"
        vaults.copied(vault, store)
        what = f"{vault.end}: {harm(vault, store, dice)}"
        with run.step(kind, f"{number} ({what})", directory):
            try:
                outcome = one_round(run, vault, store, dice)
            except Wrong as error:
                if reason := excused(what, str(error)):
                    outcome = f"not checked: {reason}"
                else:
                    label = str(error).partition(":")[0][:40]
                    run.count(kind, f"WRONG, {label}")
                    raise Wrong(f"{what}: {error}") from error
            run.count(kind, outcome)


def one_round(run: Run, vault: Vault, store: Path, dice: random.Random) -> str:
    """Ask a damaged store by a forked process or a daemon, and return the outcome."""
    if dice.random() < _SHARE_OF_DAEMONS:
        return by_daemon(run, vault, store)
    put = dice.random() < _SHARE_OF_PROBES
    found = vaults.asked(run.nursery, store, vault.questions, put=put)
    outcome = judged(vault, found)
    if put and found["put"] == "not found":
        raise Wrong("an acknowledged write was not found")
    if put and found["put"] == "done":
        words = {**vault.questions["words"], "prbx": PROBE}
        again = vaults.asked(run.nursery, store, {**vault.questions, "words": words})
        if again["refused"]:
            raise Wrong(f"it took a write that the next start refuses: {again['refused']}")
        if again["answers"]["words"].get(f"{PROBE} prbx") != [PROBE]:
            raise Wrong("an acknowledged write after the damage is lost by the next start")
        again["told"] += [*found["told"], f"{PROBE} viking://resources/probe viking://resources"]
        judged(vault, again)
    return outcome


def judged(vault: Vault, found: Mapping[str, Any]) -> str:
    """Return the outcome.

    Raises:
        Wrong: a change of an answer is not told, a dead key works, or there is a traceback.
    """
    if found["crash"]:
        raise Wrong(f"a traceback: {found['crash'].strip().splitlines()[-1]}\n{found['crash']}")
    if refused := found["refused"]:
        if not refused.startswith(_REFUSALS):
            raise Wrong(f"the start was refused with {refused}")
        if not _WAYS_OUT.search(refused):
            raise Wrong(f"the start was refused without a way out: {refused}")
        return "start refused"
    everything = list(differences(vault.right["answers"], found["answers"]))
    check_keys(everything)
    told = " ".join(found["told"])
    names = set(_NAMES.findall(told))
    if not everything:
        return "told, all right" if told else "all right"
    if found["failure"]:
        return "writes refused"
    silent = [one for one in everything if not is_told(one, names)]
    if silent and "verify: the database: " in told:
        return "told by SQLite's check"
    if silent:
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        label = "silent" if not told else "more than was told"
        raise Wrong(f"{label}: {silent[0]}{more}; told: {told[:300] or 'nothing'}")
    return "told by name"


def differences(
    right: Mapping[str, Mapping[str, Any]], found: Mapping[str, Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield all differences between two sets of answers."""
    for query in right.keys() | found.keys():
        a, b = right.get(query, {}), found.get(query, {})
        if set(b) == {REFUSED}:
            continue  # the whole call was refused for damage
        for name in sorted(a.keys() | b.keys()):
            if not is_same(a.get(name), b.get(name), _TOLERANCE):
                yield Difference(query, name, b.get(name), a.get(name))


def is_same(a: Any, b: Any, tolerance: float) -> bool:
    """Return whether two values are the same to within a tolerance."""
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= tolerance
    if isinstance(a, list) and isinstance(b, list):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(is_same(x, y, tolerance) for x, y in pairs)
    return type(a) is type(b) and bool(a == b)


def check_keys(everything: list[Difference]) -> None:
    """Raise Wrong if a dead key works, or a key has other rights than it was given."""
    for one in everything:
        if one.query == "keys" and isinstance(one.found, str) and one.found.startswith("valid"):
            raise Wrong(f"a key that must not work works: {one}")


def is_told(one: Difference, names: set[str]) -> bool:
    """Return whether a difference is told by name.

    Scores that depend on all contexts may change with one that is told.
    """
    if isinstance(one.found, dict) and REFUSED in one.found:
        return True
    if one.query.startswith("mixed"):
        return bool(names)
    if one.query.startswith("meaning") and _is_shifted(one):
        return bool(names)
    return any(part in names for part in one.name.split())


def _is_shifted(one: Difference) -> bool:
    """Return whether a score by meaning moved with the mean; one below 0 is left out."""
    a, b = (value or 0.0 if isinstance(value, float | None) else value for value in one[2:])
    if a == 0.0 or b == 0.0:
        score = a or b
        return float(score[0] if isinstance(score, list) else score) <= _TOLERANCE_TOLD
    return is_same(a, b, _TOLERANCE_TOLD)


def by_daemon(run: Run, vault: Vault, store: Path) -> str:
    """Start a real daemon on a damaged store, compare what it says, and return the outcome."""
    daemon = Daemon(run.nursery, store, **LOCAL)
    run.count("daemons", "starts")
    if not daemon.is_serving():
        daemon.check(may_refuse=True)
        return "start refused"
    told: list[str] = []
    failure = ""
    everything: list[Difference] = []
    try:
        with daemon.client() as client:
            report = client.verify()
            told += [f"verify: {problem}" for problem in report.problems]
            for uri in vault.questions["uris"]:
                right = vault.right["answers"]["get"][uri]["content"]
                try:
                    found = client.get(uri).context.content
                except ClientError as error:
                    if error.code.name not in ("DATA_LOSS", "NOT_FOUND"):
                        raise
                    found = error.code.name
                    told.append(f"{uri} {error.message}" if found == "DATA_LOSS" else "")
                if found != right:
                    everything.append(Difference("get", uri, found, right))
            for number in range(2):
                everything += _by_meaning(vault, client, number)
            if everything:
                eventually(lambda: bool(client.stats().problem), _TOLD_SOON / 10)
            failure = client.stats().problem
        for label, text in vault.keys.items():
            with daemon.client() as plain, plain.with_key(text) as caller:
                try:
                    list(caller.tree("", depth=1))
                    works = True
                except ClientError as error:
                    works = error.code.name not in ("UNAUTHENTICATED", "DATA_LOSS")
                    told.append(error.message if error.code.name == "DATA_LOSS" else "")
            if works and label.startswith("dead"):
                raise Wrong(f"a dead key works: {label}")
            if not works and not label.startswith("dead"):
                everything.append(Difference("keys", f"{text.split('_')[1]} {label}", "no", "yes"))
    except ClientError as error:
        if error.code.name == "UNAVAILABLE" and eventually(lambda: daemon.code is not None, 3):
            daemon.check(may_refuse=True)
            return "ended with a message"
        daemon.kill()
        if error.code.name == "DATA_LOSS":
            return "call refused"
        raise Wrong(f"a call was refused with {error}") from None
    daemon.kill()
    names = set(_NAMES.findall(" ".join(told) + _warnings(daemon)))
    silent = [one for one in everything if not is_told(one, names)]
    if silent and not failure:
        raise Wrong(f"silent: by a daemon: {silent[0]} and {len(silent) - 1} more")
    return "daemon: told" if everything else "daemon: all right"


def _warnings(daemon: Daemon) -> str:
    lines = (line for line in daemon.said().splitlines() if "level=info" not in line)
    return " " + " ".join(lines)


def _by_meaning(vault: Vault, client: MessageClient, number: int) -> list[Difference]:
    reply = client.retrieve("", vector=worlds.vector(number), mode=Mode.VECTOR, top_k=1000)
    found = {f"{item.uri} {item.passage}": item.score for item in reply.items}
    answer = vault.right["answers"][f"meaning {number}"]
    right = {name: value[0] for name, value in answer.items()}
    return [
        Difference(f"meaning {number}", name, found.get(name), right.get(name))
        for name in found.keys() | right.keys()
        if not is_same(found.get(name), right.get(name), _TOLERANCE)
    ]
