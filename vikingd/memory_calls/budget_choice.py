"""The choice of the best texts that fit into a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def within_budget(
    texts: Iterable[_T], tokens_of: Callable[[_T], int], budget: int, limit: int, skip: bool
) -> Iterator[tuple[_T, bool]]:
    """Yield (text, True if it fits) until the choice ends; later texts are not read.

    Args:
        texts: best first; `tokens_of` returns the tokens of one.
        budget: the most tokens of all chosen texts together.
        limit: the largest number of chosen texts.
        skip: continue after a text that does not fit; without it the choice ends there.
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
