"""A query with the snapshot and the scope that it searches, and the readable parts of its target.

A caller may be allowed to read only some subtrees of the target. Each is a scope of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from viking_kernels import find as kernel
from viking_kernels.arrays import F32, I64, TEXTS, U8, RawQuery, Scope, Terms, is_file

from vikingd.domain import uri as uris
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField, NotFound
from vikingd.domain.find_query import FindQuery
from vikingd.domain.retrieve_query import RetrieveQuery
from vikingd.domain.rights import Caller
from vikingd.domain.text import NONE, lazy, script_of
from vikingd.domain.vector_products import products
from vikingd.engine import Engine
from vikingd.index.lexicon.tokens import QueryTerms, definition_terms, query_terms
from vikingd.index.metadata import metadata_filters as filters
from vikingd.index.snapshot import Snapshot
from vikingd.plan.query_text import asked_definition

_FILES_OF_A_TEXT = 4  # files that a clause filters in the time of scoring one text

_DEFINES = lazy(r"\b(?:defin|declar|implement)|定义|声明|实现", re.IGNORECASE)

_Query = TypeVar("_Query", FindQuery, RetrieveQuery)

_NO_VECTOR: F32 = np.zeros(0, np.float32)
_TYPES = frozenset((ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL))


class QueryScope:
    """A query's snapshot, scope, terms and filters.

    Args:
        snapshot: the index that answers; the answer depends on the snapshot and the query alone.
        query: the checked query.
        exhaustive_texts: the most texts of a scope that is scored without an approximation.

    Raises:
        NotFound: the target does not exist.
        InvalidField: the target is a file, or `where` is malformed.
    """

    def __init__(
        self, snapshot: Snapshot, query: FindQuery | RetrieveQuery, exhaustive_texts: int
    ) -> None:
        self.exhaustive_texts = exhaustive_texts
        self.where = filters.parse(query.where) if query.where else None
        self.snapshot = snapshot
        self.arrays = snapshot.tree, snapshot.vectors, snapshot.stats  # as kernels take them
        root = snapshot.root(query.target_uri)
        if root is None:
            raise NotFound(query.target_uri)
        if is_file(root):
            raise InvalidField("target_uri", "is a file, a directory is needed")
        top = 0 if query.within == uris.ROOT else snapshot.root(query.within)
        assert top is not None, "it holds the target"
        self.reads_all = top == 0
        self.scope: Scope
        self.scope, self.coded, self.means = snapshot.scope(root, top)
        self.text = query.text
        self.terms: QueryTerms = self._defined() or query_terms(query.text)
        self.identifiers = any(snapshot.has_term(key, self.scope) for key in self.terms.identifiers)
        self.types = query.context_types or _TYPES
        self.counts = snapshot.counts(root)

    @property
    def cost(self) -> int:
        """The estimated work of the answer: the number of texts that can be scored in its time."""
        tail = len(self.snapshot.tree.texts.directory) - self.scope.base_texts
        cost = self._scored() + tail
        if self.where is not None:
            cost += filters.clauses(self.where) * len(self.snapshot.file_id) // _FILES_OF_A_TEXT
        return cost

    def _defined(self) -> QueryTerms | None:
        """Return the terms for the definition that a query asks for, such as "def get".

        If the scope does not have it, but uses the name, and the query speaks of a definition, the
        terms are those of an identifier such as `get_user`, without the words of the question.
        Return None for any other query: "where is NASA located" is about a place.
        """
        names = asked_definition(self.text)
        for terms in map(definition_terms, names):
            if self.snapshot.has_term(terms.identifiers[0], self.scope):
                return terms
        if not names or not _DEFINES.search(self.text):
            return None
        for terms in map(query_terms, names):
            if any(self.snapshot.has_term(key, self.scope) for key in terms.identifiers):
                return terms
        return None

    def _scored(self) -> int:
        """Return the approximate number of texts that are scored, without those of the tail."""
        return int(self.counts[TEXTS])

    @cached_property
    def postings(self) -> Terms:
        """The postings of the query's terms."""
        return self.snapshot.terms(self.terms.hashes, self.terms.weights)

    def script(self, vector: F32 | None) -> int:
        """Return the script of the query's text; without text, that of the nearest centroid."""
        mean = self.coded.raw
        if self.text or vector is None or len(vector) != mean.shape[1]:
            return script_of(self.text)
        lengths = np.sqrt(products(mean, mean))
        present = [m.script for m in self.means if lengths[m.script] > 0]
        if not present:
            return NONE
        dots = products(mean, vector)
        return max(present, key=lambda s: float(dots[s] / lengths[s]))

    def asked(self, vector: F32 | None, script: int, *, dense: bool, lexical: bool) -> RawQuery:
        """Return the query for the kernels.

        The vector is left out if its dimension is not that of the snapshot, so that it fits no
        text. Without a vector only words can answer, so texts in all scripts are compared by them:
        "docker" finds a page in Chinese that has this word.
        """
        if vector is None or len(vector) != self.snapshot.dimension:
            vector = _NO_VECTOR  # before the first vector, the snapshot has no dimension
            usual = _NO_VECTOR
            script = NONE
        else:
            usual = self.snapshot.prior[script]
        # A copy: numba would compile all kernels again for an array that is read-only.
        lexical = lexical and len(self.terms.hashes) > 0
        return RawQuery(np.array(vector), script, dense, lexical, self.coded, np.array(usual))

    def allowed(self, *, files: bool) -> U8:
        """Return uint8 [files or directories of the scope]: 1 if the filters allow the row, else 0.

        If the filters allow all rows, the result may be the empty array `ALL_FILES`.
        """
        snapshot, where = self.snapshot, self.where
        kind = int(snapshot.dir_type[self.scope.root])
        if where is None and ((files and self.types == _TYPES) or kind in self.types):
            return kernel.ALL_FILES
        rows = len(snapshot.file_id) if files else len(snapshot.dir_id)
        allowed = np.ones(rows, bool)
        if kind not in self.types or not files:
            type_allowed = np.isin(snapshot.dir_type, [int(t) for t in self.types])
            allowed = type_allowed[snapshot.tree.files.directory] if files else type_allowed
        if where is not None:
            columns = snapshot.file_columns if files else snapshot.dir_columns
            allowed = allowed & columns.mask(where, rows, snapshot.revision)
        low, high, base = self.ends(files=files)
        return np.concatenate([allowed[low:high], allowed[base:]]).astype(np.uint8)

    def ends(self, *, files: bool) -> tuple[int, int, int]:
        """Return (low, high, base) of the rows of the scope.

        The scope has the rows [low, high) of the base, and some rows of the tail, which begins at
        row `base`. `place` and `row_at` of the kernels take these three as their last arguments.
        """
        scope = self.scope
        if files:
            return scope.file_low, scope.file_high, scope.base_files
        return scope.dir_low, scope.dir_high, scope.base_dirs

    def rows(self, *, files: bool) -> I64:
        """Return the rows of the arrays of the scope, in rising order."""
        low, high, base = self.ends(files=files)
        count = len(self.snapshot.file_id if files else self.snapshot.dir_id)
        return np.concatenate([np.arange(low, high), np.arange(base, count)])


def note_on_waiting(engine: Engine, snapshot: Snapshot, scopes: Iterable[QueryScope]) -> Degraded:
    """Return a note on the texts of the scopes that wait for their vectors; () if none waits."""
    if not snapshot.waiting or engine.embedding.query_embedder is None:
        return ()
    count = sum(snapshot.waiting_below(scope.scope.root) for scope in scopes)
    if not count:
        return ()
    detail = (
        f"{count:,} text{' waits for its vector' if count == 1 else 's wait for their vectors'}: "
        "until then words alone find them"
    )
    return (Degradation(DegradationReason.VECTORS_PENDING, detail),)


def parts_of(query: _Query, caller: Caller, snapshot: Snapshot) -> list[_Query]:
    """Return the query once for each readable part of its target, in the order of URIs.

    If the caller may read the whole target, it is the only part, even if it does not exist. Else
    parts that do not exist and parts that are files are left out.

    Raises:
        NotFound: nothing readable exists below a target other than the root.
        InvalidField: `where` is malformed.
    """
    within = caller.readable_above(query.target_uri)
    if within is not None:
        return [query if within == uris.ROOT else replace(query, within=within)]
    if query.where:
        filters.parse(query.where)  # its error comes before that of a missing target
    roots = [(part, snapshot.root(part)) for part in caller.parts(query.target_uri)]
    found = [(part, root) for part, root in roots if root is not None]
    if not found and query.target_uri != uris.ROOT:
        raise NotFound(query.target_uri)
    return [
        replace(query, target_uri=part, within=part) for part, root in found if not is_file(root)
    ]
