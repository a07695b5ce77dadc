"""The cap of the node scores of texts in another script than the query's.

The words of such a text can't be compared with the query's words, so only its dense score counts.
Dense scores are mostly higher than lexical scores, and the node score of a text in the query's own
script is the mean of both. So a text in another script would come before the best answer in the
query's own script. The best node score in the query's own script is therefore a cap for the others:

    node score = max(OTHER_SCRIPT * dense, min(dense, cap - slope * (1 - dense)))

The slope is small and keeps the order by dense at the cap. A lower dense score does not change. A
text in another script with a dense score above cap / OTHER_SCRIPT still comes first.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import COUNTS, SCRIPTS, TEXTS, Search
from viking_kernels.node_scores import script_mismatch, text_score
from viking_kernels.scope import row_at
from viking_kernels.select import lowest, mask_above, push_smallest
from viking_kernels.simd_scores import GROUP

BEST_BY_WORDS = 64
"""Texts with the best lexical scores, which are scored before all others."""


@njit
def other_script_cap(search: Search) -> float:
    """Return the best node score of the texts in the query's script that match its words best.

    The BEST_BY_WORDS texts with the highest lexical scores (scratch.lexical) are scored, except
    texts that tie with the next text, so that the order of the rows does not matter. The cap is
    infinite if no text has a term of the query, or if no text of the scope is in another script.
    """
    query, scope, lexical = search.query, search.scope, search.scratch.lexical
    if not (query.use_dense and query.use_lexical) or not _has_other_script(search):
        return np.inf
    size = scope.text_high - scope.text_low
    size += search.tree.texts.tombstoned.shape[0] - scope.base_texts
    top = np.empty(BEST_BY_WORDS + 1, np.float32)
    held = np.int64(0)
    limit = np.float32(0)
    cap = np.inf
    for scores in (False, True):  # the first pass finds the limit
        for first in range(0, size, GROUP):
            mask = mask_above(lexical, first, size, limit)
            while mask != 0:
                at = first + lowest(mask)
                mask &= mask - 1
                row = row_at(at, scope.text_low, scope.text_high, scope.base_texts)
                if script_mismatch(np.int64(search.tree.texts.script[row]), query.script):
                    continue
                if scores:
                    score = text_score(row, search)
                    cap = score if cap == np.inf else max(cap, score)
                elif lexical[at] > limit:
                    held = push_smallest(top, held, lexical[at])
                    if held == top.shape[0]:
                        limit = top[0]
    return cap


@inlined
def _has_other_script(search: Search) -> bool:
    """Return True if a text of the scope is in another script than the query."""
    counts, script = search.stats.counts, search.query.script
    slot = search.stats.slot[search.scope.root]
    same = counts[slot, COUNTS - SCRIPTS] + counts[slot, COUNTS - SCRIPTS + script]
    return script != 0 and same < counts[slot, TEXTS]
