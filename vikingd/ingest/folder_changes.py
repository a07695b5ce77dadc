"""The changes of a directory on disk since it was last read, for `vikingctl import --watch`."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.ingest.file_kind_names import DESCRIBING
from vikingd.ingest.file_syntax import are_alike
from vikingd.ingest.file_tree import TOP, VANISHED, FileTree, Stamp, normal
from vikingd.ingest.files import FileItem, Read, Unchanged, describing_files
from vikingd.ingest.ignore_files import NAMES
from vikingd.ingest.import_remarks import (
    Assumed,
    LeftOut,
    ManyPassages,
    SecretLeftOut,
    Unreadable,
)
from vikingd.ingest.selected_files import SKIPPED_DIRECTORIES, TOO_LARGE, Selection

T = TypeVar("T")

_SETTLED = 100_000_000  # nanoseconds; a file system's clock may tick this seldom


class Replaced(OSError):
    """The watched directory itself was removed, renamed or replaced by another directory."""


@dataclass(slots=True)
class Entry:
    """A file or directory that an import reads.

    Attributes:
        stamp: its type, inode, size and times on disk, taken before it was read.
        items: the results of reading the file, with an Unchanged in place of each draft; [] for a
            directory.
        digest: SHA-256 of the content of its draft; b"" if it is empty, or has no draft.
        is_unsure: True if it must be read again even with an equal stamp: a change after the
            reading may have left the same stamp, or a directory above was missing for a moment.
    """

    stamp: Stamp
    items: list[Unchanged | Unreadable | LeftOut | SecretLeftOut] = field(default_factory=list)
    digest: bytes = b""
    is_unsure: bool = False


Entries: TypeAlias = dict[str, Entry]
"""Entries by their paths below the directory, with "/"; the directory itself is ""."""


@dataclass(slots=True)
class Difference:
    """The difference between two states of a directory.

    Attributes:
        tree: the directory as it is now.
        before, now: the two states. A file that is the same in both has one Entry object.
        files: the files to read.
        directories: the directories to read, parents before children.
        created: the new directories; all below them is in `files` and `directories`.
        gone: the paths that are no longer there, or of another kind.
        whole: new, removed and emptied directories. All stored contexts below are compared.
        moved: (old path, new path) of each renamed file or directory, in the order of the moves.
        ready: the drafts of files that were read for a comparison.
    """

    tree: FileTree
    before: Entries
    now: Entries
    files: set[str] = field(default_factory=set)
    directories: list[str] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    moved: list[tuple[str, str]] = field(default_factory=list)
    ready: dict[str, list[FileItem]] = field(default_factory=dict)
    _with_files: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._with_files = {
            above
            for path, entry in self.now.items()
            if path and not entry.stamp.is_directory
            for above in _ancestors(path)
        }

    def __bool__(self) -> bool:
        return bool(self.directories or self.gone)

    def is_empty(self, path: str) -> bool:
        """Return True for a directory without files below it, False for others and for files."""
        entry = self.now.get(path)
        return entry is not None and entry.stamp.is_directory and path not in self._with_files

    def children_of_moved(self, old: str, new: str) -> list[tuple[str, str]]:
        """Return the moves of the entries of a renamed directory."""
        names = [_name(path) for path in self.before if path and _parent(path) == new]
        return [(f"{old}/{name}", f"{new}/{name}") for name in names]


class Folder:
    """A directory, its URI, and the state of its files when they were last read.

    Attributes:
        selection: the choice of its files.
        tree: the directory as it was at the last comparison.
        known: the state of all files and directories, by path.
        stored: the paths of contexts that came from the directory and may still be stored.

    Raises:
        OSError: the directory cannot be read.
    """

    def __init__(self, path: Path, uri: str, selection: Selection) -> None:
        self.path = path
        self.uri = uri
        self.selection = selection
        self.tree = FileTree(path, uri, {}, selection)
        self.known: Entries = {}
        self.stored: set[str] = set()
        self._top = Stamp.of(path.stat())

    def uri_of(self, path: str) -> str:
        """Return the URI of a path below the directory."""
        return uris.join(self.uri, path) if path else self.uri

    def path_of(self, uri: str) -> str:
        """Return the path of a URI at or below that of the directory."""
        return uri[len(self.uri) :].lstrip("/")

    def take_in(self, path: str) -> None:
        """Add the path of a context, and those of the directories above it, to `stored`."""
        self.stored.update((path, *_ancestors(path)))

    def is_no_longer_described(self, found: Difference, directory: str) -> bool:
        """Return True if a directory still exists but the file that described it does not."""
        below = f"{directory}/" if directory else ""
        was_described = any(f"{below}{name}" in self.known for name in DESCRIBING)
        if not was_described or found.is_empty(directory):
            return False
        return not describing_files(found.tree, directory)

    def is_gone(self, found: Difference, uri: str) -> bool:
        """Return True if a context came from the directory, and its file no longer exists.

        A file that exists and is now left out is not gone.
        """
        path = self.path_of(uri)
        is_gone = path not in found.now or path in found.gone or found.is_empty(path)
        return path in self.stored and is_gone and found.tree.rule_of(path) is None

    def wanted(self, changed: Iterable[str]) -> set[str]:
        """Return the paths of changed files relative to the directory, without left-out ones.

        `changed` has absolute paths. A changed ignore file gives the path of its directory.
        """
        top, found = str(self.path.resolve()), set()
        for path in changed:
            below = normal(os.path.relpath(path, top)).replace(os.sep, "/")
            if below == os.curdir:
                found.add(TOP)
            elif _name(below) in NAMES:
                found.add(_parent(below))
            elif not self._is_left_out(below):
                found.add(below)
        return found

    def _is_left_out(self, path: str) -> bool:
        """Return True if the rules of the last comparison leave out a path."""
        if (out := self.tree.rule_of(path)) is not None:
            return out.rule != TOO_LARGE
        return any(
            at not in self.tree.stamps
            and (
                (_name(at).startswith(".") and not self.selection.hidden)
                or (at != path and _name(at) in SKIPPED_DIRECTORIES)
            )
            for at in (path, *_ancestors(path))
        )

    def compare(
        self,
        named: Collection[str],
        read: Callable[[str], list[FileItem]],
    ) -> Difference:
        """Compare the directory on disk with the known state, which stays as it is.

        A file counts as changed if its stamp differs: its type, inode, size or times.

        Args:
            named: paths of possible changes, which are read even if their stamps are equal.
            read: returns the drafts of a file by its path.

        Returns:
            The files and directories to read and those that are gone or moved. `settle` makes the
            new state the known one.

        Raises:
            Replaced: the directory is no longer there, or another one has its path.
            OSError: the directory cannot be read.
        """
        tree = self._walk()
        if self.known and tree.stamps.keys() != self.known.keys():
            tree = self._walk()  # a rename during the first walk can hide a file from it
        now = {path: self._entry(path, stamp) for path, stamp in tree.stamps.items()}
        found = Difference(tree, dict(self.known), now)
        gone = {p for p, entry in self.known.items() if not _is_same_kind(entry, now.get(p))}
        new = {p for p, entry in now.items() if not _is_same_kind(entry, self.known.get(p))}
        found.gone = gone
        if self.known:
            self._find_moves(found, read)
        found.created = {path for path in new if now[path].stamp.is_directory}
        changed = {p for p, e in now.items() if p in new or self.known[p].stamp != e.stamp}
        changed.update(p for p in named if p in now)
        changed.update(p for p, e in now.items() if e.is_unsure)
        found.files = {p for p in changed if not now[p].stamp.is_directory}
        directories = changed - found.files
        # A named entry that is in neither state came and went, and may have been read meanwhile.
        for path in changed | gone | set(named):
            if path != TOP:
                directories.add(_parent(path))
        found.directories = sorted(
            (d for d in directories if d in now and now[d].stamp.is_directory), key=_order
        )
        found.whole = found.created | {p for p in gone if self.known[p].stamp.is_directory}
        found.whole.update(
            p
            for directory in found.directories
            for p in (directory, *_ancestors(directory))
            if p and found.is_empty(p)
        )
        for path in (*found.files, *found.directories):
            now[path] = Entry(now[path].stamp)
        return found

    def _entry(self, path: str, stamp: Stamp) -> Entry:
        known = self.known.get(path)
        return known if known and known.stamp == stamp else Entry(stamp)

    def _walk(self) -> FileTree:
        try:
            tree = FileTree.of_directory(self.path, self.uri, self.selection)
        except (FileNotFoundError, NotADirectoryError):
            raise Replaced(f"{self.path} is no longer there") from None
        top = tree.stamps[TOP]
        if (top.device, top.inode) != (self._top.device, self._top.inode):
            raise Replaced(f"{self.path} was replaced by another directory")
        for directory, fault in tree.faults.items():
            if fault not in VANISHED:  # nobody knows if the files below are still there
                for path, entry in self.known.items():
                    if _is_within(path, directory):
                        tree.stamps.setdefault(path, entry.stamp)
        self.tree = tree
        return tree

    def _find_moves(self, found: Difference, read: Callable[[str], list[FileItem]]) -> None:
        """Find the renames between `found.before` and `found.now`: directories, then files.

        Add them to `found.moved`, and give their entries in `found.before` the new paths. Drafts of
        files that were read for a comparison are added to `found.ready`.
        """
        while move := _moved_directory(found.before, found.now, self._keeps_type):
            self._rename(found, *move)
        old = _only_in(found.before, found.now)
        new = _only_in(found.now, found.before)
        for move in _pairs(
            {path: _identity(found.before[path]) for path in old},
            {path: _identity(found.now[path]) for path in new},
        ):
            if self._has_same_texts(*move):
                self._rename(found, *move)
        digests = {p: found.before[p].digest for p in _only_in(found.before, found.now)}
        digests = {path: digest for path, digest in digests.items() if digest}
        sizes = {found.before[path].stamp.size for path in digests}
        others = {}
        for path in _only_in(found.now, found.before):
            if found.now[path].stamp.size in sizes:
                found.ready[path] = read(path)
                others[path] = digest_of(found.ready[path])
        for move in _pairs(digests, others):
            if self._has_same_texts(*move):
                self._rename(found, *move)

    def _has_same_texts(self, old: str, new: str) -> bool:
        """Return True if a renamed file has the same passages and abstract under its new name.

        If not, the file must be written again.
        """
        return are_alike(_name(old), _name(new)) and self._keeps_type(old, new)

    def _keeps_type(self, old: str, new: str) -> bool:
        one, other = self.uri_of(old), self.uri_of(new)
        return uris.context_type(one) is uris.context_type(other)

    def _rename(self, found: Difference, old: str, new: str) -> None:
        """Record a move, and give the entries of the earlier state their new paths."""
        found.moved.append((old, new))
        found.before = {_moved(path, old, new): entry for path, entry in found.before.items()}
        moved = {_moved(path, old, new) for path in self.stored} - self.stored
        for path in moved:
            self.take_in(path)

    def settle(self, found: Difference, started: int, remaining: Collection[str]) -> None:
        """Make the newer state of a difference the known one, after its files were read.

        Args:
            found: the difference.
            started: the time of the comparison, in nanoseconds since the epoch.
            remaining: the URIs of the stored contexts that were compared and are still there.
        """
        for path in found.files:
            entry = found.now[path]
            is_read = any(not has_vanished(item) for item in entry.items)
            entry.is_unsure = abs(entry.stamp.changed - started) < _SETTLED or not (
                is_read or stat.S_ISLNK(entry.stamp.mode)
            )
        self.known = found.now
        self.stored -= {
            path
            for path in self.stored - found.now.keys()
            if self.uri_of(path) not in remaining
            and (path in found.gone or not found.whole.isdisjoint((path, *_ancestors(path))))
        }


def remembered(entry: Entry, items: Iterable[Read]) -> None:
    """Set the items and the digest of an entry from the results of reading its file."""
    items = list(items)
    entry.items = [
        Unchanged(item.uri) if isinstance(item, Draft) else item
        for item in items
        if not isinstance(item, Assumed | ManyPassages)  # these are reported once only
    ]
    entry.digest = digest_of(items)


def has_vanished(item: Read) -> bool:
    """Return True if a result says that its file or directory was removed before it was read."""
    return isinstance(item, Unreadable) and item.reason in VANISHED


def digest_of(items: Iterable[Read]) -> bytes:
    """Return the SHA-256 of the content of the first draft; b"" without content."""
    for item in items:
        if isinstance(item, Draft) and item.content:
            return hashlib.sha256(item.content.encode()).digest()
    return b""


def _identity(entry: Entry) -> tuple[int, ...]:
    """Return the parts of a file's stamp that a rename keeps, and a new file does not share."""
    stamp = entry.stamp
    return stamp.mode, stamp.device, stamp.inode, stamp.size, stamp.modified


def _moved_directory(
    before: Entries, now: Entries, may_move: Callable[[str, str], bool]
) -> tuple[str, str] | None:
    """Return the old and the new path of the outermost renamed directory; None if there is none.

    A removed directory's inode can be used again. So both directories must have an entry in common.
    """
    old = _directories_only_in(before, now)
    if not old:
        return None
    new = _directories_only_in(now, before)
    places = {path: now[path].stamp[:3] for path in new}
    children = defaultdict(set)
    for path, entry in now.items():
        if _parent(path) in places:
            children[_parent(path)].add((_name(path), entry.stamp.inode))
    kept = defaultdict(set)
    for path, entry in before.items():
        kept[_parent(path)].add((_name(path), entry.stamp.inode))
    for was, to in _pairs({path: before[path].stamp[:3] for path in old}, places):
        if kept[was] & children[to] and may_move(was, to):
            return was, to
    return None


def _directories_only_in(some: Entries, others: Entries) -> list[str]:
    return sorted(
        (
            path
            for path, entry in some.items()
            if entry.stamp.is_directory and not _is_same_kind(entry, others.get(path))
        ),
        key=_order,
    )


def _only_in(some: Entries, others: Entries) -> list[str]:
    """Return the regular files of `some` that `others` lacks or has as another kind."""
    return [
        path
        for path, entry in some.items()
        if stat.S_ISREG(entry.stamp.mode) and not _is_same_kind(entry, others.get(path))
    ]


def _pairs(old: dict[str, T], new: dict[str, T]) -> list[tuple[str, str]]:
    """Return (old path, new path) of each value that one path in `old` and one in `new` has.

    `old` and `new` give a value by path that identifies a file or directory. A value that several
    paths of a side have tells nothing, and is left out.
    """
    by_key: dict[Hashable, list[str]] = defaultdict(list)
    for path, key in new.items():
        by_key[key].append(path)
    others: dict[Hashable, list[str]] = defaultdict(list)
    for path, key in old.items():
        others[key].append(path)
    return [
        (paths[0], by_key[key][0])
        for key, paths in others.items()
        if len(paths) == 1 and len(by_key[key]) == 1
    ]


def _moved(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if _is_within(path, old) else path


def _is_same_kind(entry: Entry, other: Entry | None) -> bool:
    return other is not None and entry.stamp.is_directory == other.stamp.is_directory


def _is_within(path: str, directory: str) -> bool:
    return not directory or path == directory or path.startswith(f"{directory}/")


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _ancestors(path: str) -> Iterator[str]:
    while path := _parent(path):
        yield path


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _order(path: str) -> list[str]:
    return path.split("/") if path else []
