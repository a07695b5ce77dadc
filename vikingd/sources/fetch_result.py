"""The result of a fetch: a folder of files, and where each of them came from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


class SourceFailed(Exception):
    """A source that cannot be fetched; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A page, file or member that did not come in, and the reason."""

    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The place from which a file came.

    Attributes:
        address: the canonical address of the page, or the address of the file in the repository.
        time: when the source says that it changed, such as Last-Modified; None: unknown.
        title: the title that the source states; "" for none.
    """

    address: str
    time: datetime | None = None
    title: str = ""


@dataclass(slots=True)
class Fetched:
    """The files of a source as they are now.

    Attributes:
        folder: a directory with all files to import, changed or not.
        origins: by the file's path relative to `folder`, with slashes.
        moved: the old and the new relative paths of files that were renamed.
        not_taken: what did not come in.
        state: JSON that the next fetch needs, such as ETags, hashes and a commit.
        is_unchanged: True if nothing changed since the given state.
    """

    folder: Path
    origins: dict[str, Origin]
    moved: list[tuple[str, str]]
    not_taken: list[NotTaken]
    state: dict[str, Any]
    is_unchanged: bool
