"""The files and directories that an import reads, found in one walk."""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField

SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__"})
"""Directories that are left out, besides hidden ones."""

VANISHED = frozenset(os.strerror(code) for code in (errno.ENOENT, errno.ENOTDIR))
"""The messages of OSErrors for an entry that was removed after it was listed."""

TOP = ""
"""The path of the directory itself."""


class Stamp(NamedTuple):
    """The state of a file or directory on disk, to detect changes.

    Attributes:
        modified: the time of the last change of the content, in nanoseconds since 1970-01-01 UTC.
        changed: the time of the last change of content or inode, in the same unit.

    Of a directory, size and times are 0.
    """

    mode: int
    device: int = 0
    inode: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0

    @property
    def is_directory(self) -> bool:
        """True for a directory, False for a file of any kind and for a symbolic link."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        """True for a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        """Return the stamp of an entry."""
        place = found.st_mode, found.st_dev, found.st_ino
        if stat.S_ISDIR(found.st_mode):
            return cls(*place)
        return cls(*place, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(slots=True)
class FileTree:
    """A directory with all below it that an import reads, or one file.

    Hidden entries and SKIPPED_DIRECTORIES are left out. Symbolic links are not followed, nor are
    directories whose URI no context can have.

    Attributes:
        path: the directory or the file.
        uri: the URI of `path`.
        stamps: the stamps of the entries by their paths below `path`, with "/"; `path` itself is
            TOP. A directory comes before its entries, and these are in the order of their names.
        faults: the reasons why directories could not be listed, by their paths.
    """

    path: Path
    uri: str
    stamps: dict[str, Stamp]
    faults: dict[str, str] = field(default_factory=dict)
    _entries: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of_file(cls, path: Path, uri: str) -> FileTree:
        """Return the tree of one file. The file is not accessed."""
        return cls(path, uri, {TOP: Stamp(stat.S_IFREG)})

    @classmethod
    def of_directory(cls, path: Path, uri: str) -> FileTree:
        """Walk a directory.

        Raises:
            OSError: it does not exist.
        """
        tree = cls(path, uri, {TOP: Stamp.of(path.stat())})
        tree._walk(TOP)
        return tree

    def uri_of(self, below: str) -> str:
        """Return the URI of a path."""
        return uris.join(self.uri, below) if below else self.uri

    def directories(self) -> list[str]:
        """Return the paths of all directories, each before those below it."""
        return [below for below, stamp in self.stamps.items() if stamp.is_directory]

    def entries(self, directory: str) -> list[str]:
        """Return the paths of the entries of a directory."""
        return self._entries.get(directory, [])

    def _walk(self, directory: str) -> None:
        try:
            with os.scandir(self.path / directory) as entries:
                wanted = sorted(filter(_is_wanted, entries), key=lambda entry: entry.name)
        except OSError as error:
            self.faults[directory] = error.strerror or str(error)
            return
        for entry in wanted:
            try:
                stamp = Stamp.of(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue  # it was just removed
            except OSError:  # the directory may be listed, and not entered
                stamp = Stamp(_kind(entry))
            below = f"{directory}/{entry.name}" if directory else entry.name
            self.stamps[below] = stamp
            self._entries[directory].append(below)
            if stamp.is_directory and uri_of_a_context(self.uri_of(below)):
                self._walk(below)


def uri_of_a_context(uri: str) -> str:
    """Return the URI, "" if no context can have it."""
    try:
        return uris.parse(uri)
    except InvalidField:
        return ""


def _is_wanted(entry: os.DirEntry[str]) -> bool:
    is_skipped = entry.name in SKIPPED_DIRECTORIES and entry.is_dir()
    return not (entry.name.startswith(".") or is_skipped)


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    return stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG
