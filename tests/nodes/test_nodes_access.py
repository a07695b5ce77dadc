"""Keys and tenants of nodes: each change on one node holds on all."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.daemons import serving
from tests.mcp.mcp_helpers import TEA
from tests.patience import eventually
from tests.postgres_servers import NEEDS_POSTGRES, Server
from vikingd.access.keys import KeyStore
from vikingd.access.records import NewKey
from vikingd.access.shared_keys import SharedKeys
from vikingd.client import Client, ClientError, Draft, NotFound, Unauthenticated
from vikingd.domain.errors import NotFound as Missing
from vikingd.domain.errors import StoreAway, StoreMismatch
from vikingd.domain.errors import Unauthenticated as Refused
from vikingd.domain.rights import Grant, Right
from vikingd.store.postgres.postgres_database import Database
from vikingd.store.postgres.postgres_key_tables import AccessTables
from vikingd.store.postgres.postgres_store import PostgresStore
from vikingd.store.postgres.postgres_tenants import SharedTenants

pytestmark = NEEDS_POSTGRES

OPERATOR = NewKey(is_operator=True)
READER = NewKey(tenant="acme", grants=(Grant(Right.READ, "viking://"),))


class Pair(NamedTuple):
    """Two nodes over one database: their addresses and indexes, and the key of an operator."""

    addresses: tuple[str, str]
    paths: tuple[Path, Path]
    operator: str

    def client(self, node: int, key: str = "", tenant: str = "") -> Client:
        """Return a client of one node, which does not repeat calls."""
        return Client(
            self.addresses[node], key=key or self.operator, tenant=tenant or None, retries=False
        )


@pytest.fixture(scope="module")
def pair(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield two nodes with keys."""
    url = postgres.new_database()
    paths = (tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b"))
    with ExitStack() as opened:
        options = ("--provider", "none", "--store", url)
        a, b = (opened.enter_context(serving(*options, "--path", str(path))) for path in paths)
        with Client(a) as first:
            operator = first.create_key(operator=True).secret
        yield Pair((a, b), paths, operator)


def test_a_new_key_is_valid_on_each_node_at_once(pair: Pair) -> None:
    """A key that one node has acknowledged is accepted by the other one at its first call."""
    with pair.client(0) as a:
        for _ in range(30):
            secret = a.create_key(read=["viking://"]).secret
            with pair.client(1, secret) as b:
                b.list()


def test_a_wrong_key_is_refused_on_each_node(pair: Pair) -> None:
    """The look for keys of others does not make an unknown key valid."""
    wrong = f"vk_{'0' * 8}_{'0' * 64}"
    for node in (0, 1):
        with pair.client(node, wrong) as client, pytest.raises(Unauthenticated):
            client.list()


def test_a_revoked_key_ends_on_each_node(pair: Pair) -> None:
    """A revocation, and a new secret without grace, hold on the other node after a moment."""
    with pair.client(0) as a:
        revoked, rotated = (a.create_key(read=["viking://"]) for _ in range(2))
        with pair.client(1, revoked.secret) as b, pair.client(1, rotated.secret) as other:
            b.list()
            other.list()
            a.revoke_key(revoked.key.id)
            new = a.rotate_key(rotated.key.id).secret
            eventually(lambda: refused(b))
            other.list()  # the old secret has a day
        with pair.client(1, new) as b:
            b.list()
    with pair.client(1) as b:
        listed = {key.id: key.revoke_time for key in b.list_keys().keys}
        assert listed[revoked.key.id] is not None
        assert listed[rotated.key.id] is None


def test_a_tenant_of_one_node_is_one_of_all(pair: Pair) -> None:
    """A tenant is made, written, limited and deleted on any node; a deletion leaves no index."""
    with pair.client(0) as a, pair.client(1) as b:
        a.put_tenant("acme", create=True)
        with pytest.raises(ClientError, match="exists"):
            b.put_tenant("acme", create=True)
        with pair.client(1, tenant="acme") as inside:
            inside.put([Draft(TEA, content="Acme's tea.")])
        with pair.client(0, tenant="acme") as inside:
            assert inside.get(TEA).content == "Acme's tea."
            assert [one.uri for one in inside.find("tea")] == [TEA]
            secret = inside.create_key(read=["viking://"]).secret
        a.put_tenant("acme", limits={"calls_per_second": 1})
        eventually(lambda: limits_on(b, "acme") == 1)
        a.put_tenant("acme", limits={})
        assert b.delete_tenant("acme").contexts == 3  # the root, its directory and the file
        assert "acme" not in [tenant.name for tenant in a.list_tenants().tenants]
        for node in (0, 1):
            with pair.client(node, tenant="acme") as inside, pytest.raises(NotFound):
                inside.get(TEA)
            with pair.client(node, secret) as inside:
                eventually(lambda inside=inside: refused(inside))
        eventually(lambda: not any((path / "tenants" / "acme").exists() for path in pair.paths))
        a.put_tenant("acme", create=True)
        with pair.client(1, tenant="acme") as inside, pytest.raises(NotFound):
            inside.get(TEA)
        a.delete_tenant("acme")


def test_many_tenants_share_the_connections(pair: Pair, postgres: Server) -> None:
    """The connections to the database do not grow with the tenants that a node has open."""
    names = [f"many-{number}" for number in range(24)]

    def fill(name: str) -> None:
        with pair.client(1, tenant=name) as inside:
            for number in range(3):
                inside.put([Draft(f"{TEA}{number}", content=name)])

    with pair.client(0) as a:
        for name in names:
            a.put_tenant(name, create=True)
        threads = [threading.Thread(target=fill, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(tenant.open for tenant in a.list_tenants().tenants) >= 24
        with psycopg.connect(postgres.url) as db:
            [count] = db.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'vikingd'"
            ).fetchone()
        assert count <= 2 * 33
        for name in names:
            with pair.client(0, tenant=name) as inside:
                assert inside.get(f"{TEA}2").content == name
            a.delete_tenant(name)


def refused(client: Client) -> bool:
    """Return whether a call fails for its key.

    A node may learn of the end of a tenant before that of its keys.
    """
    try:
        client.list()
    except Unauthenticated:
        return True
    except NotFound:
        pass
    return False


def limits_on(client: Client, tenant: str) -> float:
    """Return a limit of a tenant as a node knows it."""
    [found] = [one for one in client.list_tenants().tenants if one.name == tenant]
    return found.limits.calls_per_second


# Without a daemon


@pytest.fixture
def database(postgres: Server) -> Iterator[Database]:
    """Yield a node's connections to a new database."""
    with closing(Database(postgres.new_database())) as made:
        yield made


def keys_of(database: Database, path: Path) -> SharedKeys:
    """Return the keys of a node with its copy in a directory."""
    path.mkdir(exist_ok=True)
    return SharedKeys(path, AccessTables(database))


def test_known_keys_work_without_the_database(database: Database, tmp_path: Path) -> None:
    """While the database is away a node knows its keys, refuses others, and changes none."""
    with closing(keys_of(database, tmp_path / "a")) as keys:
        keys.create(OPERATOR)
        key, text = keys.create(READER)
        database.close()
        assert keys.caller(text)[0].tenant == "acme"
        with pytest.raises(StoreAway):
            keys.revoke(key.id, "acme")
        assert keys.caller(text)[0].tenant == "acme"


def test_a_copy_is_made_from_the_changes_or_whole(database: Database, tmp_path: Path) -> None:
    """A node that missed some changes, and one that missed very many, have all keys."""
    with closing(keys_of(database, tmp_path / "a")) as keys:
        keys.create(OPERATOR)
        _, text = keys.create(READER)
        for number in range(5):
            keys.put_tenant(f"t{number}", None)
        other = keys_of(database, tmp_path / "b")
        other._following.stop()
        _, later = keys.create(READER)
        keys.forget_tenant("t1")
        other.copy()
        assert other.caller(later)
        assert other.tenant("t1").created_at is None
        assert other.tenant("t2").created_at == keys.tenant("t2").created_at
        _, last = keys.create(READER)
        with psycopg.connect(database.url, autocommit=True) as db:
            db.execute("DELETE FROM vikingd_access.changes")
        assert other.copy()
        assert not other.copy()
        for each in (text, later, last):
            assert other.caller(each)
        other.close()
        assert keys.forget_tenant("acme") == 3
        with closing(keys_of(database, tmp_path / "b")) as again, pytest.raises(Refused):
            again.caller(text)


def test_keys_of_a_directory_and_of_a_database_are_not_mixed(
    database: Database, tmp_path: Path
) -> None:
    """Own keys are never overwritten, copies are never changed alone, lost keys open nothing."""
    with closing(KeyStore(tmp_path / "own")) as own:
        _, text = own.create(OPERATOR)
    with pytest.raises(StoreMismatch, match="keys of its own"):
        keys_of(database, tmp_path / "own")
    with closing(KeyStore(tmp_path / "own")) as own:
        assert own.caller(text)
    with closing(keys_of(database, tmp_path / "node")) as keys:
        keys.create(OPERATOR)
    with pytest.raises(StoreMismatch, match="--store"):
        KeyStore(tmp_path / "node")
    with psycopg.connect(database.url, autocommit=True) as db:
        db.execute("DELETE FROM vikingd_access.keys")
        db.execute("DELETE FROM vikingd_access.changes")
        db.execute("UPDATE vikingd_access.state SET value = 0")
    with pytest.raises(StoreMismatch, match="lost the keys"):
        keys_of(database, tmp_path / "node")
    shutil.rmtree(tmp_path / "node")
    with closing(keys_of(database, tmp_path / "node")) as keys:
        keys.create(OPERATOR)


def test_a_missing_tenant_is_not_made_by_its_opening(database: Database) -> None:
    """A tenant that another node deletes while this one opens it stays deleted."""
    with pytest.raises(Missing):
        PostgresStore(database, "acme", model="m", dimension=2, make=False)
    assert not SharedTenants(database, "m", 2).names()


def test_the_time_of_use_is_shared(database: Database, tmp_path: Path) -> None:
    """The latest use on any node is listed on each, and is no change of a key."""
    with (
        closing(keys_of(database, tmp_path / "a")) as a,
        closing(keys_of(database, tmp_path / "b")) as b,
    ):
        a.create(OPERATOR)
        _, text = a.create(READER)
        eventually(lambda: b._copied == a._copied)
        b.caller(text)
        b.write_uses()
        [used] = [key.used_at for key in a.keys("acme")]
        assert used is not None
        assert time.time_ns() // 1000 - used < 60_000_000
        assert not a.copy()
