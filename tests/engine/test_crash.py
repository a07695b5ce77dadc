"""kill -9 during concurrent writes: nothing acknowledged is lost, nothing deleted comes back."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from tests.index.find_helpers import find
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import NotFound
from vikingd.domain.find_query import FindQuery
from vikingd.engine import Engine, EngineSettings
from vikingd.index.settings import IndexSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

WRITERS = 4
ROOT = "viking://resources/crash"


def settings(path: Path) -> EngineSettings:
    """Return settings of a small index that compacts often, so that kills hit compactions."""
    return EngineSettings(
        path, EmbedSettings(provider="none"), IndexSettings(compact_min=150, compact_ratio=0.25)
    )


def vector(number: int) -> bytes:
    """Return a unit vector of 16 numbers; the same number gives the same vector."""
    raw = np.random.default_rng(number).normal(size=16)
    return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()


def draft(uri: str, number: int) -> Draft:
    """Return a file with a vector and a unique word."""
    return Draft(uri, content=f"note word{number} about the harbour", vector=vector(number))


def write_until_killed(path: Path, round_number: int, acknowledged: Connection) -> None:
    """Put, overwrite and delete from several threads; report each write before and after it."""
    engine = Engine(settings(path))
    lock = threading.Lock()

    def say(*message: object) -> None:
        with lock:
            acknowledged.send(message)

    def work(writer: int) -> None:
        dice = random.Random(f"{round_number}/{writer}")
        count = 0
        while True:
            count += 1
            number = round_number * 1_000_000 + writer * 100_000 + count
            uri = f"{ROOT}/{writer}/{dice.randrange(40)}.md"
            delete = dice.random() < 0.3
            say("begin", uri)
            try:
                if delete:
                    engine.writable_store.delete([uri]).result()
                else:
                    engine.writable_store.put([prepare(draft(uri, number))]).result()
            except NotFound:
                say("refused", uri)
                continue
            say("done", uri, None if delete else number)

    threads = [threading.Thread(target=work, args=(w,), daemon=True) for w in range(WRITERS)]
    for thread in threads:
        thread.start()
    threads[0].join()


def collect(
    received: Connection, known: dict[str, set[int | None]], has_written: threading.Event
) -> None:
    """Collect the possible states of each URI after the kill in `known`."""
    begun: set[str] = set()
    while True:
        try:
            message = received.recv()
        except EOFError:
            break
        if message[0] == "begin":
            begun.add(message[1])
        else:
            begun.discard(message[1])
            if message[0] == "done":
                known[message[1]] = {message[2]}
                has_written.set()
    for uri in begun:
        # An unacknowledged write may be stored or not, and its number is unknown.
        known[uri] = known.get(uri, {None}) | {None, -1}


@pytest.mark.parametrize(
    ("seed", "rounds"), [(20261121, 2), pytest.param(20261121, 25, marks=pytest.mark.deep)]
)
def test_nothing_acknowledged_is_lost_in_kills(tmp_path: Path, seed: int, rounds: int) -> None:
    """After a kill -9, the store opens fast, matches its index and has all acknowledged writes."""
    dice = random.Random(seed)
    fork = multiprocessing.get_context("fork")
    known: dict[str, set[int | None]] = {}
    writes = 0
    for round_number in range(rounds):
        receive, send = fork.Pipe(duplex=False)
        child = fork.Process(target=write_until_killed, args=(tmp_path, round_number, send))
        # The child must not free objects of earlier tests: a mapped FAISS index waits there for
        # its thread, which a forked process lacks.
        gc.collect()
        child.start()
        send.close()
        has_written = threading.Event()
        collector = threading.Thread(target=collect, args=(receive, known, has_written))
        collector.start()
        if round_number % 4 < 3:  # the others may be killed while they start
            has_written.wait(60)
        time.sleep(dice.uniform(0.05, 0.5))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL, "the child ended before it was killed"
        collector.join()
        receive.close()
        started = time.perf_counter()
        engine = Engine(settings(tmp_path))
        took = time.perf_counter() - started
        assert took < 60, f"round {round_number}: the restart took {took:.1f} s"
        report = engine.verify()
        assert report.ok, f"round {round_number}: {report.problems}"
        writes += engine.store.revision
        for uri, allowed in known.items():
            row = engine.snapshot.find(uri)
            content = engine.store.get(uri).content if row is not None else ""
            number = int(content.split()[1].removeprefix("word")) if content else None
            assert number in allowed or (-1 in allowed and number is not None), (
                f"round {round_number}, seed {seed}: {uri} holds {number}, not {allowed}"
            )
            known[uri] = {number}
        check_by_finding(engine, known, dice)
        engine.close()
    assert writes > rounds, "the writers were killed before they wrote anything"


def check_by_finding(
    engine: Engine, known: dict[str, set[int | None]], dice: random.Random
) -> None:
    """Check that queries find some living contexts by their unique words."""
    for uri in dice.sample(sorted(known), min(len(known), 5)):
        (number,) = known[uri]
        if number is not None:
            query = FindQuery(text=f"word{number}", limit=1)
            matches = find(engine, query, None).matches
            assert [m.uri for m in matches] == [uri]
