"""The settings of the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Interval


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The section [index] of the configuration.

    The mutable segment is compacted into the immutable one when both limits are reached. A new or
    changed directory or context counts as one text.

    Attributes:
        compact_min: texts in the mutable segment.
        compact_ratio: texts in the mutable segment for each text in the immutable one.
        ivf_rows: vectors from which an immutable segment gets an inverted file.
    """

    compact_min: Annotated[int, Interval(ge=1)] = 4096
    compact_ratio: Annotated[float, Gt(0)] = 0.25
    ivf_rows: Annotated[int, Interval(ge=1)] = 200_000
