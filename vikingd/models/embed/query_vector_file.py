"""Query vectors in a file beside the store, so that they survive a restart."""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from vikingd.models.embed.provider import MAX_QUERY_CHARS, Vectors
from vikingd.models.embed.query_embedder import QueryEmbedder, text_of
from vikingd.system import sealed_files as sealed
from vikingd.system.regular_files import open_regular

FILE = "queries"
_INTERVAL = 300.0  # seconds between two writes
_LARGEST = 64 << 20  # bytes of the file
_TOLERANCE = 1e-3  # of a vector's length, which is 1

_log = logging.getLogger(__name__)


class QueryVectorFile:
    """Loads the cache of a query embedder from a file, and saves it there.

    It is saved every five minutes and at `close`. A file that is damaged, of another model or of
    another user is not used, and the log says so.

    Args:
        path: the directory of the store.
        read_only: write nothing; another process of the store writes the file.
    """

    def __init__(
        self, path: Path, embedder: QueryEmbedder, model: str, dimension: int, *, read_only: bool
    ) -> None:
        self._path = path / FILE
        self._embedder = embedder
        self._model = model
        self._read_only = read_only
        self._closing = threading.Event()
        try:
            vectors = read(self._path, model, dimension)
        except FileNotFoundError:
            vectors = {}
        except (OSError, ValueError) as error:
            _log.warning("the kept queries in %s are not used: %s", self._path, error)
            vectors = {}
        embedder.restore(vectors)
        self._written = embedder.cached_since
        self._thread = threading.Thread(target=self._run, name="kept-queries", daemon=True)
        if not read_only:
            self._thread.start()

    def close(self) -> None:
        """Save the cache if it has new vectors."""
        self._closing.set()
        if not self._read_only:
            self._thread.join()
            self._write()

    def _run(self) -> None:
        while not self._closing.wait(_INTERVAL):
            self._write()

    def _write(self) -> None:
        if (cached := self._embedder.cached_since) == self._written:
            return
        try:
            write(self._path, self._model, self._embedder.entries())
        except OSError as error:
            _log.warning("the queries could not be kept in %s: %s", self._path, error)
        else:
            self._written = cached


def write(path: Path, model: str, vectors: Mapping[str, Vectors]) -> None:
    """Write query vectors by their keys to a file that only its owner can read."""
    encoded = {
        text: base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
        for text, vector in vectors.items()
    }
    sealed.replace_durably(path, sealed.seal(json.dumps({"model": model, "queries": encoded})))


def read(path: Path, model: str, dimension: int) -> dict[str, Vectors]:
    """Return the unit vectors (dimension,) by their keys, in the order of the file.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: the file is damaged, of another model or of another user.
        OSError: the file cannot be read.
    """
    with open_regular(path, follow=False) as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid():
            raise ValueError("it is no file of this user")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError("others may write it")
        text = sealed.unseal(file.read(_LARGEST).decode())
    try:
        record = json.loads(text)
        queries = record["queries"].items()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("it has another form") from None
    if record.get("model") != model:
        raise ValueError(f"it is of the model {record.get('model')!r}, not {model!r}")
    vectors = {}
    for query, encoded in queries:
        if (length := len(text_of(query))) > MAX_QUERY_CHARS:
            raise ValueError(f"it has a query of {length:,} characters")
        vectors[query] = _vector(encoded, dimension)
    return vectors


def _vector(encoded: object, dimension: int) -> Vectors:
    try:
        vector = np.frombuffer(base64.b64decode(str(encoded), validate=True), "<f4")
    except ValueError:
        raise ValueError("it has a vector that cannot be decoded") from None
    if vector.shape != (dimension,) or not abs(float(np.linalg.norm(vector)) - 1) < _TOLERANCE:
        raise ValueError("it has a vector that the model cannot have made")
    return np.asarray(vector, np.float32)
