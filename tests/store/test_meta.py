"""The table meta with values of other types, missing ones and changed ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from tests.store.store_helpers import GUIDE, edited, file, opened, put
from vikingd.domain.checksums import opened as unsealed
from vikingd.domain.checksums import sealed
from vikingd.domain.errors import StoreDamaged, StoreMismatch
from vikingd.engine import Engine, EngineSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store.sqlite.sqlite_schema import DATABASE

STATE = ("revision", "forgotten", "model", "dimension", "linked", "clean", "id", "epoch")
META = (*(f"store.{key}" for key in STATE), "history.epochs", "entries.last", "vectors.dropped")
NEEDED = ("store.revision", "store.forgotten", "store.model", "entries.last")


def made(path: Path) -> None:
    """Make a store with one file."""
    with opened(path) as store:
        put(store, file(GUIDE, "one"))


@pytest.mark.deep_after(15)
@pytest.mark.parametrize("value", ["'two'", "7", "x'0102'", "1.5", "NULL"])
@pytest.mark.parametrize("key", META)
def test_a_value_of_another_type_is_damage(tmp_path: Path, key: str, value: str) -> None:
    """It is named as damage, and is no error of Python."""
    made(tmp_path)
    edited(tmp_path, f"INSERT OR REPLACE INTO meta VALUES ('{key}', {value})")
    with suppress(StoreDamaged, StoreMismatch), opened(tmp_path) as store:
        put(store, file(GUIDE, "two"))
        store.backlog(9)
        store.forget_removals(1)
        list(store.changes_since(0, with_links=True)[0])


@pytest.mark.parametrize("key", META)
def test_a_missing_value_is_damage_if_each_store_has_it(tmp_path: Path, key: str) -> None:
    """It is named as damage; others are damage, too, or made again."""
    made(tmp_path)
    edited(tmp_path, f"DELETE FROM meta WHERE key IN ('{key}', 'x')", changes=False)
    fails = pytest.raises(StoreDamaged, match=key) if key in NEEDED else suppress(StoreDamaged)
    with fails, opened(tmp_path) as store:
        put(store, file(GUIDE, "two"))


def test_a_history_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    """A list of epochs that is cut is damage."""
    made(tmp_path)
    edited(tmp_path, "UPDATE meta SET value = '[[1' WHERE key = 'history.epochs'")
    with pytest.raises(StoreDamaged, match="its history cannot be read"), opened(tmp_path):
        pass


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("change", ["substr(value, 1, 40)", "x'00' || substr(value, 2)", "x''"])
def test_a_changed_prior_is_computed_again(tmp_path: Path, change: str) -> None:
    """Answers do not change when the model's prior is cut or changed in the store."""
    settings = EngineSettings(tmp_path, EmbedSettings(provider="e5"))
    with closing(Engine(settings)):
        pass
    before = prior(tmp_path)
    where = "WHERE key LIKE 'prior/%'"
    edited(tmp_path, f"UPDATE meta SET value = CAST({change} AS BLOB) {where}")
    with closing(Engine(settings)) as engine:
        assert np.abs(engine.snapshot.prior).max() < 1
    assert prior(tmp_path) == before


def prior(path: Path) -> bytes:
    """Return the model's prior of a closed store."""
    with closing(sqlite3.connect(path / DATABASE)) as db:
        ((value,),) = db.execute("SELECT value FROM meta WHERE key LIKE 'prior/%'").fetchall()
    found = unsealed(value)
    assert found
    assert sealed(found) == value
    return found
