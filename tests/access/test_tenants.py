"""Tenants: many stores in one process, opened at their first call and closed when idle."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.access.tenants_helpers import opened, put, read, run, running, until
from vikingd.daemon.open_tenants import Collector
from vikingd.domain.errors import (
    AlreadyExists,
    InvalidField,
    NotFound,
    ReadOnly,
    StoreDamaged,
    StoreMismatch,
)
from vikingd.engine import Engine
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.pb import admin_pb2_grpc
from vikingd.store.sqlite.sqlite_schema import DATABASE
from vikingd.telemetry.metrics import Metrics


def test_two_tenants_with_the_same_uris_are_apart(tmp_path: Path) -> None:
    """Each tenant reads its own texts only; so does the default one."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            for name in ("acme", "beta"):
                await tenants.create(name)
                await put(tenants, name, f"the secret of {name}")
            assert await read(tenants, "acme") == "the secret of acme"
            assert await read(tenants, "beta") == "the secret of beta"
            assert await read(tenants, "default") is None
            assert tenants.names() == ["default", "acme", "beta"]
            assert (await tenants.stats("acme")).counts.files == 1
        async with running(tmp_path) as tenants:  # all is on disk
            assert opened(tenants) == []
            assert await read(tenants, "beta") == "the secret of beta"
        for path in (tmp_path / "tenants", tmp_path / "tenants" / "acme"):
            assert path.stat().st_mode & 0o777 == 0o700

    run(test())


def test_an_empty_tenant_is_small(tmp_path: Path) -> None:
    """An empty tenant takes at most half a megabyte, open or closed."""

    def size() -> int:
        files = (tmp_path / "tenants" / "acme").rglob("*")
        return sum(path.stat().st_blocks * 512 for path in files if path.is_file())

    async def test() -> None:
        async with running(tmp_path) as tenants:
            await tenants.create("acme")
            assert 0 < size() < 500_000
        assert 0 < size() < 500_000

    run(test())


def test_the_least_recently_used_tenant_is_closed_for_another(tmp_path: Path) -> None:
    """At most `most_open` stores are open, and a call opens a closed one again."""

    async def test() -> None:
        async with running(tmp_path, most_open=2) as tenants:
            for name in ("a", "b"):
                await tenants.create(name)
                await put(tenants, name, name)
            assert await read(tenants, "a") == "a"  # so that b is the least recently used one
            await tenants.create("c")
            assert opened(tenants) == ["a", "c"]
            assert await read(tenants, "b") == "b"
            assert opened(tenants) == ["b", "c"]

    run(test())


@pytest.mark.parametrize(("most", "of"), [(3, 3), pytest.param(25, 20, marks=pytest.mark.deep)])
def test_a_place_is_kept_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, of: int
) -> None:
    """With many places one is free in time, so that an opening need not wait for a closing."""
    monkeypatch.setattr("vikingd.daemon.open_tenants._SPARE", of)

    async def test() -> None:
        async with running(tmp_path, most_open=most) as tenants:
            names = [f"t{number:02}" for number in range(most + 5)]
            for name in names:
                await tenants.create(name)
            await until(lambda: not tenants._closing)
            assert opened(tenants) == names[1 - most :]
            async with AsyncExitStack() as calls:  # a tenant with a call is not closed for it
                for name in names[:most]:
                    await calls.enter_async_context(tenants.use(name))
                assert opened(tenants) == names[:most]

    run(test())


def test_a_tenant_with_a_call_in_flight_stays_open(tmp_path: Path) -> None:
    """It is not closed for another one or as idle; a call waits if all tenants have calls."""

    async def test() -> None:
        async with running(tmp_path, most_open=1, idle_seconds=0.1) as tenants:
            await tenants.create("a")
            await until(lambda: opened(tenants) == [])  # idle
            await tenants.create("b")
            async with tenants.use("a") as tenant:
                waiting = asyncio.create_task(put(tenants, "b", "b"))
                await asyncio.sleep(0.5)
                assert opened(tenants) == ["a"]
                assert not waiting.done()
                tenant.engine.check_writable()
                assert tenant.engine.store.counts().files == 0  # its store is open
            await waiting
            assert await read(tenants, "b") == "b"

    run(test())


def test_calls_at_the_same_time_share_one_opening(tmp_path: Path) -> None:
    """Two openings of one store would fail: the second finds it in use."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            await tenants.create("a")
        async with running(tmp_path) as tenants:

            async def engine() -> Engine:
                async with tenants.use("a") as tenant:
                    return tenant.engine

            engines = await asyncio.gather(*(engine() for _ in range(20)))
            assert len(set(map(id, engines))) == 1

    run(test())


@pytest.mark.parametrize(
    ("count", "most", "callers"), [(3, 1, 2), pytest.param(9, 3, 24, marks=pytest.mark.deep)]
)
def test_many_calls_to_more_tenants_than_may_be_open(
    tmp_path: Path, count: int, most: int, callers: int
) -> None:
    """Writes of several callers to tenants, of which a third is open, are all kept and apart."""

    async def test() -> None:
        names = [f"t{number}" for number in range(count)]
        async with running(tmp_path, most_open=most) as tenants:
            for name in names:
                await tenants.create(name)

            async def caller(number: int) -> None:
                for turn in range(count):
                    name = names[(number * 5 + turn) % count]
                    uri = f"viking://resources/{number}.md"
                    await put(tenants, name, f"{name} {number}", uri)

            await asyncio.gather(*map(caller, range(callers)))
            assert len(opened(tenants)) <= most
            for name in names:
                for number in range(callers):
                    uri = f"viking://resources/{number}.md"
                    assert await read(tenants, name, uri) == f"{name} {number}"

    run(test())


@pytest.mark.parametrize("times", [2, pytest.param(30, marks=pytest.mark.deep)])
def test_a_call_to_a_tenant_that_closes_opens_it_again(tmp_path: Path, times: int) -> None:
    """The opening waits for the end of the closing, which has the store still in use."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            await tenants.create("a")
            for number in range(times):
                await put(tenants, "a", f"a {number}")
                tenants._retire(tenants._places["a"])
                assert await read(tenants, "a") == f"a {number}"

    run(test())


def test_other_names_are_refused(tmp_path: Path) -> None:
    """A name that is no name reaches no path."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            for name in ("", "-a", "A", "a/b", "..", "a.b", "ä", "a" * 64, "a\n", "a\0"):
                for attempt in (tenants.create(name), tenants.delete(name), read(tenants, name)):
                    with pytest.raises(InvalidField):
                        await attempt
        assert not (tmp_path / "tenants").exists()

    run(test())


def test_missing_tenants_and_the_default_one(tmp_path: Path) -> None:
    """A missing tenant is not made by a call; the default one is neither made nor deleted."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            with pytest.raises(NotFound, match="tenant acme"):
                await read(tenants, "acme")
            with pytest.raises(NotFound):
                await tenants.delete("acme")
            assert not tenants.exists("acme")
            with pytest.raises(InvalidField):
                await tenants.delete("default")
            with pytest.raises(AlreadyExists):
                await tenants.create("default")
            await tenants.create("a" * 63)
            with pytest.raises(AlreadyExists):
                await tenants.create("a" * 63)

    run(test())


def test_a_symbolic_link_is_no_tenant(tmp_path: Path) -> None:
    """A link to another directory is not followed, not listed and not deleted."""

    async def test() -> None:
        async with running(tmp_path / "data") as tenants:
            await tenants.create("acme")
            await put(tenants, "acme", "a secret")
        outside = tmp_path / "outside"
        shutil.copytree(tmp_path / "data/tenants/acme", outside)
        (tmp_path / "data/tenants/link").symlink_to(outside)
        async with running(tmp_path / "data") as tenants:
            assert tenants.names() == ["default", "acme"]
            for attempt in (read(tenants, "link"), tenants.delete("link")):
                with pytest.raises(StoreMismatch):
                    await attempt
            with pytest.raises(AlreadyExists):
                await tenants.create("link")
        assert (outside / DATABASE).exists()

    run(test())


def test_a_damaged_tenant_is_damaged_alone(tmp_path: Path) -> None:
    """Its calls fail with STORE_DAMAGED; the others go on, and it can be deleted."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            for name in ("acme", "beta"):
                await tenants.create(name)
                await put(tenants, name, name)
        (tmp_path / "tenants" / "acme" / DATABASE).unlink()
        async with running(tmp_path) as tenants:
            for _ in range(2):
                with pytest.raises(StoreDamaged):
                    await read(tenants, "acme")
            assert await read(tenants, "beta") == "beta"
            assert tenants.default.engine.failure() is None
            await tenants.delete("acme")
            await tenants.create("acme")
            assert await read(tenants, "acme") is None

    run(test())


def test_an_accepted_loss_is_that_of_tenants_too(tmp_path: Path) -> None:
    """`--accept-data-loss` opens each damaged tenant once; a later loss is refused again."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            await tenants.create("acme")
            await put(tenants, "acme", "acme")
        database = tmp_path / "tenants" / "acme" / DATABASE
        database.unlink()
        async with running(tmp_path) as tenants:
            with pytest.raises(StoreDamaged, match="--accept-data-loss"):
                await read(tenants, "acme")
        async with running(tmp_path, most_open=1, accept_loss=True) as tenants:
            await tenants.create("beta")
            assert await read(tenants, "acme") is None
            await put(tenants, "acme", "again")
            assert await read(tenants, "beta") is None  # closes acme
            await until(lambda: not tenants.is_open("acme"))
            database.unlink()
            with pytest.raises(StoreDamaged):
                await read(tenants, "acme")

    run(test())


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.deep)])
def test_a_lost_engine_is_opened_again(tmp_path: Path, count: int) -> None:
    """A truncated file of the index costs one opening, and the store makes the index again."""

    async def test() -> None:
        async with running(tmp_path) as tenants:
            await tenants.create("acme")
            words = " ".join(f"word{number}" for number in range(count))
            await put(tenants, "acme", words)
            async with tenants.use("acme") as tenant:
                before = tenant.engine
                await asyncio.to_thread(before.optimize)
                for path in (tmp_path / "tenants/acme/index").rglob("*"):
                    if path.is_file() and path.stat().st_size > 1 << 14:
                        os.truncate(path, 100)
            await until(lambda: before.is_lost or not tenants.is_open("acme"))
            async with tenants.use("acme") as tenant:
                assert tenant.engine is not before
                assert tenant.engine.snapshot.revision > 1
                assert not tenant.engine.is_lost

    run(test())


def test_a_reader_follows_tenants_and_their_end(tmp_path: Path) -> None:
    """A reader opens tenants as readers; one that the writer deletes is gone for it, too."""

    async def test() -> None:
        async with running(tmp_path) as writer:
            await writer.create("acme")
            await put(writer, "acme", "one")
            async with running(tmp_path, reader=True) as reader:
                assert await read(reader, "acme") == "one"
                for attempt in (reader.create("x"), reader.delete("acme"), put(reader, "acme", "")):
                    with pytest.raises(ReadOnly):
                        await attempt
                await put(writer, "acme", "two")
                assert await read(reader, "acme") == "two"
                await writer.create("new")
                await put(writer, "new", "new")
                assert await read(reader, "new") == "new"
                await writer.delete("acme")
                await until(lambda: not reader.is_open("acme"))
                with pytest.raises(NotFound):
                    await read(reader, "acme")
                assert await read(reader, "new") == "new"

    run(test())


@pytest.mark.deep
def test_texts_of_all_tenants_get_their_vectors_from_one_process(tmp_path: Path) -> None:
    """The tenants share one child and one thread, and each gets its own vectors."""

    async def test() -> None:
        embedding = EmbedSettings()
        threads = threading.active_count()
        async with running(tmp_path, embedding=embedding) as tenants:
            names = ["a", "b", "c"]
            for name in names:
                await tenants.create(name)
                uris = [f"viking://resources/{i}.md" for i in range(5)]
                await asyncio.gather(*(put(tenants, name, f"{name} {uri}", uri) for uri in uris))
            for name in names:
                async with tenants.use(name) as tenant:
                    engine = tenant.engine
                    assert engine.embedding.query_embedder is not None
                    await until(lambda e=engine: not e.embedding.stats().backlog.texts, 60)
                    assert engine.store.counts().vectors == engine.store.counts().texts > 0
                    engine.embedding.query_embedder.embed(f"question to {name}")
                    cached = engine.embedding.query_embedder.entries()
                    assert list(cached) == [f"question to {name}"]
            names_of = [thread.name for thread in threading.enumerate()]
            assert names_of.count("backlog") == 1
            assert threading.active_count() - threads < 3 * 3 + 10

    run(test())


def test_metrics_are_sums_without_names(tmp_path: Path) -> None:
    """Counters go on when a tenant is closed, and no label names a tenant."""

    async def test() -> None:
        async with running(tmp_path, most_open=1) as tenants:
            for name in ("acme", "beta"):
                await tenants.create(name)
            shown = {
                sample.name: sample.value
                for family in tenants._shared.metrics.collect()
                for sample in family.samples
                if "tenants" in sample.name
            }
            assert shown["vikingd_open_tenants"] == 1
            assert shown["vikingd_opened_tenants_total"] == 2
            assert shown["vikingd_closed_tenants_total"] == 1
            text = str([s for f in tenants._shared.metrics.collect() for s in f.samples])
            assert "acme" not in text
            assert "beta" not in text

    run(test())
    metrics = Metrics()
    end = metrics.follow(lambda: 3, lambda: (5, 7))
    metrics.follow(lambda: 4, lambda: (1, 1))
    figures = lambda: {s.name: s.value for f in metrics.collect() for s in f.samples}  # noqa: E731
    assert figures()["vikingd_backlog_texts"] == 7
    end()
    assert figures()["vikingd_backlog_texts"] == 4
    assert figures()["vikingd_query_cache_hits_total"] == 6
    assert figures()["vikingd_query_cache_misses_total"] == 8


def test_handlers_are_collected_as_a_server_takes_them() -> None:
    """The collector has each method by its path, and registers the same at a server."""
    collector, server = Collector(), Collector()
    service: Any = admin_pb2_grpc.AdminServicer()
    admin_pb2_grpc.add_AdminServicer_to_server(service, collector)  # type: ignore[arg-type]
    collector.add_to(server)
    assert "/viking.retrieval.v1.Admin/Stats" in collector.handlers
    assert server.handlers == collector.handlers
    assert server._generic == collector._generic != []
