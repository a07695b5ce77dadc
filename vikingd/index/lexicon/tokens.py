"""The terms of a text in the inverted index, and their 64-bit hashes.

English words are stemmed, and stop words are left out. Chinese, kana and hangul become single
characters and bigrams; Thai, Lao, Khmer, Burmese and Tibetan become clusters and their bigrams.
Identifiers, paths and file names are kept whole and in parts.

A word with accents or optional marks has several forms, and each is a term: the folded form, which
a query without accents finds, and the form as it is written, so that a text with the query's own
form is first.

A stop word with a capital letter, and a name such as AT&T, is a term of its own kind, a *name*. It
does not count in the length of a text. In a query, a stop word is a name only if it is in capitals
(IT), or if the query has no other words. A definition in source code is a name, too, see
`definition_term`.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import Stemmer

from vikingd.domain.hidden_characters import WITHIN_WORDS
from vikingd.domain.store_changes import IndexedText
from vikingd.domain.text import CJK_CHARS, SPACELESS_CHARS, lazy
from vikingd.index.lexicon.folding import (
    clusters,
    dotted_number,
    folded,
    numbers,
    prepared,
    spelled,
    with_ascii_digits,
    with_usual_letters,
    without_invisible,
    word_characters,
)
from vikingd.index.lexicon.stop_words import BEGINNINGS, NEGATIONS, STOP_WORDS

VERSION: int = 5
"""The version of the terms. Increase it with every change of a term: an index has one version."""

HEADING = 3
"""The number of times that a term of a text's heading counts."""

_TITLE = 0x9E3779B97F4A7C15  # distinguishes a word in a title from the same word elsewhere

MAX_TERM = 64
"""The most characters of a term. Encoded data would flood the vocabulary with longer ones."""

UNCOUNTED = 2**64 - 2**40
"""The least hash of a name. One in 16 million other terms has a hash as high, by chance."""

_FIRST_NAME = np.uint64(UNCOUNTED)
_TAKEN = (bytes(8), b"\xff" * 8)  # no term has these hashes
_NAME = "^"  # before a name in its term; no other term has it
_MAX_NAME = 32  # characters of a name with &
_DEFINES = "\x01"  # before a defined name in the parts of a text
_MAX_DEFINED = 128  # characters of a defined name
_DEFINITION = 3.0  # the weight of a definition in a query for it

_MAX_CAMEL_PARTS = 12  # a name with more parts is a hash or encoded data
_CACHED = 1 << 16
_QUERIES, _SHORT_QUERY = 1 << 10, 256  # queries that are cached, and characters of each

# Particles alone have no meaning. Their bigrams stay, because 目的 and 了解 are words.
_STOP_CHARACTERS = frozenset("的了吗呢吧啊呀嘛・ー")


def _compound(word: str) -> str:
    """Return a pattern of words joined by signs: src/main.py, R&D, v1.2; also of C++ and F#."""
    joint = r"(?::(?://|:|\\)?|[-./@\\\u200c]|&(?!.\+\+|.#)|[,'\u2019](?<=\d.)(?=\d\d\d?(?!\d)))"
    # No group is possessive: Python 3.11.2 keeps the text that a failed repetition has read.
    return rf"[A-Za-z](?:\+\+|#)(?![A-Za-z0-9_])|{word}++(?:{joint}{word}++)*"


_DEFINED = rf"{_DEFINES}\S*"
_ASCII_PIECE = re.compile(rf"{_DEFINED}|{_compound('[A-Za-z0-9_]')}")
# 你好吗 gives 你好, 好吗 and 吗: the lookahead matches two CJK characters, and one is consumed.
_PIECE = lazy(
    lambda: (
        rf"(?=({_DEFINED}|[{CJK_CHARS}]{{2}}|[{CJK_CHARS}](?:[{WITHIN_WORDS}]++[{CJK_CHARS}])?"
        rf"|{_compound(word_characters())}|[{SPACELESS_CHARS}][{SPACELESS_CHARS}{WITHIN_WORDS}]*+))"
        rf"(?:[{CJK_CHARS}]|\1)"
    )
)
_CJK = lazy(f"[{CJK_CHARS}]")
_SPACELESS = lazy(f"[{SPACELESS_CHARS}]")
_UNSPACED = lazy(f"[{CJK_CHARS}{SPACELESS_CHARS}]")
_LETTERS = re.compile("[A-Za-z]{2,}")
_SPACE = re.compile(r"\s")
_WITH_AND = re.compile(r"[A-Za-z]\w*(?:&[A-Za-z]\w*)+")  # R&D, AT&T

# src/data_file.py is split at /, then data_file.py at ., then data_file at _. The last pattern
# splits camelCase, PascalCase, HTTPServer and sha256, but not the plural of an acronym (URLs).
_SEPARATORS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[/\\:@]+",
        r"\.+",
        r"-+",
        r"_+",
        "\u200c",
        r"(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])"
        r"|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)",
    )
)
_CAMEL = len(_SEPARATORS) - 1

# A piece of a query that matches this, or `_TWO_SLASHES`, is an identifier. These are not
# identifiers: well-known, covid-19, 2nd, 10am, and/or, e.g.
_IDENTIFIER = re.compile(
    r"_|[^\W\d_]\d"  # snake_case, E4102
    r"|[a-z][A-Z]|[A-Z]{2}[a-z]{2}"  # camelCase, HTTPException
    r"|\A(?!.*[a-z]).*[A-Z]{2}"  # EACCES, RFC-7231
    r"|\w\w\.[^\W\d_]|\w\.[^\W\d_]\w"  # main.c, a.py
    r"|[^\W\d_]\w*:[:/]*\w"  # std::vector, main:42
    r"|[A-Za-z]&[A-Za-z]"  # R&D
)
_TWO_SLASHES = re.compile(r"[/\\].*[/\\]")  # /usr/bin, src/main/app


class _Stemming(threading.local):
    """A stemmer for each thread, since a stemmer is not thread-safe and queries must not wait."""

    def __init__(self) -> None:
        self.word: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord


_stem = _Stemming()


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The terms of a query, each once."""

    terms: tuple[str, ...]
    hashes: npt.NDArray[np.uint64]  # of the terms, ascending
    weights: npt.NDArray[np.float32]  # the number of times that the query has each term
    identifiers: tuple[int, ...]  # hashes of the identifiers, if there are no other words; else ()


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, with repeats: one form of each word, and no names."""
    return list(chain.from_iterable(map(_PIECE_TERMS.__getitem__, _pieces(prepared(text)))))


def indexed_terms(text: str) -> list[str]:
    """Return all terms of a text in order, with repeats: all forms of words, and names."""
    words = chain.from_iterable(map(_PIECE_WORDS.__getitem__, _pieces(prepared(text))))
    return list(chain.from_iterable(words))


def term_hash(term: str) -> int:
    """Return the hash of a term in [1, 2**64 - 2], the same in all processes.

    The hash of a name is in [UNCOUNTED, 2**64 - 2].
    """
    return int.from_bytes(_packed_hash(term), "little")


@lru_cache(maxsize=_CACHED)
def _packed_hash(term: str) -> bytes:
    """Return the hash of a term as 8 bytes, little-endian."""
    digest = blake2b(term.encode(errors="surrogatepass"), digest_size=8).digest()
    if term[:1] != _NAME and digest not in _TAKEN:
        return digest
    hashed = int.from_bytes(digest, "little")
    named = hashed | UNCOUNTED if term[:1] == _NAME else hashed
    return min(max(named, 1), 2**64 - 2).to_bytes(8, "little")


def definition_term(name: str) -> str:
    """Return the term that marks a text as the definition of an identifier; case counts."""
    return f"{_NAME}{_DEFINES}{name}"


def parts(
    text: str, name: str = "", heading: str = "", defined: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the normalised strings whose terms index a text; a repeated string counts twice.

    They are the text; its heading, HEADING - 1 times, because the text begins with it; the name of
    its file, unless that is a number; the stop words of heading and name, as names; and the
    identifiers that the text defines (`defined`, see `definition_term`).
    """
    found: tuple[str, ...] = (prepared(text),)
    if heading:
        found += (prepared(heading),) * (HEADING - 1)
    if name and not name.isdecimal():
        found += (prepared(name),)
    if (heading or name) and (names := _names_of(f"{heading} {name}")):
        found += (names,)
    if defined:
        short = (one for one in defined if len(one) <= _MAX_DEFINED and not _SPACE.search(one))
        found += (" ".join(f"{_DEFINES}{one}" for one in short),)
    return found


@lru_cache(maxsize=_QUERIES)
def _names_of(heading: str) -> str:
    """Return the stop words of a heading, capitalised, so that they are indexed as names."""
    words = map(str.lower, _LETTERS.findall(heading))
    return " ".join({word.capitalize(): None for word in words if word in STOP_WORDS})


def is_spaced(text: str) -> bool:
    """Return True if spaces separate the words of a text, False for Chinese or Thai."""
    return text.isascii() or not _UNSPACED.search(text)


def hashes(text: str) -> bytes:
    """Return the hashes of all terms of a prepared text, 8 bytes each."""
    return b"".join(map(_PIECE_HASHES.__getitem__, _pieces(text)))


def heading_of(text: IndexedText, abstract: str) -> str:
    """Return the title and headings that come before the passage (or abstract) in a text."""
    shown = text.passage if text.ordinal else abstract
    return text.text[: -len(shown)] if shown and text.text.endswith(shown) else ""


def title_keys(title: str) -> tuple[int, ...]:
    """Return the key of each term of a title, as `as_titles` makes it; names have none."""
    found = hashes(prepared(title))
    # Faster than numpy: a title has few terms.
    terms = sorted(set(struct.unpack(f"<{len(found) // 8}Q", found)))
    return tuple(term ^ _TITLE for term in terms if term < UNCOUNTED)


def as_titles(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Convert hashes of terms to keys of titles, by which titles have postings of their own."""
    return hashes ^ np.uint64(_TITLE)


def encode(
    text: str, name: str = "", heading: str = "", defined: Sequence[str] = ()
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint16], int]:
    """Return the terms of a text with its file name, heading and definitions; see `parts`.

    Returns:
        The hashes of the terms, each once, ascending; the frequency of each, at most 65,535; the
        number of terms, with repeats and without names.
    """
    found = bytearray().join(map(hashes, parts(text, name, heading, defined)))
    ordered = np.frombuffer(found, "<u8")
    ordered.sort()
    # np.unique takes twice the time.
    edges = np.ones(len(ordered) + 1, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=edges[1:-1])
    starts = edges.nonzero()[0]
    counts = np.minimum(np.diff(starts), 0xFFFF).astype(np.uint16)
    return ordered[starts[:-1]], counts, int(ordered.searchsorted(_FIRST_NAME))


def query_terms(text: str) -> QueryTerms:
    """Return the terms of a query. Results are cached: do not write to the arrays."""
    return _remembered_terms(text) if len(text) <= _SHORT_QUERY else _query_terms(text)


@lru_cache(maxsize=_QUERIES)
def definition_terms(name: str) -> QueryTerms:
    """Return the query terms for an identifier: that of its definition, and those of its uses.

    The term of the definition has the most weight, so that texts with the definition come first. Do
    not write to the arrays.
    """
    asked = _query_terms(name)
    term = definition_term(name)
    weights = {**dict(zip(asked.terms, asked.weights.tolist(), strict=True)), term: _DEFINITION}
    return _of_weights(weights, (term_hash(term),))


def _query_terms(text: str) -> QueryTerms:
    text = prepared(text)
    weights: dict[str, float] = {}
    names: dict[str, float] = {}
    for forms in chain.from_iterable(map(_query_words, _pieces(text))):
        if forms[0][0] == _NAME:
            names[forms[0]] = names.get(forms[0], 0) + 1
            continue
        # The form as it is written weighs as much as the others together.
        for place, form in enumerate(forms):
            share = 1.0 if len(forms) == 1 else 0.5 if place == 1 else 0.5 / (len(forms) - 1)
            weights[form] = weights.get(form, 0) + share
    weights |= _names_in_query(text, names, alone=weights.keys() <= NEGATIONS)
    return _of_weights(weights, _identifiers(text))


def _of_weights(weights: Mapping[str, float], identifiers: tuple[int, ...]) -> QueryTerms:
    ordered = sorted((term_hash(term), term) for term in weights)
    return QueryTerms(
        tuple(term for _, term in ordered),
        np.array([hashed for hashed, _ in ordered], np.uint64),
        np.array([weights[term] for _, term in ordered], np.float32),
        identifiers,
    )


def _query_words(piece: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of a piece of a query, each as a tuple of its forms.

    For a piece of several clusters in Thai, or another script without spaces, the words are the
    bigrams of its clusters.
    """
    words = _PIECE_WORDS[piece]
    if _SPACELESS.match(piece) and (several := len(clusters(without_invisible(piece))) - 1):
        return words[-several:]
    return words


def _names_in_query(text: str, names: dict[str, float], *, alone: bool) -> dict[str, float]:
    """Return the names (stop words in capitals, AT&T) that a query asks for, with weights.

    Names in capitals are left out if the whole query is in capitals. If the query has no other
    words, all its stop words are returned as names.
    """
    is_shouted = text.isupper() and len(text.split()) > 1
    kept = {
        name: weight
        for name, weight in names.items()
        if "&" in name or (name[1:].isupper() and not is_shouted)
    }
    if kept or not alone:
        return kept
    stops = [word for word in map(str.lower, _LETTERS.findall(text)) if word in STOP_WORDS]
    return {f"{_NAME}{form}": 1.0 for word in stops for form in (word.capitalize(), word.upper())}


_remembered_terms = lru_cache(maxsize=_QUERIES)(_query_terms)


def _pieces(text: str) -> list[str]:
    """Split a text at spaces and punctuation; CJK text gives overlapping pairs of characters.

    A run of Thai, or of another script without spaces, is one piece.
    """
    pattern = _ASCII_PIECE if text.isascii() else _PIECE
    return pattern.findall(text)


_Value = TypeVar("_Value")


class _Memo(dict[str, _Value]):
    """A cache of a function's results by its string argument; it is emptied when full."""

    def __init__(self, function: Callable[[str], _Value]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, piece: str) -> _Value:
        value = self._function(piece)
        if len(piece) <= 2 * MAX_TERM:
            if len(self) >= _CACHED:
                self.clear()
            self[piece] = value
        return value


def _piece_words(piece: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of a piece, each as a tuple of its forms, such as ("cafe", "café")."""
    out: list[tuple[str, ...]] = []
    if piece[:1] == _DEFINES:
        return ((f"{_NAME}{piece}",),)
    piece = without_invisible(piece)
    if piece.isascii():
        _collect_piece(piece, out)
    elif _CJK.match(piece):
        if piece[0] not in _STOP_CHARACTERS:
            out.append((piece[0],))
        if len(piece) == 2:
            out.append((piece,))
    elif _SPACELESS.match(piece):
        found = clusters(piece)
        # Single consonants are in all texts. Clusters come before bigrams: see `_query_words`.
        out += [(one,) for one in found if len(one) > 1 or len(found) == 1]
        out += [(one + other,) for one, other in pairwise(found)]
    else:
        _collect_piece(piece, out)
    return tuple(out)


def _piece_terms(piece: str) -> tuple[str, ...]:
    return tuple(forms[0] for forms in _PIECE_WORDS[piece] if forms[0][0] != _NAME)


def _piece_hashes(piece: str) -> bytes:
    # The words need no cache beside that of the hashes.
    return b"".join(map(_packed_hash, chain.from_iterable(_piece_words(piece))))


_PIECE_WORDS = _Memo(_piece_words)
_PIECE_TERMS = _Memo(_piece_terms)
_PIECE_HASHES = _Memo(_piece_hashes)


def _collect_piece(piece: str, out: list[tuple[str, ...]]) -> None:
    if not piece.isascii():
        piece = with_ascii_digits(piece)
        while piece and not (piece[0].isalnum() or piece[0] == "_"):
            piece = piece[1:]  # a mark without a letter before it
    if "&" in piece:
        if len(piece) <= _MAX_NAME and _WITH_AND.fullmatch(piece):
            out.append((f"{_NAME}{piece.casefold()}",))
        words: list[tuple[str, ...]] = []
        for part in piece.split("&"):
            _collect_piece(part, words)
        out += [forms for forms in words if forms[0][0] != _NAME]
        return
    for part in numbers(piece) if piece[:1].isdecimal() or "," in piece else (piece,):
        out += _segment_words(part)
        if number := dotted_number(part):
            out.append((number,))


def _segment_words(segment: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of a segment, each as its forms: a/b.py gives itself, a, b.py, b and py."""
    parts, level = [segment], 0
    if segment.isalnum():
        is_whole = segment.isdecimal() or (segment.isalpha() and segment[1:].islower())
        level = len(_SEPARATORS) if is_whole else _CAMEL
    while parts == [segment] and level < len(_SEPARATORS):
        if level == _CAMEL and len(segment) > MAX_TERM:
            return ()
        parts = [part for part in _SEPARATORS[level].split(segment) if part]
        level += 1
    if not parts:
        return ()
    words = _forms(segment) if len(segment) <= MAX_TERM else []
    is_camel = level > _CAMEL
    if parts != [segment] and not (is_camel and len(parts) > _MAX_CAMEL_PARTS):
        for part in parts:
            if len(part) > 1 or not is_camel:  # a single letter has no meaning: the E of E4102
                words += _SEGMENT_WORDS[part]  # a part is not split again at the same separators
    return tuple(words)


_SEGMENT_WORDS = _Memo(_segment_words)


def _forms(segment: str) -> list[tuple[str, ...]]:
    """Return a word as a list of one tuple, its forms: [("cafe", "café")] for café.

    A stop word with a capital letter gives a name, any other stop word [].
    """
    term = segment.casefold()
    if term in STOP_WORDS:
        is_name = len(segment) > 1 and (
            segment.isupper() or (segment.istitle() and term not in BEGINNINGS)
        )
        return [(f"{_NAME}{segment}",)] if is_name else []
    if term.isascii():
        return [(_stemmed(term),)]
    term = with_usual_letters(term)
    plain, other = folded(term), spelled(term)
    if plain == term or plain in STOP_WORDS:
        return [(_stemmed(term),)]  # thé without its accent would be "the"
    forms = plain, term, *([other] if other else [])
    return [tuple(dict.fromkeys(map(_stemmed, forms)))]


def _stemmed(term: str) -> str:
    # Letters are stemmed in any case, so that jsonresponse finds JSONResponse. A term with digits
    # or signs is kept as it is.
    return _stem.word(term) if term.isalpha() else term


def _identifiers(text: str) -> tuple[int, ...]:
    """Return the hashes of a query's identifiers, such as main.c; () if it has other words.

    Several words in capitals are not identifiers: the query is written in capitals.
    """
    found: list[str] = []
    shouted = True
    for token in text.split():
        pieces = _pieces(token)
        if len(pieces) != 1 or not 1 < len(pieces[0]) <= MAX_TERM:
            return ()
        piece = pieces[0]
        words = _PIECE_WORDS[piece]
        if not words or not (_IDENTIFIER.search(piece) or _TWO_SLASHES.search(token)):
            return ()
        found.append(words[0][-1])
        shouted = shouted and piece.isalpha() and piece.isupper()
    if shouted and len(found) > 1:
        return ()
    return tuple(map(term_hash, dict.fromkeys(found)))
