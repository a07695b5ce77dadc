"""A hub with a small ONNX model, pinned in the registry, for tests of pulls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import pytest

from tests.models.hub_server import HubServer
from tests.models.onnx_embed_helpers import assert_same
from tests.models.onnx_helpers import NUMBERS, directory, model, tokens, twin
from vikingd.models import pinned_models as registry
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.onnx import OnnxModel
from vikingd.models.embed.provider_choice import open_provider
from vikingd.models.hub import hub_client
from vikingd.models.hub.cache import cache_directory
from vikingd.models.pinned_models import PinnedFile, PinnedModel

Ctl = Callable[..., tuple[int, str, str]]

REPOSITORY, GRAPH, NAME = "org/tiny", "onnx/model_quantized.onnx", "tiny"
PADDING = 300_000  # bytes that make the graph large
MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
CONFIGURATION = {
    "config": {"max_position_embeddings": 32},
    "tokenizer_config": {"model_max_length": 32},
}


def files_of(source: Path, **configuration: object) -> dict[str, bytes]:
    """Return the files of a real model by path, the graph last; it has `PADDING` bytes and more."""
    made = model()
    entry = made.metadata_props.add()
    entry.key, entry.value = "padding", "0123456789" * (PADDING // 10)
    onnx.checker.check_model(made)
    directory(source, made, file=GRAPH, **{**CONFIGURATION, **configuration})
    paths = sorted((p for p in source.rglob("*") if p.is_file()), key=lambda p: p.suffix == ".onnx")
    return {str(path.relative_to(source)): path.read_bytes() for path in paths}


def pinned(commit: str, files: Mapping[str, bytes]) -> PinnedModel:
    """Return the entry of a registry for a model on the hub."""
    return PinnedModel(
        name=NAME,
        repository=REPOSITORY,
        revision=commit,
        graph=GRAPH,
        files=tuple(
            PinnedFile(path, len(body), hashlib.sha256(body).hexdigest())
            for path, body in files.items()
        ),
        dimension=NUMBERS,
        languages="tea",
        licence="Apache-2.0",
        pooling="mean",
        query_prefix="query: ",
        document_prefix="passage: ",
        max_tokens=16,
    )


class PinnedHub(HubServer):
    """A hub with the model `tiny` of the registry.

    Attributes:
        files: the files of the model by path.
        model: its entry in the registry.
    """

    def __init__(self, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.files = files_of(source)
        self.model = pinned(self.add(REPOSITORY, self.files), self.files)
        monkeypatch.setitem(registry.MODELS, NAME, self.model)
        monkeypatch.setattr(hub_client, "_PAUSE", 0.01)
        for variable in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", self.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(source.with_name("cache")))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")

    @property
    def graph(self) -> bytes:
        """The content of the graph."""
        return self.files[GRAPH]

    def good_blobs(self) -> set[str]:
        """Return the names of the files' contents in a cache."""
        git = (b"blob %d\0" % len(body) + body for body in self.files.values())
        large = {hashlib.sha256(body).hexdigest() for body in self.files.values()}
        return large | {hashlib.sha1(content).hexdigest() for content in git}

    @property
    def sha256(self) -> str:
        """The SHA-256 of the graph."""
        return hashlib.sha256(self.graph).hexdigest()

    @property
    def part(self) -> Path:
        """The file with a part of the graph."""
        return cache_directory() / "models--org--tiny" / "blobs" / f"{self.sha256}.incomplete"

    @property
    def snapshot(self) -> Path:
        """The directory of the model in the cache."""
        commit = self.model.revision
        return cache_directory() / "models--org--tiny" / "snapshots" / commit


def opened(name: str = NAME) -> OnnxModel:
    """Return the embedder of a pulled model."""
    made = open_provider(EmbedSettings(provider="onnx", onnx_model=name))
    assert isinstance(made, OnnxModel)
    return made


def assert_answers() -> None:
    """Check that the pulled model gives the vectors of the twin, with the registry's prefixes."""
    made = opened()
    assert_same(made.embed_query("tea"), twin(tokens("query: tea"), "mean"))
    assert_same(made.embed_documents(["rust"])[0], twin(tokens("passage: rust"), "mean"))


def left() -> set[str]:
    """Return the files in the cache but its locks, by their paths."""
    root = cache_directory()
    found = (path.relative_to(root) for path in root.rglob("*") if not path.is_dir())
    return {str(path) for path in found if path.parts[0] != ".locks"}
