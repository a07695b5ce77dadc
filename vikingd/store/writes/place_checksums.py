"""The checksums of contexts whose place or revision changes, while their texts stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vikingd.domain.checksums import CONTEXT, context_checksum, renewed
from vikingd.store.connection import Connection

SET_CHECKSUM = "checksum = value FROM each_pair(?) AS pair"
"""Sets the checksums that `checksums_after` returned, at the end of an UPDATE."""

IS_PAIR = "contexts.id = CAST(pair.key AS BIGINT)"
"""The condition of such an UPDATE."""


class Place(NamedTuple):
    """The columns of `context_checksum`."""

    id: int
    uri: str
    parent_id: int | None
    is_directory: int
    revision: int
    content_hash: bytes
    time: int
    created_at: int
    updated_at: int


def checksums_after(
    db: Connection, condition: str, values: Sequence[object], change: Callable[[Place], Place]
) -> str:
    """Return the checksums after a change of the contexts that fulfil a condition, as JSON.

    A context that was damaged before stays damaged.
    """
    after: dict[int, int | None] = {}
    for *columns, kept in db.execute(
        f"SELECT {CONTEXT}, checksum FROM contexts WHERE {condition}", values
    ):
        before = Place(*columns)
        after[before.id] = renewed(
            kept, context_checksum(*before), context_checksum(*change(before))
        )
    return json.dumps(after)


def set_revision(db: Connection, context_ids: Sequence[int], revision: int) -> None:
    """Give contexts a revision."""
    ids = (json.dumps(context_ids),)
    condition = "id IN (SELECT value FROM each_id(?))"
    after = checksums_after(db, condition, ids, lambda old: old._replace(revision=revision))
    db.execute(
        f"UPDATE contexts SET revision = ?, {SET_CHECKSUM} WHERE {IS_PAIR}", (revision, after)
    )
