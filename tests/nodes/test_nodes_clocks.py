"""Nodes whose clocks differ: what one of them writes does not depend on its own clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.patience import eventually
from tests.postgres_servers import NEEDS_POSTGRES, Server, shared_store
from tests.store.write_helpers import NOTES, put
from vikingd.domain.contexts import Draft
from vikingd.domain.store_changes import Once
from vikingd.store.postgres.postgres_database import Database

pytestmark = NEEDS_POSTGRES

DAY = 86_400.0


@contextmanager
def clock(seconds: float) -> Iterator[None]:
    """Set the clock of this process forward."""
    real, real_ns = time.time, time.time_ns
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "time", lambda: real() + seconds)
        patched.setattr(time, "time_ns", lambda: real_ns() + int(seconds * 1e9))
        yield


def once(name: str) -> Once:
    """Return a request with an id."""
    return Once(name, b"d", lambda done: str(done.revision).encode())


def test_a_node_with_a_fast_clock_forgets_no_request(postgres: Server) -> None:
    """A repeated request counts once, whatever the clock of a node that wrote in between."""
    url = postgres.new_database()
    with shared_store(url, "default") as right, shared_store(url, "default") as ahead:
        for store in (right, ahead):
            store.start(lambda *_: None)
        put(right, Draft(NOTES, content="- drinks tea\n"))
        (entry,) = right.memory_file(NOTES).entries  # type: ignore[union-attr]
        ids = [entry.entry.id]
        first = right.reinforce(ids, 1, once("a")).result()
        with clock(3 * DAY):
            ahead.reinforce(ids, 1, once("b")).result()
            put(ahead, Draft("viking://resources/new.md", content="new"))
        assert right.reinforce(ids, 1, once("a")).result().reply == str(first.revision).encode()
        (entry,) = right.memory_file(NOTES).entries  # type: ignore[union-attr]
        assert entry.entry.reinforcement == 2
        made = right.get("viking://resources/new.md")
        assert made.updated_at < (time.time() + DAY) * 1e6


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(("seconds", "told"), [(3 * DAY, "ahead of"), (-3 * DAY, "behind")])
def test_a_clock_that_is_off_is_told(
    postgres: Server, caplog: pytest.LogCaptureFixture, seconds: float, told: str
) -> None:
    """The log says how far the clock of a node is off, and when it is right again."""
    with closing(Database(postgres.new_database())):
        with clock(seconds):
            eventually(lambda: "the clock of this node is 2592" in caplog.text)
            assert f"s {told} that of the database" in caplog.text
            assert caplog.text.count("the clock of this node") == 1
        eventually(lambda: "that of the database again" in caplog.text)
