"""Queries that are longer than the daemon takes, such as a message with a pasted log."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

MAX_QUERY_BYTES = 16 << 10
"""The most bytes of a query; `fitted` shortens a longer one."""

LAST_PART = 300
"""The most characters that are kept of a long query's end, where its question often is."""

WORDS = 150
"""The most characters of the telling words from the rest of a long query."""

_PARAGRAPH = re.compile(r"\n\s*\n")
_WORD = re.compile(r"""[^\s"'`,;:!?()\[\]{}<>|=*，。、；：！？（）「」『』《》“”‘’…]+""")
_NUMBER = re.compile(r"[\d./+TZ_-]+")  # 3.14, 2024-05-01T10, 1/2
_HASH = re.compile(r"[0-9a-fA-F-]{16,}")  # a hash or a UUID: 9f86d081884c7d65
_LONGEST_WORD = 40  # characters; longer ones are data, or a text without spaces
_PIECE = 8  # characters of a text without spaces that count as a word
_STOP_WORDS_LISTED = """
a about after all also am an and any are as at be been before but by can could did do does for from
had has have he her here him his how i if in into is it its just like made make me more most my no
not now of on one only or other our out over said she should so some than that the their them then
there these they this those to too under up us very was we were what when where which while who why
will with would you your
"""
_STOP_WORDS = frozenset(_STOP_WORDS_LISTED.split())


def fitted(query: str) -> str:
    """Return a query that the daemon accepts; a short one is returned unchanged.

    A longer query becomes its first paragraph, the most telling words of the rest, and its last
    part, because people ask before or after a text that they paste. A word is telling if it occurs
    often, is long, or is a name or an identifier.
    """
    if len(query) * 4 <= MAX_QUERY_BYTES or len(query.encode(errors="replace")) <= MAX_QUERY_BYTES:
        return query
    text = query.strip()
    first, last = _first_part(text), _last_part(text)
    counts = Counter(_words(text))
    for word in (*_words(first), *_words(last)):
        del counts[word]
    taken: list[str] = []
    left = WORDS
    for word in sorted(counts, key=lambda word: -_weight(word, counts[word])):
        if len(word) < left:
            taken.append(word)
            left -= len(word) + 1
    return "\n".join(part for part in (first, " ".join(taken), last) if part)


def _first_part(text: str) -> str:
    """Return the first paragraph of a text; "" if it is too long for a question."""
    found = _PARAGRAPH.search(text[: LAST_PART + 2])
    return text[: found.start()] if found else ""


def _last_part(text: str) -> str:
    """Return the last paragraph of a text; if it is too long, its last lines or words."""
    part = text[-LAST_PART:]
    for boundary in (_PARAGRAPH, re.compile("\n"), re.compile(" ")):
        if found := boundary.search(part):
            return part[found.end() :]
    return part


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text without numbers, hashes and stop words."""
    for found in _WORD.finditer(text):
        word = found[0].strip(".-/_~#&+%$@")
        if len(word) > _LONGEST_WORD:
            if word.isascii():
                continue
            yield from (word[i : i + _PIECE] for i in range(0, len(word), _PIECE))
        elif len(word) > 1 and word.lower() not in _STOP_WORDS and not _is_data(word):
            yield word


def _is_data(word: str) -> bool:
    is_hash = _HASH.fullmatch(word) and any(map(str.isdecimal, word))
    return bool(is_hash or _NUMBER.fullmatch(word))


def _weight(word: str, count: int) -> float:
    is_name = not word.islower() or "_" in word
    return (1 + math.log10(count)) * min(len(word), 12) * (3 if is_name else 1)
