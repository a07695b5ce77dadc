"""The ignore files that apply in a directory: those of ripgrep by default.

They are `.ignore` anywhere, and in a git checkout `.gitignore`, `.git/info/exclude` and git's
global excludes file, in this order of precedence. The file of the nearest directory comes first.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from vikingd.ingest.git_index import GIT, git_directory, parents_within
from vikingd.ingest.ignore_patterns import Pattern, Patterns, patterns_of
from vikingd.system.regular_files import read_regular

NAMES = (".ignore", ".gitignore")
"""The names of ignore files."""

_MOST = 1 << 20  # bytes of an ignore file
_SECTION = re.compile(r"\s*\[\s*([^\]\s]+)[^\]]*\]")
_EXCLUDES_FILE = re.compile(r'(?i)\s*excludesfile\s*=\s*"?(.*?)"?\s*(?:[#;].*)?$')


@dataclass(frozen=True, slots=True)
class Placed:
    """Patterns that apply below a directory.

    Attributes:
        patterns: the patterns.
        prefix, skip: a path relative to the walk's top becomes relative to the directory of the
            patterns if its first `skip` characters are replaced by `prefix`. A walk of "docs"
            has the prefix "docs/" for the ignore file above it; the ignore file in "docs/api"
            below the walk's top has the skip 9.
    """

    patterns: Patterns
    prefix: str = ""
    skip: int = 0

    def last_match(self, below: str, *, is_directory: bool) -> Pattern | None:
        """Return the last pattern that matches an entry, by its path below the top of the walk."""
        return self.patterns.last_match(self.prefix + below[self.skip :], is_directory=is_directory)


@dataclass(frozen=True, slots=True)
class IgnoreFiles:
    """The ignore files that apply in a directory.

    Attributes:
        path: the directory.
        label: its path as reports name it, with "/"; "" for the top of the walk.
        plain: the patterns of the `.ignore` files, the nearest file first.
        tracked: the patterns of the checkout's `.gitignore` files, the nearest file first.
        excludes: the patterns of the checkout's excludes file and of the global one.
        is_in_checkout: True in a git checkout.
        faults: (path, reason) of the files that could not be read, of all directories.
    """

    path: Path
    label: str = ""
    plain: tuple[Placed, ...] = ()
    tracked: tuple[Placed, ...] = ()
    excludes: tuple[Placed, ...] = ()
    is_in_checkout: bool = False
    faults: list[tuple[Path, str]] = field(default_factory=list)

    @classmethod
    def above(cls, top: Path, within: Path | None = None) -> IgnoreFiles:
        """Return the ignore files in the directories above the top of a walk.

        A pattern that leaves out the top itself, or a directory above it, is not used, because the
        caller asked for the top. Directories above `within` do not count.
        """
        top = Path(os.path.realpath(top))
        files = cls(top)
        for parent in reversed(parents_within(top, within)):
            names = {name for name in (GIT, *NAMES) if os.path.lexists(parent / name)}
            if not names:
                continue
            steps = _normal(top.relative_to(parent)).split("/")
            label = "../" * len(steps)
            files = replace(files, path=parent, label=label)
            files = files._with(names, prefix="/".join(steps) + "/", skip=0, steps=steps)
        return replace(files, path=top, label="")

    def at(self, path: Path, below: str, names: Collection[str]) -> IgnoreFiles:
        """Return the ignore files that apply in a subdirectory; `self` has those of its parent.

        Args:
            path: the directory.
            below: its path below the top of the walk, in NFC.
            names: the names of its entries.
        """
        if GIT not in names and not any(name in names for name in NAMES):
            return self
        label = f"{below}/" if below else ""
        here = replace(self, path=path, label=label)
        return here._with(names, prefix="", skip=len(label), steps=())

    def last_match(self, below: str, *, is_directory: bool) -> Pattern | None:
        """Return the pattern that decides on an entry, by its path below the top of the walk."""
        for placed in (*self.plain, *self.tracked, *self.excludes):
            if pattern := placed.last_match(below, is_directory=is_directory):
                return pattern
        return None

    def _with(
        self, names: Collection[str], *, prefix: str, skip: int, steps: Collection[str]
    ) -> IgnoreFiles:
        """Return these ignore files with those in the directory `self.path`.

        Args:
            names: the names of the entries of the directory.
            prefix, skip: see `Placed`.
            steps: the path to the top of the walk; patterns that leave out a directory on it are
                not used.
        """

        def placed(files: Iterator[tuple[Path, str]]) -> tuple[Placed, ...]:
            read = (self._read(path, label) for path, label in files)
            kept = (_without(patterns, list(steps)) for patterns in read)
            return tuple(Placed(patterns, prefix, skip) for patterns in kept if patterns)

        def here(name: str) -> tuple[Placed, ...]:
            return placed(iter([(self.path / name, self.label + name)] if name in names else []))

        plain = here(".ignore") + self.plain
        if GIT in names:
            files = replace(self, tracked=(), is_in_checkout=True)
            excludes = placed(_excludes(self.path, self.label))
        else:
            files, excludes = self, self.excludes
        tracked = here(".gitignore") + files.tracked if files.is_in_checkout else ()
        return replace(files, plain=plain, tracked=tracked, excludes=excludes)

    def _read(self, path: Path, label: str) -> Patterns:
        try:
            data = read_regular(path, _MOST, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return Patterns(())
        except OSError as error:
            self.faults.append((path, f"{error.strerror or error}: its rules are not used"))
            return Patterns(())
        return patterns_of(os.fsdecode(data), label)


def _without(patterns: Patterns, steps: list[str]) -> Patterns:
    """Return the patterns that leave out no directory on the path `steps`, and negated patterns."""
    ways = ["/".join(steps[:end]) for end in range(1, len(steps) + 1)]
    if not any(one.matches(way, is_directory=True) for one in patterns for way in ways):
        return patterns
    return Patterns(
        one
        for one in patterns
        if one.is_negated or not any(one.matches(way, is_directory=True) for way in ways)
    )


def _excludes(root: Path, label: str) -> Iterator[tuple[Path, str]]:
    """Yield the path and the name of the excludes file of a checkout, and of the global one."""
    yield _shared_directory(root) / "info/exclude", f"{label}.git/info/exclude"
    if path := _global_excludes():
        home = os.path.expanduser("~")
        shown = str(path)
        yield path, f"~{shown[len(home) :]}" if shown.startswith(f"{home}/") else shown


def _shared_directory(root: Path) -> Path:
    """Return the git directory that a checkout shares with its other worktrees."""
    git = root / GIT
    try:
        git = git_directory(root)
        return git / os.fsdecode(read_regular(git / "commondir")).strip()
    except OSError:
        return git


def _global_excludes() -> Path | None:
    """Return git's global excludes file, by `core.excludesFile` or at its usual place."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "git"
    given = os.environ.get("GIT_CONFIG_GLOBAL")
    settings = [Path(given)] if given else [config / "config", Path.home() / ".gitconfig"]
    found = config / "ignore"
    for path in settings:
        try:
            lines = os.fsdecode(read_regular(path)).splitlines()
        except OSError:
            continue
        section = ""
        for line in lines:
            if header := _SECTION.match(line):
                section = header[1].lower()
                line = line[header.end() :]
            if section == "core" and (value := _EXCLUDES_FILE.match(line)):
                found = Path(os.path.expanduser(value[1]))
    return found if found.is_absolute() and found.is_file() else None


def _normal(path: Path) -> str:
    return unicodedata.normalize("NFC", path.as_posix())
