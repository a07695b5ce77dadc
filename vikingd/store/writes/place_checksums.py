"""New checksums of contexts that are moved or get another revision, while their texts stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vikingd.domain.checksums import CONTEXT, context_checksum, renewed
from vikingd.store.connection import Connection

SET_CHECKSUM = "checksum = value FROM each_pair(?) AS pair"
"""The end of the SET list of an UPDATE; its parameter is the result of `checksums_after`."""

IS_PAIR = "contexts.id = CAST(pair.key AS BIGINT)"
"""The condition of an UPDATE with SET_CHECKSUM: each context gets its own checksum."""


class Place(NamedTuple):
    """The columns that `context_checksum` covers: the place in the tree, the revision and times."""

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
    """Return the checksums that contexts will have after a change; nothing is written.

    If the present checksum of a context is wrong, so is the new one, so that damage stays visible.

    Args:
        db: a connection to the store.
        condition: SQL of a WHERE clause that selects the contexts.
        values: the parameters of the condition.
        change: returns the columns of a context after the change.

    Returns:
        A JSON object of checksums by context id, which is the parameter of SET_CHECKSUM.
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
    """Set the revision of contexts, and update their checksums."""
    ids = (json.dumps(context_ids),)
    condition = "id IN (SELECT value FROM each_id(?))"
    after = checksums_after(db, condition, ids, lambda old: old._replace(revision=revision))
    db.execute(
        f"UPDATE contexts SET revision = ?, {SET_CHECKSUM} WHERE {IS_PAIR}", (revision, after)
    )
