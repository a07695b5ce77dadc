"""Rows of store and keys changed by SQL behind the daemon's back, and bits of the database."""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos import damage, silent
from tests.chaos.common import Run
from tests.chaos.older import put_back
from tests.chaos.vaults import Vault, database

KIND = "rows"
BITS = "bits"
_STORE, _KEYS = "store.sqlite3", "access.sqlite3"
_TABLES = (
    (_STORE, "contexts", 6),
    (_STORE, "texts", 7),
    (_STORE, "entries", 4),
    (_STORE, "links", 2),
    (_STORE, "meta", 1),
    (_STORE, "removals", 1),
    (_KEYS, "keys", 5),
    (_KEYS, "tenants", 1),
    (_KEYS, "state", 1),
)
_UNHARMFUL = {("keys", "used_at")}
"""Columns that are no truth: a change of them changes no answer."""


def run(run: Run) -> None:
    """Change rows until the time is over."""
    silent.run_rounds(run, KIND, harm)


def run_bits(run: Run) -> None:
    """Flip single bits of the database, without an index, until the time is over."""
    silent.run_rounds(run, BITS, flip)


def flip(vault: Vault, store: Path, dice: random.Random) -> str:
    """Flip one bit of the database, and remove the index."""
    del vault
    with database(store) as db:  # what the log has goes into the database
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.rmtree(store / "index", ignore_errors=True)
    return f"no index; flip {_STORE} {damage.flip(store / _STORE, dice)}"


def harm(vault: Vault, store: Path, dice: random.Random) -> str:
    """Change rows, and keep, remove or put back the index."""
    index = dice.choice(("kept", "removed", "removed", "older"))
    if index == "removed":
        shutil.rmtree(store / "index", ignore_errors=True)
    elif index == "older":
        put_back(dice.choice(vault.ages), store, ["index"])
    name, table, _ = dice.choices(_TABLES, [weight for *_, weight in _TABLES])[0]
    with database(store, name) as db:
        said = [_change(db, table, dice) for _ in range(dice.choice((1, 1, 1, 2, 5)))]
    return f"index {index}; {table}: {'; '.join(said)}"


def _change(db: sqlite3.Connection, table: str, dice: random.Random) -> str:
    """Change, delete or double a row of a table; return the change in words."""
    columns = [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]
    keys = [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
    keys = keys or ["rowid"]
    rows = list(db.execute(f"SELECT {', '.join(map(_quoted, keys))} FROM {table}"))
    if not rows:
        return "no row"
    roll = dice.random()
    if roll < 0.02:
        db.execute(f"DELETE FROM {table}")
        return "all rows deleted"
    where = " AND ".join(f"{_quoted(key)} = ?" for key in keys)
    key = dice.choice(rows)
    if roll < 0.14:
        rule = dice.choice(("ON", "OFF"))  # ON: with all that hangs on it, if that is allowed
        try:
            db.execute(f"PRAGMA foreign_keys = {rule}")
            db.execute(f"DELETE FROM {table} WHERE {where}", key)
        except sqlite3.IntegrityError:
            db.execute("PRAGMA foreign_keys = OFF")
            db.execute(f"DELETE FROM {table} WHERE {where}", key)
        return f"{key} deleted"
    column = dice.choice([c for c in columns if (table, c) not in _UNHARMFUL])
    read = f"SELECT {_quoted(column)} FROM {table}"
    (value,) = db.execute(f"{read} WHERE {where}", key).fetchone()
    others = [other for (other,) in db.execute(read) if other != value]
    new, how = _changed(value, others, dice)
    try:
        db.execute(f"UPDATE {table} SET {_quoted(column)} = ? WHERE {where}", (new, *key))
    except sqlite3.Error as error:
        return f"{column} of {key} not changed ({error})"
    return f"{column} of {key} {how}"


def _quoted(column: str) -> str:
    return f'"{column}"'


def _changed(value: Any, others: list[Any], dice: random.Random) -> tuple[Any, str]:
    """Return another value for a cell, and the change in words."""
    if others and dice.random() < 0.3:
        return dice.choice(others), "that of another row"
    if dice.random() < 0.05 and value is not None:
        return None, "NULL"
    if isinstance(value, int):
        return _integer(value, dice)
    if isinstance(value, str):
        return _text(value, dice)
    if isinstance(value, bytes) and value:
        act = dice.choice((_bit, _bit, _float, _float, _shorter, _noise))
        return act(value, dice), act.__name__.strip("_")
    return (1 if value is None else value), "1"


def _integer(value: int, dice: random.Random) -> tuple[int, str]:
    choices: tuple[Callable[[], int], ...] = (
        lambda: value + 1,
        lambda: value - 1,
        lambda: -value - 1,
        lambda: 0 if value else 1,
        lambda: 2**62,
        lambda: value ^ 1 << dice.randrange(40),
    )
    new = dice.choice(choices)()
    return new, str(new)


def _text(value: str, dice: random.Random) -> tuple[str, str]:
    if not value or dice.random() < 0.2:
        return f"{value} changed", "longer"
    if dice.random() < 0.15:
        return "", "emptied"
    at = dice.randrange(len(value))
    letter = dice.choice("abcxyz0139/é文")
    return f"{value[:at]}{letter}{value[at + 1 :]}", f"{letter!r} at {at}"


def _bit(value: bytes, dice: random.Random) -> bytes:
    data = bytearray(value)
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def _float(value: bytes, dice: random.Random) -> bytes:
    number = dice.choice((float("nan"), float("inf"), -float("inf"), 0.0, 1e30, -1.0, 0.25))
    at = dice.randrange(max(1, len(value) // 4)) * 4
    return value[:at] + struct.pack("<f", number) + value[at + 4 :]


def _shorter(value: bytes, dice: random.Random) -> bytes:
    return value[: dice.randrange(len(value))]


def _noise(value: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(len(value))
