"""Encodings of text, found by its first bytes, a label, the user's choice, or detection."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from vikingd.ingest.formats.encoding_labels import Encoding, encoding_of

How: TypeAlias = Literal["bom", "utf-8", "label", "assumed", "detected"]

_BOMS = (
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF32_LE, "UTF-32LE"),
    (codecs.BOM_UTF32_BE, "UTF-32BE"),
    (codecs.BOM_UTF16_LE, "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "UTF-16BE"),
)
_REMEDY = "name it with --encoding, such as --encoding gb18030"
# The start of East Asian text in encodings that have ASCII bytes alone.
_ESCAPES = ((b"\x1b$B", "iso-2022-jp"), (b"\x1b$@", "iso-2022-jp"), (b"\x1b$)C", "iso-2022-kr"))
_ESCAPED = {"ISO-2022-JP", "ISO-2022-KR", "HZ-GB-2312"}
_FEW = 4  # characters that are valid in UTF-8 by accident, though the text is in another encoding
_CREDIBLE = 50  # characters that are right for each wrong one in a text with a true label
_HIGH = re.compile(rb"[\x80-\xff]")
_EASTERN = {"GBK", "GB18030", "Big5", "EUC-JP", "EUC-KR", "Shift_JIS"}
_SAMPLE = 1 << 16  # characters that are looked at
# Characters of every text of some length; bytes in the wrong order have other ones.
_COMMON = re.compile(r"[ \n\u3001\u3002\uff01-\uff1f]")
# Bytes of UTF-16 that no other encoding has: zero, and those of 。 and of full-width forms.
_WIDE = re.compile(b"[\0\x02\xff]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, with the encoding that it was read in.

    Attributes:
        text: the text, without a byte order mark.
        encoding: the name of the encoding, as the Encoding Standard of the web writes it.
        how: the evidence for the encoding: a byte order mark, valid UTF-8, a label in the text, the
            label that the user gave, or the frequencies of its characters.
        wrong: number of places that are invalid in the encoding; U+FFFD stands for each.
    """

    text: str
    encoding: str
    how: How
    wrong: int = 0


def decode(data: bytes, *, label: str | None = None, assumed: str | None = None) -> Decoded:
    """Decode the bytes of a text.

    The first of these that applies gives the encoding: a byte order mark; valid UTF-8; the label,
    if nearly all bytes are valid in its encoding; the assumed encoding, on the same condition;
    UTF-16 without a byte order mark, if its characters are likely; the detector. A label with
    escape sequences, such as ISO-2022-JP, comes before UTF-8.

    Args:
        data: the bytes of a whole text.
        label: the label that the text itself states, such as "x-sjis". An unknown label is
            ignored, as browsers do.
        assumed: the label that the user names for texts that state none and are not UTF-8.

    Raises:
        ValueError: the assumed encoding is unknown, or the data is binary, or its encoding cannot
            be determined. The message is a reason with a remedy, to be put after the file's name.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(name, errors="replace")
            return Decoded(text, name, "bom", text.count("\ufffd"))
    stated = encoding_of(label) if label else None
    named = encoding_of(assumed) if assumed else None
    if assumed and named is None:
        raise ValueError(f"cannot be read in the unknown encoding {assumed!r}: {_REMEDY}")
    if found := _escaped(data, stated, named):
        return found
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"is no UTF-8 at byte {error.start}"
    else:
        if "\0" not in text:
            return _east_asian(text, data, stated) or Decoded(text, "UTF-8", "utf-8")
        fault = "is binary"
    if stated and (found := _in(data, stated, "label")):
        return found
    if named and (found := _in(data, named, "assumed")):
        return found
    if _WIDE.search(data) and (found := _utf16(data)):
        return found
    if b"\0" in data:
        raise ValueError("is binary")
    if named:
        raise ValueError(f"{fault}, and no {named.name} either: name another --encoding")
    if _is_damaged_utf8(data):
        raise ValueError(f"{fault}: mend it, or read it with --encoding utf-8")
    from vikingd.ingest.formats.encoding_detection import detected  # its tables take time to load

    if (guess := detected(data)) is None:
        raise ValueError(f"{fault}, and its encoding is not certain: {_REMEDY}")
    return Decoded(*guess, "detected")


def _escaped(data: bytes, stated: Encoding | None, named: Encoding | None) -> Decoded | None:
    """Decode bytes in an encoding that uses escape sequences of ASCII, such as ISO-2022-JP.

    Return None if they are in another encoding.
    """
    if stated and stated.name in _ESCAPED:
        return _in(data, stated, "label")
    if named and named.name in _ESCAPED and data.isascii():
        return _in(data, named, "assumed")
    if b"\x1b$" in data and data.isascii():
        for mark, label in _ESCAPES:
            encoding = encoding_of(label)
            if mark in data and encoding and (found := _in(data, encoding, "detected")):
                return found if not found.wrong else None
    return None


def _east_asian(text: str, data: bytes, stated: Encoding | None) -> Decoded | None:
    """Decode bytes that are valid UTF-8 only by accident, by an East Asian label.

    Return None if the label is not East Asian, or if the text has `_FEW` or more characters that
    are not ASCII, since so many are not valid UTF-8 by accident.
    """
    if stated is None or stated.name not in _EASTERN:
        return None
    if not 0 < sum(not char.isascii() for char in text) < _FEW:
        return None
    found = _in(data, stated, "label")
    return found if found and not found.wrong else None


def _in(data: bytes, encoding: Encoding, how: How) -> Decoded | None:
    """Decode the bytes in an encoding; None if too many of them are invalid there."""
    text = data.decode(encoding.codec, _handler(encoding.spare))
    wrong = text.count("\ufffd")
    high = len(_HIGH.findall(data)) if wrong else 0
    return Decoded(text, encoding.name, how, wrong) if wrong * _CREDIBLE <= high else None


@cache
def _handler(spare: str) -> str:
    """Return the name of an error handler that tries a second codec before U+FFFD."""
    if not spare:
        return "replace"

    def mended(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        for end in range(error.start + 1, error.start + 4):
            with suppress(UnicodeDecodeError):
                return error.object[error.start : end].decode(spare), end
        return "\ufffd", error.start + 1

    name = f"vikingd-{spare}"
    codecs.register_error(name, mended)
    return name


def _utf16(data: bytes) -> Decoded | None:
    """Return the text of UTF-16 without a byte order mark; None if its characters are unlikely."""
    if len(data) % 2:
        return None
    for name in ("UTF-16LE", "UTF-16BE"):
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            continue
        kinds = Counter(map(unicodedata.category, text[:_SAMPLE]))
        odd = sum(map(text[:_SAMPLE].count, "\t\n\f\r"))
        if kinds["Cc"] == odd and not kinds["Co"] and not kinds["Cn"] and _COMMON.search(text):
            return Decoded(text, name, "detected")
    return None


def _is_damaged_utf8(data: bytes) -> bool:
    """Return True for UTF-8 in which a few bytes are wrong, such as that of a cut file."""
    text = data.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    right = sum(not char.isascii() for char in text) - wrong
    return right > wrong
