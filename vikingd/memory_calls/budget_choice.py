"""The choice of the best texts that fit into a budget of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def within_budget(
    texts: Iterable[_T], tokens_of: Callable[[_T], int], budget: int, limit: int, skip: bool
) -> Iterator[tuple[_T, bool]]:
    """Choose the best texts within a budget; yield (text, True if it is chosen) for each text read.

    The choice ends at `limit` chosen texts. Texts after the end are not read.

    Args:
        texts: the texts, best first.
        tokens_of: returns the number of tokens of a text.
        budget: the most tokens of all chosen texts together.
        limit: the most chosen texts.
        skip: True: continue after a text that does not fit. False: end there.
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
