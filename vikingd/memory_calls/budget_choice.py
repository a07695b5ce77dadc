"""The choice of the best texts that fit into a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def within_budget(
    texts: Iterable[_T], tokens_of: Callable[[_T], int], budget: int, limit: int, skip: bool
) -> Iterator[tuple[_T, bool]]:
    """Yield texts and whether they fit; it reads no further than it must.

    Args:
        texts: best first; `tokens_of` returns the tokens of one.
        budget: tokens of the chosen texts together, at most.
        limit: chosen texts, at most.
        skip: go on after a text that does not fit; else the choice ends there.
    """
    taken = 0
    for text in texts:
        tokens = tokens_of(text)
        fits = tokens <= budget
        yield text, fits
        if fits:
            budget -= tokens
            taken += 1
        if taken == limit or not (fits or skip):
            return
