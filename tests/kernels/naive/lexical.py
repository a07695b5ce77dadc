"""Plain twins of the kernels: BM25, titles, and the words and postings of new texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from tests.kernels.naive.scores import script_mismatch
from tests.kernels.naive.tree import (
    K1,
    SCORE_FLOOR,
    TERMS_ENOUGH,
    TITLE,
    B,
    Directory,
    Text,
    document,
    files_below,
    texts_below,
    walk,
)


def postings(texts: Sequence[Text], term: str) -> list[tuple[int, int]]:
    """Return (position, tf) of the texts that have a term."""
    counted = [(i, text.terms.count(term)) for i, text in enumerate(texts)]
    return [(i, tf) for i, tf in counted if tf]


def lower_bound(values: Sequence[int], low: int, high: int, wanted: int) -> int:
    """Return the first index in [low, high) whose value is not below `wanted`."""
    return next((i for i in range(low, high) if values[i] >= wanted), high)


def idf(documents: float, df: float) -> float:
    """Return Lucene's idf."""
    return math.log(1 + (documents - df + 0.5) / (df + 0.5))


def norm_of(average: float) -> tuple[float, float]:
    """Return the level and the slope (for each term of a text) of the saturation of tf."""
    return K1 * (1 - B), K1 * B / average


def gain(tf: int, length: int, weight: float, level: float, slope: float) -> float:
    """Return the gain of a text that has a term `tf` times."""
    return weight * tf / (tf + level + slope * length)


def bm25(documents: Mapping[int, list[str]], terms: Mapping[str, float]) -> dict[int, float]:
    """Return the BM25 score of each document as a share of the ideal score."""
    average = max(1.0, sum(map(len, documents.values())) / max(1, len(documents)))
    counted = {key: Counter(words) for key, words in documents.items()}
    gains = {
        term: weight * idf(len(documents), sum(term in words for words in counted.values()))
        for term, weight in terms.items()
    }
    scores = {}
    for key, words in counted.items():
        norm = norm_of(average)
        score = sum(gain(words[t], len(documents[key]), w, *norm) for t, w in gains.items())
        scores[key] = score / sum(gains.values()) if gains else 0.0
    return scores


def score_scope(
    top: Directory, terms: Mapping[str, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the scores of texts and of directories by id."""
    texts = {text.id: text.terms for text in texts_below(top)}
    return bm25(texts, terms), bm25({d.id: document(d) for d in walk(top)}, terms)


def known_share(top: Directory, terms: Collection[str]) -> float:
    """Return the share of some terms that a text below a directory has."""
    there = {term for text in texts_below(top) for term in text.terms}
    return len(there & set(terms)) / max(1, len(terms))


def ranges_of(
    postings_of: Iterable[Sequence[tuple[int, int]]], low: int, high: int
) -> list[list[tuple[int, int]]]:
    """Return the postings of each term in the texts [low, high)."""
    return [[p for p in postings if low <= p[0] < high] for postings in postings_of]


def is_crowded(ranges: Sequence[tuple[int, int]], size: int) -> bool:
    """Return whether there is more than one posting for sixteen scores."""
    return 16 * sum(last - first for first, last in ranges) > size


def forget(
    scores: Sequence[float], base: Collection[int], tail: Collection[int], size: int, crowded: bool
) -> list[float]:
    """Return the scores after a reset at the positions of postings in the base and in the tail.

    With `crowded`, all of the first `size` scores, those of the base, are reset.
    """
    gone = {*(range(size) if crowded else base), *tail}
    return [0.0 if at in gone else score for at, score in enumerate(scores)]


def rescale_to_floor(
    top: Directory, lexical: Mapping[int, float], script: int
) -> tuple[dict[int, float], float]:
    """Return (all scores times one factor, the factor); the best comparable one is SCORE_FLOOR."""
    counted = [lexical[t.id] for t in texts_below(top) if not script_mismatch(t.script, script)]
    best = max(counted, default=0.0)
    factor = 1.0 if best <= 0 or best >= SCORE_FLOOR else SCORE_FLOOR / best
    return {key: min(1.0, score * factor) for key, score in lexical.items()}, factor


def score_titles(top: Directory, terms: Collection[str]) -> dict[int, float]:
    """Return the title bonuses of the files below `top` by id; files without a text get none."""
    out = {}
    for file in files_below(top):
        common = len(file.title & set(terms))
        if common and file.texts:
            share, told = common / len(file.title), common / min(len(set(terms)), TERMS_ENOUGH)
            out[file.id] = TITLE * share**2 * min(1.0, told)
        else:
            out[file.id] = 0.0
    return out


def forget_titles(
    titles: Sequence[float], base: Collection[int], tail: Collection[int], size: int, crowded: bool
) -> list[float]:
    """Return the bonuses, set to 0 for the files whose titles have a term."""
    return [
        0.0 if at in tail or (crowded and at < size) or (not crowded and at in base) else bonus
        for at, bonus in enumerate(titles)
    ]


def is_blank(byte: int) -> bool:
    """Return whether `str.split` splits at an ASCII character."""
    return not chr(byte).split()


def key_of(word: bytes) -> int:
    """Return FNV-1a of 64 bits with its upper half mixed into the lower one."""
    key = 0xCBF29CE484222325
    for byte in word:
        key = (key ^ byte) * 0x100000001B3 % 2**64
    return key ^ key >> 32


def number_of(word: bytes, known: Sequence[bytes]) -> int:
    """Return the number of a word among the known ones, -1 if it is unknown."""
    return known.index(word) if word in known else -1


def add_words(known: Sequence[bytes], new: Sequence[bytes]) -> list[bytes]:
    """Return the known words with the new ones, by number."""
    return [*known, *new]


def look_up(texts: Sequence[bytes], known: Sequence[bytes]) -> list[list[int]]:
    """Return the numbers of the words of each text."""
    return [[number_of(word, known) for word in words_of(text)] for text in texts]


def may_be_digit(byte: int) -> bool:
    """Return True for an ASCII digit, and for a byte of a character that is not ASCII."""
    return bytes([byte]).isdigit() or byte > 127


def ends_word(text: bytes, at: int, start: int) -> bool:
    """Return True if a word that begins at `start` ends before text[at]."""
    sign = chr(text[at])
    if sign in ",'":
        beside = text[max(at - 1, start) : at] + text[at + 1 : at + 2]
        return len(beside) < 2 or not all(map(may_be_digit, beside))
    return text[at] < 128 and (is_blank(text[at]) or sign in '!"$%()*;<=>?[]^`{|}~')


def words_of(text: bytes) -> list[bytes]:
    """Return the words of a text; a byte 1 and all after it up to a blank are in the same word."""
    found = []
    for run in bytes(32 if byte < 128 and is_blank(byte) else byte for byte in text).split(b" "):
        plain, mark, defined = run.partition(b"\x01")
        start = 0
        for at in range(len(plain)):
            if ends_word(run, at, start):
                found.append(plain[start:at].strip(_JOINTS))
                start = at + 1
        last = plain[start:].lstrip(_JOINTS)
        found.append(last + mark + defined if mark else last.rstrip(_JOINTS))
    return [word for word in found if word]


_JOINTS = b"&'-,./:@\\"


def terms_of(numbers: Sequence[Sequence[int]], terms: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the terms of the words of each text."""
    return [[term for number in text for term in terms[number]] for text in numbers]


def grouped(texts: Sequence[Sequence[int]], first: int) -> dict[int, list[tuple[int, int]]]:
    """Return (row, count) of the texts that have a term, by term."""
    return {
        term: [(first + i, text.count(term)) for i, text in enumerate(texts) if term in text]
        for term in sorted({term for text in texts for term in text})
    }


def merged(
    older: Mapping[int, list[tuple[int, int]]], newer: Mapping[int, list[tuple[int, int]]]
) -> dict[int, list[tuple[int, int]]]:
    """Return the postings of both levels by term."""
    return {term: older.get(term, []) + newer.get(term, []) for term in sorted({*older, *newer})}


def of_terms(
    keys: Sequence[int], levels: Sequence[Mapping[int, list[tuple[int, int]]]]
) -> list[list[tuple[int, int]]]:
    """Return the postings of each term in all levels."""
    return [[posting for level in levels for posting in level.get(key, [])] for key in keys]
