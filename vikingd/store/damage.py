"""Damage of a store, and its remedy."""

from __future__ import annotations

from vikingd.domain.errors import StoreDamaged

REMEDY = (
    "stop the daemon and restore a backup with `vikingd restore BACKUP --path DIR --replace`; "
    "make backups with `vikingctl backup`"
)


def store_damaged(what: str) -> StoreDamaged:
    """Return the error for damage, with the remedy."""
    return StoreDamaged(f"the store is damaged: {what}; {REMEDY}")
