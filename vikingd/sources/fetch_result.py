"""The result of a fetch: a folder of files, and the origin of each file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


class SourceFailed(Exception):
    """A source cannot be fetched; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A page, file or member that was not fetched, and the reason."""

    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a file.

    Attributes:
        address: the canonical address of the page, or the address of the file in the repository.
        time: the time of its last change by the source, such as Last-Modified; None: unknown.
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
