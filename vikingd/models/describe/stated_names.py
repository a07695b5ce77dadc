"""The names, quotations and identifiers in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from vikingd.domain.text import CJK_CHARS, HAN, HANGUL, KANA, lazy, normalized, script_of
from vikingd.models.describe.common_words_and_names import (
    ACRONYMS,
    BEGINNINGS,
    COMMON_SURNAMES,
    FUNCTION_WORDS,
    GIVEN,
    PLACES,
    SURNAMES,
)
from vikingd.models.describe.stated_facts import folded, without_addresses, without_dates

_WORD = lazy(r"[^\W_]+")
# Matches the parts of an identifier: "HTTP", "Server" and "2" in HTTPServer2.
_PARTS = lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LATIN_WORD = lazy(r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ0-9]*(?:['’][A-Za-z]+)?")
_CASED_WORD = lazy(r"[^\W\d_][^\W_]*(?:['’][^\W\d_]+)?")

# Matches a fenced block of code, and code in backticks within a line.
_CODE = lazy(r"```[^\n]*\n(.*?)(?:```|\Z)|(`+)(.+?)\2", re.DOTALL)
# Matches a quotation: "a b", “a b”, 「…」, «a b», 'a b'.
_QUOTED = lazy(
    r"“([^”\n]{1,200})”|\"([^\"\n]{1,200})\"|「([^」\n]{1,200})」|『([^』\n]{1,200})』"
    r"|《([^》\n]{1,200})》|«([^»\n]{1,200})»|„([^“”\n]{1,200})[“”]"
    r"|(?<![\w'])'([^'\n]{2,200})'(?!\w)|(?<!\w)‘([^’\n]{2,200})’(?!\w)"
)
_IDENTIFIER = lazy(
    r"(?<![\w.])(?:~|\.{0,2})/(?:[\w.@-]+/?)+"  # a path from a root
    r"|(?<![\w/.])(?:[\w@-][\w.@-]*/)+[\w.@-]*\.\w+"  # a path of a file
    r"|(?<![\w/.])(?:[\w@-][\w.@-]*/){2,}[\w.@-]*"  # a path of three parts
    r"|(?<![\w.])\w+(?:[.:]{1,2}[A-Za-z_]\w*)+(?:\(\))?"  # a dotted name, a file
    r"|(?<![\w.])\w*[A-Za-z0-9]_\w+(?:\(\))?"  # snake_case
    r"|(?<!\w)\w+\(\)"
    r"|(?<![^\s(])--?[A-Za-z][\w-]*"  # an option
    r"|(?<![\w.])@[A-Za-z][\w-]*",  # a user
    re.ASCII,
)
# Matches words joined by slashes, which may be no path: "and/or".
_SIMPLE_PATH = lazy(r"[A-Za-z-]+(?:/[A-Za-z-]+)+/?")
# Matches "e.g.", "U.S." and "vs.".
_ABBREVIATED = lazy(r"(?:[A-Za-z]\.)+[A-Za-z]?\.?|vs\.?")

# Matches the marks at the beginning of a line of Markdown: "> ", "## ", "- ", "1. ", "|".
_LINE = lazy(r"[ \t]*(?:>[ \t]*)*(?:(#{1,6})[ \t]+|[-*+•][ \t]+|\d+[.)][ \t]+|\|)?")
# Matches the text before a word that begins a sentence or a part of it: "Yes. ", "Note: ".
_BEFORE_WORD = lazy(r"(?:\A|[.!?:;…。！？：；|(\[—–/&]|[-–—] ?)[\s\"'“”‘’«»„*_(\[]*\Z")

_SUFFIXES = ("'s", "s", "es", "n", "en", "er", "e", "ed", "d", "ing", "al", "ly", "y", "ic", "'")
_LONGEST_STEM = 64  # characters; all beginnings of a blob would take its square
_ENDS = ("s", "es", "d", "ed")
_ORDINARY_ENDS = ("ing", "tion", "tions", "ment", "ments", "ness", "ization")


class Names:
    """The words, names and identifiers in the material of a description.

    Args:
        text: all text of the material.
    """

    def __init__(self, text: str) -> None:
        self.folded = folded(text)
        self._text = normalized(text)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words in lower case, and the parts of identifiers."""
        made = {word.casefold() for word in _WORD.findall(self._text)}
        made |= {part.casefold() for part in _PARTS.findall(self._text)}
        return frozenset(made)

    @cached_property
    def stems(self) -> frozenset[str]:
        """All beginnings of the words with four letters or more, to compare inflected words.

        For "houses" they are "hous", "house" and "houses".
        """
        return frozenset(
            word[:length]
            for word in self.words
            for length in range(4, min(len(word), _LONGEST_STEM) + 1)
        )

    @cached_property
    def compact(self) -> str:
        """The text in lower case without spaces, hyphens and underscores."""
        return re.sub(r"[\s_-]", "", self.folded)

    def has(self, text: str) -> bool:
        """Return True if the text has these words, not as part of longer words."""
        sought = folded(text)
        before = r"(?<!\w)" if sought[:1].isascii() and sought[:1].isalnum() else ""
        behind = r"(?!\w)" if sought[-1:].isascii() and sought[-1:].isalnum() else ""
        return re.search(before + re.escape(sought) + behind, self.folded) is not None

    def knows(self, word: str) -> bool:
        """Return True if the text has the word or another of its forms."""
        return not self.words.isdisjoint(forms(word.casefold().replace("’", "'")))

    @cached_property
    def language(self) -> str:
        """The language of a text in Latin letters; "" if it is not clear."""
        return language_of(self._text)


def forms(word: str) -> set[str]:
    """Return the forms of an English word in lower case, such as plural and past tense."""
    made = {word}
    for suffix in _SUFFIXES:
        made.add(word + suffix)
        if word.endswith(suffix) and len(word) - len(suffix) > 2:
            made.add(word.removesuffix(suffix))
    if word.endswith("ies"):
        made.add(word[:-3] + "y")
    if word.endswith("y"):
        made.add(word[:-1] + "ies")
    return made


def language_of(text: str) -> str:
    """Return the language of a text in Latin letters; "" if it is not clear."""
    words = {word for word in _WORD.findall(text.casefold()) if len(word) > 1}
    votes = sorted(((len(words & own), name) for name, own in FUNCTION_WORDS.items()), reverse=True)
    (most, name), (second, _) = votes[:2]
    return name if most >= 3 and most >= 1.5 * second else ""


def invented_name(text: str, names: Names) -> str:
    """Return the first name, quotation or identifier in a text that is not in `names`; else ""."""
    text = normalized(text)
    for found in _CODE.finditer(text):
        code = (found[1] or found[3] or "").strip()
        for line in filter(None, map(str.strip, code.splitlines())):
            if not _has_code(line, names):
                return line
    text = without_addresses(_CODE.sub("`", text))
    for found in _QUOTED.finditer(text):
        quoted = next(group for group in found.groups() if group is not None)
        quoted = quoted.strip().strip(".,;:!?…。，；：！？").strip()
        if quoted and not names.has(quoted):
            return quoted
    for found in _IDENTIFIER.finditer(text):
        one = found[0].rstrip(".:,")
        if _ABBREVIATED.fullmatch(found[0]) or _has_code(one, names):
            continue
        if not (_SIMPLE_PATH.fullmatch(one) and all(map(names.knows, re.split("[/-]", one)))):
            return one
    text = without_dates(text)
    if script_of(text) in (HAN, KANA, HANGUL):
        return next(_foreign_words(text, names), "")
    foreign = (run for run in _CJK.findall(text) if run not in names.compact)
    return next(foreign, "") or next(_capitalised(text, names), "")


def _has_code(code: str, names: Names) -> bool:
    forms = (code, code.rstrip("/"), code.removesuffix("()"), code.strip("\"'"))
    return any(form and names.has(form) for form in forms)


def _capitalised(text: str, names: Names) -> Iterator[str]:
    """Yield the capitalised words of a text that are neither in `names` nor ordinary."""
    lower = {word for word in _CASED_WORD.findall(text) if word.islower()}
    for line in text.splitlines():
        start = _LINE.match(line)
        begin = start.end() if start else 0
        words = list(_CASED_WORD.finditer(line, begin))
        in_titles = bool(start and start[1]) or _is_title([word[0] for word in words])
        for found in words:
            word = found[0]
            if word == word.lower() and not any(one.isdigit() for one in word):
                continue
            before = line[begin : found.start()]
            first = in_titles or not before or bool(_BEFORE_WORD.search(before))
            if not _is_allowed(word, names, first) and word.casefold() not in lower:
                yield word


def _is_title(words: list[str]) -> bool:
    """Return True if all longer words begin with a capital letter, as in an English title."""
    long = [word for word in words if len(word) > 3]
    return len(long) > 2 and all(word[0].isupper() for word in long)


def _is_allowed(word: str, names: Names, first: bool) -> bool:
    """Return True if a description may use a capitalised word: it is in `names` or ordinary.

    `first` is True if the word may have its capital letter only because it begins a sentence. Only
    then it may be an ordinary word.
    """
    if names.knows(word) or len(word) == 1:
        return True
    low = word.casefold().replace("’", "'")
    bare = low.split("'")[0]
    if bare in ACRONYMS or bare == "i" or (len(low) > 5 and low in names.compact):
        return True
    if names.language not in ("en", "") or not word.isascii():
        if names.knows(bare) or (first and word[1:].islower()):
            return True  # Their beginnings of sentences are not listed.
        return len(low) > 4 and low[: max(4, len(low) - 3)] in names.stems
    if not first or not word[1:].replace("'", "").replace("’", "").islower():
        return False
    return _is_ordinary(bare) or (len(low) > 6 and low[: max(6, len(low) - 3)] in names.stems)


def _is_ordinary(word: str) -> bool:
    """Return True if an English word in lower case often begins sentences, such as "describes".

    Inflected forms of such words count, too.
    """
    if word in BEGINNINGS or word.endswith(_ORDINARY_ENDS):
        return True
    bases = (word.removesuffix(end) for end in _ENDS if word.endswith(end))
    return any(len(one) > 3 and (one in BEGINNINGS or f"{one}e" in BEGINNINGS) for one in bases)


def _foreign_words(text: str, names: Names) -> Iterator[str]:
    """Yield Latin words, Chinese names and places, and katakana words that are not in `names`."""
    for word in _LATIN_WORD.findall(text):
        if len(word) > 1 and not names.knows(word) and word.casefold() not in names.compact:
            yield word
    for found in PLACES.finditer(text):
        if found[0] not in names.folded:
            yield found[0]
    for found in _KATAKANA.finditer(text):
        if not _has_parts(found[0], names.compact):
            yield found[0]
    if script_of(text) == HAN:
        for found in _CHINESE_NAME.finditer(text):
            if found[0] not in names.folded:
                yield found[0]
        for one in text:
            if one in SURNAMES and one not in names.folded:
                yield one


def _has_parts(word: str, text: str) -> bool:
    """Return True if a text has a word, or the two parts of a compound word."""
    return word in text or any(
        word[:at] in text and word[at:] in text for at in range(2, len(word) - 1)
    )


_CJK = lazy(f"[{CJK_CHARS}]+")
_KATAKANA = lazy("[ァ-ヺー]{4,}")
_CHINESE_NAME = lazy(
    rf"[{COMMON_SURNAMES}][{GIVEN}]{{1,2}}(?=[，。、,;；和与的是在将负说主决提讲认表介解编写为（(]|先生|女士|经理|老师|$)"
)
