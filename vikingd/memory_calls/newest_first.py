"""The order of recalled memories that speak of the same thing: the newest comes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from viking_kernels.arrays import F32

from vikingd.domain.vector_products import products

SAME_THING = 0.45
"""The least cosine of two memories about the same thing, after centring by their language."""

NEARLY = 0.8
"""The least score of the newer memory, as a share of the older one's score."""


def newest_first(scores: Sequence[float], times: Sequence[int | None], vectors: F32) -> list[int]:
    """Return the indices of all memories in a new order: of one subject the newest comes first.

    A memory is placed directly before the first older memory that is about the same thing, unless
    the older one scores much higher. So the present state of a fact comes before its past states.

    Args:
        scores: [n] of the memories, best first.
        times: [n] the time when each was last said; None: unknown, so it is not compared.
        vectors: [n, dim] the vectors less the centroid of their language, not normalised; zeros for
            a memory without a vector.
    """
    lengths = np.maximum(np.sqrt(products(vectors, vectors)), 1e-6)
    units = (vectors / lengths[:, None]).astype(np.float32)
    order: list[int] = []
    for i, time in enumerate(times):
        older = [
            at
            for at, j in enumerate(order)
            if time is not None
            and (other := times[j]) is not None
            and other < time
            and scores[i] >= NEARLY * scores[j]
        ]
        place = len(order)
        if older:
            near = products(units[[order[at] for at in older]], units[i]) >= SAME_THING
            place = next((at for at, is_near in zip(older, near, strict=True) if is_near), place)
        order.insert(place, i)
    return order
