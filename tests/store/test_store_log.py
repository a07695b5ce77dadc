"""The log and the mark of a killed store: what was acknowledged is there, or the start says so."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.store.store_helpers import DOCS, file, opened, put, uris
from vikingd.domain.errors import StoreDamaged
from vikingd.store.sqlite.sqlite_schema import DATABASE
from vikingd.system import sealed_files as sealed
from vikingd.system.revision_marks import Mark, MarkFile
from vikingd.system.wal_frames import broken_frame

LOG = f"{DATABASE}-wal"
HEADER, FRAME = 32, 24 + 4096
PUTS = 100

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.store.store_helpers import DOCS, file, opened, put
with opened(Path(sys.argv[1]), model="none", dimension=None) as store:
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        put(store, file(f"{DOCS}/{number}.md", "one line\\n" * 30))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, first: int = 0, end: int = PUTS) -> Path:
    """Put files with these numbers, kill the writer after the last acknowledgement."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(first), str(end)],
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -9, done.stderr
    return path


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as a killed writer left it; tests take copies."""
    return killed(tmp_path_factory.mktemp("killed") / "store")


@pytest.fixture
def store(left: Path, tmp_path: Path) -> Path:
    """A copy of the killed store."""
    return Path(shutil.copytree(left, tmp_path / "store"))


def kept(path: Path, **options: object) -> int:
    """Open a store, and return the number of its files."""
    with opened(path, model="none", dimension=None, **options) as store:
        return len(uris(store.children(DOCS, "", 1000)))


def frames(path: Path) -> int:
    """Return the number of whole frames in a log."""
    return (path.stat().st_size - HEADER) // FRAME


def flip(path: Path, at: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of a store, without SQLite's shared memory and empty files."""
    files = {p.name: p.read_bytes() for p in path.iterdir() if not p.name.endswith("-shm")}
    return {name: data for name, data in files.items() if data}


def refused(path: Path, told: str) -> None:
    """Check that a start is refused, tells the way out and changes no file."""
    before = contents(path)
    with pytest.raises(StoreDamaged, match=told) as error:
        kept(path)
    assert "--accept-data-loss" in str(error.value)
    assert contents(path) == before


def test_all_that_was_acknowledged_before_a_kill_is_there(store: Path) -> None:
    """The mark of a killed store names the last acknowledged put, and the store has it."""
    mark = MarkFile(store / "mark", store / DATABASE).read()[-1]
    assert mark.revision == 1 + PUTS
    assert kept(store) == PUTS


IN_FRAME = {"page number": 0, "commit": 4, "salt": 12, "checksum": 20, "page": 24 + 2000}


@pytest.mark.deep_after(5)
@pytest.mark.parametrize("part", IN_FRAME)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_a_flipped_bit_in_a_frame_is_told(store: Path, share: float, part: str) -> None:
    """A flip in any frame, the last one too, refuses the start; accepted, the rest is served."""
    log = store / LOG
    flip(log, HEADER + FRAME * int(share * (frames(log) - 1)) + IN_FRAME[part])
    refused(store, r"store\.sqlite3-wal is damaged|names revision")
    left = kept(store, accept_loss=True)
    assert 0 <= left < PUTS
    assert kept(store) == left


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("part", IN_FRAME)
def test_broken_frames_are_told_without_a_mark(store: Path, share: float, part: str) -> None:
    """A flip is refused for the valid frames behind it alone, after a power failure say."""
    log, number = store / LOG, int(share * (frames(store / LOG) - 1))
    (store / "mark").unlink()
    flip(log, HEADER + FRAME * number + IN_FRAME[part])
    refused(store, rf"frame {number} of store\.sqlite3-wal is damaged")


@pytest.mark.parametrize("at", [0, 4, 8, 12, 16, 20, 24, 28])
def test_a_flipped_bit_in_the_header_of_the_log_is_told(store: Path, at: int) -> None:
    """SQLite ignores a log with a damaged header; the mark knows what is lost."""
    flip(store / LOG, at)
    refused(store, "names revision|missing or empty|no store")


@pytest.mark.parametrize("change", ["deleted", "emptied", "half"])
def test_a_log_that_is_gone_or_cut_is_told(store: Path, change: str) -> None:
    """A start without the log, or with a part of it, is refused."""
    log = store / LOG
    if change == "deleted":
        log.unlink()
    else:
        os.truncate(log, 0 if change == "emptied" else log.stat().st_size // 2)
    refused(store, "went back")


def transactions(log: Path) -> list[int]:
    """Return the number of frames up to the end of each transaction of a log."""
    data = log.read_bytes()
    commits = (data[at + 4 : at + 8] for at in range(HEADER, len(data), FRAME))
    return [number for number, commit in enumerate(commits, start=1) if any(commit)]


@pytest.mark.parametrize("step", [4096, pytest.param(512, marks=pytest.mark.deep)])
def test_a_torn_tail_of_any_length_is_allowed(left: Path, tmp_path: Path, step: int) -> None:
    """A power failure may leave any part of the last transaction, which was not acknowledged."""
    path = Path(shutil.copytree(left, tmp_path / "store"))
    log, whole = path / LOG, (left / LOG).read_bytes()
    *_, before, last = transactions(log)
    assert last - before > 1
    # The mark of the transaction before: the last one had no acknowledgement.
    mark = MarkFile(path / "mark", path / DATABASE).read()[-1]
    begin, end = HEADER + FRAME * before, HEADER + FRAME * last
    cuts = [*range(begin, end, step), end - 1]
    for cut in cuts:
        for tail in (b"", bytes(end - cut), os.urandom(end - cut)):
            log.write_bytes(whole[:cut] + tail)
            assert broken_frame(path / DATABASE) is None
    for first in range(begin, end, step):  # any sector is missing, and all others are there
        log.write_bytes(whole[:first] + bytes(512) + whole[first + 512 :])
        assert broken_frame(path / DATABASE) is None
    log.write_bytes(whole[: begin + 700] + bytes(end - begin - 700))
    MarkFile(path / "mark", path / DATABASE).begin(mark.store, mark.epoch, mark.revision - 1)
    assert kept(path) == PUTS - 1


def test_an_accepted_loss_leaves_no_frame_that_a_later_start_takes_for_one(store: Path) -> None:
    """A store whose loss was accepted is written, killed, and starts again."""
    flip(store / LOG, HEADER + FRAME * (frames(store / LOG) // 2))
    refused(store, "is damaged")
    with opened(store, model="none", dimension=None, accept_loss=True) as opened_store:
        put(opened_store, file(f"{DOCS}/new.md", "new"))
        again = Path(shutil.copytree(store, store.with_name("again")))
    assert kept(again) > 0


def test_frames_of_a_rolled_back_transaction_are_no_damage(tmp_path: Path) -> None:
    """Frames that an undone transaction left in the log are not taken for lost ones."""
    database = tmp_path / DATABASE
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA cache_size = 5")
        db.execute("CREATE TABLE t (x)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO t VALUES (randomblob(3000))", [()] * 300)
        db.execute("ROLLBACK")
        for _ in range(3):
            db.execute("INSERT INTO t VALUES (1)")
            assert broken_frame(database) is None
        assert frames(tmp_path / LOG) > 200


def older(path: Path, to: Path) -> Path:
    """Return a copy of a store before three more puts, whose writer is killed."""
    copy = Path(shutil.copytree(path, to))
    killed(path, PUTS, PUTS + 3)
    return copy


@pytest.mark.parametrize("names", [[DATABASE, LOG], [LOG]])
def test_an_older_copy_is_told(store: Path, tmp_path: Path, names: list[str]) -> None:
    """An older copy of the database and its log, or of the log alone, refuses the start."""
    copy = older(store, tmp_path / "copy")
    for name in names:
        shutil.copyfile(copy / name, store / name)
    (store / f"{DATABASE}-shm").unlink(missing_ok=True)
    refused(store, "went back")


@pytest.mark.deep
def test_an_older_database_below_a_newer_log_is_told(tmp_path: Path) -> None:
    """A database from before the log began has old pages that the log does not replace."""
    path = tmp_path / "store"
    with opened(path, model="none", dimension=None) as store:
        for number in range(20):
            put(store, file(f"{DOCS}/{number}.md", f"line {number}\n" * 30))
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    with opened(path, model="none", dimension=None) as store:
        for number in range(20):
            put(store, file(f"{DOCS}/{number}.md", f"changed {number}\n" * 30))
    killed(path, PUTS, PUTS + 1)
    shutil.copyfile(copy / DATABASE, path / DATABASE)
    (path / f"{DATABASE}-shm").unlink(missing_ok=True)
    with pytest.raises(StoreDamaged, match=rf"{DATABASE} is an older copy than {LOG}"):
        kept(path)


def test_a_database_and_the_log_of_its_copy_fit(store: Path) -> None:
    """A database that a checkpoint has partly brought up to date fits to its log."""
    killed(store, PUTS, PUTS + 2)
    before = (store / DATABASE).read_bytes()
    log = (store / LOG).read_bytes()
    with closing(sqlite3.connect(store / DATABASE)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        (store / "kept").write_bytes((store / DATABASE).read_bytes())
    (store / "kept").rename(store / DATABASE)
    assert (store / DATABASE).read_bytes() != before
    (store / LOG).write_bytes(log)
    assert kept(store) == PUTS + 2


def test_a_database_of_another_kind_is_not_taken_for_a_new_store(store: Path) -> None:
    """A file of keys in the place of the store is damage, and no loss that could be accepted."""
    for path in store.glob(f"{DATABASE}*"):
        path.unlink()
    with closing(sqlite3.connect(store / DATABASE)) as db:
        db.execute("CREATE TABLE keys (id)")
    for accept_loss in (False, True):
        with pytest.raises(StoreDamaged, match="tables of another program") as error:
            kept(store, accept_loss=accept_loss)
        assert "--accept-data-loss" not in str(error.value)


# The mark


def damaged(change: str) -> Callable[[Path], None]:
    """Return a change of the mark by its name."""

    def newest(mark: Path) -> None:
        flip(mark, (1 + PUTS) % 2 * 512 + 10)

    def both(mark: Path) -> None:
        mark.write_bytes(b"x" * 1024)

    def zero(mark: Path) -> None:
        mark.write_bytes(bytes(1024))

    def old_form(mark: Path) -> None:
        newest = MarkFile(mark, mark.with_name(DATABASE)).read()[-1]
        fields = f'{{"store": "{newest.store}", "epoch": "{newest.epoch}", "revision": 3}}'
        mark.write_text(sealed.seal(fields))

    return {
        "newest": newest,
        "both": both,
        "zero": zero,
        "old form": old_form,
        "deleted": Path.unlink,
    }[change]


@pytest.mark.parametrize("change", ["newest", "both", "zero", "old form", "deleted"])
def test_a_damaged_mark_is_made_again(
    store: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A sound store opens with any mark, says so if none can be read, and has a new one."""
    damaged(change)(store / "mark")
    assert kept(store) == PUTS
    told = "the mark of the store" in caplog.text
    assert told == (change in ("both", "zero", "deleted"))
    marks = MarkFile(store / "mark", store / DATABASE).read()
    assert [mark.revision for mark in marks] == [1 + PUTS] * 2


def test_the_other_slot_counts_if_one_is_damaged(store: Path) -> None:
    """A store that lacks many commits is refused though the newest slot of its mark is damaged."""
    damaged("newest")(store / "mark")
    (store / LOG).unlink()
    refused(store, f"names revision {PUTS}|missing")


def test_the_old_form_of_the_mark_is_read(store: Path) -> None:
    """A mark of an older version counts."""
    damaged("old form")(store / "mark")
    (store / LOG).unlink()
    refused(store, "names revision 3|missing")


def test_the_mark_is_synced_when_the_store_is_idle(tmp_path: Path) -> None:
    """A second without a commit makes the mark durable, without a thread of its own."""
    with opened(tmp_path) as store:
        put(store, file(f"{DOCS}/a.md", "one"))
        put(store, file(f"{DOCS}/a.md", "two"))
        eventually(lambda: store._mark.is_synced)
        assert store._mark.read()[-1].revision == store.revision


def test_a_mark_names_what_the_database_has_without_its_log(tmp_path: Path) -> None:
    """The floor rises when SQLite begins its log again, to what was committed before."""
    database = tmp_path / "some.sqlite3"
    mark = MarkFile(tmp_path / "mark", database)

    def written(db: sqlite3.Connection, revision: int) -> Mark:
        db.execute("INSERT INTO t VALUES (1)")
        mark.write("id", "epoch", revision)
        return mark.read()[-1]

    def commits() -> Iterator[Mark]:
        with closing(sqlite3.connect(database, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE t (x)")
            yield written(db, 1)
            yield written(db, 2)
            db.execute("PRAGMA wal_checkpoint(RESTART)")
            yield written(db, 3)
            yield written(db, 4)

    found = list(commits())
    assert [one.floor for one in found] == [0, 0, 2, 2]
    assert found[1].log != found[2].log
    mark.write("id", "epoch", 4)
    assert mark.read()[-1].floor == 4
