"""kill -9 between descriptions and puts: nothing acknowledged is lost, and nothing is twice."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.store.store_helpers import opened, text_ids
from tests.store.write_helpers import put
from vikingd.domain.contexts import EXTRACT, Draft
from vikingd.domain.description import Description
from vikingd.store.reads.change_reads import all_damage

ROUNDS = 8
FILES = [f"viking://resources/crash/{i:02}.md" for i in range(40)]
TEA = "Green tea wants water of seventy degrees and two minutes of patience.\n"


def describe_until_killed(path: Path, seed: int, acknowledged: Connection) -> None:
    """Describe random files and put some of them anew; tell of each write before and after it."""
    dice = random.Random(seed)
    with opened(path) as store:
        for number in range(1 << 30):
            uri = dice.choice(FILES)
            maker = f"m{seed}.{number}" if dice.random() < 0.8 else EXTRACT
            acknowledged.send((uri, maker, "begun"))
            if maker == EXTRACT:
                put(store, Draft(uri, content=TEA, metadata={"n": number, "seed": seed}))
            else:
                read = store.get(uri).content_hash
                made = Description(uri, f"By {maker}.", f"- {maker}", maker, b"basis", read)
                assert store.describe([made]).result().count == 1
            acknowledged.send((uri, maker, "done"))


@pytest.mark.deep
def test_kills_between_descriptions_lose_nothing(tmp_path: Path) -> None:
    """After a kill a file has the last acknowledged texts, or those of the killed write."""
    with opened(tmp_path) as store:
        put(store, *(Draft(uri, content=TEA) for uri in FILES))
    may_be = {uri: {EXTRACT} for uri in FILES}
    for seed in range(ROUNDS):
        told, telling = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("spawn").Process(
            target=describe_until_killed, args=(tmp_path, seed, telling)
        )
        child.start()
        telling.close()
        assert told.poll(60)
        time.sleep(random.Random(seed).random() * 0.4)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        while True:
            try:
                uri, maker, state = told.recv()
            except EOFError:
                break
            may_be[uri] = {maker} if state == "done" else may_be[uri] | {maker}
        with opened(tmp_path) as store:
            for uri in FILES:
                context = store.get(uri)
                maker = context.abstract_by
                assert maker in may_be[uri]
                may_be[uri] = {maker}
                if maker == EXTRACT:
                    assert (context.abstract, context.overview) == (TEA.strip(), "")
                    assert len(text_ids(store, uri)) == 1
                    assert store.described([uri]) == {}
                else:
                    assert (context.abstract, context.overview) == (f"By {maker}.", f"- {maker}")
                    assert len(text_ids(store, uri)) == 2
            with store._snapshot() as db:
                assert all_damage(db) == []
