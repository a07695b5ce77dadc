"""The start and the end of readers, and of daemons that cannot stop cleanly."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.commands import serve
from tests.daemons import start
from tests.nodes.reader_helpers import note, serving
from tests.patience import eventually
from vikingd.daemon import health
from vikingd.domain.errors import StoreFailed, StoreMismatch
from vikingd.engine import Engine, EngineSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store import Store
from vikingd.store.sqlite import sqlite_reader as store_reader
from vikingd.store.sqlite.sqlite_reader import StoreReader
from vikingd.store.sqlite.sqlite_schema import MIGRATIONS

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def test_readers_are_refused_where_there_is_no_store_for_them(tmp_path: Path) -> None:
    """A reader does not start without a store, with a wrong schema or with another model."""
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


def unreadable(store: Path) -> None:
    """Rename the table that a reader reads first."""
    with sqlite3.connect(store / "store.sqlite3") as db:
        db.execute("ALTER TABLE meta RENAME TO other")


@pytest.mark.deep
def test_a_reader_ends_when_its_store_cannot_be_read_for_long(tmp_path: Path) -> None:
    """A reader that cannot read its store for long ends with code 1 and the reason on stderr."""
    Store(tmp_path, model="none", dimension=None).close()
    less = "from vikingd.store.sqlite import sqlite_reader; sqlite_reader._PATIENCE = 0.5"
    with serving(tmp_path, "--reader", changed=less) as reader:
        unreadable(tmp_path)
        code, err = reader.ended()
    assert code == 1
    assert "the reader ends: the store is damaged: no such table: meta" in err


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("kind", [StoreFailed, SystemExit])
def test_only_what_fails_without_a_break_exhausts_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """A success between two failures resets the time after which a reader gives up."""
    Store(tmp_path, model="none", dimension=None).close()
    monkeypatch.setattr(store_reader, "_PATIENCE", 0.5)
    reader, looks = StoreReader(tmp_path, model="none", dimension=None), 0

    def every_other_fails() -> None:
        nonlocal looks
        looks += 1
        if looks % 2:
            raise kind("not now")

    reader.start(every_other_fails, Mock())  # once a second, and at once after a failure
    eventually(lambda: looks >= 4 or reader.failure)
    assert reader.failure == ""
    reader.close()


@pytest.mark.deep
@pytest.mark.parametrize("lost", [False, True])
def test_a_stop_that_takes_too_long_is_cut_short(tmp_path: Path, lost: bool) -> None:
    """A stop that takes too long ends the process with its usual exit code."""
    store = tmp_path / "store"
    Store(store, model="none", dimension=None).close()
    impatient = "from vikingd.daemon import daemon_lifecycle; daemon_lifecycle._LAST_RESORT = 0.3"
    with (
        serving(store, *(["--reader"] if lost else []), changed=impatient) as daemon,
        grpc.insecure_channel(daemon.address) as channel,
    ):
        # The call ends only when its client leaves or when the daemon has waited long enough.
        call = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(call).status == SERVING
        if lost:
            shutil.rmtree(store)
        else:
            daemon.process.terminate()
        code, err = daemon.ended()
    assert code == int(lost)
    assert "stopping takes too long" in err
    assert ("was removed or replaced" in err) == lost


FAILING = """
from vikingd.engine.embedding import Embedding
looks = 0
def failure(embedding):
    global looks
    looks += 1
    if looks in (2, 3):
        raise RuntimeError("not now")
    return "down" if looks > 3 else None
Embedding.failure = failure
"""


def test_a_failed_look_at_the_health_is_not_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed health check, health is updated and a reader without its store still ends."""
    Store(tmp_path, model="none", dimension=None).close()
    monkeypatch.setattr(health, "_INTERVAL", 0.01)
    options = EngineSettings(tmp_path, EmbedSettings(provider="none"), reader=True)
    with closing(Engine(options)) as engine:
        looks = iter([ValueError("a bug"), "a fault"])

        def failure() -> str | None:
            look = next(looks, None)
            if isinstance(look, ValueError):
                raise look
            return look

        monkeypatch.setattr(engine, "failure", failure)

        async def main() -> None:
            made, stop = health.Health(engine), asyncio.Event()
            watching = asyncio.create_task(made.watch(stop))
            while made.is_serving:
                await asyncio.sleep(0.01)
            assert not stop.is_set()
            while not made.is_serving:
                await asyncio.sleep(0.01)
            monkeypatch.setattr(Engine, "is_lost", True)
            await stop.wait()
            watching.cancel()

        asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.deep
def test_health_is_told_again_after_a_look_at_it_failed(tmp_path: Path) -> None:
    """After a failed health check, health is updated and a reader without its store still ends."""
    store = tmp_path / "store"
    Store(store, model="none", dimension=None).close()
    with (
        serving(store, "--reader", changed=FAILING) as reader,
        grpc.insecure_channel(reader.address) as channel,
    ):
        check = health_pb2_grpc.HealthStub(channel).Check
        embedder = health_pb2.HealthCheckRequest(service="viking.embedder")
        assert check(embedder).status == SERVING
        eventually(lambda: check(embedder).status == NOT_SERVING)
        shutil.rmtree(store)
        code, err = reader.ended()
    assert code == 1
    assert "the health check failed" in err


def test_a_port_is_shared_by_one_writer_and_readers_of_one_store(tmp_path: Path) -> None:
    """A second writer, a daemon of another store and a daemon on a foreign port do not start."""
    store, other = tmp_path / "store", tmp_path / "other"
    Store(other, model="none", dimension=None).close()

    def refusal(*options: str) -> str:
        command = serve(store, "--provider", "none", "--log-level", "error", *options)
        daemon = start(command, stderr=subprocess.PIPE, text=True)
        _, err = daemon.communicate(timeout=60)
        assert daemon.returncode == 1
        assert len(err.splitlines()) == 1
        return err

    with serving(store) as writer:
        where = ("--listen", writer.address)
        with serving(store, "--reader", *where), serving(store, "--reader", *where):
            assert "is in use by another vikingd" in refusal("--path", str(store), *where)
            for options in ((), ("--reader",)):
                assert "cannot listen on" in refusal("--path", str(other), *where, *options)
    with socket.socket() as foreign:
        # Another gRPC server sets this option, and the kernel then lets us share its port.
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        where = ("--listen", f"127.0.0.1:{foreign.getsockname()[1]}")
        assert "cannot listen on" in refusal("--path", str(store), "--reader", *where)
        assert "cannot listen on" in refusal("--path", str(store), *where)


def test_a_reader_ends_when_its_store_gets_another_model(tmp_path: Path) -> None:
    """A reader ends when its store gets vectors of another model."""
    with serving(tmp_path) as writer:
        writer.client.put([note(1)])
    with serving(tmp_path, "--reader") as reader:
        Store(tmp_path, model="another", dimension=16, reembed=True).close()
        code, err = reader.ended()
    assert code == 1
    assert "the reader ends: the store has vectors of another" in err


def test_a_reader_ends_when_its_store_is_gone(tmp_path: Path) -> None:
    """A reader ends when its store is removed."""
    store = tmp_path / "store"
    Store(store, model="none", dimension=None).close()
    with serving(store, "--reader") as reader:
        shutil.rmtree(store)
        code, err = reader.ended()
    assert code == 1
    assert "was removed or replaced: restart the reader" in err
