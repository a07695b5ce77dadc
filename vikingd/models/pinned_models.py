"""The registry: models that `vikingctl models pull` gets by name, pinned to their content."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file of a repository.

    Attributes:
        path: its path in the repository.
        size: the size in bytes.
        sha256: the SHA-256 of its content, in hex.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """A registered model for the provider `onnx`.

    A pin is never changed: vectors in stores belong to it. A new version gets a new name.

    Attributes:
        name: the name in `embedding.onnx_model`.
        repository: ORG/NAME on the hub.
        revision: the commit, 40 hex digits.
        graph: the path of the ONNX file, one of `files`.
        files: all files that are pulled.
        dimension: the dimension of its vectors.
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
        """The bytes of all files together."""
        return sum(file.size for file in self.files)


def _read() -> dict[str, PinnedModel]:
    text = files("vikingd.models").joinpath("pinned_models.toml").read_text("utf-8")
    return {
        model["name"]: PinnedModel(
            **model | {"files": tuple(PinnedFile(**file) for file in model["files"])}
        )
        for model in tomllib.loads(text)["models"]
    }


MODELS = _read()
"""The models by name."""

_PART = r"(?!\.+(?:/|\Z))[A-Za-z0-9_.-]+"
_REPOSITORY = re.compile(f"{_PART}/{_PART}")
_REVISION = re.compile(f"{_PART}(?:/{_PART})*")


def is_path(model: str) -> bool:
    """Return True if the setting for a model is the path of its directory, not a name."""
    return model.startswith(("/", "~", "."))


def check_name(name: str, revision: str = "main") -> None:
    """Check the name of a registered model, or ORG/NAME of a repository.

    Raises:
        ValueError: the name is neither, or the revision has a wrong form; the message says so.
    """
    if "/" not in name:
        if name not in MODELS:
            raise ValueError(f"{name!r} is not one of {', '.join(MODELS)}, nor ORG/NAME")
    elif not _REPOSITORY.fullmatch(name):
        raise ValueError(f"{name!r} is not ORG/NAME")
    if not _REVISION.fullmatch(revision):
        raise ValueError(f"the revision {revision!r} is no commit, branch or tag")
