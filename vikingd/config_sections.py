"""The sections of the configuration: their settings, defaults and limits."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from vikingd.context.tokenizers import check_configured
from vikingd.domain.daemon_addresses import Address, own_address, parse
from vikingd.memory.known_file_routes import DEFAULT_ROUTES, Route, Routes
from vikingd.memory.memory_types import WEIGHT_TOLERANCE
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.describe.describer_settings import DescriberSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.pinned_models import is_path
from vikingd.models.rerank.rerank_settings import BackendSettings, check_backend, check_backends

HTTPS = "https://"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def check_embedding(settings: EmbedSettings) -> EmbedSettings:
    """Check the section [embedding]; return it with an absolute path."""
    settings.check()
    if not is_path(settings.onnx_model):
        return settings
    path = str(expand_home(Path(settings.onnx_model)).absolute())
    return dataclasses.replace(settings, onnx_model=path)


def check_planner(settings: PlannerSettings) -> PlannerSettings:
    """Check the section [planner], and that its key is there."""
    if settings.model:
        settings.key()
    return settings


def check_describer(settings: DescriberSettings, planner: PlannerSettings) -> DescriberSettings:
    """Check the section [describer], which `planner` completes, and that its key is there."""
    endpoint = settings.endpoint(planner)
    if settings.model:
        endpoint.key()
    return settings


def _check_backend(settings: BackendSettings) -> BackendSettings:
    check_backend(settings)
    return settings


Floor = Literal["calibrated"] | Annotated[float, Field(ge=0, le=1)]
"""The least confidence that an answer needs, in [0, 1]; an answer with less has no results.

0 leaves out nothing. "calibrated" leaves out answers of the strength NOTHING, see
vikingd/answer/README.md.
"""


class Find(_Section):
    """The section [find]."""

    # Scopes up to so many texts are scored whole.
    exhaustive_texts: int = Field(default=150_000, ge=0)


class Retrieval(_Section):
    """The section [retrieval]: defaults of a Retrieve."""

    top_k: int = Field(default=30, ge=1, le=1000)
    score_threshold: float = Field(default=0.0, ge=0, allow_inf_nan=False)  # 0: none


class Context(_Section):
    """The section [context]: defaults of a BuildContext, and its tokenizers."""

    max_tokens: int = Field(default=4000, ge=1, le=10_000_000)
    reserve_tokens: int = Field(default=0, ge=0)  # kept free in max_tokens
    floor: Floor = "calibrated"
    tokenizers: dict[str, str] = {}  # hf:PATH or tiktoken:ENCODING, by name

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        if self.reserve_tokens >= self.max_tokens:
            raise ValueError("reserve_tokens must be below max_tokens")
        return self

    @field_validator("tokenizers")
    @classmethod
    def _tokenizers_have_a_form(cls, value: dict[str, str]) -> dict[str, str]:
        expanded = {name: _hugging_face_at_home(source) for name, source in value.items()}
        check_configured(expanded)
        return expanded


class Recall(_Section):
    """The section [recall]: defaults of a Recall."""

    top_k: int = Field(default=50, ge=1, le=500)
    max_tokens: int = Field(default=1500, ge=1, le=1_000_000)
    # The weights of a request without any; "": relevance, or salience if weights are set here.
    profile: Literal["", "relevance", "salience"] = ""
    # These four are the weights of the profile salience. They sum to 1.
    semantic: float = Field(default=0.5, ge=0, le=1)
    reinforcement: float = Field(default=0.2, ge=0, le=1)
    recency: float = Field(default=0.2, ge=0, le=1)
    access: float = Field(default=0.1, ge=0, le=1)
    floor: Floor = "calibrated"
    half_life_days: float = Field(default=30.0, ge=0.001, le=1e6)
    # An Extract without a model keeps the turns of the conversation, too.
    episodes: bool = True
    routes: tuple[Route, ...] = DEFAULT_ROUTES

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        total = self.semantic + self.reinforcement + self.recency + self.access
        if abs(total - 1) > WEIGHT_TOLERANCE:
            raise ValueError(
                f"semantic, reinforcement, recency and access must sum to 1, not {total:g}"
            )
        self.table()
        return self

    @property
    def default_profile(self) -> str:
        """The profile of weights for a request without one: the configured profile.

        If none is configured, it is "salience" if the section sets weights, else "relevance".
        """
        weighted = {"semantic", "reinforcement", "recency", "access"} & self.model_fields_set
        return self.profile or ("salience" if weighted else "relevance")

    def table(self) -> Routes:
        """Return the routes: the table of words that name memory files of a known place."""
        return Routes(self.routes)


class Rerank(_Section):
    """The section [rerank]: the rerankers of THINKING."""

    backends: tuple[Annotated[BackendSettings, AfterValidator(_check_backend)], ...] = ()

    @model_validator(mode="after")
    def _each_can_be_asked(self) -> Self:
        check_backends(self.backends)
        return self


class Limits(_Section):
    """The section [limits]: largest request and reply."""

    max_message_bytes: int = Field(default=4 << 20, ge=64 << 10, le=1 << 30)
    max_reply_bytes: int = Field(default=4 << 20, ge=64 << 10, le=1 << 30)  # about


class Tls(_Section):
    """The section [tls]: the PEM files of the addresses vikings://HOST:PORT."""

    certificate: str = ""  # with the certificates between it and its authority
    key: str = ""
    client_ca: str = ""  # if given, each client needs a certificate of this authority

    @field_validator("certificate", "key", "client_ca")
    @classmethod
    def _path_is_absolute(cls, value: str) -> str:
        return value and str(expand_home(Path(value)).absolute())


class Gateway(_Section):
    """The section [gateway]: the HTTP gateway."""

    listen: str = "127.0.0.1:7717"  # HOST:PORT, or https://HOST:PORT with the files of [tls]
    daemon: str = ""  # address of the daemon; empty: the first of `listen` without TLS
    hosts: Annotated[tuple[str, ...], NoDecode] = ()  # further names of the gateway
    origins: Annotated[tuple[str, ...], NoDecode] = ()  # of foreign pages that may call
    read_only: bool = False  # models get no tools that write

    @field_validator("hosts", "origins", mode="before")
    @classmethod
    def _list_is_split(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("listen")
    @classmethod
    def _is_an_own_address(cls, value: str) -> str:
        text = value.removeprefix(HTTPS).removeprefix("http://")
        if "/" in text or not re.search(r"[^:]:[0-9]+$", text):  # no path, no vikings://
            raise ValueError(f"{value!r} is not HOST:PORT or {HTTPS}HOST:PORT")
        address = own_address(text)
        return f"{HTTPS if value.startswith(HTTPS) else ''}{address}"

    @field_validator("daemon")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        return value and str(parse(value))

    @field_validator("hosts")
    @classmethod
    def _hosts_are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", name):
                raise ValueError(f"{name!r} is not the name of a host, without a port")
        return tuple(name.lower() for name in value)

    @field_validator("origins")
    @classmethod
    def _origins_have_a_form(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not re.fullmatch(r"https?://[A-Za-z0-9._\[\]:-]+", origin):
                raise ValueError(f"{origin!r} is not an origin such as https://host:port")
        return tuple(origin.lower() for origin in value)

    @property
    def address(self) -> Address:
        """The address that the gateway listens on."""
        return dataclasses.replace(
            parse(self.listen.removeprefix(HTTPS)), tls=self.listen.startswith(HTTPS)
        )


def expand_home(path: Path) -> Path:
    """Return a path with ~ or ~user expanded."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"{path.parts[0]} is not the home directory of a user") from None


def _hugging_face_at_home(source: str) -> str:
    """Return a source of a tokenizer with ~ or ~user expanded in hf:PATH."""
    family, _, path = source.partition(":")
    return f"hf:{expand_home(Path(path))}" if family == "hf" and path else source
