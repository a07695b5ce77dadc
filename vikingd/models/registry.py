"""The models that `vikingctl models pull` gets by name, pinned to a commit and to their content."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file of a repository.

    Attributes:
        path: its path in the repository.
        size: bytes.
        sha256: the SHA-256 of its content, in hex.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """A model for the provider `onnx`.

    A pin is never changed: vectors in stores belong to it. A new version gets a new name.

    Attributes:
        name: the name in `embedding.onnx_model`.
        repository: ORG/NAME on the hub.
        revision: the commit, 40 hex digits.
        graph: the path of the ONNX file, one of `files`.
        files: all files that are pulled.
        dimension: numbers in a vector.
        languages: the languages that its model card claims.
        licence: the SPDX identifier of its licence.
        pooling: mean, cls or last.
        query_prefix: text before each query.
        document_prefix: text before each document.
        max_tokens: most tokens of a text with its prefix.
    """

    name: str
    repository: str
    revision: str
    graph: str
    files: tuple[PinnedFile, ...]
    dimension: int
    languages: str
    licence: str
    pooling: str
    query_prefix: str
    document_prefix: str
    max_tokens: int

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


_GRAPH = "onnx/model_quantized.onnx"

_PINNED = (
    PinnedModel(
        name="multilingual-e5-small",
        repository="Xenova/multilingual-e5-small",
        revision="761b726dd34fb83930e26aab4e9ac3899aa1fa78",
        graph=_GRAPH,
        files=(
            PinnedFile(
                "config.json",
                658,
                "cb99455288675345e1a4f411438d5d0adbba5fbd3a67ea4fb03c015433b996c1",
            ),
            PinnedFile(
                "tokenizer_config.json",
                443,
                "a1d6bc8734a6f635dc158508bef000f8e2e5a759c7d92f984b2c86e5ff53425b",
            ),
            PinnedFile(
                "tokenizer.json",
                17_082_730,
                "0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
            ),
            PinnedFile(
                _GRAPH,
                118_308_185,
                "f80102d3f2a1229f387d3c81909990d8945513e347b0eab049f7de3c6f98c193",
            ),
        ),
        dimension=384,
        languages="100 languages",
        licence="MIT",
        pooling="mean",
        query_prefix="query: ",
        document_prefix="passage: ",
        max_tokens=512,
    ),
    PinnedModel(
        name="paraphrase-multilingual-minilm",
        repository="Xenova/paraphrase-multilingual-MiniLM-L12-v2",
        revision="2c4055b12046f11709e9df2c122e59ffbdc2f900",
        graph=_GRAPH,
        files=(
            PinnedFile(
                "config.json",
                673,
                "05b570bff786faa5c4604152aa16f19f77ed6dfc31e47dd0f3dd987078693ac7",
            ),
            PinnedFile(
                "tokenizer_config.json",
                496,
                "3f5961b9ac86288cccdb97f32fb848d6187c78e1603958c53f3ea1f296b7d8a2",
            ),
            PinnedFile(
                "tokenizer.json",
                17_082_913,
                "b60b6b43406a48bf3638526314f3d232d97058bc93472ff2de930d43686fa441",
            ),
            PinnedFile(
                _GRAPH,
                118_308_126,
                "66fc00f5f29afcaff34092e1bdd20008ca3918265a82fb9695a551e510cc4ebc",
            ),
        ),
        dimension=384,
        languages="50 languages",
        licence="Apache-2.0",
        pooling="mean",
        query_prefix="",
        document_prefix="",
        max_tokens=128,
    ),
)

MODELS = {model.name: model for model in _PINNED}


_PART = r"(?!\.+(?:/|\Z))[A-Za-z0-9_.-]+"
_REPOSITORY = re.compile(f"{_PART}/{_PART}")
_REVISION = re.compile(f"{_PART}(?:/{_PART})*")


def is_path(model: str) -> bool:
    """Return True if a model is named by its directory."""
    return model.startswith(("/", "~", "."))


def check_name(name: str, revision: str = "main") -> None:
    """Check a name of MODELS, or ORG/NAME of a repository.

    Raises:
        ValueError: it is neither, or the revision has another form; the message says so.
    """
    if "/" not in name:
        if name not in MODELS:
            raise ValueError(f"{name!r} is not one of {', '.join(MODELS)}, nor ORG/NAME")
    elif not _REPOSITORY.fullmatch(name):
        raise ValueError(f"{name!r} is not ORG/NAME")
    if not _REVISION.fullmatch(revision):
        raise ValueError(f"the revision {revision!r} is no commit, branch or tag")
