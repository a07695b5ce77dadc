"""Repositories, fetched by the program git into checkouts of the cache.

A fetch is shallow: it brings the files of one commit. The commit before stays in the checkout, so
that git finds the renames between the two. No hook, filter, submodule or redirect is followed.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import fsdecode
from pathlib import Path
from typing import Any

from vikingd.domain.errors import InvalidField
from vikingd.sources.addresses import Address
from vikingd.sources.fetch_result import Fetched, NotTaken, Origin, SourceFailed
from vikingd.sources.git_program import Git, GitFailed

MAX_FILES, MAX_BYTES = 200_000, 2 << 30
"""The most files and the most bytes of a commit."""

_MAX_LISTING = 64 << 20  # bytes of the names of a commit
_NEW, _KEPT = "refs/vikingd/new", "refs/vikingd/kept"
_ATTRIBUTES = "* -filter -ident -text -eol -working-tree-encoding\n"
# "main" and "release/1.2", but not "-x", "a..b" and "a b".
_REF = re.compile(r"(?!-)(?!.*(?:\.\.|@\{|//|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])")
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_MAX_LFS = 1024  # bytes of a pointer
_LINK, _SUBMODULE = "120000", "160000"
_RENAMES = "5000"  # files that git compares for renames with changes
_NO_SHALLOW = "dumb http transport does not support shallow"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file, link or submodule of a commit."""

    mode: str
    size: int
    path: str


def check_ref(ref: str) -> None:
    """Raise InvalidField for a text that cannot name a branch, a tag or a commit."""
    if ref and not _REF.fullmatch(ref):
        raise InvalidField("ref", f"is {ref!r}, which is no name of a branch, a tag or a commit")


def fetch_repository(
    address: Address,
    ref: str,
    folder: Path,
    state: Mapping[str, Any] | None,
    advance: Callable[[int], None],
    cancelled: threading.Event,
) -> Fetched:
    """Fetch the files of a commit.

    Args:
        address: the address of a repository.
        ref: a branch, a tag or the whole name of a commit; "": the repository's own choice.
        folder: the directory of the checkout, which keeps its files between two fetches.
        state: the state of the last fetch whose files were imported; None: there is none.
        advance: called with the number of objects that just came.
        cancelled: an event that ends the fetch.

    Raises:
        SourceFailed: it cannot be fetched.
        InterruptedError: `cancelled` was set.
    """
    check_ref(ref)
    git = Git(folder, address, cancelled)
    known = str((state or {}).get("commit", ""))
    _prepare(git, folder)
    if known and git.succeeds("cat-file", "-e", f"{known}^{{commit}}"):
        git.run("update-ref", _KEPT, known)
    else:
        known = ""
    _fetch(git, address, ref or "HEAD", advance)
    commit = git.run("rev-parse", "--verify", f"{_NEW}^{{commit}}").decode().strip()
    entries = list(_entries(git, commit, address))
    _check_out(git, commit)
    top = folder / address.folder
    below = f"{address.folder}/" if address.folder else ""
    chosen = [one for one in entries if one.path.startswith(below)]
    if address.folder and not chosen:
        raise SourceFailed(f"{address.text} has no folder {address.folder} at {ref or commit}")
    not_taken = [
        NotTaken(
            f"{address.text}#{one.path}", "is a submodule: import it by the address of its own"
        )
        for one in chosen
        if one.mode == _SUBMODULE
    ]
    files = [one for one in chosen if one.mode not in (_SUBMODULE, _LINK)]
    for one in files:
        if _is_pointer(folder / one.path, one.size):
            (folder / one.path).unlink()
            not_taken.append(
                NotTaken(f"{address.text}#{one.path}", "is a pointer of Git LFS, without content")
            )
    moved = _renames(git, known, commit, below) if known and known != commit else []
    git.run("gc", "--auto", "--quiet")
    return Fetched(
        folder=top,
        origins={one.path[len(below) :]: Origin(f"{address.text}#{one.path}") for one in files},
        moved=moved,
        not_taken=not_taken,
        state={"commit": commit},
        is_unchanged=commit == known,
    )


def _prepare(git: Git, folder: Path) -> None:
    """Create the checkout, or remove the locks and partial files that a killed git left in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    inner = folder / ".git"
    if inner.is_dir():
        for lock in (*inner.glob("*.lock"), *inner.glob("refs/vikingd/*.lock")):
            lock.unlink(missing_ok=True)
        for part in inner.glob("objects/pack/tmp_*"):
            part.unlink(missing_ok=True)
    git.run("init", "--quiet", "--template=", ".")
    (inner / "info").mkdir(exist_ok=True)
    (inner / "info" / "attributes").write_text(_ATTRIBUTES)


def _fetch(git: Git, address: Address, ref: str, advance: Callable[[int], None]) -> None:
    options = ["--no-tags", "--no-recurse-submodules", "--no-auto-gc", "--force", "--progress"]
    given = ["--", address.url, f"+{ref}:{_NEW}"]
    try:
        git.run("fetch", "--depth=1", *options, *given, advance=advance)
    except GitFailed as error:
        if _NO_SHALLOW not in str(error):
            raise
        git.run("fetch", *options, *given, advance=advance)


def _entries(git: Git, commit: str, address: Address) -> Iterator[_Entry]:
    """Yield the files, links and submodules of a commit.

    Raises:
        SourceFailed: the commit is too large.
    """
    listing = git.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit, most=_MAX_LISTING)
    count = total = 0
    for line in listing.split(b"\0")[:-1]:
        about, _, path = line.partition(b"\t")
        mode, _, _, size = about.decode().split()
        bytes_ = int(size) if size != "-" else 0
        count, total = count + 1, total + bytes_
        if count > MAX_FILES or total > MAX_BYTES:
            raise SourceFailed(
                f"{address.text} is larger than the limits of {MAX_FILES:,} files and "
                f"{MAX_BYTES >> 30} GiB"
            )
        yield _Entry(mode, bytes_, fsdecode(path))


def _check_out(git: Git, commit: str) -> None:
    """Write the files of the commit, and remove all others."""
    try:
        git.run("reset", "--hard", "--quiet", commit)
    except GitFailed:  # an index or a file that was cut off
        inner = git.directory / ".git"
        (inner / "index").unlink(missing_ok=True)
        for entry in git.directory.iterdir():
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
            elif entry != inner:
                shutil.rmtree(entry)
        git.run("reset", "--hard", "--quiet", commit)
    git.run("clean", "-ffdxq")


def _is_pointer(path: Path, size: int) -> bool:
    if not len(_LFS) <= size <= _MAX_LFS:
        return False
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


def _renames(git: Git, old: str, new: str, below: str) -> list[tuple[str, str]]:
    """Return the renames between two commits within a folder, as git finds them."""
    listed = git.run(
        *("diff-tree", "-r", "-z", "-B", "-M", "-l", _RENAMES, "--diff-filter=R", "--name-status"),
        *(old, new),
        most=_MAX_LISTING,
    )
    words = [fsdecode(word) for word in listed.split(b"\0")[:-1]]
    pairs = zip(words[1::3], words[2::3], strict=True)
    return [
        (source[len(below) :], target[len(below) :])
        for source, target in pairs
        if source.startswith(below) and target.startswith(below)
    ]
