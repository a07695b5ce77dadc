"""Older copies of single files put back, of a store whose keys were revoked since."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.chaos import damage, silent
from tests.chaos.common import Run
from tests.chaos.vaults import Vault

KIND = "older"
_STORE = ["store.sqlite3", "store.sqlite3-wal", "store.sqlite3-shm"]
_KEYS = ["access.sqlite3", "access.sqlite3-wal", "access.sqlite3-shm"]
_SETS: tuple[list[str], ...] = (
    ["store.sqlite3"],
    ["store.sqlite3-wal"],
    _STORE,
    [*_STORE, "index"],
    [*_STORE, "mark"],
    ["mark"],
    ["access.sqlite3"],
    ["access.sqlite3-wal"],
    _KEYS,
    _KEYS,
    [*_KEYS, "mark"],
    [*_KEYS, "keys-needed"],
    ["keys-needed"],
    ["index/CURRENT"],
    ["index"],
    ["one array"],
    ["one manifest"],
    [*_STORE, *_KEYS],
)


def run(run: Run) -> None:
    """Put older copies back until the time is over."""
    silent.run_rounds(run, KIND, harm)


def harm(vault: Vault, store: Path, dice: random.Random) -> str:
    """Put older copies of some files back."""
    age = dice.choice(vault.ages)
    names = list(dice.choice(_SETS))
    if names[0].startswith("one "):
        names = [_of_index(store, age, dice, manifest=names[0].endswith("manifest"))]
    if dice.random() < 0.1:
        _remove(store / "index")
        put_back(age, store, names)
        return f"no index; older ({age.name}) {', '.join(names)}"
    put_back(age, store, names)
    return f"older ({age.name}) {', '.join(names)}"


def put_back(source: Path, target: Path, names: list[str]) -> None:
    """Replace files and directories by older copies; what the older state lacks is removed."""
    for name in names:
        _remove(target / name)
        old = source / name
        if not old.exists() and name.startswith("index/base-"):
            old = damage.counterpart(source, name) or old
        if old.is_dir():
            shutil.copytree(old, target / name)
        elif old.exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(old, target / name)


def _of_index(store: Path, age: Path, dice: random.Random, *, manifest: bool) -> str:
    """Return a file of the base that the older copy has, too."""
    names = [
        name
        for name in damage.files_of(store)
        if name.startswith("index/base-") and name.endswith("manifest.json") is manifest
        if damage.counterpart(age, name)
    ]
    return dice.choice(names) if names else "index/CURRENT"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
