"""The file of keys and the authenticator: who sends a call."""

from __future__ import annotations

import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from vikingd.access.authentication import Authenticator
from vikingd.access.keys import KeyStore
from vikingd.access.keys_file import FILE
from vikingd.access.quotas import Limits
from vikingd.access.records import NewKey
from vikingd.domain.errors import (
    AlreadyExists,
    InvalidField,
    NotFound,
    StoreDamaged,
    Unauthenticated,
)
from vikingd.domain.rights import Grant, Right
from vikingd.system.private_files import keep_new_files_private

OPERATOR = NewKey(is_operator=True)
ANA = NewKey(
    tenant="acme",
    user="ana",
    grants=(Grant(Right.READ, "viking://resources"), Grant(Right.WRITE, "viking://users/ana")),
)
LOOPBACK, OTHER = "ipv4:127.0.0.1:4", "ipv4:10.1.2.3:4"


@pytest.fixture
def keys(tmp_path: Path) -> KeyStore:
    """Return an empty file of keys."""
    return KeyStore(tmp_path)


def authenticator(
    keys: KeyStore, *, allow_local: bool = False, trust_network: bool = False
) -> Authenticator:
    """Return an authenticator for keys."""
    return Authenticator(keys, allow_local=allow_local, trust_network=trust_network)


def enter(
    at: Authenticator, *metadata: tuple[str, str], peer: str = LOOPBACK, subjects: tuple = ()
):
    """Return the caller of a call."""
    return at.caller(metadata, peer, lambda: subjects)[0]


def bearer(text: str) -> tuple[str, str]:
    """Return the metadata with a key."""
    return "authorization", f"Bearer {text}"


def test_a_key_has_the_rights_it_was_created_with(keys: KeyStore) -> None:
    """A caller has the tenant, the user and the rights of its key, in this and another process."""
    keys.create(OPERATOR)
    key, text = keys.create(ANA)
    for store in (keys, KeyStore(keys._file.path.parent)):
        caller, limits = store.caller(text)
        assert (caller.key, caller.tenant, caller.user) == (key.id, "acme", "ana")
        assert caller.may(Right.READ, "viking://resources/a.md")
        assert not caller.may(Right.WRITE, "viking://resources/a.md")
        assert caller.may(Right.WRITE, "viking://users/ana/memories/a.md")
        assert not caller.may(Right.READ, "viking://users/anabel")
        assert not caller.is_operator
        assert limits == Limits()


def test_the_file_has_no_secret(keys: KeyStore) -> None:
    """No part of a secret is in the file, and nobody else may read the file."""
    keep_new_files_private()
    _, text = keys.create(OPERATOR)
    keys.rotate(keys.keys("default", by_operator=True)[0].id, "default", 60, by_operator=True)
    keys.close()
    secret = text.rpartition("_")[2]
    for path in keys._file.path.parent.iterdir():
        data = path.read_bytes()
        assert secret.encode() not in data
        assert bytes.fromhex(secret) not in data


def test_the_file_is_private(tmp_path: Path) -> None:
    """Only the owner may read the file, with the umask of a daemon."""
    keep_new_files_private()
    keys = KeyStore(tmp_path)
    keys.create(OPERATOR)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.parametrize("change", ["secret", "id", "short", "long", "empty", "case", "digit"])
def test_a_wrong_key_is_refused(keys: KeyStore, change: str) -> None:
    """Each changed text of a key is refused."""
    _, text = keys.create(OPERATOR)
    _, other = keys.create(ANA)
    last = "0" if text[-1] != "0" else "1"
    changed = {
        "secret": text[:12] + other[12:],
        "id": other[:12] + text[12:],
        "short": text[:-1],
        "long": text + "0",
        "empty": "",
        "case": text.upper(),
        "digit": text[:-1] + last,
    }[change]
    with pytest.raises(Unauthenticated):
        keys.caller(changed)
    keys.caller(text)


def test_a_revoked_key_fails_at_the_next_call(keys: KeyStore) -> None:
    """A revocation holds at the next call, in another process after a moment, and is told."""
    keys.create(OPERATOR)
    key, text = keys.create(ANA)
    other = KeyStore(keys._file.path.parent)
    other.caller(text)
    keys.revoke(key.id, "acme")
    for store, moment in ((keys, 0), (other, 0.02)):
        time.sleep(moment)
        with pytest.raises(Unauthenticated, match="is revoked"):
            store.caller(text)


def test_an_expired_key_is_refused(keys: KeyStore) -> None:
    """A key is valid until it expires."""
    keys.create(OPERATOR)
    soon = time.time_ns() // 1000 + 300_000
    _, text = keys.create(NewKey(grants=(Grant(Right.READ, "viking://"),), expires_at=soon))
    keys.caller(text)
    while time.time_ns() // 1000 <= soon:
        time.sleep(0.01)
    with pytest.raises(Unauthenticated, match="has expired"):
        keys.caller(text)


def test_both_secrets_are_valid_for_the_grace(keys: KeyStore) -> None:
    """A rotated key takes the old secret for the grace alone, and the new one for ever."""
    key, old = keys.create(OPERATOR)
    _, new, until = keys.rotate(key.id, "default", 0.3, by_operator=True)
    assert keys.caller(old)[0].key == keys.caller(new)[0].key == key.id
    while time.time_ns() // 1000 <= until:
        time.sleep(0.01)
    keys.caller(new)
    with pytest.raises(Unauthenticated, match="newer secret"):
        keys.caller(old)


def test_a_second_rotation_ends_the_first_secret(keys: KeyStore) -> None:
    """Only the two newest secrets of a key are valid."""
    key, first = keys.create(OPERATOR)
    _, second, _ = keys.rotate(key.id, "default", 60, by_operator=True)
    _, third, _ = keys.rotate(key.id, "default", 60, by_operator=True)
    keys.caller(second)
    keys.caller(third)
    with pytest.raises(Unauthenticated):
        keys.caller(first)


def test_keys_of_another_tenant_are_not_found(keys: KeyStore) -> None:
    """A key is revoked, rotated and listed by its own tenant only."""
    keys.create(OPERATOR)
    key, _ = keys.create(ANA)
    for change in (lambda: keys.revoke(key.id, "other"), lambda: keys.rotate(key.id, "other", 1)):
        with pytest.raises(NotFound):
            change()
    assert [one.id for one in keys.keys("acme")] == [key.id]
    assert keys.keys("other") == []


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (ANA, "operator"),
        (NewKey(is_operator=True, user="ana"), "operator"),
        (NewKey(is_operator=True, grants=ANA.grants), "operator"),
        (NewKey(is_operator=True, expires_at=1), "expire_time"),
        (NewKey(is_operator=True, note="a\nb"), "note"),
        (NewKey(is_operator=True, note="a" * 1025), "note"),
        (NewKey(is_operator=True, subject="CN=\x1b"), "certificate_subject"),
    ],
)
def test_a_wrong_new_key_changes_nothing(keys: KeyStore, new: NewKey, field: str) -> None:
    """A refused key names its field, and calls need no key afterwards."""
    with pytest.raises(InvalidField) as refused:
        keys.create(new)
    assert refused.value.field == field
    assert not keys.had_key
    assert keys.keys(new.tenant) == []


def test_the_last_use_is_shown(keys: KeyStore) -> None:
    """A list has the time of the last use, and a use is no change that others load keys for."""
    key, text = keys.create(OPERATOR)
    assert keys.keys("default", by_operator=True)[0].used_at is None
    before = time.time_ns() // 1000
    keys.caller(text)
    known = keys._valid[key.id]
    assert (
        before <= (keys.keys("default", by_operator=True)[0].used_at or 0) <= time.time_ns() // 1000
    )
    keys.caller(text)
    assert keys._valid[key.id] is known


def test_a_deleted_tenant_leaves_no_key(keys: KeyStore) -> None:
    """A deletion forgets the keys and the limits of a tenant, and those of no other."""
    _, operator = keys.create(OPERATOR)
    _, text = keys.create(ANA)
    keys.put_tenant("acme", Limits(contexts=5))
    keys.caller(text)
    assert keys.forget_tenant("acme") == 1
    with pytest.raises(Unauthenticated):
        keys.caller(text)
    assert keys.keys("acme") == []
    assert keys.tenant("acme").limits == Limits()
    keys.caller(operator)


def test_limits_hold_at_the_next_call(keys: KeyStore) -> None:
    """Another process sees new limits of a tenant after a moment."""
    _, text = keys.create(OPERATOR)
    other = KeyStore(keys._file.path.parent)
    other.caller(text)
    assert other.tenant_limits("acme") == Limits()
    keys.put_tenant("acme", Limits(contexts=5))
    time.sleep(0.02)
    other.caller(text)
    assert other.tenant_limits("acme") == Limits(contexts=5)
    keys.put_tenant("acme", None)
    assert keys.tenant("acme").limits == Limits(contexts=5)


def test_a_damaged_file_is_refused(keys: KeyStore) -> None:
    """A damaged file never means that no key exists."""
    keys.create(OPERATOR)
    keys.close()
    path = keys._file.path
    path.write_bytes(b"x" * len(path.read_bytes()))
    with pytest.raises(StoreDamaged, match="is damaged"):
        KeyStore(path.parent)


def test_a_later_version_is_refused(keys: KeyStore) -> None:
    """A file of a later version is not read with the rules of this one."""
    keys.close()
    with sqlite3.connect(keys._file.path.parent / FILE) as db:
        db.execute("UPDATE state SET value = 2 WHERE name = 'version'")
    db.close()
    with pytest.raises(StoreDamaged, match=r"version 2 .* later version .* restore a copy"):
        KeyStore(keys._file.path.parent)


# The authenticator


def test_without_keys_loopback_is_free(keys: KeyStore) -> None:
    """While no key exists, calls of this machine need none, and others are refused."""
    at = authenticator(keys)
    for peer in (
        "unix:",
        "unix:/run/v.sock",
        "ipv4:127.0.0.1:1",
        "ipv6:[::1]:1",
        "ipv6:%5B::1%5D:1",
    ):
        assert enter(at, peer=peer).is_operator
    for peer in (OTHER, "ipv4:128.0.0.1:1", "ipv6:[::2]:1", "ipv6:%5Bfe80::1%5D:1", ""):
        with pytest.raises(Unauthenticated, match="no key exists yet"):
            enter(at, peer=peer)
    assert enter(authenticator(keys, trust_network=True), peer=OTHER).is_operator


def test_once_a_key_exists_all_need_one(keys: KeyStore) -> None:
    """From the first key on, calls of this machine need a key, too, even if all are revoked."""
    key, text = keys.create(OPERATOR)
    at = authenticator(keys, trust_network=True)
    for peer in (LOOPBACK, OTHER):
        with pytest.raises(Unauthenticated, match="a key is needed"):
            enter(at, peer=peer)
        assert enter(at, bearer(text), peer=peer).key == key.id
    keys.revoke(key.id, "default", by_operator=True)
    with pytest.raises(Unauthenticated):
        enter(at)


def test_allow_local_keeps_loopback_free(keys: KeyStore) -> None:
    """By name, calls of this machine go on without a key; a wrong key is refused all the same."""
    keys.create(OPERATOR)
    at = authenticator(keys, allow_local=True)
    assert enter(at).is_operator
    with pytest.raises(Unauthenticated):
        enter(at, peer=OTHER)
    with pytest.raises(Unauthenticated):
        enter(at, bearer("vk_x"))


@pytest.mark.parametrize(
    "values",
    [
        ["Basic YTpi"],
        ["Bearer"],
        ["Bearer "],
        ["{key}"],
        ["Bearer {key}", "Bearer {key}"],
        ["Bearer {key}", "Basic x"],
        ["Bearer {key} {key}"],
        ["Bearer {key}," + "x" * 300],
        [b"Bearer {key}"],
    ],
)
def test_strange_headers_are_refused(keys: KeyStore, values: list) -> None:
    """Only one value with one key counts, so that no proxy and no client can smuggle another."""
    _, text = keys.create(OPERATOR)
    sent = [
        ("authorization", value.replace("{key}", text) if isinstance(value, str) else value)
        for value in values
    ]
    with pytest.raises(Unauthenticated):
        enter(authenticator(keys, allow_local=True), *sent)
    assert enter(authenticator(keys), ("authorization", f"bearer {text}")).is_operator


def test_an_operator_names_the_tenant(keys: KeyStore) -> None:
    """Others may name their own tenant alone, and learn nothing of the rest."""
    _, operator = keys.create(OPERATOR)
    _, ana = keys.create(ANA)
    at = authenticator(keys)
    assert enter(at, bearer(operator)).tenant == "default"
    assert enter(at, bearer(operator), ("vikingd-tenant", "acme")).tenant == "acme"
    assert enter(at, bearer(ana), ("vikingd-tenant", "acme")).tenant == "acme"
    told = set()
    for tenant in ("default", "nobody"):
        with pytest.raises(Unauthenticated) as refused:
            enter(at, bearer(ana), ("vikingd-tenant", tenant))
        told.add(str(refused.value))
    assert len(told) == 1
    with pytest.raises(Unauthenticated):
        enter(at, bearer(operator), ("vikingd-tenant", "acme"), ("vikingd-tenant", "default"))


def test_a_certificate_counts_as_its_key(keys: KeyStore) -> None:
    """A verified subject has the rights of its key; a sent key comes first."""
    key, text = keys.create(NewKey(is_operator=True, subject="CN=robot"))
    at = authenticator(keys)
    assert enter(at, peer=OTHER, subjects=("CN=robot",)).key == key.id
    with pytest.raises(Unauthenticated):
        enter(at, peer=OTHER, subjects=("CN=other", ""))
    with pytest.raises(Unauthenticated):
        enter(at, bearer(text[:-1]), peer=OTHER, subjects=("CN=robot",))
    with pytest.raises(AlreadyExists):
        keys.create(NewKey(is_operator=True, subject="CN=robot"))
    keys.revoke(key.id, "default", by_operator=True)
    with pytest.raises(Unauthenticated):
        enter(at, peer=OTHER, subjects=("CN=robot",))
    keys.create(NewKey(is_operator=True, subject="CN=robot"))
    assert enter(at, peer=OTHER, subjects=("CN=robot",)).is_operator


@pytest.mark.parametrize(
    "change",
    [
        "revoked_at = NULL",
        "is_operator = 1",
        "grants = replace(grants, 'resources', 'agent')",
        "digest = old_digest",
        "tenant = 'default'",
        "checksum = NULL",
    ],
)
def test_a_key_that_differs_from_what_was_written_is_not_valid(tmp_path: Path, change: str) -> None:
    """A damaged row ends the calls with its key by name; other keys work, and it can be revoked."""
    store = KeyStore(tmp_path)
    _, operator = store.create(OPERATOR)
    key, text = store.create(ANA)
    _, text, _ = store.rotate(key.id, "acme", 60)
    if change.startswith("revoked"):
        store.revoke(key.id, "acme")
    store.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        assert db.execute(f"UPDATE keys SET {change} WHERE id = ?", (key.id,)).rowcount == 1
    store = KeyStore(tmp_path)
    assert store.caller(operator)[0].is_operator
    tenant = "default" if change.startswith("tenant") else "acme"
    for call in (
        lambda: store.caller(text),
        lambda: store.rotate(key.id, tenant, 60, by_operator=True),
        lambda: store.keys(tenant, by_operator=True),
    ):
        with pytest.raises(StoreDamaged, match=f"the key {key.id} is damaged"):
            call()
    store.revoke(key.id, tenant, by_operator=True)
    with pytest.raises(Unauthenticated):
        store.caller(text)
    store.close()


def test_keys_of_an_older_file_get_their_checksums(tmp_path: Path) -> None:
    """A file without checksums is opened once, and its keys are valid as before."""
    store = KeyStore(tmp_path)
    _, operator = store.create(OPERATOR)
    store.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("ALTER TABLE keys DROP COLUMN checksum")
    for _ in range(2):
        store = KeyStore(tmp_path)
        assert store.caller(operator)[0].is_operator
        assert len(store.keys("default", by_operator=True)) == 1
        store.close()
