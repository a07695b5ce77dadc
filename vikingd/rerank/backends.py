"""The protocol of rerankers, how they fail, and the one place that opens them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from vikingd.rerank.settings import BackendSettings

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


def open_backend(settings: BackendSettings) -> Reranker:
    """Builds what the settings name; only its own libraries are imported.

    Raises:
        RerankFailed: it can't work here; the message says what to do.
    """
    if settings.kind == "onnx":
        try:
            from vikingd.rerank.local import CrossEncoder
        except ImportError as error:
            raise RerankFailed(
                f"{error.name} is not installed; install it with: pip install 'vikingd[onnx]'"
            ) from None
        return CrossEncoder(settings)
    from vikingd.rerank.endpoint import Endpoint

    return Endpoint(settings)


def backend_name(settings: BackendSettings) -> str:
    """What it is called in replies, logs and metrics: "kind/model"."""
    model = settings.model or {
        "http": settings.form,
        "volcengine": DOUBAO,
        "onnx": settings.path.rstrip("/").rpartition("/")[2],
    }.get(settings.kind, "")
    return f"{settings.kind}/{model}"


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
