"""The sources that a user imported by address: one file for each in the user's state directory.

A record is written only after the daemon has acknowledged all changes of an import. Beside the
records, each source has a folder in the user's cache, with its files as they were last fetched.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vikingd.sources.fetch_result import SourceFailed
from vikingd.system import platform
from vikingd.system.regular_files import descriptor_of, read_regular
from vikingd.system.user_cache import cache_directory, put

_FORMAT = 1
_MOST = 64 << 20  # bytes of a record


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a source, which a refresh uses again.

    Attributes:
        ref: of a repository: a branch, a tag or a commit; "": its own choice.
        below: of a page: a prefix or a path; the site below it is fetched. "": the page alone.
        depth: of a site: the largest number of links from the address; None: no limit.
        max_pages: of a site: the largest number of pages; None: the default.
        delete: remove the contexts whose files are gone.
        selection: the options that choose files, by their names.
    """

    ref: str = ""
    below: str = ""
    depth: int | None = None
    max_pages: int | None = None
    delete: bool = False
    selection: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Record:
    """A source of a daemon.

    Attributes:
        address: the address, without credentials.
        uri: the directory of the tree that has its files.
        daemon: the address of the daemon.
        tenant: the tenant that an operator named; "" for none.
        options: the options of the last import.
        state: what the next fetch needs.
        fetched_at: the time of the last import that ended well, in ISO 8601; "": none did.
        result: the counts of the last import, or its `error`.
    """

    address: str
    uri: str
    daemon: str
    tenant: str = ""
    options: SourceOptions = field(default_factory=SourceOptions)
    state: dict[str, Any] = field(default_factory=dict)
    fetched_at: str = ""
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name of the record and of its folder."""
        parts = "\0".join((self.address, self.uri, self.daemon, self.tenant))
        return hashlib.sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """The folder of the source in the user's cache."""
        return cache_directory() / "sources" / self.id


def state_directory() -> Path:
    """Return the directory of all records; it may not exist yet."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "vikingd" / "sources"


def known(record: Record) -> Record | None:
    """Return the stored record of the same source; None if there is none.

    Raises:
        SourceFailed: the file of the record cannot be read.
    """
    path = _path(record.id)
    try:
        return _read(path)
    except FileNotFoundError:
        return None


def other_at(record: Record) -> Record | None:
    """Return the stored record of another source with the same URI; None if there is none."""
    place = (record.uri, record.daemon, record.tenant)
    for one in records():
        if isinstance(one, SourceFailed) or one.address == record.address:
            continue
        if (one.uri, one.daemon, one.tenant) == place:
            return one
    return None


def records() -> Iterator[Record | SourceFailed]:
    """Yield all records by address and URI, and the fault of each that cannot be read."""
    found: list[Record] = []
    for path in sorted(state_directory().glob("*.json")):
        try:
            found.append(_read(path))
        except FileNotFoundError:  # it was just removed
            continue
        except SourceFailed as error:
            yield error
    yield from sorted(found, key=lambda one: (one.address, one.uri, one.daemon, one.tenant))


def store(record: Record) -> None:
    """Replace the record of a source in one step.

    Raises:
        OSError: it cannot be written; the former one stays.
    """
    text = json.dumps({"format": _FORMAT, **asdict(record)}, indent=1)
    put(_path(record.id), text.encode("utf-8", "surrogateescape"))


def remove(record: Record) -> None:
    """Remove the record of a locked source; the end of `locked` then removes its folder."""
    _path(record.id).unlink(missing_ok=True)


@contextmanager
def locked(record: Record) -> Iterator[None]:
    """Lock a source for the block, so that no other process fetches it.

    At the end the folder of a source without a record is removed.

    Raises:
        SourceFailed: another process has the lock.
        OSError: the folder of the source cannot be made.
    """
    folder = record.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = descriptor_of(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        if not platform.lock(handle):
            raise SourceFailed(
                f"{record.address} is being fetched for {record.uri} by another process: wait for "
                "its end"
            )
        try:
            yield
        finally:
            if not _path(record.id).exists():  # no list would show the folder
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def _path(name: str) -> Path:
    return state_directory() / f"{name}.json"


def _read(path: Path) -> Record:
    """Read a record.

    Raises:
        FileNotFoundError: there is none.
        SourceFailed: it cannot be read.
    """
    try:
        value = json.loads(read_regular(path, _MOST).decode("utf-8", "surrogateescape"))
        if value.pop("format") != _FORMAT:
            raise ValueError("it is of another version of vikingctl")
        return Record(options=SourceOptions(**value.pop("options")), **value)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceFailed(
            f"{path} is no record of a source ({error}): remove it, and import the source again"
        ) from None


def discard_unused(folder: Path, used: Path | None) -> None:
    """Remove the folders of former and unfinished fetches of a source, except the folder `used`."""
    with suppress(OSError):
        for one in folder.glob("files-*"):
            if one != used:
                shutil.rmtree(one, ignore_errors=True)
