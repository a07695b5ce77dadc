"""The hidden directories that git tracks, read from the index of a checkout.

Format: https://git-scm.com/docs/index-format, versions 2 to 4.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from vikingd.system.regular_files import read_regular

GIT = ".git"

_MOST = 256 << 20  # bytes of an index
_SHA1, _SHA256 = 20, 32  # bytes of an object's name, and of the checksum at the end
_STAT = 40  # bytes of an entry before the name of its object
_EXTENDED = 0x40  # of the first byte of an entry's flags: there are more flags
_VERSIONS = range(2, 5)
_COMPRESSED = 4  # the version whose names lack what they share with the one before
_SHARED = b"link"  # the extension of an index that adds to another one


@dataclass(frozen=True)
class TrackedDirectories:
    """The hidden directories of a checkout that have tracked files.

    Attributes:
        root: the top directory of the checkout; None outside of a checkout.
        prefix, skip: a path relative to the walk's top becomes relative to `root` if its first
            `skip` characters are replaced by `prefix`. A walk of "docs" in a checkout has the
            prefix "docs/"; a checkout at "lib" below the walk's top has the skip 4.
        faults: (path, reason) of each index of any checkout that could not be read.
    """

    root: Path | None = None
    prefix: str = ""
    skip: int = 0
    faults: list[tuple[Path, str]] = field(default_factory=list)

    @classmethod
    def above(cls, top: Path, within: Path | None = None) -> TrackedDirectories:
        """Return the tracked directories of the checkout that contains the top of a walk.

        If there is none, or if it begins above `within`, the result has no directories.
        """
        top = Path(os.path.realpath(top))
        for parent in parents_within(top, within):
            if os.path.lexists(parent / GIT):
                prefix = unicodedata.normalize("NFC", top.relative_to(parent).as_posix())
                return cls(parent, f"{prefix}/")
        return cls()

    def at(self, path: Path, below: str) -> TrackedDirectories:
        """Return the tracked directories of a checkout that begins at a directory of the walk."""
        return replace(self, root=path, prefix="", skip=len(below) + 1 if below else 0)

    def has(self, below: str) -> bool:
        """Return True for a directory with tracked files, by its path below the top of the walk."""
        return self.root is not None and self.prefix + below[self.skip :] in self._paths

    @cached_property
    def _paths(self) -> frozenset[str]:
        assert self.root is not None
        path = git_directory(self.root) / "index"
        try:
            return frozenset(_hidden(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            self.faults.append((path, f"{error.strerror or error}: it is not used"))
        except (IndexError, ValueError, RecursionError):  # the last: it shares itself
            self.faults.append((path, "is no index of git: it is not used"))
        return frozenset()


def parents_within(top: Path, within: Path | None) -> list[Path]:
    """Return the directories above a path without links, the nearest first.

    With `within` only that directory and those below it are returned.
    """
    if within is None:
        return list(top.parents)
    limit = Path(os.path.realpath(within))
    return [parent for parent in top.parents if parent.is_relative_to(limit)]


def git_directory(root: Path) -> Path:
    """Return the git directory of a checkout; a worktree has its own.

    Raises:
        OSError: `.git` is a file that cannot be read.
    """
    git = root / GIT
    if not git.is_file():
        return git
    link = os.fsdecode(read_regular(git)).strip().removeprefix("gitdir:").strip()
    return root / link


def _hidden(index: Path) -> Iterator[str]:
    """Yield the path of each directory of an index whose name begins with a dot."""
    for name in _names(index):
        if name.startswith(b".") or b"/." in name:
            parts = unicodedata.normalize("NFC", os.fsdecode(name)).split("/")
            for depth, part in enumerate(parts[:-1], 1):
                if part.startswith("."):
                    yield "/".join(parts[:depth])


def _names(index: Path) -> Iterator[bytes]:
    """Yield the path of each entry of an index, and of the shared index that it names.

    Raises:
        IndexError, ValueError: the file is no index.
    """
    data = read_regular(index, _MOST)
    version, count = (int.from_bytes(data[at : at + 4]) for at in (4, 8))
    if data[:4] != b"DIRC" or version not in _VERSIONS:
        raise ValueError(index)
    hash_size = _SHA256 if sha256(data[:-_SHA256]).digest() == data[-_SHA256:] else _SHA1
    at, name = 12, b""
    for _ in range(count):
        start, flags = at, at + _STAT + hash_size
        at = flags + (4 if data[flags] & _EXTENDED else 2)
        if version == _COMPRESSED:
            shorter, at = _number(data, at)
            name = name[: len(name) - shorter]
        else:
            name = b""
        end = data.index(b"\0", at)
        name += data[at:end]
        yield name
        at = end + 1 if version == _COMPRESSED else end + 8 - (end - start) % 8
    if data[at : at + 4] == _SHARED:
        digest = data[at + 8 : at + 8 + hash_size]
        yield from _names(index.with_name(f"sharedindex.{digest.hex()}"))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number that is stored in a variable number of bytes, and the position after it."""
    number = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        number = (number + 1) << 7 | data[at] & 0x7F
    return number, at + 1
