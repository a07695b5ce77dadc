"""Nodes: engines over one PostgreSQL database, which write it and follow each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.cluster.proxy import Proxies, State
from tests.patience import eventually
from tests.postgres_servers import NEEDS_POSTGRES, Server, room, shared_store
from tests.store.store_helpers import DOCS, ONE, directory, file, put
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import StoreAway, StoreMismatch, VikingError
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store.postgres.postgres_database import Database
from vikingd.store.postgres.postgres_faults import without_password
from vikingd.store.postgres.postgres_store import PostgresStore
from vikingd.wire.sessions import SessionCall

pytestmark = NEEDS_POSTGRES

SECONDS = 60.0
TOP = "viking://resources"


class Unlimited:
    """No deadline."""

    is_admitted = True

    def left(self) -> None:
        """Return no limit."""


def node(path: Path, url: str, tenant: str = "default") -> Engine:
    """Start a node without an embedder; its index is in a directory of its own."""
    settings = EngineSettings(path, EmbedSettings(provider="none"), store=url, tenant=tenant)
    return Engine(settings)


def write(at: Engine, name: str) -> int:
    """Write a file and return the revision."""
    draft = Draft(f"{TOP}/{name}.md", content=f"text of {name}")
    return at.writable_store.put([prepare(draft)]).result(SECONDS).revision


def has(at: Engine, name: str) -> bool:
    """Return whether a node's index has a file."""
    return at.snapshot.find(f"{TOP}/{name}.md") is not None


@pytest.fixture
def tenant() -> str:
    """Return the name of a new tenant."""
    return f"t{uuid4().hex}"


@pytest.fixture
def two(postgres: Server, tenant: str, tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    """Yield two nodes of a new tenant."""
    with (
        closing(node(tmp_path / "a", postgres.url, tenant)) as a,
        closing(node(tmp_path / "b", postgres.url, tenant)) as b,
    ):
        yield a, b


def test_each_node_finds_what_the_other_wrote(two: tuple[Engine, Engine]) -> None:
    """A write on either node is in the index of both, and both agree with the store."""
    a, b = two
    for number in range(20):
        write((a, b)[number % 2], f"n{number}")
    for at in two:
        at.wait_for_revision(21, SECONDS)
        assert all(has(at, f"n{number}") for number in range(20))
        assert at.verify().ok
    a.writable_store.delete([f"{TOP}/n3.md"]).result(SECONDS)
    b.wait_for_revision(22, SECONDS)
    assert not has(b, "n3")


def test_writers_on_all_nodes_get_revisions_without_a_gap(two: tuple[Engine, Engine]) -> None:
    """Concurrent writes on two nodes have different revisions, and no id is given twice."""
    seen: list[int] = []

    def work(at: Engine, name: str) -> None:
        seen.extend(write(at, f"{name}{number}") for number in range(15))

    threads = [threading.Thread(target=work, args=(two[i % 2], f"w{i}-")) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    newest = max(seen)
    assert len(seen) == 60
    assert set(seen) == set(range(2, newest + 1))
    ids = []
    for at in two:
        at.wait_for_revision(newest, SECONDS)
        assert at.verify().ok
        ids.append(sorted(upsert.context_id for upsert in at.store.scan()))
    assert ids[0] == ids[1] == list(range(1, 63))


def test_an_own_commit_comes_after_those_of_others(two: tuple[Engine, Engine]) -> None:
    """A node that has not heard of another's commit takes it before its own next one."""
    a, b = two
    assert isinstance(a.store, PostgresStore)
    assert a.store._subscription is not None
    a.store._subscription.stop()
    write(b, "others")
    write(a, "own")
    assert has(a, "others")
    assert a.verify().ok


def test_a_database_that_goes_away_after_a_commit_ends_no_writes(
    two: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit whose predecessors cannot be read is acknowledged, and is in the index later."""
    a, b = two
    assert isinstance(a.store, PostgresStore)
    assert a.store._subscription is not None
    a.store._subscription.stop()
    write(b, "others")
    with monkeypatch.context() as patched:
        patched.setattr(a.store, "news", away)
        write(a, "own")
    assert not has(a, "own")
    write(a, "next")
    assert all(has(a, name) for name in ("others", "own", "next"))
    assert a.verify().ok


def away(*_: object) -> None:
    """Read nothing."""
    raise StoreAway("no database")


def test_an_own_write_is_no_lost_history(two: tuple[Engine, Engine]) -> None:
    """A session that sees a commit before its node has read the history is not told a loss."""
    a, _ = two
    assert isinstance(a.store, PostgresStore)
    assert a.store._subscription is not None
    a.store._subscription.stop()

    async def find() -> str:
        call = SessionCall(a, "Find", ())
        await call.begin(Unlimited())
        write(a, "own")
        return await call.end()

    assert asyncio.run(find()).endswith(".2")


@pytest.mark.deep
def test_a_silent_database_is_away_within_seconds(postgres: Server, tmp_path: Path) -> None:
    """A server that neither answers nor ends its connections: writes fail, finds go on."""
    proxies = Proxies()
    proxy = proxies.make(lambda: postgres.port)
    url = postgres.new_database().replace(str(postgres.port), str(proxy.port))
    with closing(node(tmp_path, url)) as at:
        write(at, "early")
        proxy.set(State.SILENT)
        assert not written(at, "away")
        assert not written(at, "at once")
        assert has(at, "early")
        with pytest.raises(StoreAway):
            at.wait_for_revision(99, SECONDS)
        proxy.set(State.OPEN)
        eventually(lambda: written(at, "after"))
        assert at.verify().ok
    proxies.stop()


def test_a_node_that_was_away_catches_up(postgres: Server, tenant: str, tmp_path: Path) -> None:
    """A node keeps its index on disk, takes what it missed, and needs no index at all."""
    with closing(node(tmp_path / "a", postgres.url, tenant)) as a:
        write(a, "early")
        a.optimize()
    with closing(node(tmp_path / "b", postgres.url, tenant)) as b:
        assert has(b, "early")
        write(b, "later")
        b.writable_store.delete([f"{TOP}/early.md"]).result(SECONDS)
        with closing(node(tmp_path / "a", postgres.url, tenant)) as a:
            assert (has(a, "early"), has(a, "later")) == (False, True)
            assert a.verify().ok


def test_tenants_share_nothing(postgres: Server, tmp_path: Path) -> None:
    """Two tenants of one database have the same ids and URIs, and see nothing of each other."""
    names = [f"t{uuid4().hex}" for _ in range(2)]
    with ExitStack() as opened:
        one, two = (
            opened.enter_context(closing(node(tmp_path / name, postgres.url, name)))
            for name in names
        )
        assert write(one, "same") == write(two, "same") == 2
        one.writable_store.delete([f"{TOP}/same.md"]).result(SECONDS)
        assert has(two, "same")
        assert two.store.counts().files == 1
        assert two.store.changes_since(2)[0] == []


def test_nodes_share_the_backlog(postgres: Server, tenant: str) -> None:
    """A text is leased to one node; it returns when the lease ends, not after it has a vector."""
    with ExitStack() as opened:
        one, two = (opened.enter_context(shared_store(postgres.url, tenant)) for _ in range(2))
        one.start(lambda *_: None)
        put(one, *(file(f"{DOCS}/{number}", abstract=f"text {number}") for number in range(6)))
        mine = {text.text_id for text in one.backlog(4)}
        assert {text.text_id for text in one.backlog(4)} == mine
        others = {text.text_id for text in two.backlog(10)}
        assert (len(mine), len(others), mine & others) == (4, 2, set())
        one.fill([(min(mine), ONE)]).result(SECONDS)
        with psycopg.connect(postgres.url, autocommit=True) as db:
            db.execute("UPDATE vikingd.leases SET until = now() - interval '1 second'")
        assert {text.text_id for text in two.backlog(10)} == (mine | others) - {min(mine)}


def test_another_model_is_refused(postgres: Server, tenant: str) -> None:
    """A node with another model neither starts nor writes beside vectors of the first one."""
    with shared_store(postgres.url, tenant) as store:
        store.start(lambda *_: None)
        put(store, directory(DOCS, abstract="a", vector=ONE))
        with (
            pytest.raises(StoreMismatch, match="vectors of m"),
            shared_store(postgres.url, tenant, "other"),
        ):
            pass
        with (
            shared_store(postgres.url, tenant, "other", reembed=True),
            pytest.raises(StoreMismatch, match="other"),
        ):
            put(store, file(f"{DOCS}/a"))


def test_without_a_tenant_nothing_is_seen_or_written(postgres: Server, tenant: str) -> None:
    """A statement outside of a tenant's transaction finds no row and inserts none."""
    with shared_store(postgres.url, tenant):
        pass
    with psycopg.connect(postgres.url, autocommit=True) as db:
        db.execute("SELECT set_config('vikingd.tenant', '', false)")
        assert db.execute("SELECT count(*) FROM vikingd_tenant.contexts").fetchone() == (0,)
        with pytest.raises(psycopg.errors.CheckViolation):
            db.execute("INSERT INTO vikingd_tenant.removals (revision, uri) VALUES (1, 'x')")


def test_a_password_is_never_shown() -> None:
    """The error of a database that cannot be reached names no password."""
    with pytest.raises(StoreAway) as refused:
        Database("postgresql://me:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(refused.value)
    for url in ("//me:hunter2@db/x", "//me:hun/ter2@db", "//me:a@hunter2@db", "//hunter2@db"):
        assert "ter2" not in without_password(f"postgresql:{url} failed")
    for given in (
        "password=hunter2",
        "password = hunter2",
        "password='a hunter2'",
        "password='\\'hunter2'",
    ):
        assert without_password(f"{given} host=h").endswith("*** host=h")


@contextmanager
def pair(*settings: str) -> Iterator[tuple[Server, Server]]:
    """Run a primary and a standby."""
    with room() as path:
        primary = Server(path / "primary", *settings)
        primary.make()
        primary.start()
        standby = Server(path / "standby")
        standby.copy(primary)
        standby.start()
        try:
            yield primary, standby
        finally:
            standby.stop()
            primary.stop()


def url_of(*servers: Server) -> str:
    """Return the URL of several servers, of which the primary is used."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"


def written(at: Engine, name: str) -> bool:
    """Try to write a file; return whether it was acknowledged."""
    try:
        write(at, name)
    except StoreAway:
        return False
    return True


@pytest.mark.deep
def test_a_promoted_standby_loses_nothing(tmp_path: Path) -> None:
    """With a synchronous standby all acknowledged writes are there after the primary died."""
    with pair() as (primary, standby):
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        primary.wait("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        with (
            closing(node(tmp_path / "a", url_of(primary, standby))) as a,
            closing(node(tmp_path / "b", url_of(primary, standby))) as b,
        ):
            kept = [f"n{number}" for number in range(10) if written(a, f"n{number}")]
            assert len(kept) == 10
            b.wait_for_revision(11, SECONDS)
            primary.kill()
            assert not written(b, "away")
            assert has(b, "n3")  # the index answers on
            standby.promote()
            eventually(lambda: written(b, "after"))
            eventually(lambda: has(a, "after"))
            for at in (a, b):
                assert all(has(at, name) for name in kept)
                assert at.verify().ok


@pytest.mark.deep
def test_lost_commits_disappear_from_a_node(postgres: Server, tmp_path: Path) -> None:
    """After an older copy took the place of the database, a node has its commits alone."""
    url = postgres.new_database()
    name = url.rpartition("/")[2]
    with closing(node(tmp_path, url)) as at:
        write(at, "early")
    postgres.execute(f"CREATE DATABASE {name}_older TEMPLATE {name}")
    with closing(node(tmp_path, url)) as at:
        for number in range(3):
            write(at, f"lost{number}")
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
        postgres.execute(f"ALTER DATABASE {name}_older RENAME TO {name}")
        eventually(lambda: written(at, "after"))
        eventually(lambda: settled(at))
        assert has(at, "early")
        assert not any(has(at, f"lost{number}") for number in range(3))
        assert at.verify().ok


def settled(at: Engine) -> bool:
    """Return whether a node has taken the history without the lost commits."""
    with suppress(VikingError):  # while its index is built again
        return has(at, "after") and not has(at, "lost0")
    return False


@pytest.mark.deep
def test_lost_commits_disappear_from_every_node(tmp_path: Path) -> None:
    """After a failover that lost commits no node answers from them, and all agree again."""
    with (
        pair() as (primary, standby),
        closing(node(tmp_path / "a", url_of(primary, standby))) as a,
        closing(node(tmp_path / "b", url_of(primary, standby))) as b,
    ):
        early = write(a, "early")
        standby.wait(f"SELECT 1 FROM vikingd.tenants WHERE revision = {early}")
        standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        standby.execute("SELECT pg_reload_conf()")
        standby.wait("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)")
        for number in range(5):
            write(a, f"lost{number}")
        b.wait_for_revision(early + 5, SECONDS)
        with closing(node(tmp_path / "c", url_of(primary, standby))) as c:
            c.optimize()  # its index on disk has the commits that get lost
        primary.kill()
        standby.promote()
        eventually(lambda: written(b, "after"))
        for at in (a, b):
            eventually(lambda at=at: settled(at))
            assert has(at, "early")
            assert not any(has(at, f"lost{number}") for number in range(5))
            assert at.verify().ok
        for number in range(8):  # more revisions than were lost
            write((a, b)[number % 2], f"new{number}")
        for at in (a, b):
            at.wait_for_revision(early + 9, SECONDS)
            assert at.verify().ok
        with closing(node(tmp_path / "c", url_of(primary, standby))) as c:
            assert not has(c, "lost0")
            assert c.verify().ok


@pytest.mark.deep
def test_a_commit_during_the_rebuild_after_a_loss_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that lost own commits indexes those that others make while it builds its index."""
    with (
        pair() as (primary, standby),
        closing(node(tmp_path / "a", url_of(primary, standby))) as a,
    ):
        early = write(a, "early")
        standby.wait(f"SELECT 1 FROM vikingd.tenants WHERE revision = {early}")
        standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        standby.execute("SELECT pg_reload_conf()")
        standby.wait("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)")
        for number in range(5):
            write(a, f"lost{number}")
        store, late = a.store, []
        assert isinstance(store, PostgresStore)
        real = store.changes_since

        def changes_since(*given: Any, **more: Any) -> Any:
            if not late:
                with shared_store(standby.url, "default", "none") as other:
                    other.start(lambda *_: None)
                    late.append(other.put([file(f"{TOP}/after.md", "x")]).result(SECONDS))
            return real(*given, **more)

        monkeypatch.setattr(store, "changes_since", changes_since)
        primary.kill()
        standby.promote()
        eventually(lambda: late)

        def is_built() -> bool:
            with suppress(VikingError):
                return a.snapshot.revision == late[0].revision and not has(a, "lost0")
            return False

        eventually(is_built)
        assert has(a, "after")
        assert a.verify().ok


@pytest.mark.deep
def test_a_dead_database_refuses_writes_and_lets_reads_go_on(tenant: str, tmp_path: Path) -> None:
    """Reads of the index go on while there is no server; then all is as before."""
    with pair() as (primary, _), closing(node(tmp_path, primary.url, tenant)) as at:
        write(at, "early")
        primary.kill()
        assert not written(at, "away")
        assert has(at, "early")
        primary.start()
        eventually(lambda: written(at, "after"))
        assert at.verify().ok
        assert not has(at, "away")
