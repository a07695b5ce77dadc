"""Where readers are refused, and where they end."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from reader_helpers import note, serving

from vikingd.embed.provider import EmbedSettings
from vikingd.engine import Engine, EngineSettings
from vikingd.errors import StoreMismatch
from vikingd.store import Store
from vikingd.store.schema import MIGRATIONS


def test_readers_are_refused_where_there_is_no_store_for_them(tmp_path: Path) -> None:
    """No store, none yet, one of another model, one of another schema: one line each."""
    store = tmp_path / "store"

    def refusal() -> str:
        with pytest.raises(StoreMismatch) as refused:
            Engine(EngineSettings(store, EmbedSettings(provider="none"), reader=True))
        return str(refused.value)

    assert "there is no store" in refusal()
    assert not store.exists()
    store.mkdir()
    sqlite3.connect(store / "store.sqlite3").close()
    assert "schema 0" in refusal()
    Store(store, model="another", dimension=8).close()
    assert "vectors of another (8 dimensions)" in refusal()
    with sqlite3.connect(store / "store.sqlite3") as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    assert f"schema {len(MIGRATIONS) + 1}" in refusal()


def test_a_port_is_shared_by_one_writer_and_readers_of_one_store(tmp_path: Path) -> None:
    """A second writer, a daemon of another store and one of a foreign port are told so."""
    store, other = tmp_path / "store", tmp_path / "other"
    Store(other, model="none", dimension=None).close()

    def refusal(*options: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "vikingd.server", "serve", "--provider", "none", "--config",
             os.devnull, "--log-level", "error", *options],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    with serving(store) as writer:
        where = ("--listen", writer.address)
        with serving(store, "--reader", *where), serving(store, "--reader", *where):
            assert "is in use by another vikingd" in refusal("--path", str(store), *where)
            for options in ((), ("--reader",)):
                assert "cannot listen on" in refusal("--path", str(other), *where, *options)
    with socket.socket() as foreign:
        # As another gRPC server would, with which the kernel lets us share.
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        where = ("--listen", f"127.0.0.1:{foreign.getsockname()[1]}")
        assert "cannot listen on" in refusal("--path", str(store), "--reader", *where)
        assert "cannot listen on" in refusal("--path", str(store), *where)


def test_a_reader_ends_when_its_store_gets_another_model(tmp_path: Path) -> None:
    """It never answers from vectors that its queries' vectors can't be compared with."""
    with serving(tmp_path) as writer:
        writer.client.put([note(1)])
    with serving(tmp_path, "--reader") as reader:
        Store(tmp_path, model="another", dimension=16, reembed=True).close()
        code, err = reader.ended()
    assert code == 1
    assert "the reader ends: the store has vectors of another" in err


def test_a_reader_ends_when_its_store_is_gone(tmp_path: Path) -> None:
    """It does not go on for ever with what nobody writes any more."""
    store = tmp_path / "store"
    Store(store, model="none", dimension=None).close()
    with serving(store, "--reader") as reader:
        shutil.rmtree(store)
        code, err = reader.ended()
    assert code == 1
    assert "was removed or replaced" in err
