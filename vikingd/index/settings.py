"""The settings of the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Interval


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The section [index] of the configuration.

    A compaction starts when the tail reaches both limits. A new or changed directory or context
    counts as one text.
    """

    compact_min: Annotated[int, Interval(ge=1)] = 4096  # changed texts in the tail
    compact_ratio: Annotated[float, Gt(0)] = 0.25  # the same, divided by the texts of the base
    # A base with at least this number of vectors gets an inverted file.
    ivf_rows: Annotated[int, Interval(ge=1)] = 200_000
