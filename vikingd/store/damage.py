"""The damage of a store, and the errors that report it with a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vikingd.domain.errors import StoreDamaged

REMEDY = (
    "stop the daemon and restore a backup with `vikingd restore BACKUP --path DIR --replace`; "
    "make backups with `vikingctl backup`"
)
NOT_UTF_8 = "Could not decode to UTF-8"
"""The beginning of SQLite's message for a text that is not UTF-8."""

_LISTED = 5


class RowDamaged(StoreDamaged):
    """One context is damaged. All other contexts can still be read and written."""


class Damage(NamedTuple):
    """A damaged row: a context, or something that belongs to it.

    Attributes:
        uri: the URI of the context, for messages.
        what: a description of the damage, for messages.
        text_id: the id of the text if only its vector is damaged; 0 for any other damage.
    """

    uri: str
    what: str
    text_id: int = 0

    def __str__(self) -> str:
        return f"{self.uri} is damaged: {self.what}"

    def error(self) -> RowDamaged:
        """Return the error to raise in a call that needs this context."""
        return RowDamaged(f"{self}; put it again, or delete it, or {REMEDY}")


def raise_damage(damage: Damage) -> None:
    """Raise RowDamaged for a damage; readers that must not skip damaged rows call this."""
    raise damage.error()


def store_damaged(what: str) -> StoreDamaged:
    """Return a StoreDamaged error with a description of the damage and the remedy."""
    return StoreDamaged(f"the store is damaged: {what}; {REMEDY}")


def listed(damage: Sequence[Damage]) -> str:
    """Return one line with the first five damages and the number of further ones."""
    more = f", and {len(damage) - _LISTED:,} more" if len(damage) > _LISTED else ""
    return "; ".join(map(str, damage[:_LISTED])) + more


def shown(uri: object, context_id: object) -> str:
    """Return a URI for messages, also if the stored value is NULL, not a string or not UTF-8."""
    if uri is None:
        return f"context {context_id}"
    if not isinstance(uri, str):
        return f"context {context_id} ({uri!r})"
    if not uri.strip():
        return f'context {context_id} ("{uri}")'
    return uri.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
