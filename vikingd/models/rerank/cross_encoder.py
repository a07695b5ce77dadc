"""A cross-encoder in this process, by ONNX Runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from vikingd.models.onnx_directory import OnnxDirectory, UnusableModel
from vikingd.models.rerank.rerank_settings import BackendSettings
from vikingd.models.rerank.reranker_protocol import RerankFailed

_BATCH = 16
_TOKENS = 512  # of query and document, if the tokenizer names no limit
_PADDING = ("[PAD]", "<pad>")


class CrossEncoder:
    """A reranking model that reads query and document together, on a thread of its own.

    Raises:
        RerankFailed: the files are missing, or hold another kind of model.
    """

    def __init__(self, settings: BackendSettings) -> None:
        self._batch = settings.batch or _BATCH
        try:
            self._model = OnnxDirectory(Path(settings.path).expanduser(), settings.threads)
            _set_up(self._model.tokenizer)
        except UnusableModel as error:
            raise RerankFailed(f"{error} (path names the directory of the model)") from error
        outputs = list(self._model.outputs)
        self._output = "logits" if "logits" in outputs else outputs[0]
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="vikingd-rerank")

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return the logit of each document; a cancelled call stops after its present batch."""
        loop = asyncio.get_running_loop()
        # Texts of similar length need little padding.
        order = sorted(range(len(documents)), key=lambda place: len(documents[place]))
        scores = [0.0] * len(documents)
        for start in range(0, len(order), self._batch):
            places = order[start : start + self._batch]
            texts = [documents[place] for place in places]
            logits = await loop.run_in_executor(self._worker, self._logits, query, texts)
            for place, logit in zip(places, logits, strict=True):
                scores[place] = logit
        return scores

    async def close(self) -> None:
        """Wait for the present batch, and end the thread."""
        await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)

    def _logits(self, query: str, documents: Sequence[str]) -> list[float]:
        try:
            encoded = self._model.tokenizer.encode_batch([(query, text) for text in documents])
            logits = self._model.run(self._output, encoded)
        except Exception as error:  # neither library documents its errors
            raise RerankFailed(f"could not compute: {error}") from error
        if logits.shape not in ((len(documents),), (len(documents), 1)):
            raise RerankFailed(
                f"gave scores of shape {logits.shape} for {len(documents)} documents: "
                "the model is not one that gives one score to each"
            )
        values: list[float] = logits.reshape(-1).tolist()
        return values


def _set_up(tokenizer: Any) -> None:
    if tokenizer.truncation is None:
        tokenizer.enable_truncation(_TOKENS)
    padding = tokenizer.padding or _padding(tokenizer)
    # Pad to the longest text of a batch, not as the file says.
    tokenizer.enable_padding(**(padding | {"length": None, "pad_to_multiple_of": None}))


def _padding(tokenizer: Any) -> dict[str, Any]:
    for token in _PADDING:
        known = tokenizer.token_to_id(token)
        if known is not None:
            return {"pad_id": known, "pad_token": token}
    raise UnusableModel(f"the tokenizer has no token for padding ({' or '.join(_PADDING)})")
