"""The restore of a backup into a directory."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vikingd.domain.errors import StoreDamaged, StoreMismatch
from vikingd.store.backup import CHUNK, Label, verify_backup
from vikingd.store.identity import MARK, adopt_restored
from vikingd.store.lock import hold_lock
from vikingd.store.schema import DATABASE
from vikingd.system.sealed_files import sync

_RESTORING = f"{DATABASE}.restoring"
_INDEX = "index"
_OF_STORE = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore; `aside` is the new directory of the replaced store, if any."""

    label: Label
    aside: Path | None


def restore_into(
    directory: Path, backup: Path, *, replace: bool, advance: Callable[[int], None]
) -> Restored:
    """Restore a backup as a store. A backup has no index: the next start builds it.

    Args:
        directory: the directory of the store; it is made if it is missing.
        backup: the file; it is not changed.
        replace: if the directory holds a store, move it aside; it is not deleted.
        advance: called with the number of bytes after each read.

    Raises:
        StoreDamaged: the backup is damaged; nothing was changed.
        StoreMismatch: the directory holds a store, and `replace` is not set.
        StoreInUse: a daemon writes the store.
    """
    label = verify_backup(backup, advance)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_lock(directory):
        return _restore(directory, backup, label, replace=replace)


def _restore(directory: Path, backup: Path, label: Label, *, replace: bool) -> Restored:
    there = [path for path in sorted(directory.iterdir()) if _is_of_store(path)]
    if there and not replace:
        raise StoreMismatch(
            f"{directory} holds a store: restore into another directory, or move that store aside "
            "with --replace"
        )
    part = directory / f"{_RESTORING}.part"
    try:
        _copy(backup, part, label)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    # While this file exists and the database does not, a start refuses the directory.
    part.rename(directory / _RESTORING)
    aside = _move_aside(directory, there) if there else None
    (directory / _RESTORING).rename(directory / DATABASE)
    sync(directory)
    adopt_restored(directory)
    return Restored(label, aside)


def check_restored(directory: Path) -> None:
    """Raise StoreMismatch if a restore was interrupted after it moved the old store aside."""
    if (directory / _RESTORING).exists() and not (directory / DATABASE).exists():
        raise StoreMismatch(
            f"a restore into {directory} was interrupted: run it again with --replace"
        )


def _is_of_store(path: Path) -> bool:
    return path.name in (*_OF_STORE, _INDEX, MARK)


def _move_aside(directory: Path, there: list[Path]) -> Path:
    """Move a store into a new directory within its old one, the database before its log."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = Path(tempfile.mkdtemp("", f"replaced-{now}-", directory))
    for path in there:
        path.rename(aside / path.name)
        sync(directory)
    return aside


def _copy(backup: Path, part: Path, label: Label) -> None:
    """Copy the database of a backup to the disk, and check its hash."""
    digest, left = hashlib.sha256(), label.size
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with backup.open("rb") as source, open(file, "wb") as target:
        while left and (data := source.read(min(CHUNK, left))):
            digest.update(data)
            target.write(data)
            left -= len(data)
        target.flush()
        os.fsync(target.fileno())
    if digest.hexdigest() != label.sha256:
        raise StoreDamaged(
            f"{backup} changed while it was read, and nothing was restored; run the restore again"
        )
