"""Encodings of text: by its first bytes, by a label, by the user's word, or detected."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal, TypeAlias

How: TypeAlias = Literal["bom", "utf-8", "label", "assumed", "detected"]

_BOMS = (
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF32_LE, "UTF-32LE"),
    (codecs.BOM_UTF32_BE, "UTF-32BE"),
    (codecs.BOM_UTF16_LE, "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "UTF-16BE"),
)
_REMEDY = "name its encoding with --encoding, such as --encoding gb18030"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, with the encoding that it was read in.

    Attributes:
        text: the text, without a byte order mark.
        encoding: the name of the encoding, as the Encoding Standard of the web writes it.
        how: the evidence for the encoding: a byte order mark, valid UTF-8, a label in the text,
            the word of the user, or the frequencies of its characters.
        wrong: number of places that are invalid in the encoding; U+FFFD stands for each.
    """

    text: str
    encoding: str
    how: How
    wrong: int = 0


def decode(data: bytes, *, label: str | None = None, assumed: str | None = None) -> Decoded:
    """Return the text of bytes.

    The first of these decides: a byte order mark, the label, UTF-8 if all bytes are valid, the
    assumed encoding, the shape of UTF-16, the detector.

    Args:
        data: the bytes of a whole text.
        label: the label that the text itself states, such as "x-sjis".
        assumed: the label that the user names for a text that states none and is no UTF-8.

    Raises:
        ValueError: the encoding is unknown or not certain, or the bytes are not in it; the message
            is a reason to be put after the file's name, and names the remedy.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return Decoded(data[len(mark) :].decode(name, errors="replace"), name, "bom")
    try:
        return Decoded(data.decode("utf-8"), "UTF-8", "utf-8")
    except UnicodeDecodeError as error:
        fault = f"is no UTF-8 at byte {error.start}"
    name = label or assumed or ""
    if not name:
        raise ValueError(f"{fault} and states no encoding: {_REMEDY}")
    try:
        return Decoded(data.decode(name), name, "label" if label else "assumed")
    except LookupError:
        raise ValueError(f"names the unknown encoding {name!r}: {_REMEDY}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"is no {name} at byte {error.start}: {_REMEDY}") from None
