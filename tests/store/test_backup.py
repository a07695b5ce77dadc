"""Backups of stores in use, and restores from backups."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import VIKINGD
from tests.metrics_helpers import free_address, sample
from tests.nodes.reader_helpers import Daemon, note, serving
from tests.patience import SECONDS, eventually
from tests.store.store_helpers import DOCS, GUIDE, file, opened, put, scanned
from vikingd.client import ClientError, DeadlinePassed, Draft, Overloaded
from vikingd.client.messages import MessageClient
from vikingd.ctl.backup_command import fetch, remove_older
from vikingd.domain.backup_file import CHUNK
from vikingd.domain.errors import DiskFull, StoreDamaged, StoreInUse, StoreMismatch
from vikingd.store.sqlite.backup import restore_into, verify_backup
from vikingd.store.sqlite.sqlite_schema import DATABASE
from vikingd.store.sqlite.sqlite_store import Store

Ctl = Callable[..., tuple[int, str, str]]


def restored(path: Path, backup: Path, *, replace: bool = False) -> None:
    """Restore a backup without output."""
    restore_into(path, backup, replace=replace, advance=lambda _: None)


def backed_up(store: Store, path: Path) -> Path:
    """Back up a store in this process."""
    with closing(store.backup(lambda: None)) as backup, path.open("wb") as out:
        out.writelines(backup.chunks())
    assert path.stat().st_size == backup.size
    return path


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Make a backup of a store with two files."""
    with opened(tmp_path / "store") as store:
        put(store, file(GUIDE, "one\ntwo\n"), file(f"{DOCS}/other.md", "text " * 500_000))
        return backed_up(store, tmp_path / "one.backup")


def test_a_backup_beside_writers_holds_all_that_was_acknowledged_before(tmp_path: Path) -> None:
    """A backup during writes is of one revision, not older than the last acknowledged note."""
    with serving(tmp_path / "store") as daemon:
        done, known = threading.Event(), [0]

        def write() -> None:
            while not done.is_set():
                daemon.client.put([note(known[0] + 1)])
                known[0] += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            before = []
            for n in range(4):
                while known[0] < 20 * n + 5:
                    done.wait(0.01)
                before.append(known[0])
                label = fetch(daemon.client, tmp_path / f"{n}.backup", lambda *_: None)
                assert label.revision > before[-1]
        finally:
            done.set()
            thread.join()
    for n, count in enumerate(before):
        restored(tmp_path / f"{n}", tmp_path / f"{n}.backup")
        with opened(tmp_path / f"{n}", model="none", dimension=None) as store:
            there = {uri for uri in scanned(store) if uri.endswith(".md")}
            assert len(there) >= count
            assert there == {note(one).uri for one in range(1, len(there) + 1)}
            assert store._check is not None  # the first open checks a copy of a store in use
    assert not list((tmp_path / "store").glob("backup-*"))


def test_a_restored_store_answers_as_the_one_that_was_backed_up(tmp_path: Path) -> None:
    """A restored store gives the same replies to Find, Get, List and Recall as the original."""
    memory = "viking://user/memories/tea.md"

    def answers(daemon: Daemon) -> list[Any]:
        client = daemon.client
        found = client.find("harbour word3", limit=20)
        found.ClearField("timings")
        read = [client.get(one.uri).context for one in client.tree()]
        [passage] = [one for c in read if c.uri == memory for one in c.passages]
        assert passage.memory.reinforcement == 3
        known = [found, read, list(client.list()), client.stats().revision, client.verify().ok]
        recalled = client.recall("oolong")  # last, because Recall counts accesses
        recalled.ClearField("timings")
        return [
            *known,
            [(m.uri, m.content, m.reinforcement, m.access_count) for m in recalled.results],
        ]

    with serving(tmp_path / "store") as daemon:
        daemon.client.put([*[note(n) for n in range(30)], Draft(memory, content="- likes oolong")])
        [passage] = daemon.client.get(memory).context.passages
        for _ in range(3):
            daemon.client.reinforce(passage.memory.id)
        fetch(daemon.client, tmp_path / "one.backup", lambda *_: None)
        before = answers(daemon)
    restored(tmp_path / "other", tmp_path / "one.backup")
    with serving(tmp_path / "other") as daemon:
        assert answers(daemon) == before


@pytest.mark.parametrize("at", [0, 5000, 1_000_000, -30, -200])
def test_a_flipped_byte_in_a_backup_is_noticed(tmp_path: Path, backup: Path, at: int) -> None:
    """A restore refuses a backup with a flipped byte and creates no database."""
    data = bytearray(backup.read_bytes())
    data[at] ^= 4
    backup.write_bytes(data)
    with pytest.raises(StoreDamaged, match=r"one\.backup is not a valid backup"):
        restored(tmp_path / "new", backup)
    assert not (tmp_path / "new" / DATABASE).exists()


@pytest.mark.parametrize("left", [0, 100, CHUNK, -1])
def test_a_cut_backup_is_noticed(tmp_path: Path, backup: Path, left: int) -> None:
    """A restore refuses an empty or truncated backup."""
    backup.write_bytes(backup.read_bytes()[:left])
    with pytest.raises(StoreDamaged, match="no valid label"):
        restored(tmp_path / "new", backup)


def test_a_restore_takes_the_place_of_a_store_only_when_told(tmp_path: Path, backup: Path) -> None:
    """A restore replaces a store only with --replace, and moves the old store aside."""
    with opened(tmp_path / "store") as store:
        with pytest.raises(StoreInUse):
            restored(tmp_path / "store", backup, replace=True)
        put(store, file(f"{DOCS}/newer.md", "text"))
    with pytest.raises(StoreMismatch, match="--replace"):
        restored(tmp_path / "store", backup)
    restored(tmp_path / "store", backup, replace=True)
    with opened(tmp_path / "store") as store:
        assert f"{DOCS}/newer.md" not in scanned(store)
        assert store.get(GUIDE).content == "one\ntwo\n"
    [aside] = (tmp_path / "store").glob("replaced-*")
    with opened(aside) as store:
        assert f"{DOCS}/newer.md" in scanned(store)


def test_a_restore_that_was_broken_off_is_no_new_store(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory with an interrupted restore does not open until the restore is repeated."""
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if target.name == DATABASE and target.parent == tmp_path / "store":
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            restored(tmp_path / "store", backup, replace=True)
    with pytest.raises(StoreMismatch, match="interrupted"):
        Store(tmp_path / "store", model="m", dimension=2)
    restored(tmp_path / "store", backup, replace=True)
    with opened(tmp_path / "store") as store:
        assert GUIDE in scanned(store)


SLOW = """
import time
from vikingd.store.sqlite.backup import Backup
chunks = Backup.chunks
def slow(self):
    for number, data in enumerate(chunks(self)):
        if number:
            time.sleep(0.5)
        yield data
Backup.chunks = slow
"""


@pytest.fixture
def metrics() -> str:
    """Return a free address for the daemon's metrics."""
    return free_address()


@pytest.fixture
def slow(tmp_path: Path, metrics: str) -> Iterator[Daemon]:
    """Yield a daemon with a store of 8 MB and slow backups."""
    with opened(tmp_path / "store", model="none", dimension=None) as store:
        put(store, *[file(f"{DOCS}/{n}.md", overview="x" * 1_000_000) for n in range(8)])
    with serving(tmp_path / "store", "--metrics-listen", metrics, changed=SLOW) as daemon:
        yield daemon


@pytest.mark.deep
def test_a_stream_that_breaks_off_leaves_nothing(tmp_path: Path, slow: Daemon) -> None:
    """A broken stream leaves no partial file, and a start removes old temporary backups."""
    (tmp_path / "to").mkdir()

    def kill(came: int, size: int) -> None:
        assert size > 4 * CHUNK
        if came > CHUNK:
            slow.kill()

    with pytest.raises(ClientError):
        fetch(slow.client, tmp_path / "to" / "one.backup", kill)
    assert list((tmp_path / "to").iterdir()) == []
    (tmp_path / "store" / "backup-left.tmp").write_bytes(b"of a daemon that was killed")
    with opened(tmp_path / "store", model="none", dimension=None):
        assert not list((tmp_path / "store").glob("backup-*"))


@pytest.mark.deep
def test_one_backup_is_made_at_a_time_and_none_for_callers_that_are_gone(
    slow: Daemon, metrics: str
) -> None:
    """A second concurrent backup is refused until the first caller ends."""
    pieces = slow.client.backup()
    next(pieces)
    other = MessageClient(slow.address, retries=False)
    with pytest.raises(Overloaded) as refused:
        next(other.backup())
    assert refused.value.retry_after
    pieces.close()
    for _ in range(500):
        try:
            next(again := other.backup())
            break
        except Overloaded:
            threading.Event().wait(0.02)
    again.close()
    other.close()
    refusals = {"rpc": "Backup", "code": "RESOURCE_EXHAUSTED"}
    assert sample(f"http://{metrics}/metrics", "vikingd_calls_total", **refusals)


LARGE = 40
"""Megabytes of a store that no buffer between two processes takes whole."""


@contextmanager
def unread(tmp_path: Path, changed: str) -> Iterator[Daemon]:
    """Yield a daemon with a large store and no other calls."""
    with opened(tmp_path / "store", model="none", dimension=None) as store:
        for n in range(LARGE):
            put(store, file(f"{DOCS}/{n}.md", overview="x" * 1_000_000))
    with serving(tmp_path / "store", "--log-level", "info", changed=changed) as daemon:
        yield daemon


@pytest.mark.deep
def test_a_backup_that_nobody_reads_ends(tmp_path: Path) -> None:
    """A backup whose caller reads nothing for a time ends with the reason and frees its place."""
    impatient = "from vikingd.wire import streams\nstreams.UNREAD = 0.5"
    with unread(tmp_path, impatient) as daemon:
        patient = MessageClient(daemon.alone, timeout=3600)
        pieces = patient.backup()
        next(pieces)
        other = MessageClient(daemon.address, retries=False)

        def has_place() -> bool:
            try:
                next(other.backup())
            except Overloaded:
                return False
            return True

        eventually(has_place)
        with pytest.raises(DeadlinePassed, match=r"read nothing of the stream for 0\.5 s"):
            list(pieces)
        patient.close()
        other.close()


@pytest.mark.deep
def test_a_daemon_stops_at_once_beside_a_backup_that_nobody_reads(tmp_path: Path) -> None:
    """SIGTERM waits neither for the reader of a stream nor for the time that calls may take."""
    patient = (
        "from vikingd.daemon import daemon_lifecycle as it\nit._GRACE = it._LAST_RESORT = 3600"
    )
    with unread(tmp_path, patient) as daemon:
        client = MessageClient(daemon.alone, timeout=3600)
        pieces = client.backup()
        next(pieces)
        daemon.process.terminate()
        daemon.process.wait(SECONDS)
        with pytest.raises(ClientError):
            list(pieces)
        client.close()


def test_what_was_changed_on_the_way_is_not_kept(
    tmp_path: Path, client: MessageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup whose bytes do not match their hash is not kept."""
    pieces = list(client.backup())
    data = bytearray(pieces[0].data)
    data[len(data) // 2] ^= 1
    pieces[0].data = bytes(data)
    monkeypatch.setattr(type(client), "backup", lambda _: iter(pieces), raising=False)
    with pytest.raises(ClientError, match="its bytes do not match their hash"):
        fetch(client, tmp_path / "one.backup", lambda *_: None)
    assert not list(tmp_path.glob("*.backup*"))


def test_a_disk_without_room_for_a_copy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup raises DiskFull if the disk lacks the space for a copy."""
    monkeypatch.setattr("vikingd.store.sqlite.database_rewrite.SPARE", 1 << 60)
    with opened(tmp_path) as store, pytest.raises(DiskFull, match="a backup needs"):
        store.backup(lambda: None)


def test_the_command_makes_checks_and_keeps(ctl: Ctl, tmp_path: Path) -> None:
    """The command writes a verified backup; --keep deletes only its own older backups."""
    code, out, _ = ctl("backup", str(tmp_path / "one.backup"))
    assert (code, "checked" in out) == (0, True)
    verify_backup(tmp_path / "one.backup")
    assert (tmp_path / "one.backup").stat().st_mode & 0o777 == 0o600
    code, _, err = ctl("backup", str(tmp_path / "one.backup"))
    assert (code, "exists already" in err) == (1, True)
    other = ["mine.backup", "vikingd-2020.backup", ".vikingd-20200101T000000Z.backup.7.part"]
    for name in (*other, "vikingd-20200101T000000Z.backup", "vikingd-20210101T000000Z.backup"):
        (tmp_path / name).touch()
    code, out, _ = ctl("backup", str(tmp_path), "--keep", "2", "--json")
    said = json.loads(out)
    assert code == 0
    assert verify_backup(Path(said["path"])).revision == said["revision"]
    assert said["removed"] == [str(tmp_path / "vikingd-20200101T000000Z.backup")]
    assert {p.name for p in tmp_path.iterdir()} == {
        *other,
        "one.backup",
        "vikingd-20210101T000000Z.backup",
        Path(said["path"]).name,
    }
    assert remove_older(tmp_path, 5) == []


@pytest.mark.parametrize(
    "wrong", [("--every", "1w"), ("--every", "0h"), ("--keep", "2"), ("--keep", "-1")]
)
def test_what_the_command_cannot_do_is_a_usage_error(
    ctl: Ctl, tmp_path: Path, wrong: tuple[str, str]
) -> None:
    """A wrong interval, a negative --keep, or --keep with a file is a usage error."""
    assert ctl("backup", str(tmp_path / "file"), *wrong)[0] == 2


@pytest.mark.deep
def test_backups_by_the_hour_survive_a_restart_of_the_daemon(tmp_path: Path) -> None:
    """Periodic backups survive a restart of the daemon; Ctrl-C ends them without a partial file."""
    to = tmp_path / "to"
    to.mkdir()

    def lines(count: int) -> list[Any]:
        assert command.stdout is not None
        return [json.loads(command.stdout.readline()) for _ in range(count)]

    with serving(tmp_path / "store") as daemon:
        daemon.client.put([note(1)])
        address = daemon.address
        command = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "vikingd.ctl.main",
                "--json",
                "--address",
                address,
                "backup",
                str(to),
                "--every",
                "1s",
                "--keep",
                "3",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        # Each backup prints one line of JSON.
        lines(1)
        daemon.kill()
    with serving(tmp_path / "store", "--listen", address) as daemon:
        daemon.client.put([note(2)])
        revision = daemon.client.stats().revision
        while lines(1)[0]["revision"] < revision:
            pass
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=30) == 130
    assert 1 <= len(list(to.iterdir())) <= 3
    for path in to.iterdir():
        verify_backup(path)


@pytest.mark.deep
def test_the_command_of_the_daemon_restores(tmp_path: Path, backup: Path) -> None:
    """`vikingd restore` prints the revision, and refuses an existing store without --replace."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*VIKINGD, "restore", *arguments, "--config", os.devnull],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    done = run(str(backup), "--path", str(tmp_path / "new"))
    assert (done.returncode, "revision 2" in done.stdout) == (0, True), done.stderr
    with opened(tmp_path / "new") as store:
        assert GUIDE in scanned(store)
    done = run(str(backup), "--path", str(tmp_path / "new"))
    assert done.returncode == 1
    assert done.stderr.startswith("vikingd: ")
    assert "--replace" in done.stderr
    done = run(str(tmp_path / "none"), "--path", str(tmp_path / "new"))
    assert (done.returncode, "No such file" in done.stderr) == (1, True)
    done = run(str(backup), "--path", str(tmp_path / "new"), "--replace")
    assert (done.returncode, "replaced-" in done.stdout) == (0, True), done.stderr
