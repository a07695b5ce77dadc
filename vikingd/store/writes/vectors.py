"""Writes of vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from vikingd.domain.changes import Committed, Filled
from vikingd.domain.uri import subtree_bounds
from vikingd.store.reads.backlog import invalidate_digests
from vikingd.store.reads.contexts import AFTER
from vikingd.store.rows import upserts
from vikingd.store.writes.transaction import Transaction

_VECTORS = """
SELECT uri, texts.id, context_id FROM contexts JOIN texts ON context_id = contexts.id
WHERE tenant = 'default' AND uri >= ? AND uri < ? AND embeddable = 1 AND vector IS NOT NULL
ORDER BY uri LIMIT ?
"""
_MOST_VECTORS = 8192  # more than one context has


def fill(
    work: Transaction,
    vectors: Sequence[tuple[int, bytes]],
    digests: Mapping[int, bytes],
    meta: Mapping[str, bytes],
) -> Committed:
    """Write the vectors of texts by text id, except of texts that are gone or have a vector."""
    for i, (_, vector) in enumerate(vectors):
        work.check_vector(vector, f"vectors[{i}]")
    db = work.use_tables()
    rows = db.execute(
        "SELECT id FROM texts WHERE id IN (SELECT value FROM each_id(?)) AND vector IS NULL",
        (json.dumps([text_id for text_id, _ in vectors]),),
    )
    waiting = {text_id for (text_id,) in rows}
    filled = {text_id: vector for text_id, vector in vectors if text_id in waiting}
    db.executemany(
        "UPDATE texts SET vector = ?, vector_revision = ?, digest = ? WHERE id = ?",
        [
            (vector, work.revision, digests.get(text_id), text_id)
            for text_id, vector in filled.items()
        ],
    )
    db.set_meta(meta)
    work.emit(*(Filled(text_id, vector) for text_id, vector in filled.items()))
    return Committed(work.revision, count=len(filled))


def drop_vectors(work: Transaction, uri: str, after: str = "") -> Committed:
    """Remove the vectors of embeddable texts in one part of a subtree; see `Store.drop_vectors`."""
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
    db.executemany(
        "UPDATE texts SET vector = NULL, vector_revision = NULL, digest = NULL WHERE id = ?",
        [(text_id,) for _, text_id, _ in rows],
    )
    invalidate_digests(db)
    context_ids = dict.fromkeys(context_id for _, _, context_id in rows)
    db.executemany(
        "UPDATE contexts SET revision = ? WHERE id = ?",
        [(work.revision, context_id) for context_id in context_ids],
    )
    work.known.clear()
    work.emit(*upserts(db, context_ids))
    return Committed(work.revision, count=len(rows), last=last)
