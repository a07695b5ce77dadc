"""The directories of the tenants' stores, below DATA/tenants."""

from __future__ import annotations

import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from vikingd.domain.errors import AlreadyExists, StoreMismatch
from vikingd.domain.tenants import check_tenant_name, is_tenant_name, missing
from vikingd.store.sqlite.sqlite_database import contexts_in
from vikingd.store.sqlite.sqlite_schema import DATABASE
from vikingd.system.directory_walk import walk
from vikingd.system.sealed_files import sync

TENANTS = "tenants"
"""The name of the directory of all tenants, in the data directory."""

_LEVELS = 16  # of directories below that of a tenant
_DELETED = ".deleted-"  # begins the names of directories that are being removed


class TenantDirectories:
    """The directories of the stores of all tenants except the default one.

    Only the user that runs the daemon may read them.
    """

    def __init__(self, data: Path) -> None:
        self._root = data / TENANTS

    def names(self) -> list[str]:
        """Return the names of the tenants in order."""
        return sorted(path.name for path in self._entries() if is_tenant_name(path.name))

    def find(self, name: str) -> Path:
        """Return the directory of a tenant.

        Raises:
            NotFound: there is no tenant with this name.
            StoreMismatch: the directory is a symbolic link, or a file.
            InvalidField: the name is not valid.
        """
        check_tenant_name(name)
        path = self._root / name
        if not (self._has_root() and _is_directory(path, f"the directory of the tenant {name}")):
            raise missing(name)
        return path

    def create(self, name: str) -> None:
        """Make the directory of a new tenant.

        Raises:
            AlreadyExists: there is a tenant with this name, or another file at its path.
            InvalidField: the name is not valid.
            StoreMismatch: DATA/tenants is a symbolic link, or a file.
        """
        check_tenant_name(name)
        path = self._root / name
        if not self._has_root():
            self._root.mkdir(mode=0o700, exist_ok=True)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            raise AlreadyExists(f"the tenant {name}") from None
        sync(self._root)

    def delete(self, name: str) -> tuple[int, int]:
        """Delete a tenant whose store is closed; return the numbers of its contexts and bytes.

        The directory is renamed before its files are removed, so that the tenant is gone at once.

        Raises:
            NotFound: there is no such tenant.
        """
        path = self.find(name)
        contexts = contexts_in(path / DATABASE)
        aside = self._root / f"{_DELETED}{name}-{secrets.token_hex(8)}"
        path.rename(aside)
        sync(self._root)
        return contexts, self._remove(aside)

    def _remove(self, aside: Path) -> int:
        """Remove a directory that `delete` has renamed; return the bytes of its files."""
        size = sum(
            (folder / file).lstat().st_size
            for folder, _, files in walk(aside, _LEVELS)
            for file in files
        )
        shutil.rmtree(aside)
        sync(self._root)
        return size

    def interrupted(self) -> list[str]:
        """Return the tenants whose deletion did not end because the process was killed."""
        aside = (p.name for p in self._entries() if p.name.startswith(_DELETED))
        return sorted({name[len(_DELETED) :].rpartition("-")[0] for name in aside})

    def remove_leftovers(self) -> None:
        """Remove directories that `delete` had renamed before the process was killed."""
        for path in self._entries():
            if path.name.startswith(_DELETED):
                self._remove(path)

    def _entries(self) -> Iterator[Path]:
        """Yield the directories below DATA/tenants, without symbolic links."""
        if self._has_root():
            yield from (p for p in self._root.iterdir() if p.is_dir() and not p.is_symlink())

    def _has_root(self) -> bool:
        return _is_directory(self._root, "DATA/tenants")


def _is_directory(path: Path, name: str) -> bool:
    """Return True if the path is a directory, False if nothing is there.

    Raises:
        StoreMismatch: the path is a symbolic link or a file. A link could lead out of the data
            directory.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(mode):
        raise StoreMismatch(f"{name} is a symbolic link or a file; it must be a directory")
    return True
