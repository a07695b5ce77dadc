"""The state of a store in its table `meta`: revision, model, dimension, and its last end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import NoneType
from typing import Any

from vikingd.domain.errors import StoreMismatch
from vikingd.domain.uri import ROOT
from vikingd.store.connection import Connection
from vikingd.store.damage import store_damaged
from vikingd.store.reads.empties import EMPTY_DIRECTORY

CLEAN = "store.clean"
"""The key of the flag that is 1 after a clean end of the last writer, else 0."""

_ROOT_ROW = """
INSERT INTO contexts (id, uri, is_directory, revision, content_hash, time, created_at, updated_at,
    title, abstract, metadata, overview, content)
VALUES ((SELECT coalesce(max(id), 0) + 1 FROM contexts), ?1, 1, 1, ?2, ?3, ?3, ?3, '', '', '{}',
    '', '')
"""
_TOUCH_WITH_VECTOR = """
UPDATE contexts SET revision = ?
WHERE id IN (SELECT context_id FROM texts WHERE vector IS NOT NULL)
"""
_DROP_VECTORS = (
    "UPDATE texts SET vector = NULL, vector_revision = NULL, digest = NULL WHERE vector NOTNULL"
)
_ANY_VECTOR = "SELECT 1 FROM texts WHERE vector IS NOT NULL LIMIT 1"


def adopt(
    db: Connection, model: str, dimension: int | None, *, reembed: bool
) -> tuple[int, int | None, bool]:
    """Set up a store for a model; a new store gets its root.

    Writes nothing if nothing changes, so that a store on a full disk can be opened.

    Returns:
        (revision, numbers in a vector or None until the first one, whether the last writer came to
        a clean end).

    Raises:
        StoreMismatch: the store has vectors of another model, and `reembed` is not set.
        StoreDamaged: the state has a value of a wrong type.
    """
    stored = db.get_state()
    statements: list[tuple[str, tuple[object, ...]]] = []
    state = dict(stored)
    if not state:
        statements.append(root())
        state = {"store.revision": 1, "store.forgotten": 0, "store.linked": 0, "store.model": model}
    _check_types(state)
    revision: int = state["store.revision"]
    old_model, old_dimension = state["store.model"], state.get("store.dimension")
    if fits(state, model, dimension):
        dimension = dimension or old_dimension
    elif reembed:
        revision += 1
        statements += [(_TOUCH_WITH_VECTOR, (revision,)), (_DROP_VECTORS, ())]
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
            for sql, values in statements:
                db.execute(sql, values)
            db.set_meta(state)
    return revision, dimension, bool(state[CLEAN])


def root() -> tuple[str, tuple[object, ...]]:
    """Return the statement that makes the root of a new store, with its values."""
    return _ROOT_ROW, (ROOT, EMPTY_DIRECTORY, time.time_ns() // 1000)


def fits(state: Mapping[str, Any], model: str, dimension: int | None) -> bool:
    """Return whether the vectors of a store are of this model and dimension."""
    old_model, old_dimension = state["store.model"], state.get("store.dimension")
    return old_model == model and (dimension is None or old_dimension in (None, dimension))


def describe_model(model: str, dimension: int | None) -> str:
    """Return the name of a model with its dimension, for messages."""
    return f"{model} ({dimension or 'unknown'} dimensions)"


def _check_types(state: Mapping[str, Any]) -> None:
    """Raise StoreDamaged if a value of the state has a wrong type."""
    kinds = {"revision": int, "forgotten": int, "model": str}
    wrong = [key for key, kind in kinds.items() if type(state.get(f"store.{key}")) is not kind]
    if type(state.get("store.dimension")) not in (int, NoneType):
        wrong.append("dimension")
    if wrong:
        raise store_damaged(f"its table meta has no valid {', '.join(wrong)}")
