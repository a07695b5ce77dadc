"""vikingctl keys and tenants, against a real daemon."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from vikingd.client import Client

pytestmark = pytest.mark.stores

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def operator(daemon: str) -> str:
    """Return the first key."""
    with Client(daemon) as client:
        return client.create_key(operator=True).secret


@pytest.fixture
def run(ctl: Run, operator: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a runner of vikingctl with the operator's key."""
    monkeypatch.setenv("VIKINGD_KEY", operator)
    return ctl


def created(run: Run, *arguments: str) -> str:
    """Create a key and return its text, which is alone on stdout."""
    code, out, err = run(*arguments)
    assert code == 0, err
    assert re.fullmatch(r"vk_[0-9a-f]{8}_[0-9a-f]{64}\n", out)
    assert "not shown again" in err
    return out.strip()


def test_a_key_lives_from_creation_to_revocation(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is created, used, listed, rotated and revoked; the exit code of a refusal is 5."""
    key = created(run, "keys", "create", "--user", "ana", "--write", "viking://users/ana",
                  "--read", "viking://resources", "--expires", "90d", "--note", "phone",
                  "--limit", "calls_per_second=1000")  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setenv("VIKINGD_KEY", key)
        assert run("put", "viking://~/memories/a.md", "--content", "Oolong")[0] == 0
        code, _, err = run("put", "viking://resources/a.md", "--content", "Oolong")
        assert code == 5
        assert "no right to write viking://resources/a.md" in err
    id_ = key.split("_")[1]
    code, out, _ = run("keys", "list")
    [line] = [line for line in out.splitlines() if line.startswith(id_)]
    for part in ("ana", "read:viking://resources", "write:viking://users/ana", "phone",
                 "calls_per_second=1,000", "until "):  # fmt: skip
        assert part in line
    code, out, err = run("keys", "rotate", id_, "--grace", "1h")
    newer = out.strip()
    assert "old secret is valid until" in err
    for valid in (key, newer):
        monkeypatch.setenv("VIKINGD_KEY", valid)
        assert run("ls")[0] == 0


def test_the_own_directory_of_a_new_key_is_that_of_its_user(run: Run) -> None:
    """In the rights of a new key viking://~ is the directory of its user, not of the caller's."""
    key = created(run, "keys", "create", "--user", "bo", "--write", "viking://~")
    [line] = [one for one in run("keys", "list")[1].splitlines() if key.split("_")[1] in one]
    assert "write:viking://users/bo" in line


def test_a_revoked_key_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a revocation the commands fail and say why."""
    key = created(run, "keys", "create", "--read", "viking://")
    code, out, _ = run("keys", "revoke", key.split("_")[1])
    assert (code, out) == (0, f"key {key.split('_')[1]} is revoked\n")
    monkeypatch.setenv("VIKINGD_KEY", key)
    code, _, err = run("ls")
    assert code == 5
    assert "is revoked" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("keys", "create"), "grants: is empty"),
        (("keys", "create", "--read", "resources"), "grants[0].uri_prefix: must begin with"),
        (("keys", "create", "--read", "viking://~"), "has no user"),
        (("keys", "create", "--read", "viking://", "--user", "a/b"), "user"),
        (("keys", "create", "--read", "viking://", "--expires", "soon"), "--expires: 'soon' is no"),
        (("keys", "create", "--read", "viking://", "--limit", "x=1"), "--limit: 'x=1' is not"),
        (("keys", "create", "--read", "viking://", "--limit", "contexts=1"), "limits.contexts"),
        (("keys", "rotate", "00000000", "--grace", "40d"), "grace: must be between"),
        (("tenants", "create", "../x"), "name"),
        (("tenants", "delete", "acme"), "needs --yes"),
    ],
)
def test_wrong_arguments_name_their_fault(run: Run, arguments: tuple[str, ...], said: str) -> None:
    """A wrong argument is exit code 2 with a message that says what to do."""
    code, _, err = run(*arguments)
    assert code == 2
    assert said in re.sub(r"\s*\n[│ ]*", " ", err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "revoke", "00000000"),
        ("keys", "rotate", "00000000"),
        ("tenants", "delete", "nobody", "--yes"),
        ("tenants", "limit", "nobody"),
        ("tenants", "stats", "nobody"),
        ("--tenant", "nobody", "keys", "list"),
        ("--tenant", "nobody", "keys", "create", "--read", "viking://"),
    ],
)
def test_what_does_not_exist_is_not_found(run: Run, arguments: tuple[str, ...]) -> None:
    """A missing key or tenant is exit code 4."""
    code, _, err = run(*arguments)
    assert code == 4
    assert "there is no" in err


def test_a_tenant_lives_from_creation_to_deletion(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant is created with limits, filled with its own key, shown and deleted whole."""
    assert run("tenants", "create", "acme", "--limit", "contexts=50")[0] == 0
    assert run("tenants", "create", "acme")[0] == 1
    key = created(run, "--tenant", "acme", "keys", "create", "--admin", "viking://")
    with monkeypatch.context() as patched:
        patched.setenv("VIKINGD_KEY", key)
        assert run("put", "viking://resources/a.md", "--content", "Oolong")[0] == 0
        assert run("tenants", "list")[0] == 5
        assert run("keys", "create", "--operator")[0] == 5
        assert run("keys", "create", "--read", "viking://resources")[0] == 0
    assert run("get", "viking://resources/a.md")[0] == 4
    assert "Oolong" in run("--tenant", "acme", "get", "viking://resources/a.md")[1]
    assert json.loads(run("--json", "tenants", "stats", "acme")[1])["files"] == "1"
    [listed] = [
        tenant
        for tenant in json.loads(run("--json", "tenants", "list")[1])["tenants"]
        if tenant["name"] == "acme"
    ]
    assert (listed["open"], listed["limits"]["contexts"]) == (True, "50")
    assert "contexts=7" in run("tenants", "limit", "acme", "--limit", "contexts=7")[1]
    assert "no limits" in run("tenants", "limit", "acme")[1]
    code, out, _ = run("tenants", "delete", "acme", "--yes")
    assert code == 0
    assert "and 2 keys" in out
    monkeypatch.setenv("VIKINGD_KEY", key)
    assert run("ls")[0] == 5
