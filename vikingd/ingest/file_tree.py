"""The files and directories that an import reads, found in one walk."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.ingest.git_attributes import NAME as ATTRIBUTES_FILE
from vikingd.ingest.git_attributes import GitAttributes
from vikingd.ingest.git_index import GIT
from vikingd.ingest.import_remarks import LeftOut, Renamed
from vikingd.ingest.secret_files import always_secret
from vikingd.ingest.selected_files import HIDDEN, SECRETS, SKIPPED, TOO_LARGE, Rules, Selection
from vikingd.system.regular_files import read_regular

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
        """Return the stamp of a directory entry."""
        place = found.st_mode, found.st_dev, found.st_ino
        if stat.S_ISDIR(found.st_mode):
            return cls(*place)
        return cls(*place, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(slots=True)
class FileTree:
    """A directory with all below it that an import reads, or one file.

    A selection decides which entries are left out. Without a selection, hidden entries and
    SKIPPED_DIRECTORIES are left out. A directory is also left out if all of its entries are. The
    walk does not follow symbolic links, and does not enter a directory whose URI would be invalid.

    The path of an entry is relative to `path`, with "/" between names, and in NFC, as URIs are.
    The relative path of `path` itself is TOP.

    Attributes:
        path: the directory or the file on disk.
        uri: the URI of `path`.
        stamps: the stamps of the entries by their paths. A directory comes before its entries,
            which are sorted by name.
        faults: the reasons why directories could not be listed, by their paths.
        left_out: the entries that the selection leaves out, by their paths.
        attributes: the `.gitattributes` files.
        renamed: the entries whose names are not in NFC.
        refused: (file, reason) of each entry whose URI another entry has already, and of each
            ignore file that cannot be read.
    """

    path: Path
    uri: str
    stamps: dict[str, Stamp]
    selection: Selection | None = None
    faults: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    attributes: GitAttributes = field(default_factory=GitAttributes)
    renamed: list[Renamed] = field(default_factory=list)
    refused: list[tuple[Path, str]] = field(default_factory=list)
    _entries: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _named: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path, uri: str, selection: Selection | None = None) -> FileTree:
        """Return the tree of a single file.

        It is left out only if it is too large or holds secrets.
        """
        tree = cls(path, uri, {TOP: Stamp(stat.S_IFREG)}, selection)
        if path.name != normal(path.name):
            tree.renamed.append(Renamed(printable(path), uri))
        if selection and not selection.with_secrets and (kind := always_secret(path.name)):
            tree.left_out[TOP] = LeftOut(printable(path), SECRETS, kind, uri)
            return tree
        with suppress(OSError):  # the error is reported when the file is read
            size = path.stat().st_size
            if Rules(selection).is_too_large(size):
                tree.left_out[TOP] = LeftOut(printable(path), TOO_LARGE, "", uri, size)
        return tree

    @classmethod
    def of_directory(
        cls, path: Path, uri: str, selection: Selection | None = None, within: Path | None = None
    ) -> FileTree:
        """Walk a directory and return its tree.

        Ignore files in directories above `within` are not read.

        Raises:
            OSError: the directory does not exist.
        """
        tree = cls(path, uri, {TOP: Stamp.of(path.stat())}, selection)
        rules = Rules.above(path, selection, within)
        tree._walk(TOP, rules)
        tree.refused += rules.faults
        return tree

    def uri_of(self, below: str) -> str:
        """Return the URI of a path."""
        return uris.join(self.uri, below) if below else self.uri

    def file(self, below: str) -> Path:
        """Return the path on disk of an entry."""
        return self.path / self._named.get(below, below)

    def directories(self) -> list[str]:
        """Return the paths of all directories, each before those below it."""
        return [below for below, stamp in self.stamps.items() if stamp.is_directory]

    def entries(self, directory: str) -> list[str]:
        """Return the paths of the entries of a directory."""
        return self._entries.get(directory, [])

    def rule_of(self, below: str) -> LeftOut | None:
        """Return the rule that leaves out a path or a directory above it; None if there is none."""
        while below:
            if found := self.left_out.get(below):
                return found
            below = below.rpartition("/")[0]
        return None

    def _walk(self, directory: str, rules: Rules) -> bool:
        """Add all entries below a directory; return True if any of them is left out."""
        try:
            with os.scandir(self.file(directory)) as found:
                entries = sorted(((normal(one.name), one) for one in found), key=_order)
        except OSError as error:
            self.faults[directory] = error.strerror or str(error)
            return False
        rules = rules.at(self.file(directory), directory, {entry.name for _, entry in entries})
        if any(entry.name == ATTRIBUTES_FILE for _, entry in entries):
            with suppress(OSError):  # an unreadable file has no effect
                text = os.fsdecode(read_regular(self.file(directory) / ATTRIBUTES_FILE))
                self.attributes.add(directory, text)
        is_partial = False
        for name, entry in entries:
            below = f"{directory}/{name}" if directory else name
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == GIT:
                continue  # it is never imported, and no report names it
            if left_out := rules.leave_out(below, name, is_directory=is_directory, at=entry):
                is_partial = is_partial or left_out[0] not in (HIDDEN, SKIPPED)
                self._leave_out(below, entry, *left_out)
                continue
            try:
                stamp = Stamp.of(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue  # it was just removed
            except OSError:  # the directory may be listed, and not entered
                stamp = Stamp(_kind(entry))
            if rules.is_too_large(stamp.size):
                is_partial = True
                self._leave_out(below, entry, TOO_LARGE, "", stamp.size)
                continue
            if not self._is_unique(below, name, entry):
                continue
            self.stamps[below] = stamp
            self._entries[directory].append(below)
            is_entered = stamp.is_directory and uri_of_a_context(self.uri_of(below))
            if is_entered and self._walk(below, rules.within(below)):
                is_partial = True
                if not self.entries(below):
                    del self.stamps[below]
                    self._entries[directory].pop()
        return is_partial

    def _leave_out(
        self, below: str, entry: os.DirEntry[str], rule: str, pattern: str, size: int = 0
    ) -> None:
        shown = printable(Path(entry.path)) + ("/" if entry.is_dir(follow_symlinks=False) else "")
        uri = uri_of_a_context(self.uri_of(below))
        self.left_out[below] = LeftOut(shown, rule, pattern, uri, size)

    def _is_unique(self, below: str, name: str, entry: os.DirEntry[str]) -> bool:
        """Return True if no other entry has the path `below`, which is in NFC.

        If another entry has it, the entry is added to `refused`. Else an entry whose name is not
        in NFC is added to `renamed`.
        """
        if below in self.stamps:
            other = printable(self.file(below))
            self.refused.append(
                (
                    Path(entry.path),
                    f"has the same name as {other} in NFC, the form of names in URIs: rename one",
                )
            )
            return False
        directory = self._named.get(below.rpartition("/")[0])
        if name != entry.name:
            uri = uri_of_a_context(self.uri_of(below))
            self.renamed.append(Renamed(printable(Path(entry.path)), uri))
        if name != entry.name or directory is not None:
            self._named[below] = os.path.relpath(entry.path, self.path)
        return True


def uri_of_a_context(uri: str) -> str:
    """Return the URI in canonical form; "" if it is not valid."""
    try:
        return uris.parse(uri)
    except InvalidField:
        return ""


def normal(name: str) -> str:
    """Return a name in NFC."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def printable(path: Path) -> str:
    """Return the path with control and other unprintable characters as escapes."""
    text = str(path)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _order(entry: tuple[str, os.DirEntry[str]]) -> tuple[str, bool]:
    """Return the sort key of an entry: its name in NFC.

    Of two equal names the one that is in NFC on disk comes first.
    """
    name, found = entry
    return name, name != found.name


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    return stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG
