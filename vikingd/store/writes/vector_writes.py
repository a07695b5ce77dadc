"""Writes of vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from vikingd.domain.checksums import vector_checksum
from vikingd.domain.store_changes import Committed, Filled
from vikingd.domain.uri import subtree_bounds
from vikingd.store.checked_rows import vector_damage
from vikingd.store.reads.backlog import invalidate_digests
from vikingd.store.reads.context_reads import AFTER
from vikingd.store.rows import upserts
from vikingd.store.writes.place_checksums import set_revision
from vikingd.store.writes.transaction import Transaction

_VECTORS = """
SELECT uri, texts.id, context_id FROM contexts JOIN texts ON context_id = contexts.id
WHERE tenant = 'default' AND uri >= ? AND uri < ? AND embeddable > 0 AND vector IS NOT NULL
ORDER BY uri LIMIT ?
"""
_ROWS = """
SELECT id, context_id, vector_checksum, vector_revision, digest, vector FROM texts
WHERE id IN (SELECT value FROM each_id(?))
"""
_MOST_VECTORS = 8192  # more texts than one context has


def fill(
    work: Transaction,
    vectors: Sequence[tuple[int, bytes]],
    digests: Mapping[int, bytes],
    meta: Mapping[str, bytes],
) -> Committed:
    """Write vectors of texts by text id; skip texts that are gone or have a vector."""
    for i, (_, vector) in enumerate(vectors):
        work.check_vector(vector, f"vectors[{i}]")
    db = work.use_tables()
    rows = db.execute(
        "SELECT id FROM texts WHERE id IN (SELECT value FROM each_id(?)) AND vector IS NULL",
        (json.dumps([text_id for text_id, _ in vectors]),),
    )
    waiting = {text_id for (text_id,) in rows}
    filled = {text_id: vector for text_id, vector in vectors if text_id in waiting}
    revision, rows_to_write = work.revision, []
    for text_id, vector in filled.items():
        digest = digests.get(text_id)
        made = vector_checksum(text_id, revision, digest, vector)
        rows_to_write.append((vector, revision, digest, made, text_id))
    db.executemany(
        "UPDATE texts SET vector = ?, vector_revision = ?, digest = ?, vector_checksum = ? "
        "WHERE id = ?",
        rows_to_write,
    )
    db.set_meta(meta)
    work.emit(*(Filled(text_id, vector) for text_id, vector in filled.items()))
    return Committed(work.revision, count=len(filled))


def drop_vectors(work: Transaction, uri: str, after: str = "") -> Committed:
    """Remove the vectors of texts that the embedder can embed again, in one part of a subtree.

    See `WritableStore.drop_vectors`.
    """
    work.get(uri)
    db = work.use_tables()
    low, high = subtree_bounds(uri)
    rows = [] if after else db.execute(_VECTORS, (uri, uri + AFTER, _MOST_VECTORS)).fetchall()
    rows += db.execute(_VECTORS, ((after or low) + AFTER, high, _MOST_VECTORS)).fetchall()
    last = ""
    if len(rows) >= _MOST_VECTORS:  # texts of the last context may be missing
        end, *_ = rows[-1]
        rows = [row for row in rows if row[0] != end]
        last, *_ = rows[-1]
    context_ids = list(dict.fromkeys(context_id for _, _, context_id in rows))
    _drop(work, [text_id for _, text_id, _ in rows], context_ids)
    return Committed(work.revision, count=len(rows), last=last)


def drop_damaged(work: Transaction, text_ids: Sequence[int]) -> Committed:
    """Remove the damaged vectors of these texts, so that the texts are embedded again."""
    db = work.use_tables()
    rows = db.execute(_ROWS, (json.dumps(text_ids),))
    damaged: dict[int, int] = {
        text_id: context_id
        for text_id, context_id, *row in rows
        if vector_damage(text_id, row, work.dimension)
    }
    if damaged:
        _drop(work, list(damaged), list(dict.fromkeys(damaged.values())))
    return Committed(work.revision, count=len(damaged))


def _drop(work: Transaction, text_ids: Sequence[int], context_ids: Sequence[int]) -> None:
    """Remove vectors, give their contexts a new revision, and record the change for the index."""
    db = work.use_tables()
    db.executemany(
        "UPDATE texts SET vector = NULL, vector_revision = NULL, digest = NULL, "
        "vector_checksum = NULL WHERE id = ?",
        [(text_id,) for text_id in text_ids],
    )
    invalidate_digests(db)
    set_revision(db, context_ids, work.revision)
    work.known.clear()
    work.emit(*upserts(db, context_ids, lambda _: None))
