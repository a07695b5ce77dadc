"""A query bound to a snapshot and its scope there: what every way of searching needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from viking_kernels import find as kernel
from viking_kernels.arrays import F32, TEXTS, U8, RawQuery, Scope, Scratch

from vikingd.domain.errors import InvalidField, NotFound
from vikingd.domain.model import ContextType
from vikingd.domain.text import NONE, script_of
from vikingd.engine import Engine
from vikingd.index import where as filters
from vikingd.index.snapshot import Snapshot
from vikingd.index.tokens import QueryTerms, query_terms

LIGHT_TEXTS = 20000
"""A scope of so many texts is scored in less time than handing the work to a thread takes."""

LIGHT_LIMIT = 50
"""So many results are shown in little more time than handing the work to a thread takes."""

FILES_OF_A_TEXT = 4
"""So many files are filtered by a clause in the time in which a text is scored."""

ALL: U8 = np.zeros(0, np.uint8)
"""Nothing is forbidden."""

_NO_VECTOR: F32 = np.zeros(0, np.float32)
_TYPES = frozenset((ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL))


class Scoped(Protocol):
    """What queries have in common; checked."""

    @property
    def text(self) -> str:
        """The question; "": there is none."""

    @property
    def target_uri(self) -> str:
        """The scope's root."""

    @property
    def context_types(self) -> frozenset[ContextType]:
        """Empty: all."""

    @property
    def where(self) -> Mapping[str, Any] | None:
        """A filter over metadata."""


class Bound:
    """A query's snapshot, scope, terms and filters.

    Args:
        engine: holds the snapshot, which is all that the answer is made of.
        query: checked; its revision has been reached.
        snapshot: the one to answer from; None is the newest.

    Raises:
        NotFound: the target is not there.
        InvalidField: the target is a file, or `where` is malformed.
    """

    def __init__(self, engine: Engine, query: Scoped, snapshot: Snapshot | None = None) -> None:
        self.exhaustive_texts = engine.settings.exhaustive_texts
        self.where = filters.parse(query.where) if query.where else None
        self.snapshot = snapshot = snapshot or engine.snapshot
        root = snapshot.root(query.target_uri)
        if root is None:
            raise NotFound(query.target_uri)
        if root < 0:
            raise InvalidField("target_uri", "is a file, a directory is needed")
        self.scope: Scope
        self.scope, self.coded, self.means = snapshot.scope(root)
        self.text = query.text
        self.terms: QueryTerms = query_terms(query.text)
        self.identifiers = any(snapshot.has_term(key, self.scope) for key in self.terms.identifiers)
        self.types = query.context_types or _TYPES
        self.counts = snapshot.counts(root)

    @property
    def is_light(self) -> bool:
        """Whether the answer takes tens of microseconds and is best made where it stands."""
        tail = len(self.snapshot.tree.texts.directory) - self.scope.base_texts
        cost = int(self.counts[TEXTS]) + tail
        if self.where is not None:
            cost += self._filtering(filters.clauses(self.where))
        return cost <= LIGHT_TEXTS

    def _filtering(self, clauses: int) -> int:
        """The cost of so many clauses, in texts."""
        return clauses * len(self.snapshot.file_id) // FILES_OF_A_TEXT

    def script(self, vector: F32 | None) -> int:
        """The query's language: by its text, else that of the nearest mean."""
        mean = self.coded.raw
        if self.text or vector is None or len(vector) != mean.shape[1]:
            return script_of(self.text)
        lengths = np.linalg.norm(mean, axis=1)
        present = [m.script for m in self.means if lengths[m.script] > 0]
        if not present:
            return NONE
        return max(present, key=lambda s: float(mean[s] @ vector) / float(lengths[s]))

    def asked(self, vector: F32 | None, script: int, *, dense: bool, lexical: bool) -> RawQuery:
        """What the kernels are asked for; a vector that can't be compared with any is left out."""
        if vector is None or len(vector) != self.snapshot.dimension:
            vector = _NO_VECTOR  # or nothing has a vector yet, so none can be compared
        # A copy: for an array that must not be written to, numba would compile everything anew.
        return RawQuery(np.array(vector), script, dense, lexical and len(self.terms.hashes) > 0)

    def allowed(self, *, files: bool) -> U8:
        """uint8, one a file (or directory) of the scope, 0 where a filter forbids; or ALL."""
        snapshot, scope, where = self.snapshot, self.scope, self.where
        kind = int(snapshot.dir_type[scope.root])
        if where is None and ((files and self.types == _TYPES) or kind in self.types):
            return ALL
        rows = len(snapshot.file_id) if files else len(snapshot.dir_id)
        allowed = np.ones(rows, bool)
        if kind not in self.types or not files:
            type_allowed = np.isin(snapshot.dir_type, [int(t) for t in self.types])
            allowed = type_allowed[snapshot.tree.files.directory] if files else type_allowed
        if where is not None:
            columns = snapshot.file_columns if files else snapshot.dir_columns
            allowed = allowed & columns.mask(where, rows, snapshot.revision)
        low, high, base = (
            (scope.file_low, scope.file_high, scope.base_files)
            if files
            else (scope.dir_low, scope.dir_high, scope.base_dirs)
        )
        return np.concatenate([allowed[low:high], allowed[base:]]).astype(np.uint8)


_spare: list[Scratch] = []
"""Room that no query uses; the last that was given back is the likeliest to be in a cache still."""


def take_scratch(snapshot: Snapshot) -> Scratch:
    """Room for the scores of one query; `keep_scratch` gives it back when the query is done."""
    try:
        kept = _spare.pop()
    except IndexError:
        kept = None
    tree = snapshot.tree
    directories, files, texts = (
        len(tree.directories.tombstoned),
        len(tree.files.tombstoned),
        len(tree.texts.tombstoned),
    )
    if (
        kept is None
        or len(kept.dir_tf) < directories
        or len(kept.best) < files
        or len(kept.lexical) < texts
    ):
        kept = kernel.scratch(*(n + n // 4 + 1024 for n in (directories, files, texts)))
    return kept


def keep_scratch(scratch: Scratch) -> None:
    """For the next query; one that a query failed in is not used again."""
    _spare.append(scratch)
