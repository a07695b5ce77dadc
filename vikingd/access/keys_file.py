"""The file of keys: its transactions, and the detection of a replacement by an older file.

A small file beside it, the mark, records the number of its last change. The mark is checked before
the file is opened, because revoked keys would be valid again in an older file.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from vikingd.access.keys_schema import State, connect, read_state, state_of
from vikingd.access.records import COLUMNS, key_of
from vikingd.domain.errors import DiskFull, StoreDamaged, StoreFailed, StoreInUse
from vikingd.system.open_files import OpenFiles
from vikingd.system.regular_files import check_regular
from vikingd.system.revision_marks import MarkFile
from vikingd.system.sealed_files import sync
from vikingd.system.wal_frames import broken_frame, log_of

FILE = "access.sqlite3"
"""The name of the file in the data directory."""

_PAUSE = 0.1  # seconds between two looks at a log that another process may be writing

_log = logging.getLogger(__name__)


class KeysFile:
    """An open file of keys; its methods can be called on any thread.

    Args:
        path: the file; it is made if it is missing.
        marker: the path of the mark. An empty mark, written by an older version, says only that
            there was a key.
        is_copy: True if the file is a copy of the keys in a database, made again at each start.
        accept_older: accept a file that was replaced by an older one, and log the valid keys.

    Raises:
        StoreDamaged: the file is damaged, was replaced by an older one, or is of a later version of
            vikingd.
        StoreFailed: the file cannot be created.
        StoreInUse: older keys cannot be accepted while another process uses the file.
    """

    def __init__(self, path: Path, marker: Path, *, is_copy: bool, accept_older: bool) -> None:
        self.path = path
        self._marker = marker
        self._mark = MarkFile(marker, path)
        self._lock = threading.Lock()  # of the connection
        self._check_present()
        with self._opening():
            lost = "" if is_copy else self._accepted_loss(accept_older)
            self._connection = connect(path)
        if lost:
            self._accept(lost)
        self._files = OpenFiles(path)

    def connect(self) -> sqlite3.Connection:
        """Return another connection to the file."""
        with self._opening():
            return connect(self.path)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Turn errors of SQLite and of the file system within the block into domain errors."""
        try:
            check_regular(self.path)
            yield
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreFailed(f"cannot open {self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(
                f"{self.path}, the file of the keys, is damaged ({error}): restore a copy of it; "
                f"if there is none, move it and {self._marker.name} away and create all keys again"
            ) from None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    # Transactions

    @contextmanager
    def transaction(self, kind: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        """Run a transaction.

        Raises:
            StoreFailed, DiskFull: the file cannot be read or written. Nothing was changed.
        """
        with self._lock:
            db = self._connection
            try:
                db.execute(f"BEGIN {kind}")
                yield db
                db.execute("COMMIT")
            except sqlite3.Error as error:
                failed = DiskFull if "full" in str(error) else StoreFailed
                raise failed(f"{FILE}, the file of the keys, does not work: {error}") from None
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction that changes keys or limits; the mark records its number."""
        with self.transaction("IMMEDIATE") as db:
            self._check_files()
            yield db
            db.execute("UPDATE state SET value = value + 1 WHERE name = 'changes'")
            self._check_files()
        try:
            with self.transaction("IMMEDIATE") as db:
                self._write_mark(state_of(db))
        except StoreFailed as error:  # the change is made all the same
            _log.warning("%s, the mark of the keys, cannot be written: %s", self._marker, error)

    def problem(self) -> str:
        """Return an explanation if an open file was deleted or replaced at its path; else ""."""
        return self._files.problem(with_sizes=False)

    def _check_files(self) -> None:
        """Raise StoreDamaged if an open file was replaced at its path: changes would be lost."""
        if problem := self.problem():
            raise StoreDamaged(f"{problem}: put it back, or restart vikingd")

    # The mark

    def _check_present(self) -> None:
        """Check that the file exists if there ever was a key.

        Raises:
            StoreDamaged: the file is missing.
        """
        if self._marker.exists() and not (self.path.exists() and self.path.stat().st_size):
            raise StoreDamaged(
                f"{self.path}, the file of the keys, is gone or empty: restore a copy of it; if "
                f"there is none, remove {self._marker} and create all keys again"
            )

    def _check(self) -> None:
        """Check that the file has all changes up to the one that its mark records; write nothing.

        Raises:
            StoreDamaged: the file lacks some of these changes.
            sqlite3.Error: the file is damaged.
        """
        marks = self._mark.read()  # before the file, which may be newer
        if not self.path.exists():
            return
        if (frame := self._broken_frame()) is not None:
            log = log_of(self.path).name
            raise self._went_back(f"frame {frame} of {log} is damaged, and valid ones follow it")
        _finish_rollback(self.path)
        state = read_state(self.path)
        for mark in marks:
            if mark.store == state.id and mark.revision <= state.changes:
                continue
            found = (
                f"it has change {state.changes}" if mark.store == state.id else "it is another file"
            )
            raise self._went_back(f"{self._marker} names change {mark.revision}, but {found}")
        if self._marker.exists() and not state.had_key:
            raise self._went_back(f"{self._marker} says that there was a key, and none is left")
        if (floor := self._mark.floor) and (alone := self._changes_without_log()) < floor:
            log = log_of(self.path).name
            raise self._went_back(
                f"{self.path.name} is an older copy than {log}, which began after change {floor}: "
                f"it has change {alone}"
            )
        if state.id and state.had_key and not marks:
            how = "damaged" if self._mark.is_damaged else "missing"
            _log.warning(
                "%s, the mark of the keys, is %s: older keys would not have been noticed",
                self._marker,
                how,
            )

    def _broken_frame(self) -> int | None:
        """Return the number of a damaged frame in the write-ahead log; None if there is none.

        A frame that another process is writing looks damaged for a moment, so it is read twice.
        """
        frame = broken_frame(self.path)
        if frame is None:
            return None
        time.sleep(_PAUSE)
        return frame if broken_frame(self.path) == frame else None

    def _changes_without_log(self) -> float:
        try:
            return read_state(self.path, without_log=True).changes
        except sqlite3.Error:
            return float("inf")  # without its log the file may be torn

    def _went_back(self, found: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self.path}, the file of the keys, went back: {found}. Newer keys are lost, and "
            "revoked ones would be valid again. Put the right file back, with its -wal file; or "
            "accept the older keys with `vikingd serve --accept-older-keys`, which names the valid "
            "ones in the log, and revoke again what was revoked"
        )

    def _accepted_loss(self, accept_older: bool) -> str:
        """Check the file against its mark; return "", or the fault if `accept_older` accepts it.

        The fault is that the file lacks changes which the mark records.

        Raises:
            StoreDamaged: there is this fault, and `accept_older` is False.
        """
        try:
            self._check()
        except StoreDamaged as error:
            if not accept_older:
                raise
            return str(error)
        return ""

    def _accept(self, lost: str) -> None:
        """Accept an older file: give it a new id, and write a new mark."""
        is_busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise StoreInUse(f"another vikingd uses {self.path}: stop it to accept the older keys")
        with self.transaction("IMMEDIATE") as db:
            db.execute("UPDATE state SET value = random() WHERE name = 'id'")
            db.execute("UPDATE state SET value = value + 1 WHERE name = 'changes'")
            db.execute("UPDATE state SET value = 1 WHERE name = 'had_key'")
            rows = db.execute(f"SELECT {COLUMNS} FROM keys ORDER BY created_at, id")
            keys = [key for key in map(key_of, rows) if key.revoked_at is None]
        with self.transaction("IMMEDIATE") as db:
            state = state_of(db)
            self._mark.begin(state.id, "", state.changes)
        _log.warning("older keys accepted: %s", lost)
        for key in keys:
            _log.warning(
                "the key %s of the tenant %s is valid: user %r, %s, note %r",
                key.id,
                key.tenant,
                key.user,
                "an operator's" if key.is_operator else f"{len(key.grants)} rights",
                key.note,
            )
        if not any(key.is_operator for key in keys):
            _log.warning("no operator's key is left: start with --allow-local to create one")

    def start(self) -> None:
        """Sync the file at the start, then write the number of its last change to the mark.

        A killed process may have left a change in the log that is not on disk yet.
        """
        with self.transaction("IMMEDIATE") as db:
            state, marks = state_of(db), self._mark.read()
            if not (marks and (marks[-1].store, marks[-1].revision) == (state.id, state.changes)):
                with suppress(FileNotFoundError):
                    sync(log_of(self.path))
                self._write_mark(state)

    def _write_mark(self, state: State) -> None:
        """Write the state of the file after a commit to the mark, and sync it.

        The caller must hold the file's write lock, because other processes write the mark, too.
        """
        if not state.had_key:
            return
        try:
            self._mark.read()
            self._mark.write(state.id, "", state.changes)
            self._mark.sync()
        except OSError as error:
            _log.warning(
                "%s, the mark of the keys, cannot be written, older keys would not be noticed: %s",
                self._marker,
                error,
            )
        finally:
            self._mark.close()


def _finish_rollback(path: Path) -> None:
    """Undo an interrupted first write to a new file: its process was killed.

    Opening the file for writing does it. A read-only connection, which comes next, could not.
    """
    if path.with_name(f"{path.name}-journal").exists():
        with closing(sqlite3.connect(path, timeout=5)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")
