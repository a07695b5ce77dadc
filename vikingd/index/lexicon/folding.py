"""Normal forms of words: invisible characters, accents, digits and numbers, clusters.

The folded form of a word has no accents and no optional marks: cafe for café, and the letters alone
of Hebrew and Arabic words. Marks that make other letters stay: й, the vowel signs of India, the
tones of Thai.

Thai, Lao, Khmer and Burmese write words without spaces. Their texts are divided into clusters: a
consonant with its vowels, marks and, in Burmese, the final consonant. Tibetan ends each syllable
with a tsheg; a cluster there is a syllable.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from vikingd.domain.hidden_characters import WITHIN_WORDS
from vikingd.domain.text import CJK_CHARS, SPACELESS_CHARS, characters, lazy, marks, normalized

# Non-breaking and narrow spaces, which separate the groups of digits of a number.
_SPACES_OF_NUMBERS = "\xa0\u2007\u2009\u202f"
# The space in 1 250, if it is one of these.
_GROUP_SPACE = lazy(rf"(?<=\d)[{_SPACES_OF_NUMBERS}](?=\d{{3}}(?!\d))")
# A soft hyphen at the end of a line and the line break after it: both divide one word.
_HYPHENATED = re.compile(r"\xad[ \t]*\r?\n[ \t]*")
# A non-joiner between Arabic letters divides a Persian word into parts, so it stays.
_INVISIBLE = lazy(rf"(?!(?<=[\u0620-\u08ff])\u200c[\u0620-\u08ff])[{WITHIN_WORDS}]")

# Numbers with separators: 1,250,000 and 12,50,000 and 1'250; not 100,20 or 1,2,3.
_GROUPED = lazy(
    r"(?<![\d,'’])(?:\d{1,3}([,'’])\d{3}(?:\1\d{3})*|\d{1,2}(?:,\d{2})+,\d{3})(?![,'’]?\d)"
)
_SEPARATORS = lazy("[,'’]+")
# 1.250.000, but not 1.250, which may be a decimal number.
_DOTTED = lazy(r"\d{1,3}(?:\.\d{3}){2,}")

# Variants of letters, which keyboards and older texts use, and invisible signs within words.
_USUAL = str.maketrans({
    "\u06cc": "\u064a", "\u06a9": "\u0643", "\u06c1": "\u0647", "\u06d5": "\u0647",  # of Arabic
    "\u0640": None, "\u200c": None,  # the tatweel, the non-joiner
    # chillu letters of Malayalam
    "\u0d7a": "\u0d23\u0d4d", "\u0d7b": "\u0d28\u0d4d", "\u0d7c": "\u0d30\u0d4d",
    "\u0d7d": "\u0d32\u0d4d", "\u0d7e": "\u0d33\u0d4d", "\u0d7f": "\u0d15\u0d4d",
})  # fmt: skip
_FOLDED = str.maketrans({
    # Latin letters that Unicode does not decompose into a letter and an accent
    "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe",
    "þ": "th",
    "\u0649": "\u064a", "\u0629": "\u0647", "\u0671": "\u0627",  # of Arabic
    "\u093c": None, "\u0901": "\u0902",  # the nukta and the chandrabindu of Devanagari
})  # fmt: skip
# Optional marks after a letter of Latin, Greek, Hebrew and Arabic; the stress of Cyrillic vowels.
_MARKED = lazy(
    "(?<=[A-Za-z\xaa-\u02af\u0370-\u03ff\u1e00-\u1fff])[\u0300-\u036f\u1dc0-\u1dff]+"
    "|[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8"
    "\u06ea-\u06ed\u08d3-\u08ff]"
    "|(?<=[аеиоуыэюяієїѣ])[\u0300\u0301]|(?<=е)\u0308"
)
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_IS_SPELLED = lazy("[äöüøå]")

_TIBETAN = "\u0f00\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e-\u0fbc"
_BEFORE = "\u0e40-\u0e44\u0ec0-\u0ec4"  # vowels that are written before their consonant
_AFTER = (
    "\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ece"
    "\u102b-\u1038\u103a-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074"
    "\u1082-\u108d\u109a-\u109d\uaa7b-\uaa7d\u17b4-\u17d1\u17d3\u17dd"
)
_STACKED = "\u1039\u17d2"  # the next consonant is below this one
_BASE = rf"[^{_TIBETAN}{_BEFORE}{_AFTER}{_STACKED}\u0f0b]"
# ภาษา gives ภา and ษา: a consonant with its vowel.
_CLUSTER = lazy(
    rf"[{_TIBETAN}]+|[{_BEFORE}]*{_BASE}(?:[{_STACKED}]{_BASE}|[\u1000-\u1021](?=\u1037?\u103a)"
    rf"|[{_AFTER}{_STACKED}])*|[{_BEFORE}{_AFTER}{_STACKED}]+"
)


def prepared(text: str) -> str:
    """Return a text in NFKC, without soft hyphens at line ends, with commas in numbers.

    1250 with a non-breaking space after the 1 becomes 1,250, for example.
    """
    if text.isascii():
        return text
    if "\xad" in text:
        text = _HYPHENATED.sub("", text)
    if "\xa0" in text or "\u202f" in text or "\u2009" in text or "\u2007" in text:
        text = _GROUP_SPACE.sub(",", text)
    return normalized(text.replace("\u066c", ",").replace("\u066b", "."))


def without_invisible(piece: str) -> str:
    """Remove invisible characters, such as zero-width spaces and soft hyphens, from a piece."""
    if piece.isascii() or not _INVISIBLE.search(piece):
        return piece
    return normalized(_INVISIBLE.sub("", piece))


@cache
def word_characters() -> str:
    """Return the characters of words, such as letters and digits, as `[...]` of a regex.

    It also has marks, "_" and invisible characters, but no character of a script without spaces.
    Planes above the first one have few characters that end a word; only their emoji and tags do.
    """
    # The complement is short, and `re` looks it up in a table.
    ends = characters(rf"[{CJK_CHARS}{SPACELESS_CHARS}]|[^\w{marks()}{WITHIN_WORDS}]")
    return rf"[^{ends}\U0001d000-\U0001d3ff\U0001f000-\U000dffff\U000e1000-\U0010ffff]"


def with_usual_letters(word: str) -> str:
    """Replace variants of letters that users take for one letter: Farsi ی becomes Arabic ي.

    The tatweel and the zero-width non-joiner are removed.
    """
    return word.translate(_USUAL)


def folded(word: str) -> str:
    """Remove accents and optional marks from a lower-case word: café becomes cafe."""
    text = _MARKED.sub("", unicodedata.normalize("NFD", word)).translate(_FOLDED)
    return unicodedata.normalize("NFC", text)


def spelled(word: str) -> str:
    """Return a word with ä, ö, ü and å as ae, oe, ue and aa; "" for a word without them."""
    return folded(word.translate(_SPELLED)) if _IS_SPELLED.search(word) else ""


def with_ascii_digits(piece: str) -> str:
    """Replace the decimal digits of all scripts by 0 to 9."""
    if piece.isascii():
        return piece
    return "".join(str(int(one)) if one.isdecimal() else one for one in piece)


def numbers(piece: str) -> list[str]:
    """Split a piece at its commas, but not inside a number.

    1,250,000 gives 1250000, and so does 12,50,000. 100,200,300 may be a list, so it gives
    100200300 and also 100, 200 and 300.
    """
    whole = _GROUPED.sub(lambda found: _SEPARATORS.sub("", found[0]), piece)
    parts = _SEPARATORS.split(piece)
    if whole == piece or _SEPARATORS.search(whole):
        return parts
    is_plain = not all(len(part) == 3 for part in parts) and all(len(p) == 3 for p in parts[1:])
    return [whole] if is_plain or not piece.replace(",", "").isdecimal() else [whole, *parts]


def dotted_number(piece: str) -> str:
    """Return the digits of a number with dots, such as 1.250.000; "" for any other piece."""
    return piece.replace(".", "") if _DOTTED.fullmatch(piece) else ""


def clusters(run: str) -> list[str]:
    """Divide a run of Thai, Lao, Khmer, Burmese or Tibetan into clusters (syllable-like units)."""
    found: list[str] = _CLUSTER.findall(run)
    return found
