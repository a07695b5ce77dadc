"""The provider onnx: any directory with an ONNX model for texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.local_provider import Kind, LocalProvider
from vikingd.models.embed.provider import PROBE, Vectors, unit_rows
from vikingd.models.embed.sentence_transformers_files import POOLINGS, Description, describe
from vikingd.models.embed.weights_digest import file_digest, weights_digest
from vikingd.models.hub.cache import cache_directory, is_present, latest_of, snapshot_of
from vikingd.models.onnx_directory import OnnxDirectory, UnusableModel
from vikingd.models.pinned_models import MODELS, PinnedModel, is_path

_TOKENS = 512  # where neither the settings nor the directory say it
_AUTO = "auto"
_POOLED = "sentence_embedding"
_OF_TOKENS = ("last_hidden_state", "token_embeddings")
_TOKEN_AXES = 3  # batch, tokens, numbers
_POOLED_AXES = 2  # batch, numbers


class OnnxModel(LocalProvider):
    """A model computed by ONNX Runtime.

    Texts are not computed in batches: these need padding, and do not fit into the processor's
    caches.

    Raises:
        EmbedderFailed: the model can't be used; the message names the setting.
    """

    name = "onnx"

    def __init__(self, settings: EmbedSettings) -> None:
        model = settings.onnx_model
        named = MODELS.get(model)
        graph = named.graph if named else ""
        with _explained():
            self._path = _checked(named) if named else _directory(model)
            self._name = named.name if named else self._path.resolve().name
            self._model = OnnxDirectory(self._path, threads=1, graph=graph, keep_memory=False)
            described = describe(self._path)
            if named:
                described = _as_registered(described, named)
            self._output, self._pooling = _choose_output(self._model, settings.pooling, described)
        asked, given = settings.query_prefix, settings.document_prefix
        self._query_prefix = described.query_prefix if asked == _AUTO else asked
        self._document_prefix = described.document_prefix if given == _AUTO else given
        self._max_tokens = _limited(self._model.tokenizer, settings.max_tokens, described)
        super().__init__(settings.computing_threads)
        with _explained():
            made = len(self._raw(self._document_prefix + PROBE))
        if settings.dimension > made:
            raise EmbedderFailed(
                f"embedding.dimension: {settings.dimension} is more than the {made} numbers that "
                f"the model in {self._path} makes; 0 takes all of them"
            )
        self.dimension = settings.dimension or made
        with _explained():
            self.embed_query(PROBE)

    @cached_property
    def model(self) -> str:
        """The identity of the model: name, pooling, dimension, and a hash.

        The hash covers all that changes vectors of documents. A large model is hashed at the first
        use.
        """
        with _explained():
            made_of = [
                weights_digest(self._model.model),
                file_digest(self._model.tokenizer_file),
                self._output,
                self._document_prefix,
                self._max_tokens,
            ]
        digest = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]
        pooling = self._pooling or "pooled"
        return f"onnx/{self._name}/{pooling}/{self.dimension}/{digest}"

    def _unit(self, kind: Kind, texts: list[str]) -> Vectors:
        prefix = self._query_prefix if kind == "query" else self._document_prefix
        rows = np.array([self._raw(prefix + text)[: self.dimension] for text in texts])
        return unit_rows(rows, len(texts), self.dimension)

    def _raw(self, text: str) -> NDArray[np.float32]:
        """Return the model's vector of a text, not scaled to unit length."""
        encoded = self._model.tokenizer.encode(text)
        if not encoded.ids:
            raise EmbedderFailed("the embedder onnx fails: the text has no token of its model")
        try:
            made = self._model.run(self._output, [encoded])
        except UnusableModel as error:
            raise EmbedderFailed(f"the embedder onnx fails: {error}") from error
        wanted = _TOKEN_AXES if self._pooling else _POOLED_AXES
        if made.ndim != wanted or made.shape[0] != 1 or not made.size:
            raise EmbedderFailed(
                f"the output {self._output!r} of {self._model.model} has the shape {made.shape} "
                f"for one text of {len(encoded.ids)} tokens: it holds no embeddings"
            )
        of_text = np.asarray(made[0], np.float32)
        if self._pooling == "mean":
            return np.asarray(of_text.mean(axis=0))
        if self._pooling:
            return np.asarray(of_text[0 if self._pooling == "cls" else -1])
        return of_text


@contextmanager
def _explained() -> Iterator[None]:
    """Within the block, put "embedding.onnx_model" before the messages of errors."""
    try:
        yield
    except (EmbedderFailed, UnusableModel, OSError) as error:
        raise EmbedderFailed(f"embedding.onnx_model: {error}") from error


def _directory(model: str) -> Path:
    """Return the directory of a model, given by its path or by the name of a pulled repository.

    Raises:
        EmbedderFailed: the repository was not pulled.
    """
    if is_path(model):
        return Path(model).expanduser()
    pulled = latest_of(model)
    if pulled is None:
        raise EmbedderFailed(
            f"the model {model} is not in {cache_directory()}; get it with: "
            f"vikingctl models pull {model}"
        )
    return pulled


def _checked(model: PinnedModel) -> Path:
    """Return the directory of a registered model, after a check of its files' hashes.

    Raises:
        EmbedderFailed: the model is not in the cache, or a file is damaged.
    """
    command, snapshot = f"vikingctl models pull {model.name}", snapshot_of(model)
    if not is_present(model):
        raise EmbedderFailed(
            f"the model {model.name} is not in {cache_directory()}; get it with: {command}"
        )
    for file in model.files:
        if file_digest(snapshot / file.path) != file.sha256:
            raise EmbedderFailed(
                f"{snapshot / file.path} is not the pinned file; get it again with: {command}"
            )
    return snapshot


def _as_registered(described: Description, model: PinnedModel) -> Description:
    return replace(
        described,
        pooling=model.pooling,
        further_modules="",
        query_prefix=model.query_prefix,
        document_prefix=model.document_prefix,
        max_tokens=model.max_tokens,
    )


def _choose_output(model: OnnxDirectory, pooling: str, described: Description) -> tuple[str, str]:
    """Return (name of the graph's output, pooling); the pooling is "" if the graph pools itself."""
    axes = {name: len(shape) for name, shape in model.outputs.items()}
    alone = next(iter(axes)) if len(axes) == 1 else ""
    if pooling == _AUTO:
        for name in (_POOLED, alone):
            if axes.get(name) == _POOLED_AXES:
                return name, ""
    of_tokens = next((n for n in (*_OF_TOKENS, alone) if axes.get(n) == _TOKEN_AXES), "")
    if not of_tokens:
        shapes = ", ".join(f"{name} {shape}" for name, shape in model.outputs.items())
        pooled = _POOLED_AXES in (axes.get(_POOLED), axes.get(alone))
        raise EmbedderFailed(
            f"no output of {model.model} is known to hold the vectors of tokens, (batch, tokens, "
            f"numbers): it has {shapes}" + ("; leave embedding.pooling at auto" if pooled else "")
        )
    if described.further_modules:
        raise EmbedderFailed(
            f"modules.json names {described.further_modules}, which the graph does not hold: "
            "export the model with an output sentence_embedding"
        )
    if pooling != _AUTO:
        return of_tokens, pooling
    said = described.pooling
    if said not in POOLINGS:
        raise EmbedderFailed(
            (f"its configuration asks for the pooling {said}" if said else "nothing in it says how")
            + " to make one vector of those of the tokens: set embedding.pooling to mean, cls or "
            "last, as the model's documentation says"
        )
    return of_tokens, said


def _limited(tokenizer: Any, wanted: int, described: Description) -> int:
    """Let the tokenizer cut long texts and add no padding; return the most tokens of a text."""
    if described.positions and wanted > described.positions:
        raise EmbedderFailed(
            f"embedding.max_tokens: {wanted} is more than the {described.positions} tokens that "
            "the model can read by its config.json; 0 takes what the directory says"
        )
    tokens = wanted or described.max_tokens or _TOKENS
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    encoded = tokenizer.encode(PROBE)
    # The tokenizer's own tokens may leave no room for a text, and then it may cut nothing.
    if len(encoded.ids) > tokens or all(encoded.special_tokens_mask):
        raise EmbedderFailed(
            f"embedding.max_tokens: {tokens} leaves no room for a text; 0 takes the directory's "
            "limit"
        )
    return tokens
