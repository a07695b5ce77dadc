"""vikingctl backup: checked backups of the store, fetched from the daemon."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import grpc
import typer

from vikingd.client import ClientError
from vikingd.client.messages import MessageClient
from vikingd.ctl.call_failures import not_written
from vikingd.ctl.command_session import Session
from vikingd.ctl.progress import meter
from vikingd.domain.backup_file import Label, check_bytes
from vikingd.domain.errors import StoreDamaged
from vikingd.system import platform
from vikingd.system.regular_files import open_regular
from vikingd.system.sealed_files import sync

_NAME = "vikingd-%Y%m%dT%H%M%SZ.backup"  # names sort by time
_OWN = re.compile(r"vikingd-\d{8}T\d{6}Z\.backup")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds before a backup that failed is tried again


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None or not int(match[1]):
        raise typer.BadParameter(f"{text!r} is no interval such as 30m, 1h or 1d")
    return int(match[1]) * _UNITS[match[2]]


def backup(
    session: Session,
    target: Annotated[Path, typer.Argument(metavar="PATH", help="A new file, or a directory.")],
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Repeat at this interval, such as 30m, 1h, 1d.")
    ] = "",
    keep: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Delete all but the newest N backups in the directory; 0: none.",
        ),
    ] = 0,
) -> None:
    """Copy the store into a file while the daemon works, and check the copy.

    In a directory, files are named by time. A file gets its name after it is complete and checked.
    `vikingd restore` restores it. The index is not part of a backup: the next start builds it. With
    --every, failures are retried, also while the daemon restarts. --keep deletes only files that
    are named by time, and only after a new backup was checked.

    RPC: viking.retrieval.v1.Admin/Backup

    Example: vikingctl backup ./backups --every 1h --keep 24
    """
    interval = _seconds(every) if every else None
    if (interval or keep) and not target.is_dir():
        raise typer.BadParameter(f"{target} is no directory", param_hint="PATH")
    if interval is None:
        _make(session, target, keep)
        return
    pause = _FIRST_PAUSE
    while True:
        due = time.monotonic() + interval
        try:
            _make(session, target, keep)
            pause = _FIRST_PAUSE
            time.sleep(max(0.0, due - time.monotonic()))
        except (ClientError, OSError) as error:
            _tell(session, error, pause)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _make(session: Session, target: Path, keep: int) -> None:
    path = target / time.strftime(_NAME, time.gmtime()) if target.is_dir() else target
    started = time.monotonic()
    with meter(session, "bytes", 0) as shown:
        label = fetch(session.client, path, shown.update)
    gone = remove_older(target, keep) if keep else []
    if session.is_structured:
        record = {"path": str(path), **asdict(label), "removed": [str(one) for one in gone]}
        session.show_line(record)
        return
    session.out.print(
        f"{path}: revision {label.revision:,}, {label.contexts:,} contexts, {label.texts:,} texts, "
        f"{label.size:,} bytes, checked after {time.monotonic() - started:.1f} s"
        + (f"; {len(gone):,} older deleted" if gone else "")
    )


def _tell(session: Session, error: ClientError | OSError, pause: float) -> None:
    if isinstance(error, ClientError):
        code, message = error.code, error.message
    else:
        code, message = grpc.StatusCode.FAILED_PRECONDITION, str(error)
    if session.is_structured:
        record = {"code": code.name, "message": message, "retryAfter": pause}
        session.err.file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return
    session.warn(f"no backup: {message}; trying again in {pause:g} s")


def fetch(client: MessageClient, path: Path, advance: Callable[[int, int], None]) -> Label:
    """Write a backup to a new file, which gets its name after it is complete and checked.

    Args:
        advance: called with the number of received bytes and of all bytes.

    Raises:
        ClientError: the daemon failed or the copy is damaged; no file is left.
        OSError: the file cannot be written; no file is left.
    """
    if os.path.lexists(path):
        raise not_written(f"{path} exists already; choose a new path")
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
            platform.sync(file.fileno())
        if came != size:
            raise not_written(f"only {came:,} of {size:,} bytes arrived; try again")
        try:
            with open_regular(part) as made:
                label = check_bytes(made, part)
        except StoreDamaged as error:
            raise ClientError(grpc.StatusCode.DATA_LOSS, str(error), error.reason) from None
        os.link(part, path)  # fails if the file exists
    finally:
        part.unlink(missing_ok=True)
    sync(path.parent)
    return label


def remove_older(directory: Path, keep: int) -> list[Path]:
    """Delete all but the newest `keep` backups that are named by time, and return their paths."""
    own = sorted(path for path in directory.iterdir() if _OWN.fullmatch(path.name))
    gone = own[:-keep]
    for path in gone:
        path.unlink(missing_ok=True)
    return gone
