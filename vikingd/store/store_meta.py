"""The state of a store in its table `meta`.

The state is the revision, the embedding model, the dimension of its vectors, and whether the last
writer closed the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from vikingd.domain.checksums import CONTENT, CONTEXT, content_checksum, context_checksum
from vikingd.domain.errors import StoreMismatch
from vikingd.domain.uri import ROOT
from vikingd.store.connection import Connection
from vikingd.store.reads.empty_directories import EMPTY_DIRECTORY
from vikingd.store.writes.place_checksums import set_revision

CLEAN = "store.clean"
"""The key of the flag that is 1 after a clean end of the last writer, else 0."""

_ROOT_COLUMNS = f"{CONTEXT}, {CONTENT}, checksum, content_checksum"
_WITH_VECTOR = """
SELECT DISTINCT context_id FROM texts WHERE vector IS NOT NULL AND context_id > ?
ORDER BY context_id LIMIT ?
"""
_DROP_VECTORS = """
UPDATE texts SET vector = NULL, vector_revision = NULL, digest = NULL, vector_checksum = NULL
WHERE vector NOTNULL
"""
_STEP = 1000  # contexts
_ANY_VECTOR = "SELECT 1 FROM texts WHERE vector IS NOT NULL LIMIT 1"


def adopt(
    db: Connection, model: str, dimension: int | None, *, reembed: bool
) -> tuple[int, int | None, bool]:
    """Prepare a store for use with an embedding model; create the root in a new store.

    Writes nothing if nothing changes, so that a store on a full disk can be opened.

    Returns:
        (revision; dimension of the vectors, None before the first one; True if the last writer
        closed the store).

    Raises:
        StoreMismatch: the store has vectors of another model, and `reembed` is not set.
        StoreDamaged: the state has a value of a wrong type.
    """
    stored = db.get_state()
    steps: list[Callable[[], object]] = []
    state = dict(stored)
    if not state:
        steps.append(lambda: make_root(db))
        state = {"store.revision": 1, "store.forgotten": 0, "store.linked": 0, "store.model": model}
    revision: int = state["store.revision"]
    old_model, old_dimension = state["store.model"], state.get("store.dimension")
    if fits(state, model, dimension):
        dimension = dimension or old_dimension
    elif reembed:
        revision += 1
        steps.append(lambda: _drop_vectors(db, revision))
    elif old_model != "none" or db.execute(_ANY_VECTOR).fetchone():
        raise StoreMismatch(
            f"the store has vectors of {describe_model(old_model, old_dimension)}, the "
            f"configuration says {describe_model(model, dimension)}: configure the former, or run "
            "`vikingd serve --reembed` to drop the vectors and embed all texts again"
        )
    state.setdefault("store.linked", revision)
    state.setdefault(CLEAN, 0 if stored else 1)
    state |= {"store.revision": revision, "store.model": model, "store.dimension": dimension}
    if state != stored:
        with db.transaction():
            for step in steps:
                step()
            db.set_meta(state)
    return revision, dimension, bool(state[CLEAN])


def make_root(db: Connection) -> None:
    """Insert the root directory of a new store."""
    (root_id,) = db.execute("SELECT coalesce(max(id), 0) + 1 FROM contexts").fetchone()
    now = time.time_ns() // 1000
    place = (root_id, ROOT, None, 1, 1, EMPTY_DIRECTORY, now, now, now)
    content = ("", "", "{}", "", "")
    values = (*place, *content, context_checksum(*place), content_checksum(root_id, 0, *content))
    places = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO contexts ({_ROOT_COLUMNS}) VALUES ({places})", values)


def _drop_vectors(db: Connection, revision: int) -> None:
    """Delete all vectors; each context that had one gets this revision."""
    last = 0
    while rows := db.execute(_WITH_VECTOR, (last, _STEP)).fetchall():
        ids = [context_id for (context_id,) in rows]
        set_revision(db, ids, revision)
        last = ids[-1]
    db.execute(_DROP_VECTORS)


def fits(state: Mapping[str, Any], model: str, dimension: int | None) -> bool:
    """Return True if the vectors of a store are of this model and dimension."""
    old_model, old_dimension = state["store.model"], state.get("store.dimension")
    return old_model == model and (dimension is None or old_dimension in (None, dimension))


def describe_model(model: str, dimension: int | None) -> str:
    """Return a model's name with its dimension, for messages."""
    return f"{model} ({dimension or 'unknown'} dimensions)"
