"""Attacks by admins of a tenant, and on what the machine shows."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.attack_helpers import HIDDEN, SHARED, Fort, bearer, fort, get, grants, outcome
from vikingd.domain.errors import Corrupt, DiskFull, StoreDamaged, StoreInUse, VikingError
from vikingd.domain.rights import CALLER, LOCAL, Caller
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, retrieval_pb2
from vikingd.wire.status_errors import status_of


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    """Yield a daemon with two tenants, whose log tells all, under umask 0."""
    before = os.umask(0)
    try:
        # A forked one would show the environment and the command line of the nursery.
        options = ("--log-level", "debug")
        with fort(tmp_path_factory.mktemp("attacked"), *options, fresh=True) as made:
            yield made
    finally:
        os.umask(before)


def test_an_admin_of_a_tenant_does_not_become_an_operator(target: Fort) -> None:
    """Operators' keys of its tenant are not there for it: neither listed, rotated nor revoked."""
    access, operator = target.stubs.access, target.keys["operator"]
    for tenant in ("", "acme"):
        of_operator = target.new_key(tenant, operator=True)
        admin = bearer(target.new_key(tenant, grants=grants(admin="viking://")).secret)
        listed = access.ListKeys(access_pb2.ListKeysRequest(), metadata=admin)
        assert not any(key.operator for key in listed.keys)
        missing = outcome(access.RevokeKey, access_pb2.RevokeKeyRequest(id="00000000"), admin)
        for id_ in (of_operator.key.id, operator[3:11]):
            for call, request in (
                (access.RotateKey, access_pb2.RotateKeyRequest(id=id_)),
                (access.RevokeKey, access_pb2.RevokeKeyRequest(id=id_)),
            ):
                code, message = outcome(call, request, admin)
                assert (code, message.replace(id_, "00000000")) == missing
        create = access_pb2.CreateKeyRequest(operator=True)
        assert outcome(access.CreateKey, create, admin)[0] == "PERMISSION_DENIED"
        listed = access.ListKeys(access_pb2.ListKeysRequest(), metadata=bearer(operator, tenant))
        assert any(key.id == of_operator.key.id for key in listed.keys)


def test_an_admin_of_a_tenant_takes_no_certificate_of_others(target: Fort) -> None:
    """All tenants share the authority: none claims a subject, nor learns of one."""
    target.new_key("globex", grants=grants(read="viking://"), certificate_subject="CN=globex")
    for subject in ("CN=globex", "CN=nobody"):
        request = access_pb2.CreateKeyRequest(
            grants=grants(read="viking://"), certificate_subject=subject
        )
        assert target.tries("admin", "access", "CreateKey", request)[0] == "PERMISSION_DENIED"


def test_an_admin_sees_its_tenant_alone(target: Fort) -> None:
    """Statistics have no path and no queues, and a backup has no key and no other tenant."""
    admin = target.metadata("admin")
    stats = target.stubs.admin.Stats(admin_pb2.StatsRequest(), metadata=admin)
    assert (stats.store_path, list(stats.queues)) == ("", [])
    pieces = target.stubs.admin.Backup(admin_pb2.BackupRequest(), metadata=admin)
    data = b"".join(piece.data for piece in pieces)
    assert b"(acme)" in data
    for other in (b"(globex)", b"vk_", target.keys["admin"][3:11].encode()):
        assert other not in data
    for name in ("ana", "admin"):
        for method, request in (
            ("ListTenants", access_pb2.ListTenantsRequest()),
            ("PutTenant", access_pb2.PutTenantRequest(name="globex")),
            ("DeleteTenant", access_pb2.DeleteTenantRequest(name="globex")),
        ):
            assert target.tries(name, "access", method, request)[0] == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    "prefix", ["viking:///", "viking://users/ana//", "viking://users/../users", "viking://~", "/"]
)
def test_prefixes_that_could_be_read_in_two_ways_are_refused(target: Fort, prefix: str) -> None:
    """A right is on a URI in its one form."""
    request = access_pb2.CreateKeyRequest(grants=grants(read=prefix))
    assert target.tries("admin", "access", "CreateKey", request)[0] == "INVALID_ARGUMENT"


def test_prefixes_are_compared_as_they_are(target: Fort) -> None:
    """A final slash is dropped; percent escapes, case and composed letters are other URIs."""
    for prefix, covered, others in (
        ("viking://users/bob/", HIDDEN, ("viking://users/bobby/memories/a.md",)),
        ("viking://users/%62ob", "", (HIDDEN,)),
        ("viking://users/Bob", "", (HIDDEN,)),
        ("viking://resources/caf\u00e9", "", ("viking://resources/cafe\u0301/a.md", SHARED)),
    ):
        key = bearer(target.new_key("acme", grants=grants(read=prefix)).secret)
        if covered:
            assert outcome(target.stubs.contexts.Get, get(covered), key)[0] == "OK"
        for uri in others:
            assert outcome(target.stubs.contexts.Get, get(uri), key)[0] == "NOT_FOUND"
            escaped = uri.replace("viking://", "viking://users/../")
            assert outcome(target.stubs.contexts.Get, get(escaped), key)[0] != "OK"


@pytest.mark.parametrize(
    "error",
    [
        StoreInUse("the store /data/tenants/acme is in use by another vikingd"),
        StoreDamaged("/data/tenants/acme/store.sqlite3 is damaged"),
        Corrupt("viking://users/bob/secret.md is a file in the index"),
        DiskFull("/data is full"),
    ],
)
def test_faults_of_a_store_show_paths_to_operators_alone(error: VikingError) -> None:
    """Other callers get the reason for programs, and no text of the fault."""
    for caller, is_told in ((LOCAL, True), (Caller("1", "acme", "ana", ()), False)):
        CALLER.set(caller)
        status = status_of(error)
        assert (str(error) in status.details) == is_told
        assert error.reason.encode() in dict(status.trailing_metadata)["grpc-status-details-bin"]
    CALLER.set(LOCAL)


EVIL = ("a\nlevel=error event=forged", "a\r\nb", "a\tb", "a\u2028b", "a\u202eb", "a\x1b[31mred")
EVIL += ('a" who="root', 'a\\" who=\\"root', "a\u200bb", "a=b c=d", "a\x85b")


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_the_log_cannot_be_forged(target: Fort, evil: str) -> None:
    """Each line begins with its time, and has characters that a terminal shows as they are."""
    uri, read = f"viking://users/bob/{evil}", grants(read="viking://")
    for name, service, method, request in (
        ("ana", "contexts", "Get", get(f"nothing://{evil}")),
        ("ana", "contexts", "Delete", contexts_pb2.DeleteRequest(uris=[uri])),
        ("ana", "retrieval", "Find", retrieval_pb2.FindRequest(query=evil, target_uri=evil)),
        ("admin", "access", "CreateKey", access_pb2.CreateKeyRequest(user=evil, grants=read)),
        ("admin", "access", "CreateKey", access_pb2.CreateKeyRequest(note=evil, grants=read)),
        ("admin", "access", "RevokeKey", access_pb2.RevokeKeyRequest(id=evil)),
        ("operator", "access", "PutTenant", access_pb2.PutTenantRequest(name=evil, create=True)),
    ):
        target.tries(name, service, method, request)
    lines = target.daemon.stderr.split("\n")[:-1]
    assert all(line.startswith("timestamp=") and line.isprintable() for line in lines)
    assert not any(" event=forged" in line.replace('"', " ").split("error=")[0] for line in lines)


def test_no_secret_is_written_or_shown(target: Fort) -> None:
    """Secrets are not in a file, the log at level debug, the environment or the process list."""
    process = Path(f"/proc/{target.daemon.process.pid}")
    places = [target.daemon.stderr.encode()]
    places += [(process / name).read_bytes() for name in ("environ", "cmdline")]
    places += [path.read_bytes() for path in target.store.rglob("*") if path.is_file()]
    secrets = [key[12:] for key in target.keys.values()]
    assert not any(secret.encode() in place for secret in secrets for place in places)
    shown = subprocess.run(
        [sys.executable, "-m", "vikingd.daemon.server", "config", "--path", str(target.store)],
        capture_output=True,
        check=True,
    ).stdout
    assert not any(secret.encode() in shown for secret in secrets)


def test_other_users_of_the_machine_read_no_file(target: Fort) -> None:
    """All files of the data directory are for their owner alone, those of SQLite's log included."""
    paths = [target.store, *target.store.rglob("*")]
    assert {"access.sqlite3", "access.sqlite3-wal", "access.sqlite3-shm", "keys-needed"} <= {
        path.name for path in paths
    }
    for path in paths:
        assert not stat.S_IMODE(path.lstat().st_mode) & 0o077, path
