"""The hub's cache on disk, in the layout of Hugging Face's programs, which share it.

    HF_HUB_CACHE/models--ORG--NAME/blobs/ETAG                   the content of a file
    HF_HUB_CACHE/models--ORG--NAME/blobs/ETAG.incomplete        a part of it
    HF_HUB_CACHE/models--ORG--NAME/snapshots/COMMIT/PATH        a link to a blob
    HF_HUB_CACHE/models--ORG--NAME/refs/REVISION                the commit of a branch or tag
    HF_HUB_CACHE/.locks/models--ORG--NAME/ETAG.lock             held while a blob is written

An ETag is a hash of the content: SHA-256 of large files (Git LFS), and Git's SHA-1 of others.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vikingd.models.pinned_models import PinnedModel
from vikingd.system import platform
from vikingd.system.regular_files import descriptor_of, open_regular, read_text

MAIN = "main"
"""The revision that a name without one means."""
_SHA256_DIGITS = 64
_CHUNK = 1 << 20  # bytes


def cache_directory() -> Path:
    """Return the directory of the cache, which may not exist yet.

    It is HF_HUB_CACHE, else a directory in HF_HOME, else one in the user's cache.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    hub_home = os.environ.get("HF_HOME") or os.path.join(home, "huggingface")
    named = os.environ.get("HF_HUB_CACHE") or os.path.join(hub_home, "hub")
    return Path(os.path.expandvars(named)).expanduser().absolute()


def is_offline() -> bool:
    """Return True if HF_HUB_OFFLINE forbids requests to the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True, slots=True)
class CachedRepository:
    """The files of one repository.

    Attributes:
        root: the directory of the cache.
        repository: ORG/NAME.
    """

    root: Path
    repository: str

    @property
    def directory(self) -> Path:
        """The directory of the repository."""
        return self.root / self._folder

    def snapshot(self, commit: str) -> Path:
        """Return the directory of a commit, with the files at their paths in the repository."""
        return self.directory / "snapshots" / commit

    def blob(self, etag: str) -> Path:
        """Return the path of the file whose content has this ETag."""
        return self.directory / "blobs" / etag

    def incomplete(self, etag: str) -> Path:
        """Return the path of the file that receives the content with this ETag."""
        return self.directory / "blobs" / f"{etag}.incomplete"

    def link(self, commit: str, path: str, etag: str) -> None:
        """Link a blob into a snapshot at a path; what is at the path is replaced.

        Raises:
            OSError: the link cannot be created.
        """
        link = self.snapshot(commit) / path
        with _replacing(link) as new:
            new.symlink_to(os.path.relpath(self.blob(etag), link.parent))

    def name_commit(self, revision: str, commit: str) -> None:
        """Record the commit of a branch or tag in `refs`, as the hub's programs do.

        Raises:
            OSError: the file cannot be written.
        """
        if revision != commit:
            with _replacing(self.directory / "refs" / revision) as new:
                new.write_text(commit)

    @contextmanager
    def locked(self, etag: str) -> Iterator[None]:
        """Lock a blob for the block, so that no other program writes it; wait if one does.

        Raises:
            OSError: the lock file cannot be created.
        """
        file = self.root / ".locks" / self._folder / f"{etag}.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = descriptor_of(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            platform.lock(handle, wait=True)
            yield
        finally:
            os.close(handle)

    @property
    def _folder(self) -> str:
        return "models--" + self.repository.replace("/", "--")


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """Yield the path of a new file, which replaces `file` at the end of the block."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{secrets.token_hex(4)}.incomplete")
    try:
        yield new
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def snapshot_of(model: PinnedModel) -> Path:
    """Return the directory of a registered model, which may not exist yet."""
    return CachedRepository(cache_directory(), model.repository).snapshot(model.revision)


def latest_of(repository: str) -> Path | None:
    """Return the directory of a repository as last pulled from `main`; None if it never was."""
    cached = CachedRepository(cache_directory(), repository)
    try:
        commit = read_text(cached.directory / "refs" / MAIN)
    except (OSError, ValueError):
        return None
    return cached.snapshot(commit)


def is_present(model: PinnedModel) -> bool:
    """Return True if the cache has all files of a model, in their right sizes."""
    snapshot = snapshot_of(model)
    return all(size_of(snapshot / file.path) == file.size for file in model.files)


def has_hash(file: Path, etag: str, sha256: str = "") -> bool:
    """Return True if a file's content has the hash in its ETag, and the SHA-256 if one is given.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(file) as opened:
        whole = hashlib.sha256()
        git = hashlib.sha1(
            f"blob {os.fstat(opened.fileno()).st_size}\0".encode(), usedforsecurity=False
        )
        while chunk := opened.read(_CHUNK):
            whole.update(chunk)
            git.update(chunk)
    of_etag = whole if len(etag) == _SHA256_DIGITS else git
    return of_etag.hexdigest() == etag and whole.hexdigest() == (sha256 or whole.hexdigest())


def size_of(file: Path) -> int:
    """Return the size of a file; -1 if there is none."""
    with suppress(OSError):
        return file.stat().st_size
    return -1
