"""The protocol of embedding providers, its errors, and the checks of texts and vectors."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vikingd.domain.errors import EmbedderFailed, EmbedderRefused

MAX_QUERY_CHARS = 2000
"""The most characters of a query, about one window of a small model; the rest is cut."""

MAX_DOCUMENT_CHARS = 4000

PROBE = "A text that any model can embed."
"""A text that tells a fault of one text from a fault of the provider.

It is embedded after a failure. An endpoint may answer 400 for a bad text as well as for an unknown
model or an unpaid account.
"""

Vectors = NDArray[np.float32]


class EmbedderUnreachable(EmbedderFailed):
    """No text can be embedded now: the endpoint is down or overloaded, or no model is loaded."""


class EmbedderDenied(EmbedderUnreachable, EmbedderRefused):
    """The provider denies access to its model, because the key or the model's name is wrong."""


class EmbedderBroke(EmbedderFailed):
    """The provider gave no answer or a wrong one; the texts may be the cause."""


class Provider(Protocol):
    """Turns texts into vectors; thread-safe."""

    @property
    def name(self) -> str:
        """The name of the provider in the settings."""

    @property
    def model(self) -> str:
        """The identity of provider and model; vectors of different models must not be compared."""

    @property
    def dimension(self) -> int | None:
        """The dimension of the vectors; None if the provider makes no vectors.

        Raises:
            EmbedderFailed: the endpoint must be asked for it, and fails.
        """

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector (dimension,) of a query.

        Raises:
            EmbedderFailed: the query cannot be embedded.
        """

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, dimension) of documents.

        Raises:
            EmbedderFailed: the documents cannot be embedded; none of them has a vector.
        """

    def close(self) -> None:
        """End threads and connections; later calls fail."""


# Models expand this code point to 18. It is expanded before the cut, so that none reads more than
# the limit.
_LIGATURE = "\ufdfa"
_EXPANDED = unicodedata.normalize("NFKC", _LIGATURE)


def clean(text: str, limit: int) -> str:
    """Return a text that every provider accepts: valid, not empty, without NUL, cut to `limit`."""
    text = text.replace("\0", " ").replace(_LIGATURE, _EXPANDED)[:limit]
    return text.encode("utf-8", "replace").decode("utf-8") or " "


def unit_rows(vectors: NDArray[Any], count: int, dimension: int) -> Vectors:
    """Check vectors, and return them scaled to unit length, float32.

    Raises:
        EmbedderFailed: the shape is not (count, dimension), or a row is zero or not finite.
    """
    if vectors.shape != (count, dimension):
        raise EmbedderFailed(
            f"the embedder returned vectors of shape {vectors.shape}, not {(count, dimension)}"
        )
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not np.all(np.isfinite(norms) & (norms > 1e-9)):
        raise EmbedderFailed("the embedder returned a vector that is zero, NaN or infinite")
    return np.asarray(vectors / norms, dtype=np.float32)
