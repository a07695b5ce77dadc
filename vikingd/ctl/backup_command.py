"""vikingctl backup."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import grpc
import typer

from vikingd.client import ClientError
from vikingd.ctl.backing_up import fetch, name_of_now, remove_older
from vikingd.ctl.progress import meter
from vikingd.ctl.session import Session

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

    In a directory, files are named by time. A file gets its name once it is whole and checked.
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
    path = target / name_of_now() if target.is_dir() else target
    started = time.monotonic()
    with meter(session, "bytes", 0) as shown:
        label = fetch(session.client, path, shown.update)
    gone = remove_older(target, keep) if keep else []
    if session.as_json:
        record = {"path": str(path), **asdict(label), "removed": [str(one) for one in gone]}
        session.show_json(json.dumps(record, ensure_ascii=False))
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
    if session.as_json:
        record = {"code": code.name, "message": message, "retryAfter": pause}
        session.err.file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return
    session.note(f"no backup: {message}; trying again in {pause:g} s", "yellow")
