"""The choice of the files that an import of a directory reads."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from vikingd.domain.errors import InvalidField
from vikingd.ingest.git_index import GIT, TrackedDirectories
from vikingd.ingest.ignore_files import IgnoreFiles
from vikingd.ingest.ignore_patterns import Patterns, literal_starts, pattern_of
from vikingd.ingest.secret_files import always_secret
from vikingd.ingest.unread_files import unread_directory, unread_file

SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__", GIT, ".hg", ".jj", ".svn"})
"""Directories that are left out unless `include` names them, and `.git` in any case."""

HIDDEN, SKIPPED, NOT_INCLUDED, EXCLUDED, TOO_LARGE, SECRETS, HEAD_ONLY, PAGE_FRAME, DRAWING = (
    "hidden",
    "always left out",
    "include",
    "exclude",
    "max_file_size",
    "secrets",
    "behind the head of data",
    "navigation, footers and other text around the main part of pages",
    "drawing without text",
)
"""The rules that are in no ignore file; `unread_files` has more."""

_BRACES = re.compile(r"(?<!\\)\{[^{}]*,[^{}]*\}")
# "1000", "64k", "10 MB", "1.5 GiB".
_SIZE = re.compile(r"(?i)\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)(b?)|b|bytes?)?\s*")


@dataclass(frozen=True)
class Selection:
    """The rules that a caller gives for the files of a directory.

    Attributes:
        include: globs of gitignore's syntax; files that match none are left out. A file or
            directory that a glob names without a wildcard is taken although it is hidden or
            ignored.
        exclude: globs of files and directories to leave out.
        no_ignore: read no ignore files, and take lock files, generated code and all other files
            that `unread_files` leaves out.
        max_file_size: a limit of bytes, as a number or with a unit ("10 MB"); None: no limit.
        encoding: the label of the encoding of text files that have no byte order mark and are not
            UTF-8; "": it is detected.
        with_secrets: take secrets, and files that are never read because they hold secrets.
        hidden: take hidden files and directories. Without it, the hidden directories that git
            tracks are taken, and those that `include` names.

    Globs are relative to the directory. Raises InvalidField for an invalid value.
    """

    include: Iterable[str] = ()
    exclude: Iterable[str] = ()
    no_ignore: bool = False
    max_file_size: int | str | None = None
    encoding: str = ""
    with_secrets: bool = False
    hidden: bool = False
    included: Patterns = field(init=False, repr=False, compare=False)
    excluded: Patterns = field(init=False, repr=False, compare=False)
    limit: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, globs, made in (
            (NOT_INCLUDED, self.include, "included"),
            (EXCLUDED, self.exclude, "excluded"),
        ):
            object.__setattr__(self, made, _globs(name, globs))
        object.__setattr__(self, "limit", _bytes(self.max_file_size))
        _check_encoding(self.encoding)

    @cached_property
    def named(self) -> Patterns:
        """The patterns of the paths that `include` names without a wildcard."""
        return literal_starts(tuple(self.included))

    def takes(self, below: str) -> bool:
        """Return True if a file is imported although `unread_files` would leave it out."""
        named = self.named.last_match(below, is_directory=False)
        return self.no_ignore or named is not None

    def check_for(self, *, is_directory: bool, is_of_files: bool) -> None:
        """Raise InvalidField for a rule that does not apply: globs need a directory of files.

        JSON lines take no limit of size, no encoding and no choice of secrets.
        """
        for name, globs in ((NOT_INCLUDED, self.included), (EXCLUDED, self.excluded)):
            if globs and not is_directory:
                raise InvalidField(name, "needs a directory of files; one file is taken as it is")
        for name, is_given in (
            (TOO_LARGE, self.limit is not None),
            ("encoding", bool(self.encoding)),
            ("with_secrets", self.with_secrets),
        ):
            if is_given and not is_of_files:
                raise InvalidField(
                    name, "is for files; JSON lines are UTF-8 of any size, and taken as they are"
                )


def _globs(name: str, globs: Iterable[str]) -> Patterns:
    """Convert the globs of an argument, or a single glob, to patterns.

    Raises InvalidField, naming the argument `name`, for an invalid glob.
    """
    found = []
    for glob in [globs] if isinstance(globs, str) else globs:
        if _BRACES.search(glob):
            raise InvalidField(
                name, f"is {glob!r}, and gitignore's syntax has no braces: give a glob for each"
            )
        pattern = pattern_of(unicodedata.normalize("NFC", glob.removeprefix("./")), name)
        if pattern is None:
            raise InvalidField(name, f"is {glob!r}, which is no glob: give one such as '*.md'")
        found.append(pattern)
    return Patterns(found)


def _bytes(size: int | str | None) -> int | None:
    """Return the bytes of a size such as 1000, "64k", "10 MB" or "1.5 GiB"."""
    if size is None:
        return None
    found = _SIZE.fullmatch(str(size))
    if found is None or isinstance(size, bool):
        raise InvalidField(
            TOO_LARGE, f"is {size!r}, which is no size: give bytes or a unit, such as 512k or 10MB"
        )
    number, unit, is_binary, is_of_bytes = found.groups()
    power = " kmgt".index((unit or " ").lower())
    return int(float(number) * (1000 if is_of_bytes and not is_binary else 1024) ** power)


def _check_encoding(label: str) -> None:
    from vikingd.ingest.formats.encodings import decode

    if label:
        try:
            decode(b"", assumed=label)
        except ValueError as error:
            raise InvalidField("encoding", str(error)) from None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for the entries of a directory.

    Attributes:
        selection: the rules of the caller; None: no rules, and no ignore file is read.
        files: the ignore files that apply; None: no ignore file is read.
        tracked: the hidden directories that are imported because git tracks files in them.
        beside: the names of all entries of the directory.
        is_included: True if a glob of `include` matches the directory or one above it.
    """

    selection: Selection | None = None
    files: IgnoreFiles | None = None
    tracked: TrackedDirectories = field(default_factory=TrackedDirectories)
    beside: Collection[str] = ()
    is_included: bool = False

    @classmethod
    def above(cls, top: Path, selection: Selection | None, within: Path | None = None) -> Rules:
        """Return the rules from the directories above the top of a walk, up to `within`."""
        if selection is None:
            return cls()
        files = None if selection.no_ignore else IgnoreFiles.above(top, within)
        return cls(selection, files, TrackedDirectories.above(top, within))

    @property
    def faults(self) -> list[tuple[Path, str]]:
        """The ignore files and indexes that could not be read, each with the reason."""
        return [*(self.files.faults if self.files else ()), *self.tracked.faults]

    def at(self, path: Path, below: str, names: Collection[str]) -> Rules:
        """Return the rules of the directory `path`, which has entries with these names.

        The arguments are those of IgnoreFiles.at.
        """
        files = self.files.at(path, below, names) if self.files else None
        tracked = self.tracked
        if self.selection and GIT in names:
            tracked = tracked.at(path, below)
        return replace(self, files=files, tracked=tracked, beside=names)

    def within(self, below: str) -> Rules:
        """Return these rules with `is_included` set for a subdirectory.

        `below` is its path below the top of the walk.
        """
        if self.selection is None or not self.selection.included:
            return self
        return replace(self, is_included=self._includes(below, is_directory=True))

    def leave_out(
        self, below: str, name: str, *, is_directory: bool, at: os.DirEntry[str]
    ) -> tuple[str, str] | None:
        """Return the rule and the pattern that leave out an entry; None for an entry to import.

        Args:
            below: the path of the entry below the top of the walk.
            name: its name.
            is_directory: True for a directory.
            at: the entry as the operating system lists it.
        """
        chosen = self.selection
        if chosen and chosen.excluded:
            excluding = chosen.excluded.last_match(below, is_directory=is_directory)
            if excluding and not excluding.is_negated:
                return EXCLUDED, excluding.text
        may_be_secret = chosen and not chosen.with_secrets and not is_directory
        if may_be_secret and (kind := always_secret(name)):
            return SECRETS, kind
        found = self._default_rule(below, name, is_directory=is_directory, at=at)
        if found and not (chosen and chosen.named.last_match(below, is_directory=is_directory)):
            return found
        if chosen and chosen.included and not is_directory:
            return None if self._includes(below, is_directory=False) else (NOT_INCLUDED, "")
        return None

    def is_too_large(self, size: int) -> bool:
        """Return True for a file of more bytes than the limit."""
        limit = self.selection.limit if self.selection else None
        return limit is not None and size > limit

    def _default_rule(
        self, below: str, name: str, *, is_directory: bool, at: os.DirEntry[str]
    ) -> tuple[str, str] | None:
        """Return (rule, pattern) of the default rule that leaves out an entry; None without one.

        Default rules are those for hidden entries and SKIPPED_DIRECTORIES, the ignore files, and
        the rules of `unread_files`.
        """
        is_hidden = name.startswith(".") and not (self.selection and self.selection.hidden)
        if is_hidden and not (is_directory and self.tracked.has(below)):
            return HIDDEN, ""
        if name in SKIPPED_DIRECTORIES and at.is_dir():
            return SKIPPED, name
        if self.files is None:
            return None
        pattern = self.files.last_match(below, is_directory=is_directory)
        if pattern and not pattern.is_negated:
            return pattern.source, pattern.text
        beside = self.beside
        rule = unread_directory(at.path, name, beside) if is_directory else unread_file(name)
        return (rule, "") if rule else None

    def _includes(self, below: str, *, is_directory: bool) -> bool:
        assert self.selection is not None
        pattern = self.selection.included.last_match(below, is_directory=is_directory)
        return self.is_included if pattern is None else not pattern.is_negated
