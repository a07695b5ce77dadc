"""Keys that went back: a revoked key stays revoked, or the start is refused with the way out."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from tests.access.attack_helpers import bearer, fort, get, outcome
from tests.access.test_attacks_files import refusal
from tests.metrics_helpers import running
from vikingd.access.keys import HAD_KEY, KeyStore
from vikingd.access.keys_file import FILE
from vikingd.access.records import NewKey
from vikingd.client.method_declarations import Stubs
from vikingd.domain.errors import StoreDamaged, Unauthenticated
from vikingd.domain.rights import Grant, Right
from vikingd.pb import access_pb2

LOG = f"{FILE}-wal"
HEADER, FRAME = 32, 24 + 4096
READ = (Grant(Right.READ, "viking://"),)

KILLED = """
import os, signal, sys
from pathlib import Path
from vikingd.access.keys import KeyStore
from vikingd.access.records import NewKey
from vikingd.domain.rights import Grant, Right
keys = KeyStore(Path(sys.argv[1]))
keys.create(NewKey(is_operator=True))
made = [keys.create(NewKey(grants=(Grant(Right.READ, "viking://"),))) for _ in range(20)]
if sys.argv[2:]:
    os.system(f"cp -r {sys.argv[1]} {sys.argv[2]}")
for key, text in made[:10]:
    keys.revoke(key.id, "default")
print(*(text for _, text in made), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, copy: Path | None = None) -> list[str]:
    """Make 20 keys and revoke the first ten, copy the files in between, and kill the process."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), *([str(copy)] if copy else [])],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -9, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A directory of keys as a kill left it, a copy before the revocations, and the keys."""
    path = tmp_path_factory.mktemp("keys")
    texts = killed(path / "keys", path / "older")
    return path / "keys", path / "older", texts


@pytest.fixture
def directory(left: tuple[Path, Path, list[str]], tmp_path: Path) -> Path:
    """A copy of the directory of keys."""
    return Path(shutil.copytree(left[0], tmp_path / "keys"))


def flip(path: Path, at: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def frames(path: Path) -> int:
    """Return the number of whole frames in a log."""
    return (path.stat().st_size - HEADER) // FRAME


def valid(keys: KeyStore, texts: list[str]) -> list[bool]:
    """Return for each key if it is valid."""

    def is_valid(text: str) -> bool:
        try:
            keys.caller(text)
        except Unauthenticated:
            return False
        return True

    return [is_valid(text) for text in texts]


def refused(directory: Path) -> None:
    """Check that the keys are refused, tell the way out, and stay as they are."""
    before = contents(directory)
    with pytest.raises(StoreDamaged, match="--accept-older-keys"):
        KeyStore(directory)
    assert contents(directory) == before


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of a directory, without SQLite's shared memory and empty files."""
    files = {p.name: p.read_bytes() for p in path.iterdir() if not p.name.endswith("-shm")}
    return {name: data for name, data in files.items() if data}


def test_keys_survive_a_kill(directory: Path, left: tuple[Path, Path, list[str]]) -> None:
    """Revocations that were acknowledged before a kill hold."""
    with closing(KeyStore(directory)) as keys:
        assert valid(keys, left[2]) == [False] * 10 + [True] * 10


@pytest.mark.deep_after(5)
@pytest.mark.parametrize("at", [0, 4, 12, 20, 2024])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_a_flipped_bit_in_the_log_is_told(directory: Path, share: float, at: int) -> None:
    """A flip in any frame, the last one too, refuses the keys."""
    log = directory / LOG
    flip(log, HEADER + FRAME * int(share * (frames(log) - 1)) + at)
    refused(directory)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_broken_frames_are_told_without_a_mark(directory: Path, share: float) -> None:
    """A flip is refused for the valid frames behind it alone."""
    log = directory / LOG
    (directory / HAD_KEY).write_bytes(b"")
    number = int(share * (frames(log) - 1))
    flip(log, HEADER + FRAME * number + 100)
    with pytest.raises(StoreDamaged, match=rf"frame {number} of {LOG} is damaged"):
        KeyStore(directory)


@pytest.mark.parametrize("at", [0, 8, 12, 16, 24])
def test_a_flipped_bit_in_the_header_of_the_log_is_told(directory: Path, at: int) -> None:
    """SQLite ignores a log with a damaged header, and the mark knows what is lost."""
    flip(directory / LOG, at)
    refused(directory)


def test_a_log_that_was_deleted_is_told(directory: Path) -> None:
    """Without its log the file has no keys; it is refused and does not start open."""
    (directory / LOG).unlink()
    refused(directory)
    (directory / HAD_KEY).write_bytes(b"")  # as a version without marks left it
    refused(directory)


@pytest.mark.parametrize("names", [[FILE, LOG], [LOG], [FILE]])
def test_an_older_copy_does_not_bring_revoked_keys_back(
    directory: Path, left: tuple[Path, Path, list[str]], names: list[str]
) -> None:
    """An older copy of the file and its log is refused; what a newer log has is not lost."""
    for name in names:
        shutil.copyfile(left[1] / name, directory / name)
    (directory / f"{FILE}-shm").unlink(missing_ok=True)
    if LOG in names:
        refused(directory)
    else:
        with closing(KeyStore(directory)) as keys:
            assert valid(keys, left[2]) == [False] * 10 + [True] * 10


def test_an_older_file_below_a_newer_log_is_told(tmp_path: Path) -> None:
    """A file from before the log began has keys that the log does not revoke."""
    path, other = tmp_path / "keys", tmp_path / "other"
    with closing(KeyStore(path)) as keys:
        keys.create(NewKey(is_operator=True))
        made = [keys.create(NewKey(grants=READ)) for _ in range(50)]
    shutil.copytree(path, other)
    with closing(KeyStore(path)) as keys:
        keys.revoke(made[0][0].id, "default")
    with closing(KeyStore(path)) as keys:
        # It changes a page of the state alone.
        keys.put_tenant("acme", None)
        live = shutil.copytree(path, tmp_path / "killed")
    shutil.copyfile(other / FILE, live / FILE)
    (live / f"{FILE}-shm").unlink(missing_ok=True)
    with pytest.raises(StoreDamaged, match="older copy than"):
        KeyStore(live)


@pytest.mark.parametrize("change", ["deleted", "damaged", "old form", "newest slot"])
def test_a_damaged_mark_is_made_again(
    directory: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Sound keys open with any mark, say so if none can be read, and have a new one."""
    mark = directory / HAD_KEY
    match change:
        case "deleted":
            mark.unlink()
        case "damaged":
            mark.write_bytes(b"x" * 1024)
        case "old form":
            mark.write_bytes(b"")
            with closing(sqlite3.connect(directory / FILE)) as db, db:
                db.execute("DELETE FROM state WHERE name = 'id'")
        case "newest slot":
            data = mark.read_bytes()
            with closing(sqlite3.connect(directory / FILE)) as db:
                (changes,) = db.execute("SELECT value FROM state WHERE name = 'changes'").fetchone()
            at = changes % 2 * 512 + 20
            mark.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    KeyStore(directory).close()
    assert ("the mark of the keys" in caplog.text) == (change in ("deleted", "damaged"))
    (directory / LOG).unlink(missing_ok=True)
    (directory / FILE).write_bytes((directory / FILE).read_bytes()[:4096])
    with pytest.raises(StoreDamaged):
        KeyStore(directory)


def test_several_processes_write_one_mark(tmp_path: Path) -> None:
    """The mark names the newest change, whichever process made it."""
    with closing(KeyStore(tmp_path)) as one, closing(KeyStore(tmp_path)) as two:
        one.create(NewKey(is_operator=True))
        made = [keys.create(NewKey(grants=READ))[0] for keys in (two, one, two, two, one)]
        two.revoke(made[0].id, "default")
        copy = Path(shutil.copytree(tmp_path, tmp_path / "copy"))
        one.revoke(made[1].id, "default")
        shutil.copyfile(tmp_path / HAD_KEY, copy / HAD_KEY)
    refused(copy)


def test_accepted_older_keys_are_named(
    directory: Path, left: tuple[Path, Path, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    """The log names each valid key; the newer file is then another one and is refused."""
    newer = Path(shutil.copytree(directory, directory.with_name("newer")))
    for name in (FILE, LOG):
        shutil.copyfile(left[1] / name, directory / name)
    (directory / f"{FILE}-shm").unlink(missing_ok=True)
    with closing(KeyStore(directory, accept_older=True)) as keys:
        assert valid(keys, left[2]) == [True] * 20
        named = [text.split("_")[1] for text in left[2]]
        assert all(f"the key {id_} of the tenant default is valid" in caplog.text for id_ in named)
    KeyStore(directory).close()
    for name in (FILE, LOG):
        shutil.copyfile(newer / name, directory / name)
    refused(directory)


def test_accepted_keys_that_are_all_lost_leave_the_daemon_closed(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls need a key though none is left."""
    (directory / LOG).unlink()
    with closing(KeyStore(directory, accept_older=True)) as keys:
        assert keys.had_key
        assert "--allow-local" in caplog.text
    with closing(KeyStore(directory)) as keys:
        assert keys.had_key


def test_a_daemon_refuses_older_keys_and_accepts_them_by_name(tmp_path: Path) -> None:
    """A start with keys from before a revocation ends with the way out, and goes by it."""
    with fort(tmp_path) as target:
        path = target.store
        copies = {p.name: p.read_bytes() for p in path.glob(f"{FILE}*")}
        id_ = target.keys["ana"].split("_")[1]
        target.stubs.access.RevokeKey(
            access_pb2.RevokeKeyRequest(id=id_), metadata=bearer(target.keys["operator"], "acme")
        )
        assert target.tries("ana", "contexts", "Get", get())[0] == "UNAUTHENTICATED"
        ana = target.metadata("ana")
    for name, data in copies.items():
        (path / name).write_bytes(data)
    (path / f"{FILE}-shm").unlink(missing_ok=True)
    assert "--accept-older-keys" in refusal(path)
    with running(path, "--provider", "none", "--accept-older-keys") as daemon:
        with grpc.insecure_channel(daemon.address) as channel:
            assert outcome(Stubs(channel).contexts.Get, get(), ana)[0] == "OK"
        assert f"the key {id_} of the tenant acme is valid" in daemon.stderr


def test_a_log_that_is_deleted_while_the_daemon_runs_takes_no_change(tmp_path: Path) -> None:
    """A revocation into a deleted log would be lost, so it is refused."""
    with closing(KeyStore(tmp_path)) as keys:
        keys.create(NewKey(is_operator=True))
        key, text = keys.create(NewKey(grants=READ))
        os.unlink(tmp_path / LOG)
        with pytest.raises(StoreDamaged, match=f"{LOG} was deleted or replaced"):
            keys.revoke(key.id, "default")
        assert valid(keys, [text]) == [True]


def test_a_file_that_is_replaced_while_the_daemon_runs_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The next call logs it, the known keys stay as they were, and changes are refused."""
    with closing(KeyStore(tmp_path)) as keys:
        keys.create(NewKey(is_operator=True))
        key, text = keys.create(NewKey(grants=READ))
        older = Path(shutil.copytree(tmp_path, tmp_path / "older"))
        keys.revoke(key.id, "default")
        shutil.copyfile(older / FILE, tmp_path / "new")
        os.replace(tmp_path / "new", tmp_path / FILE)
        keys._next_look = 0.0
        assert valid(keys, [text]) == [False]
        assert f"{FILE} was deleted or replaced" in caplog.text
        with pytest.raises(StoreDamaged, match="deleted or replaced"):
            keys.create(NewKey(grants=READ))


def test_keys_that_go_back_under_a_running_daemon_open_nothing(tmp_path: Path) -> None:
    """A file that another process sets back is refused at the next call."""
    with closing(KeyStore(tmp_path)) as keys:
        keys.create(NewKey(is_operator=True))
        _, text = keys.create(NewKey(grants=READ))
        assert valid(keys, [text]) == [True]
        with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
            db.execute("UPDATE state SET value = 1 WHERE name = 'changes'")
        keys._next_look = 0.0
        for _ in range(2):
            with pytest.raises(StoreDamaged, match="went back"):
                keys.caller(text)
