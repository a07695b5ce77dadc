"""The protocol of rerankers, their error, and the conversion of scores to [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

DOUBAO = "doubao-seed-rerank"
"""The default model at Volcengine."""


class RerankFailed(Exception):
    """A call gave no scores.

    The message continues a sentence that begins with "The reranker": "answers 503". It has no keys.

    Args:
        brief: the message without the server's own words.
        pause: seconds that the server asked to wait; None: it did not ask.
        said: the server's words. They may quote the texts of the call, so only its caller may see
            them.
    """

    def __init__(self, brief: str, pause: float | None = None, said: str = "") -> None:
        super().__init__(f"{brief}: {said}" if said else brief)
        self.brief = brief
        self.pause = pause
        self.said = said


class Reranker(Protocol):
    """Scores documents for a query; used from one event loop."""

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return the raw score of each document, in their order.

        Raises:
            RerankFailed: there are no scores.
        """

    async def close(self) -> None:
        """Close connections and end threads."""


def probability(number: float, scores: str) -> float:
    """Convert a raw score to [0, 1]: a probability stays, a logit becomes 1 / (1 + exp(-x)).

    Raises:
        RerankFailed: the score is not finite, or is no probability although it should be.
    """
    if not math.isfinite(number):
        raise RerankFailed("gave a score that is NaN or infinite")
    if scores == "logit":
        # exp of a number up to 0 cannot overflow.
        small = math.exp(-abs(number))
        return (1.0 if number >= 0 else small) / (1 + small)
    if not 0 <= number <= 1:
        raise RerankFailed(
            f'gave the score {number:g}, which is no probability: set its scores to "logit"'
        )
    return number
