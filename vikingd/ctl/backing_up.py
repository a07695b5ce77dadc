"""Checked backups of the store, fetched from the daemon. It shows nothing by itself."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc

from vikingd.client import ClientError
from vikingd.client.messages import MessageClient
from vikingd.domain.errors import StoreDamaged
from vikingd.store.backup import Label, verify_backup

_NAME = "vikingd-{}.backup"
_OWN = re.compile(r"vikingd-\d{8}T\d{6}Z\.backup")


def name_of_now() -> str:
    """Return the name of a backup by the current time; names sort by time."""
    return _NAME.format(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))


def fetch(client: MessageClient, path: Path, advance: Callable[[int, int], None]) -> Label:
    """Write a backup; it gets its name once it is whole and checked.

    Args:
        client: a client of the daemon.
        path: path of a new file.
        advance: called with the received bytes and the bytes in all.

    Raises:
        ClientError: the daemon failed or the copy is damaged; no file is left.
        OSError: the file cannot be written; no file is left.
    """
    if os.path.lexists(path):
        raise _not_written(f"{path} exists already; choose a new path")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        came = size = 0
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for piece in client.backup():
                size = piece.size
                file.write(piece.data)
                came += len(piece.data)
                advance(came, size)
            file.flush()
            os.fsync(file.fileno())
        if came != size:
            raise _not_written(f"only {came:,} of {size:,} bytes arrived; try again")
        try:
            label = verify_backup(part)
        except StoreDamaged as error:
            raise ClientError(grpc.StatusCode.DATA_LOSS, str(error), error.reason) from None
        os.link(part, path)  # fails if the file exists by now
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    _sync(path.parent)
    return label


def remove_older(directory: Path, keep: int) -> list[Path]:
    """Delete all but the newest `keep` backups that are named by time, and return their paths."""
    own = sorted(path for path in directory.iterdir() if _OWN.fullmatch(path.name))
    gone = own[:-keep]
    for path in gone:
        path.unlink(missing_ok=True)
    return gone


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _not_written(message: str) -> ClientError:
    return ClientError(grpc.StatusCode.FAILED_PRECONDITION, message, "NOT_WRITTEN")
