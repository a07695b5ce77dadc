"""The share of a query's terms that a scope has at all."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import Scope, Terms, Tree
from viking_kernels.bm25 import lower_bound, postings
from viking_kernels.scope import directory_inside, tail_directories


@njit
def known_share(tree: Tree, scope: Scope, terms: Terms) -> float:
    """Return the share of the query's n terms that a living text of the scope has, in [0, 1].

    It is 0 for a query without terms. Titles count as a part of their texts.
    """
    texts = tree.texts
    inside = tail_directories(tree.directories, scope)
    n = terms.weight.shape[0]
    known = 0
    for i in range(n):
        found = False
        first, last = postings(terms, i)
        low = lower_bound(terms.base_text, first, last, scope.text_low)
        for p in range(low, last):
            row = np.int64(terms.base_text[p])
            if row >= scope.text_high:
                break
            if texts.tombstoned[row] > scope.revision:
                found = True
                break
        if not found:
            for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
                row = np.int64(terms.tail_text[p])
                if texts.tombstoned[row] > scope.revision and directory_inside(
                    texts.directory[row], inside, scope
                ):
                    found = True
                    break
        known += np.int64(found)
    return known / max(1, n)
