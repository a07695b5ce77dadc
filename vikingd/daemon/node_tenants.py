"""The tenants of a node: their data are in the shared database, their indexes in DATA/tenants."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from vikingd.daemon.tenant_directories import TENANTS
from vikingd.domain.errors import AlreadyExists
from vikingd.domain.tenants import check_tenant_name, missing
from vikingd.models.embed.provider import Provider

if TYPE_CHECKING:
    from vikingd.store.postgres.postgres_database import Database


class NodeTenants:
    """The tenants of a shared database; `TenantDirectories` has those of a single daemon.

    Args:
        data: the directory of this node.
        database: the database of this node.
        provider: makes the vectors of new tenants.

    The methods raise StoreAway if the database cannot be reached.
    """

    def __init__(self, data: Path, database: Database, provider: Provider) -> None:
        from vikingd.store.postgres.postgres_tenants import SharedTenants  # it needs an extra

        self._root = data / TENANTS
        self._tenants = SharedTenants(database, provider.model, provider.dimension)

    def names(self) -> list[str]:
        """Return the names of the tenants in order."""
        return self._tenants.names()

    def find(self, name: str) -> Path:
        """Return the directory of a tenant's index, which may not exist yet.

        Raises:
            NotFound: there is no tenant with this name.
            InvalidField: the name is not valid.
        """
        check_tenant_name(name)
        if not self._tenants.has(name):
            raise missing(name)
        return self._root / name

    def create(self, name: str) -> None:
        """Make a new tenant.

        Raises:
            AlreadyExists: there is a tenant with this name.
            InvalidField: the name is not valid.
        """
        check_tenant_name(name)
        if not self._tenants.make(name):
            raise AlreadyExists(f"the tenant {name}")

    def delete(self, name: str) -> tuple[int, int]:
        """Delete a tenant; return the numbers of its contexts and bytes.

        Other nodes close the tenant within a second, and remove their indexes of it.

        Raises:
            NotFound: there is no such tenant.
        """
        deleted = self._tenants.delete(name)
        shutil.rmtree(self._root / name, ignore_errors=True)
        return deleted

    def interrupted(self) -> list[str]:
        """Return the tenants whose deletion did not end because a process was killed."""
        return self._tenants.without_store()

    def remove_leftovers(self) -> None:
        """Remove this node's indexes of tenants that were deleted."""
        found = list(self._root.iterdir()) if self._root.is_dir() else []
        known = set(self.names())  # read later: a node makes the tenant before its directory
        for path in found:
            if path.name not in known:
                shutil.rmtree(path)
