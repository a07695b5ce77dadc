"""The protocol of rerankers, how they fail, and what scores are made of theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

DOUBAO = "doubao-seed-rerank"
"""The model at Volcengine unless another is set."""


class RerankFailed(Exception):
    """There are no scores; the text says why, for people, without a secret."""


class Overloaded(RerankFailed):
    """The server asked to be left alone.

    Attributes:
        pause: seconds for which it did.
    """

    def __init__(self, message: str, pause: float) -> None:
        super().__init__(message)
        self.pause = pause


class Reranker(Protocol):
    """Reads documents beside a query; used from one event loop."""

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """What the model gave each document, in the documents' order; any number.

        Raises:
            RerankFailed: with what it did, for a sentence that begins with its name.
        """

    async def close(self) -> None:
        """Lets go of connections and threads."""


def probabilities(raw: Sequence[float], scores: str) -> list[float]:
    """Scores in [0, 1]: "probability" as they are, "logit" by 1 / (1 + exp(-x)).

    Raises:
        RerankFailed: one is not finite, or no probability.
    """
    return [_probability(number, scores) for number in raw]


def _probability(number: float, scores: str) -> float:
    if not math.isfinite(number):
        raise RerankFailed("gave a score that is NaN or infinite")
    if scores == "logit":
        # exp of what is not positive can't overflow.
        small = math.exp(-abs(number))
        return (1.0 if number >= 0 else small) / (1 + small)
    if not 0 <= number <= 1:
        raise RerankFailed(
            f'gave the score {number:g}, which is no probability: set its scores to "logit"'
        )
    return number
