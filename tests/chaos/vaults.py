"""Stores with keys and a known history, made by a real daemon and killed under load.

A vault has older copies of its directory, and the right answers of its newest state. Its newest
acknowledged writes and revocations stand in the logs alone.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.chaos import model
from tests.chaos.common import Run
from tests.chaos.daemon import Daemon, Nursery, Wrong
from tests.chaos.templates import SMALL
from vikingd.client.messages import MessageClient

NOT_COPIED = shutil.ignore_patterns("reserve", "lock", "ports", "*.tmp", "socket")
LOCAL = {**SMALL, "VIKINGD_ALLOW_LOCAL": "1"}
"""Settings of a daemon whose model has no key."""

ENDS = ("at once", "idle", "stopped", "at once")
"""The end of the daemon of each vault: killed at once after the last write, or later."""

_IDLE = 2.5  # seconds without a write before a kill; the mark follows within one
_OPERATIONS = 24  # in each part of the history
_BURST = 12
_LONGEST = 90.0  # seconds for the answers of a process; a longer time is a hang


@dataclass
class Vault:
    """A store with its model.

    Attributes:
        store: the directory.
        ages: older copies of it, from the oldest on; the last one was taken while a daemon ran.
        end: one of ENDS.
        writer: the model.
        keys: the texts of keys by label; a label that begins with "dead" is that of a revoked one.
        questions: for `asking.ask`.
        right: its answers.
    """

    store: Path
    end: str
    writer: model.Writer
    ages: list[Path] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    questions: dict[str, Any] = field(default_factory=dict)
    right: dict[str, Any] = field(default_factory=dict)


def chosen(run: Run, dice: random.Random) -> Vault:
    """Return one of the vaults of a run, each of which is made once."""
    number = dice.randrange(len(ENDS)) % run.vaults
    if number not in run.made:
        directory = run.directory / f"vault-{number}"
        run.made[number] = _make(run, directory, number, ENDS[number])
    return run.made[number]


def copied(vault: Vault, target: Path) -> None:
    """Copy the files of a vault that are read by a start."""
    shutil.copytree(vault.store, target, ignore=NOT_COPIED)


def _make(run: Run, directory: Path, number: int, end: str) -> Vault:
    directory.mkdir(parents=True)
    writer = model.Writer(number, f"{run.seed}/vault/{number}")
    vault = Vault(directory / "store", end, writer)

    def keep(name: str) -> None:
        while True:
            try:
                shutil.copytree(vault.store, directory / name, ignore=NOT_COPIED)
                break
            except shutil.Error:  # a running daemon replaced the base of its index
                shutil.rmtree(directory / name)
        vault.ages.append(directory / name)

    daemon = Daemon(run.nursery, vault.store, **LOCAL)
    with daemon.client() as client:
        _key(vault, client, "operator", operator=True)
        for label in ("dead-1", "dead-2", "dead-3", "turned-1", "turned-2", "lives-1"):
            _key(vault, client, label, read=["viking://resources"], user=f"user-{label}")
        _write(vault, client, _OPERATIONS)
    daemon.stop()
    keep("first")
    daemon = Daemon(run.nursery, vault.store, **LOCAL)
    with daemon.client() as client:
        _write(vault, client, _OPERATIONS)
        _revoke(vault, client, "dead-1")
        _rotate(vault, client, "turned-1")
        _key(vault, client, "lives-2", write=["viking://resources"], limits={"calls_in_flight": 4})
        if number % 2 == 0:
            client.optimize()
    daemon.stop()
    keep("second")
    daemon = Daemon(run.nursery, vault.store, **LOCAL)
    with daemon.client() as client:
        _write(vault, client, _OPERATIONS // 2)
        _revoke(vault, client, "dead-2")
        keep("running")
        _write(vault, client, _OPERATIONS // 2)
        _revoke(vault, client, "dead-3")
        _rotate(vault, client, "turned-2")
        _key(vault, client, "lives-3", admin=["viking://resources"], expires_in=timedelta(days=9))
        if number == 3:
            client.optimize()
        _write(vault, client, _BURST)
        if end == "idle":
            time.sleep(_IDLE)
    daemon.stop() if end == "stopped" else daemon.kill()
    _learn(run, vault, directory)
    return vault


def _key(vault: Vault, client: MessageClient, label: str, **rights: Any) -> None:
    vault.keys[label] = client.create_key(**rights).secret


def _id(vault: Vault, label: str) -> str:
    return vault.keys[label].split("_")[1]


def _revoke(vault: Vault, client: MessageClient, label: str) -> None:
    client.revoke_key(_id(vault, label))


def _rotate(vault: Vault, client: MessageClient, label: str) -> None:
    """Give a key a new secret; the old one is dead at once."""
    made = client.rotate_key(_id(vault, label), grace=timedelta())
    vault.keys[f"dead-{label}"] = vault.keys[label]
    vault.keys[label] = made.secret


def _write(vault: Vault, client: MessageClient, operations: int) -> None:
    for _ in range(operations):
        if not vault.writer.step(client):
            raise Wrong(f"a write was not answered: {list(vault.writer.trace)[-2:]}")


def _learn(run: Run, vault: Vault, directory: Path) -> None:
    """Check a copy of the vault against the model, and learn its answers."""
    tried = directory / "tried"
    copied(vault, tried)
    daemon = Daemon(run.nursery, tried, **LOCAL)
    with daemon.client() as client:
        vault.writer.worlds = [vault.writer.read(client)]  # with ids that no reply contains
        model.check(client, [vault.writer], random.Random(0))
        contexts = list(client.tree(""))
    daemon.kill()
    world = vault.writer.world
    owner = vault.writer.notes
    vault.questions = {
        "uris": sorted(context.uri for context in contexts),
        "directories": sorted(c.uri for c in contexts if c.is_directory),
        "words": {word: uri or owner for word, uri in world.words().items()},
        "keys": vault.keys,
        "projects": [f"w{vault.writer.number}"],
    }
    shutil.rmtree(tried)
    copied(vault, tried)
    vault.right = asked(run.nursery, tried, vault.questions)
    wrong = {name: vault.right[name] for name in ("refused", "told", "failure", "crash")}
    if any(wrong.values()):
        raise Wrong(f"an undamaged vault: {wrong}")
    for query, answer in vault.right["answers"].items():
        if query == "keys":
            _check_keys(answer)
    shutil.rmtree(tried)


def _check_keys(answer: Mapping[str, str]) -> None:
    for name, found in answer.items():
        is_dead = name.split()[1].startswith("dead")
        if is_dead == found.startswith("valid"):
            raise Wrong(f"key {name}: {found}")


def asked(
    nursery: Nursery, store: Path, questions: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """Return the answers of a process that is forked for a store."""
    target = store.with_name(f"{store.name}.answers")
    target.unlink(missing_ok=True)
    said = nursery.logs / f"{store.parent.name}-{store.name}.asked"
    pid = nursery.start(
        {
            "ask": str(target),
            "store": str(store),
            "questions": {**questions, **more},
            "out": str(said),
            "err": str(said),
            "environment": {},
            "address_space": 0,
            "fresh": False,
            "arguments": [],
        }
    )
    code = nursery.wait(pid, _LONGEST)
    if code is None:
        os.kill(pid, 9)
        raise Wrong(f"no answer within {_LONGEST} s: {said.read_text(errors='replace')[-600:]}")
    if code or not target.exists():
        raise Wrong(f"it ended with {code}: {said.read_text(errors='replace')[-1500:]}")
    return dict(json.loads(target.read_text()))


def database(store: Path, name: str = "store.sqlite3") -> closing[sqlite3.Connection]:
    """Open a database of a directory as a stranger does, without any check."""
    return closing(sqlite3.connect(store / name, isolation_level=None))
