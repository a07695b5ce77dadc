"""Replaced bases of the index: closed with the last call that reads them, bounded, and told."""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.answer.thinking_helpers import THINKING, told
from tests.commands import serve
from tests.daemons import start
from tests.index.find_helpers import find
from tests.index.integrity_helpers import put, settings
from tests.scripted import ScriptedServer
from vikingd.client import (
    Boost,
    ClientError,
    Draft,
    SearchSession,
    SessionMessage,
    find_request,
)
from vikingd.client.messages import MessageClient
from vikingd.client.method_declarations import Stubs
from vikingd.domain.errors import NotFound
from vikingd.domain.find_query import FindQuery
from vikingd.engine import Engine
from vikingd.index import old_bases
from vikingd.index.snapshot import Snapshot
from vikingd.pb import contexts_pb2, retrieval_pb2

WITHOUT_COLLECTOR = Path(__file__).parent / "collector_off"
TOP = "viking://resources"
TEXTS = 400  # so that arrays of a base are mapped
ROUNDS = 3


class Daemon:
    """A daemon without a garbage collector, with a reranker."""

    def __init__(self, path: Path, reranker: str) -> None:
        backend = {"kind": "http", "form": "vllm", "url": reranker, "model": "m", "timeout": 5}
        self.process = start(
            serve(path / "store", "--provider", "none"),
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(WITHOUT_COLLECTOR),
                "VIKINGD_RERANK__BACKENDS": json.dumps([backend]),
            },
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]
        self.client = MessageClient(self.address)
        self.channel = grpc.insecure_channel(self.address)
        self._folds = 0

    def fold(self) -> None:
        """Replace the base."""
        self._folds += 1
        self.client.put([Draft(f"{TOP}/folds/{self._folds}.md", content="a fold")])
        self.client.optimize()

    def deleted_files(self) -> list[str]:
        """Return the maps of deleted files of the index."""
        maps = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        return [line for line in maps if "/store/index/" in line and line.endswith("(deleted)")]

    def close(self) -> None:
        """End the daemon."""
        self.channel.close()
        self.client.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Yield a daemon whose index is mapped."""
    with ScriptedServer(told({})) as reranker:
        made = Daemon(tmp_path_factory.mktemp("bases"), reranker.url)
        try:
            for start in range(0, TEXTS, 200):
                made.client.put(
                    Draft(
                        f"{TOP}/{n % 7}/{n}.md",
                        content=f"kettle number {n}\n\nzebra {n}",
                        metadata={"n": n},
                    )
                    for n in range(start, start + 200)
                )
            folder = Draft(f"{TOP}/1", is_directory=True, abstract="Kettles")
            made.client.put([folder])
            made.client.remember("likes the kettle", "preferences")
            yield made
        finally:
            made.close()


SAID = SearchSession("", (SessionMessage("user", "zebra"),))
CALLS: dict[str, Callable[[MessageClient], object]] = {
    "find": lambda c: c.find("kettle 3"),
    "find with trace": lambda c: c.find("kettle 3", trace=True, limit=100),
    "find with a filter": lambda c: c.find("kettle", where={"n": {"$gte": 3}}),
    "thinking": lambda c: c.find("kettle", mode=THINKING),
    "batch": lambda c: c.batch_find([find_request("kettle")] * 40),
    "search": lambda c: c.search("kettle", session=SAID),
    "retrieve": lambda c: c.retrieve("kettle zebra"),
    "retrieve with trace": lambda c: c.retrieve("kettle zebra", trace=True, top_k=100),
    "retrieve with boosts": lambda c: c.retrieve(
        "kettle", boosts=[Boost(2.0, where={"n": 3}), Boost(3.0, uri_prefix=f"{TOP}/1")]
    ),
    "retrieve with diversity": lambda c: c.retrieve("kettle", diversity=0.5),
    "recall": lambda c: c.recall("kettle"),
    "build_context": lambda c: c.build_context("kettle"),
    "tree": lambda c: list(c.tree("")),
    "glob": lambda c: list(c.glob("**")),
    "grep": lambda c: list(c.grep("kettle")),
    "verify": lambda c: c.verify(),
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", CALLS)
def test_a_base_closes_with_the_last_call_that_reads_it(daemon: Daemon, kind: str) -> None:
    """A call leaves no cycle that holds a snapshot: without a collector no old base stays open."""
    for _ in range(ROUNDS):
        CALLS[kind](daemon.client)
        daemon.fold()
    _all_are_closed(daemon)


ERRORS: dict[str, Callable[[MessageClient], object]] = {
    "no target": lambda c: c.find("kettle", target_uri=f"{TOP}/none"),
    "a wrong filter": lambda c: c.retrieve("kettle", where={"n": {"$bad": 3}}),
    "a wrong boost": lambda c: c.retrieve("kettle", boosts=[Boost(2.0, where={"n": {"$b": 3}})]),
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_holds_no_base(daemon: Daemon, kind: str) -> None:
    """The frames of a kept exception hold no snapshot."""
    for _ in range(ROUNDS):
        with pytest.raises(ClientError):
            ERRORS[kind](daemon.client)
        daemon.fold()
    _all_are_closed(daemon)


@pytest.mark.deep
def test_a_cancelled_call_holds_no_base(daemon: Daemon) -> None:
    """A call that ends at any time, in a queue or on a thread, leaves no snapshot behind."""
    stubs: Any = Stubs(daemon.channel)
    find = retrieval_pb2.FindRequest(query="kettle zebra", limit=100, trace=True)
    calls = [
        (stubs.retrieval.Find, find),
        (stubs.retrieval.BatchFind, retrieval_pb2.BatchFindRequest(requests=[find] * 200)),
        (stubs.retrieval.Retrieve, retrieval_pb2.RetrieveRequest(query="kettle", top_k=100)),
        (stubs.retrieval.Find, retrieval_pb2.FindRequest(query="kettle", min_revision=1 << 40)),
        (stubs.contexts.Grep, contexts_pb2.GrepRequest(pattern="k.*r")),
    ]
    for pause in (0.0, 0.002, 0.01, 0.03):
        for call, request in calls:
            running = [call.future(request) for _ in range(3)]
            time.sleep(pause)
            for one in running:
                one.cancel()
            with suppress(grpc.RpcError):
                call(request, timeout=pause)
        daemon.fold()
    _all_are_closed(daemon)


def _all_are_closed(daemon: Daemon) -> None:
    """Wait until no old base is open; a cancelled piece ends at its next step."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        daemon.client.find("kettle")
        if not daemon.client.stats().index.old_bases and not daemon.deleted_files():
            return
        time.sleep(0.1)
    assert daemon.client.stats().index.old_bases == 0
    assert daemon.deleted_files() == []


def test_a_query_in_this_process_holds_no_base(tmp_path: Path) -> None:
    """Without the collector, queries and their errors leave no replaced base open."""
    with closing(Engine(settings(tmp_path))) as engine:
        gc.disable()
        try:
            for number, query in enumerate(
                (
                    FindQuery("harbour", trace=True),
                    FindQuery("harbour", where={"n": {"$gte": 0}}),
                    FindQuery("harbour", target_uri="viking://none"),
                )
            ):
                put(engine, number)
                engine.optimize()
                with suppress(NotFound):
                    find(engine, query, None)
                engine.verify()
            put(engine, 9)
            engine.optimize()
            assert engine.stats().index.old_bases == 0
        finally:
            gc.enable()


class Keeper:
    """A holder of snapshots, which the log has to name."""

    def __init__(self) -> None:
        self.kept: list[Snapshot] = []


@pytest.mark.deep
@pytest.mark.parametrize("most", [1, pytest.param(old_bases.MOST, marks=pytest.mark.deep)])
def test_more_old_bases_than_allowed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, most: int
) -> None:
    """Stats count old bases; above the bound cycles are collected, and the log names holders."""
    monkeypatch.setattr(old_bases, "MOST", most)
    engine = Engine(settings(tmp_path))
    try:
        keeper = Keeper()
        with caplog.at_level(logging.WARNING, logger=old_bases.__name__):
            for number in range(1, 4 * most):
                put(engine, number)
                engine.optimize()
                kept = [engine.snapshot]
                kept.append(kept)  # type: ignore[arg-type]  # a cycle
                assert engine.stats().index.old_bases <= most, "cycles are collected"
            del kept
            assert not caplog.records
            for number in range(100, 100 + most + 1):
                put(engine, number)
                engine.optimize()
                keeper.kept.append(engine.snapshot)
                put(engine, number + 1000)
                engine.optimize()
        assert engine.stats().index.old_bases >= most + 1
        said = [record.getMessage() for record in caplog.records]
        assert all("replaced bases of the index are still open" in one for one in said)
        assert any("Keeper" in one for one in said)
        keeper.kept.clear()
        gc.collect()
        assert engine.stats().index.old_bases == 0
    finally:
        engine.close()
