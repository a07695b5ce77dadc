"""vikingctl copy: stores go from SQLite to PostgreSQL and back without loss."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.conftest import Ctl
from tests.postgres_servers import NEEDS_POSTGRES, Server, shared_store
from tests.store.store_helpers import ONE, TWO, directory, file, opened, put
from tests.tiers import seeds
from vikingd.domain.description import Description
from vikingd.domain.errors import AlreadyExists, NotFound, StoreInUse
from vikingd.store.store_copy import copy, differences
from vikingd.store.store_places import opened_source, opened_target
from vikingd.store.store_writes import WritableStore

pytestmark = NEEDS_POSTGRES

MEMORIES = "viking://user/memories"


@pytest.fixture
def tenant() -> str:
    """Return the name of a new tenant."""
    return f"t{uuid4().hex}"


def fill(store: WritableStore, seed: int) -> None:
    """Write a random tree with memories, links, vectors, removals and counters."""
    rng = random.Random(seed)
    names = [f"viking://resources/{a}/{b}.md" for a in "xyz" for b in "abcdé文"]
    for _ in range(30):
        some = rng.sample(names, 3)
        put(store, *(file(uri, "一\ntwo\n" * rng.randint(1, 3), title="T") for uri in some))
        if rng.random() < 0.2:
            store.delete([rng.choice(some)]).result(10)
    put(
        store, directory("viking://resources/x", abstract="a", vector=ONE, metadata={"k": [1, "é"]})
    )
    put(store, file(f"{MEMORIES}/notes.md", "- likes tea\n- likes rain\n", time=77))
    kept = [entry.entry.id for entry in store.memories_below(MEMORIES)]
    store.reinforce(kept[:1], 3).result(10)
    store.touch({kept[-1]: 5}).result(10)
    put(store, file("viking://resources/l.md", "left"), file("viking://resources/r.md", "right"))
    store.link("viking://resources/l.md", "viking://resources/r.md", "beside").result(10)
    waiting = store.backlog(5)
    digests = {text.text_id: text.digest for text in waiting}
    store.fill([(text.text_id, TWO) for text in waiting], digests).result(10)
    store.set_meta("prior/m/2", b"\x00\x01")
    for uri in ("viking://resources", "viking://resources/l.md"):
        read = store.get(uri).content_hash
        store.describe([Description(uri, "a", "é", "m", b"\x00\xff", read)]).result(10)


def copied(source: str, target: str, of: str) -> None:
    """Copy, and check that the stores are the same."""
    with opened_source(source, of) as one, opened_target(target, of) as made:
        copy(one, made, lambda _: None)
    with opened_source(source, of) as one, opened_source(target, of) as other:
        assert differences(one, other, lambda _: None) == []


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_there_and_back(postgres: Server, tenant: str, tmp_path: Path, seed: int) -> None:
    """A store comes back as it was; ids go on where the source ended."""
    with opened(tmp_path / "a") as store:
        fill(store, seed)
    copied(str(tmp_path / "a"), postgres.url, tenant)
    with shared_store(postgres.url, tenant) as shared:
        shared.start(lambda *_: None)
        put(shared, file(f"{MEMORIES}/more.md", "- one more\n"))
    copied(postgres.url, str(tmp_path / "b"), tenant)
    with opened(tmp_path / "a") as one, opened(tmp_path / "b") as two:
        put(one, file(f"{MEMORIES}/more.md", "- one more\n"))
        assert [c.content_hash for c in one.tree("viking://", 0, "", 99)] == [
            c.content_hash for c in two.tree("viking://", 0, "", 99)
        ]
        kept = [[m for m in at.memories_below(MEMORIES) if "notes" in m.uri] for at in (one, two)]
        assert kept[0] == kept[1]
        texts = one.get("viking://resources/l.md"), two.get("viking://resources/l.md")
        assert texts[0] == texts[1]
        assert texts[1].abstract_by == "m"
        ids = [[upsert.context_id for upsert in store.scan()] for store in (one, two)]
        assert ids[0] == ids[1]
        assert one.revision == two.revision
        assert one.point.store != two.point.store


def test_what_is_there_is_not_overwritten(postgres: Server, tenant: str, tmp_path: Path) -> None:
    """A target with a store, a source without one and a store in use are refused."""
    with opened(tmp_path / "a") as store:
        fill(store, 0)
        with pytest.raises(StoreInUse), opened_source(str(tmp_path / "a"), tenant):
            pass
    copied(str(tmp_path / "a"), postgres.url, tenant)
    for place in (str(tmp_path / "a"), postgres.url):
        with pytest.raises(AlreadyExists), opened_target(place, tenant):
            pass
    for place in (str(tmp_path / "none"), postgres.url):
        with pytest.raises(NotFound), opened_source(place, "missing"):
            pass


def test_an_error_leaves_nothing(postgres: Server, tenant: str, tmp_path: Path) -> None:
    """After an error in the middle the same copy can be made."""
    with opened(tmp_path / "a") as store:
        fill(store, 1)

    def breaks(_: int) -> None:
        raise KeyboardInterrupt

    for target in (postgres.url, str(tmp_path / "b")):
        with (
            pytest.raises(KeyboardInterrupt),
            opened_source(str(tmp_path / "a"), tenant) as one,
            opened_target(target, tenant) as made,
        ):
            copy(one, made, breaks)
        copied(str(tmp_path / "a"), target, tenant)


def test_a_killed_copy_leaves_nothing(tmp_path: Path) -> None:
    """A copy into a directory that is killed before its end is made again by the next one."""
    with opened(tmp_path / "a") as store:
        fill(store, 2)
    code = (
        "import os, signal; from vikingd.store import store_copy, store_places; "
        "kill = lambda _: os.kill(os.getpid(), signal.SIGKILL); "
        f"one = store_places.opened_source({str(tmp_path / 'a')!r}, 'default'); "
        f"made = store_places.opened_target({str(tmp_path / 'b')!r}, 'default'); "
        "store_copy.copy(one.__enter__(), made.__enter__(), kill)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(NotFound), opened_source(str(tmp_path / "b"), "default"):
        pass
    copied(str(tmp_path / "a"), str(tmp_path / "b"), "default")


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vikingd.contexts SET abstract = 'other' WHERE tenant = '{}' AND id = 3",
        "DELETE FROM vikingd.entries WHERE tenant = '{}'",
        "UPDATE vikingd.entries SET access_count = 9 WHERE tenant = '{}'",
        "UPDATE vikingd.texts SET vector = NULL WHERE tenant = '{}' AND vector IS NOT NULL",
        "UPDATE vikingd.tenants SET last_text = 9999 WHERE tenant = '{}'",
        "UPDATE vikingd.meta SET value = 'bx' WHERE tenant = '{}'",
    ],
)
def test_verify_finds_a_difference(
    postgres: Server, tenant: str, tmp_path: Path, change: str
) -> None:
    """A changed row, counter, vector, id or value is found."""
    with opened(tmp_path) as store:
        fill(store, 0)
    copied(str(tmp_path), postgres.url, tenant)
    with psycopg.connect(postgres.url, autocommit=True) as db:
        assert db.execute(change.format(tenant)).rowcount  # type: ignore[arg-type]
    with opened_source(str(tmp_path), tenant) as one, opened_source(postgres.url, tenant) as two:
        assert differences(one, two, lambda _: None)


def test_the_command(postgres: Server, tenant: str, tmp_path: Path, offline_ctl: Ctl) -> None:
    """The command copies, compares and reports errors as the others do."""
    with opened(tmp_path / "a") as store:
        fill(store, 0)

    def run(*arguments: str) -> tuple[int, str, str]:
        return offline_ctl("copy", *arguments, "--of", tenant, "--json")

    places = ("--from", str(tmp_path / "a"), "--to", postgres.url)
    code, out, err = run(*places)
    assert (code, err) == (0, "")
    assert json.loads(out)["rows"] > 30
    code, out, _ = run(*places, "--verify")
    assert (code, json.loads(out)) == (0, {"ok": True, "differences": []})
    code, _, err = run(*places)
    assert (code, json.loads(err)["code"]) == (1, "ALREADY_EXISTS")
    with closing(sqlite3.connect(tmp_path / "a" / "store.sqlite3")) as db, db:
        db.execute("UPDATE contexts SET title = 'x' WHERE id = 2")
    code, out, _ = run(*places, "--verify")
    assert (code, json.loads(out)["ok"]) == (1, False)
    code, _, err = run("--from", str(tmp_path / "none"), "--to", postgres.url)
    assert code == 4
    assert "there is no store" in json.loads(err)["message"]
