"""Detection of an encoding by the frequencies of characters; an uncertain one is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import chardet

from vikingd.ingest.formats.encoding_labels import encoding_of

_MAX_BYTES = 1 << 18  # bytes at the beginning that are looked at
_SURE = 0.05  # likeness to a language below which no answer is certain
_AHEAD = 0.03  # lead over the next answer with another text, as a part of the likeness
_FAR_AHEAD = 0.15  # the lead over the next encoding that is needed if there are few letters
_MANY = 4  # characters that are enough for a decision
_ODD = 0.05  # share of words with characters that do not go together
# Candidates by the names of the detector, and their labels.
_CANDIDATES = {
    "gb18030": "gb18030",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "euc_jis_2004": "euc-jp",
    "cp949": "euc-kr",
    "cp1251": "windows-1251",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "cp1250": "windows-1250",
    "iso8859-2": "iso-8859-2",
    "cp1252": "windows-1252",
    "cp1253": "windows-1253",
    "iso8859-7": "iso-8859-7",
    "cp1254": "windows-1254",
    "cp1255": "windows-1255",
    "cp1256": "windows-1256",
    "cp1257": "windows-1257",
    "cp1258": "windows-1258",
    "cp874": "windows-874",
}
_WORD = re.compile(r"[!-~]*[^\x00-\x7f\s]\S*")
_WORDS = 5000  # words that are looked at
_LATIN = "A-Za-z\u00c0-\u024f\u1e00-\u1eff"
_OTHER = "\u0370-\u03ff\u0400-\u052f\u0590-\u06ff"  # Greek, Cyrillic, Hebrew, Arabic
# Neighbours that the words of no language have: two scripts, four accented letters, a symbol
# between letters, and characters without a meaning.
_MIXED = re.compile(
    f"[{_LATIN}][{_OTHER}]|[{_OTHER}][{_LATIN}]"
    "|[\u00c0-\u024f]{4}"
    f"|[{_LATIN}{_OTHER}][\u00a1-\u00a6\u00a8\u00a9\u00ab-\u00b1\u00b4-\u00b6\u00b8\u00bb-\u00bf"
    f"\u0192\u02c6\u02dc\u201a\u201c-\u201e\u2020\u2021\u2030\u2039\u203a\u20ac\u2122][{_LATIN}{_OTHER}]"
    "|[\x80-\x9f\ue000-\uf8ff\ufffd]"
)
# A sign after a letter: if there are many, they are letters of another encoding.
_SIGN = re.compile(
    f"[{_LATIN}{_OTHER}][\u00a4\u00a6\u00a8\u00a9\u00ae\u00b1\u00b4-\u00b6\u00b8\u00b9\u00bc-\u00be]"
)
_HIGH = re.compile(rb"[\x80-\xff]")
_HIGH_LINE = re.compile(rb"[^\n]*[\x80-\xff][^\n]*\n?")


class _Answer(NamedTuple):
    text: str
    encoding: str
    likeness: float


def detected(data: bytes) -> tuple[str, str] | None:
    """Return the text and the name of its encoding; None if no encoding is certain.

    Args:
        data: bytes that are no UTF-8.
    """
    answers = list(_decodings(data, data))
    if not answers or answers[0].likeness < _SURE:
        # Many lines of ASCII, such as those of a table of numbers, dilute the evidence.
        answers = list(_decodings(data, b"".join(_HIGH_LINE.findall(data))))
    if not answers or answers[0].likeness < _SURE:
        return None
    best = answers[0]
    high = len(_HIGH.findall(data[:_MAX_BYTES]))
    ahead = best.likeness * (_AHEAD if high >= _MANY else _FAR_AHEAD)
    near = [one for one in answers if best.likeness - one.likeness <= ahead]
    if len(near) > 1:
        if high < _MANY:
            return None
        best, second = sorted(near, key=lambda one: _doubts(one.text))[:2]
        if _doubts(best.text) == _doubts(second.text):
            return None
    return None if _is_odd(best.text) else (best.text, best.encoding)


def _decodings(data: bytes, evidence: bytes) -> Iterator[_Answer]:
    """Yield each text that the bytes decode to, with its encoding, the likeliest text first.

    `evidence` is the part of the bytes that tells how likely each encoding is.
    """
    found = chardet.detect_all(
        evidence,
        ignore_threshold=True,
        max_bytes=_MAX_BYTES,
        compat_names=False,
        include_encodings=_CANDIDATES,
    )
    texts = set()
    for one in found:
        encoding = encoding_of(_CANDIDATES.get(one["encoding"] or "", ""))
        if encoding is None:
            continue
        with suppress(UnicodeDecodeError):
            text = data.decode(encoding.codec)
            if text not in texts:
                texts.add(text)
                yield _Answer(text, encoding.name, one["confidence"])


def _is_odd(text: str) -> bool:
    """Return True if many words mix characters of kinds that are not used together."""
    words = _WORD.findall(text[:_MAX_BYTES])[:_WORDS]
    return sum(map(_is_odd_word, words)) > _ODD * len(words)


def _is_odd_word(word: str) -> bool:
    if _MIXED.search(word):
        return True
    return any(a.islower() and not b.isascii() and b.isupper() for a, b in pairwise(word))


def _doubts(text: str) -> int:
    """Return the number of words and letters that suggest that a text has the wrong encoding."""
    words = _WORD.findall(text[:_MAX_BYTES])[:_WORDS]
    doubts = sum(bool(_is_odd_word(word) or _SIGN.search(word)) for word in words)
    is_polish = "ą" in text and not {"č", "ř"} & set(text)
    return doubts + (0 if is_polish else text.count("ą"))
