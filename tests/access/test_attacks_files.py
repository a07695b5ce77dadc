"""Attacks and accidents around the files of a daemon: keys that are gone, locks, links, readers."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from tests.access.attack_helpers import Fort, bearer, fort, get, grants, outcome
from tests.commands import serve
from tests.daemons import start
from tests.metrics_helpers import Daemon, running
from tests.patience import eventually
from vikingd.access.keys import HAD_KEY, KeyStore
from vikingd.access.keys_file import FILE
from vikingd.access.records import NewKey
from vikingd.client.method_declarations import Stubs
from vikingd.domain.errors import Unauthenticated
from vikingd.domain.rights import Grant, Right
from vikingd.pb import access_pb2, admin_pb2

UNKNOWN = bearer("vk_00000000_" + "0" * 64)


def refusal(store: Path) -> str:
    """Return what a daemon says that does not start."""
    process = start(
        serve(store, "--provider", "none"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in said
    return str(said)


def _removed(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


def _truncated(path: Path) -> None:
    for suffix in ("", "-wal"):
        os.truncate(f"{path}{suffix}", 0)


def _replaced(path: Path) -> None:
    _removed(path)
    KeyStore(path.parent / "other").close()
    shutil.move(path.parent / "other" / FILE, path)


def _overwritten(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))
    os.truncate(f"{path}-wal", 0)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("attack", [_removed, _truncated, _replaced, _overwritten])
def test_a_daemon_that_loses_its_keys_does_not_open(
    tmp_path: Path, attack: Callable[[Path], None]
) -> None:
    """Calls without a valid key stay refused, changes fail with a reason, and nothing is a bug."""
    with fort(tmp_path) as target:
        call, create = target.stubs.contexts.Get, target.stubs.access.CreateKey
        assert target.tries("ana", "contexts", "Get", get())[0] == "OK"
        attack(target.store / FILE)
        for _ in range(2):
            for metadata in ((), UNKNOWN):
                code, message = outcome(call, get(), metadata)
                assert code in ("UNAUTHENTICATED", "DATA_LOSS")
                assert str(target.store) not in message
            assert target.tries("gus", "contexts", "Get", get())[0] in ("OK", "DATA_LOSS")
            code, message = outcome(
                create, access_pb2.CreateKeyRequest(operator=True), target.metadata("operator")
            )
            if attack in (_removed, _replaced):  # else SQLite may have what it needs in memory
                assert (code, "deleted or replaced" in message) == ("DATA_LOSS", True)
            assert str(target.store) not in message
        assert "INTERNAL" not in target.daemon.stderr


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_a_start_without_the_keys_is_refused(tmp_path: Path, left: str) -> None:
    """A data directory that had keys does not open when their file is gone."""
    keys = KeyStore(tmp_path)
    keys.create(NewKey(is_operator=True))
    keys.close()
    saved = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).unlink()
    if left == "an empty file":
        (tmp_path / FILE).touch()
    assert "restore a copy of it" in refusal(tmp_path)
    (tmp_path / FILE).write_bytes(saved)
    assert KeyStore(tmp_path).had_key


def test_the_mark_of_keys_is_made_again(tmp_path: Path) -> None:
    """A kill between the first key and its mark is put right by the next start."""
    keys = KeyStore(tmp_path)
    assert not (tmp_path / HAD_KEY).exists()
    keys.create(NewKey(is_operator=True))
    keys.close()
    (tmp_path / HAD_KEY).unlink()
    KeyStore(tmp_path).close()
    assert (tmp_path / HAD_KEY).exists()


def test_keys_that_vanish_from_the_file_leave_the_calls_refused(tmp_path: Path) -> None:
    """Once a process has seen a key, no change of the file makes it open."""
    keys = KeyStore(tmp_path)
    keys.create(NewKey(is_operator=True))
    assert keys.had_key
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE state SET value = value + 1 WHERE name = 'changes'")
        db.execute("UPDATE state SET value = 0 WHERE name = 'had_key'")
        db.execute("DELETE FROM keys")
    assert keys.had_key


@pytest.mark.deep
@pytest.mark.parametrize("pause", [0.3, pytest.param(0.0, marks=pytest.mark.deep)])
def test_a_lock_on_the_keys_delays_no_call(tmp_path: Path, pause: float) -> None:
    """While another process writes the file, calls go on; a new key waits, and fails in words."""
    with fort(tmp_path) as target:
        other = sqlite3.connect(target.store / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        create = target.stubs.access.CreateKey.future(
            access_pb2.CreateKeyRequest(operator=True), metadata=target.metadata("operator")
        )
        slowest = 0.0
        while not create.done():
            time.sleep(pause)
            for metadata, code in (
                (target.metadata("ana"), "OK"),
                (target.metadata("gus"), "OK"),
                (UNKNOWN, "UNAUTHENTICATED"),
            ):
                began = time.monotonic()
                assert outcome(target.stubs.contexts.Get, get(), metadata)[0] == code
                if code == "OK":
                    slowest = max(slowest, time.monotonic() - began)
        assert slowest < 1
        assert create.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "database is locked" in create.details()
        assert str(target.store) not in create.details()
        other.execute("ROLLBACK")
        target.new_key("acme", grants=grants(read="viking://"))


def test_a_full_disk_does_not_lose_the_next_change(tmp_path: Path) -> None:
    """A change that the disk refused is undone, and the next one works."""
    keys = KeyStore(tmp_path)
    _, operator = keys.create(NewKey(is_operator=True))
    keys.caller(operator)
    keys._file._connection.execute(
        "CREATE TEMP TRIGGER full BEFORE UPDATE ON keys BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    keys.write_uses()
    assert not keys._file._connection.in_transaction
    keys._file._connection.execute("DROP TRIGGER full")
    key, text = keys.create(NewKey(is_operator=True))
    keys.revoke(key.id, "default", by_operator=True)
    with pytest.raises(Unauthenticated, match="revoked"):
        keys.caller(text)


def test_a_tenant_with_an_old_name_has_new_keys(tmp_path: Path) -> None:
    """Keys of a tenant that was deleted, by a call or by hand, do not open its successor."""
    with fort(tmp_path) as target:
        operator = target.metadata("operator")
        access = target.stubs.access
        access.DeleteTenant(access_pb2.DeleteTenantRequest(name="acme"), metadata=operator)
        beside = KeyStore(target.store)  # as if the directory of a tenant had been removed
        readable = (Grant(Right.READ, "viking://"),)
        _, target.keys["left"] = beside.create(NewKey(tenant="initech", grants=readable))
        beside.close()
        assert target.tries("left", "contexts", "Get", get())[0] == "NOT_FOUND"
        for name, of in (("acme", "ana"), ("initech", "left")):
            create = access_pb2.PutTenantRequest(name=name, create=True)
            access.PutTenant(create, metadata=operator)
            answer = target.tries(of, "contexts", "Get", get())
            assert answer == ("UNAUTHENTICATED", "the key is not valid")


@pytest.mark.deep
def test_tenants_are_not_sought_behind_a_link(tmp_path: Path) -> None:
    """A link in place of DATA/tenants ends the start, and no key is forgotten for it."""
    with fort(tmp_path) as target:
        pass
    tenants, elsewhere = target.store / "tenants", tmp_path / "elsewhere"
    tenants.rename(elsewhere)
    tenants.symlink_to(elsewhere)
    assert "vikingd: DATA/tenants is a symbolic link or a file" in refusal(target.store)
    keys = KeyStore(target.store)
    assert keys.caller(target.keys["ana"])[0].tenant == "acme"


@contextmanager
def reader(target: Fort, directory: Path) -> Iterator[Stubs]:
    """Run a reader beside a daemon, and yield its stubs."""
    said = directory / "reader.log"
    beside = Daemon(target.store, said, "--provider", "none", "--reader")
    try:
        with grpc.insecure_channel(beside.address) as channel:
            yield Stubs(channel)
    finally:
        assert beside.stop() == 0
        assert "Traceback" not in beside.stderr


@pytest.mark.deep
def test_a_reader_holds_the_same_keys(tmp_path: Path) -> None:
    """A reader refuses calls without a key, and a revoked key at its next call."""
    with fort(tmp_path) as target:
        # A tenant that the writer creates just now: known to the keys, without a directory yet.
        other = KeyStore(target.store)
        other.put_tenant("soon", None)
        _, soon = other.create(NewKey(tenant="soon", grants=(Grant(Right.READ, "viking://"),)))
        with reader(target, tmp_path) as stubs:
            read = stubs.contexts.Get
            assert outcome(read, get())[0] == "UNAUTHENTICATED"
            assert outcome(read, get(), UNKNOWN)[0] == "UNAUTHENTICATED"
            eventually(lambda: outcome(read, get(), target.metadata("ana"))[0] == "OK")
            target.stubs.access.RevokeKey(
                access_pb2.RevokeKeyRequest(id=target.keys["ana"][3:11]),
                metadata=bearer(target.keys["operator"], "acme"),
            )
            code, message = outcome(read, get(), target.metadata("ana"))
            assert (code, message[-10:]) == ("UNAUTHENTICATED", "is revoked")
            assert other.caller(soon)[0].tenant == "soon"
        other.close()


def test_a_revoked_key_begins_no_second_backup(tmp_path: Path) -> None:
    """A stream that runs goes on to its end; the next call is refused."""
    with fort(tmp_path) as target:
        admin = target.metadata("admin")
        stream = target.stubs.admin.Backup(admin_pb2.BackupRequest(), metadata=admin)
        first = next(stream)
        target.stubs.access.RevokeKey(
            access_pb2.RevokeKeyRequest(id=target.keys["admin"][3:11]),
            metadata=bearer(target.keys["operator"], "acme"),
        )
        rest = b"".join(piece.data for piece in stream)
        assert len(first.data) + len(rest) == first.size
        with pytest.raises(grpc.RpcError) as refused:
            list(target.stubs.admin.Backup(admin_pb2.BackupRequest(), metadata=admin))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


REBOUND = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil", "")
REBOUND += ("10.0.0.1", "[::ffff:10.0.0.1]", "0.0.0.0", "[", "localhost localhost")


def test_a_web_page_reads_no_metrics(tmp_path: Path) -> None:
    """A page whose name was rebound to loopback gets neither metrics nor the health."""
    with running(tmp_path / "store", "--provider", "none") as daemon:
        host, port = daemon.url.removeprefix("http://").partition("/")[0].split(":")
        for name in (*REBOUND, f"localhost:{port}"):
            for path in ("/metrics", "/healthz"):
                with socket.create_connection((host, int(port))) as raw:
                    raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
                    status = raw.makefile("rb").readline().split()[1]
                assert status == (b"421" if name in REBOUND else b"200"), (name, path)


def test_a_link_is_no_socket(tmp_path: Path) -> None:
    """A link at the path of the unix socket is not followed, and its target stays as it is."""
    mine, link = tmp_path / "mine", tmp_path / "run" / "socket"
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(mine))
    link.parent.mkdir(mode=0o700)
    link.symlink_to(mine)
    command = serve(tmp_path / "store", "--provider", "none", "--listen", f"unix:{link}")
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert run.returncode == 1
    assert "it exists, and is not a socket" in run.stderr
    assert mine.is_socket()
    assert link.is_symlink()


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(12, 0.5), pytest.param(16, 3.5, marks=pytest.mark.deep)],  # 0.2 + 0.4 + 0.6 and so on
)
def test_a_brute_force_slows_its_sender_and_is_told(
    tmp_path: Path, failures: int, seconds: float
) -> None:
    """Wrong keys wait longer and longer; a right key of the same address does not."""
    with fort(tmp_path) as target:
        call = target.stubs.contexts.Get
        began = time.monotonic()
        for _ in range(failures):
            assert outcome(call, get(), UNKNOWN)[0] == "UNAUTHENTICATED"
        assert time.monotonic() - began > seconds
        began = time.monotonic()
        assert target.tries("ana", "contexts", "Get", get())[0] == "OK"
        assert time.monotonic() - began < 0.5
        assert 'event="wrong keys" address=127.0.0.1' in target.daemon.stderr
