"""Bringing a backup back into a directory."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vikingd.domain.errors import StoreDamaged, StoreMismatch
from vikingd.store.backup import CHUNK, Label, checked
from vikingd.store.identity import MARK, adopt_restored
from vikingd.store.lock import held
from vikingd.store.schema import DATABASE

_RESTORING = f"{DATABASE}.restoring"
_INDEX = "index"
_OF_STORE = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored; `aside` is where the store lies that was there before, if one was."""

    label: Label
    aside: Path | None


def restore_into(
    directory: Path, backup: Path, *, replace: bool, advance: Callable[[int], None]
) -> Restored:
    """Makes a store of a backup. The index is not part of it: the next start makes it.

    Args:
        directory: of the store; it is made where it does not exist.
        backup: the file; it stays as it is.
        replace: where the directory holds a store, move that aside; it is not deleted.
        advance: is told how many bytes were just read.

    Raises:
        StoreDamaged: the backup is damaged; nothing was changed.
        StoreMismatch: the directory holds a store, and it is not to be replaced.
        StoreInUse: a daemon writes it.
    """
    label = checked(backup, advance)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(directory):
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
    # While this name is there and the database is not, a start refuses the directory.
    part.rename(directory / _RESTORING)
    aside = _move_aside(directory, there) if there else None
    (directory / _RESTORING).rename(directory / DATABASE)
    _sync(directory)
    adopt_restored(directory)
    return Restored(label, aside)


def check_restored(directory: Path) -> None:
    """Raises StoreMismatch where a restore was broken off between the old store and the new one."""
    if (directory / _RESTORING).exists() and not (directory / DATABASE).exists():
        raise StoreMismatch(
            f"a restore into {directory} was broken off: run it again, with --replace"
        )


def _is_of_store(path: Path) -> bool:
    return path.name in (*_OF_STORE, _INDEX, MARK)


def _move_aside(directory: Path, there: list[Path]) -> Path:
    """Moves a store into a new directory beside its place, the database before its log."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = Path(tempfile.mkdtemp("", f"replaced-{now}-", directory))
    for path in there:
        path.rename(aside / path.name)
        _sync(directory)
    return aside


def _copy(backup: Path, part: Path, label: Label) -> None:
    """Copies the database of a backup to the disk, and looks that it is the same."""
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
        raise StoreDamaged(f"{backup} changed while it was read; nothing was restored")


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
