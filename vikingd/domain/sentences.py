"""The division of a text in English, Chinese or both into sentences, without a model."""

from __future__ import annotations

import re

from vikingd.domain.text import CJK_CHARS, lazy

_ITEM = r"(?:[-*+•]|\d{1,2}[.)])[ \t]"
_EMOJI = "[\u2600-\u27bf\u2b50\U0001f000-\U0001faff\ufe0f\u200d]"
# Marks, closing quotes or brackets, emoji and white space, such as `?!") 🙂 `; or the end of a line
# before a blank line or a list item. No part can match in two ways, so it is linear.
_MARK = lazy(
    r"(?<![.!?…。！？｡])(?P<marks>[.!?…。！？｡]++)(?:(?<![.!?])|(?![0-9a-z/=&-]))"
    r"(?P<closing>[\"'”’»*_)\]』」）】》〉]*+)"
    rf"(?P<space>(?>(?:\s*+{_EMOJI}++)*)\s*+)"
    rf"|\n(?:(?=[^\S\n]*+\n)|(?=[^\S\n]*+{_ITEM}))\s*+"
)
# The rest of a line before a blank line or a list item such as "- milk" or "2. eggs".
_NEW_BLOCK = lazy(rf".*\n(?:[^\S\n]*\n|[^\S\n]*{_ITEM})")
# Opening quotes and brackets, and the next word: ("The
_NEXT = lazy(r"[\"'“‘«(\[*_「『（【]{0,4}(\w{0,16})")
_CJK = lazy(f"[{CJK_CHARS}“「『（【《]")
_REVERSED_WORD = lazy(r"[A-Za-zÀ-ɏ.]*+(?![\d_])")  # m.p, of the reversed text "m.p 5 ta"
_DOTTED = lazy(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # U.S, z.B
# The number of a list item, at the beginning or after a colon: 3, (b, iv, ": 1".
_NUMBER = lazy(r"(?:\A[\s>*_(-]*(?:\d{1,2}|[A-Ha-h]|[ivxIVX]{1,4})|[:：]\s*1)\Z")
_DAY = lazy(r"\b\d{1,2}\Z")  # the 3 of "am 3. Mai"
# A word after a.m. or p.m. that goes on with the sentence: Monday, EST.
_OF_HOURS = lazy(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|[A-Z]{2,4}")
_PARTICLE = lazy("[，、；：,;的是]")  # a sentence goes on with one of these after a quotation
# Who speaks, after a quotation: 他说, "Ana said".
_SPEAKS = lazy(
    r"[^，。！？“「]{0,4}?[说說问問道喊叫答笑叹嘆想](?P<tag>[。，：])?"
    r"|[A-Z]\w{0,20} (?:said|says|asked|asks|replied|answered|shouted|cried|wrote)\b"
)
_OPENING = {"”": "“", "’": "‘", "」": "「", "』": "『"}
_REACH = 24  # characters before a mark that are read
_MOST_QUOTED = 200  # characters of a quotation that is followed back to its beginning


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_BEFORE_NAME = _words(
    "mr mrs ms mx dr prof rev fr gen col maj sgt capt lt cmdr hon gov sen rep pres messrs mme mlle "
    "vs cf viz approx incl excl resp e g p.s p.p.s"
)
_BEFORE_NUMBER = _words(
    "no nos nr p pp vol fig figs eq sec ch art tab ver v c ca tel rm apt ext jan "
    "feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun"
)
"""Abbreviations before a number; elsewhere some of them are words, such as "No."."""

_LAST_OR_NOT = _words(
    "st mt ft ave rd blvd jr sr al dept est gal oz lb lbs mi yd yds hr hrs ed eds univ assn bldg"
)
"""Abbreviations that end a sentence only before one of `_BEGINNINGS`."""

_MONTHS = _words(
    "januar februar märz april mai juni juli august september oktober november dezember"
)
_LAST_BEFORE_CAPITAL = _words("inc ltd co corp bros etc a.m p.m max min")
_BEGINNINGS = _words(
    "the a an i he she it we they you this that these those there here his her my our your their "
    "its but and so then if when while what why how who where which is are was were do does did "
    "can could would should please or in on at for from as after before not no yes now next also "
    "nobody nothing everyone everything some all most many both each let"
)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text in order, without white space at their ends."""
    ends = sentence_ends(text)
    cut = (text[start:end].strip() for start, end in zip([0, *ends], ends, strict=False))
    return [sentence for sentence in cut if sentence]


def sentence_ends(text: str) -> list[int]:
    """Return the end index of each sentence, white space after it included.

    The last index is len(text). A line end ends a sentence only before a blank line or a list item.
    In doubt a sentence is not divided. The time is linear in the length of the text.
    """
    ends, start = list[int](), 0
    for mark in _MARK.finditer(text):
        if mark["marks"] is None or _is_end(text, start, mark):
            start = mark.end()
            ends.append(start)
    if start < len(text):
        ends.append(len(text))
    return ends


def _is_end(text: str, start: int, mark: re.Match[str]) -> bool:
    """Return True if a mark such as "." or "?" ends the sentence that begins at index `start`."""
    marks, closing, space, end = mark["marks"], mark["closing"], mark["space"], mark.end()
    if end == len(text) or ("\n" in space and _NEW_BLOCK.match(text, mark.start("space"))):
        return True
    before = text[max(start, mark.start() - _REACH) : mark.start()]
    following = _NEXT.match(text, end)
    word = following[1] if following else ""
    if marks.isascii() and not space:
        may_end = _CJK.match(text, end) or (len(word) > 1 and _begins(word))
        if not may_end or "/" in before.rpartition(" ")[2]:
            return False  # within a word or a path
    if closing:
        return not _goes_on(text, start, mark, word)
    if marks == ".":
        is_whole = mark.start() - start < _REACH
        return not _abbreviates(before if is_whole else f"…{before}", word)
    return bool(marks.strip(".…")) or word[:1].isupper()


def _begins(word: str) -> bool:
    """Return True for a capitalized word that usually begins a sentence, as in "etc. The"."""
    return word.lower() in _BEGINNINGS and not word.islower()


def _abbreviates(before: str, word: str) -> bool:
    """Return True if the full stop between `before` and `word` does not end a sentence.

    It belongs to an abbreviation or a number, as in "Dr. Smith" or "3. Mai".
    """
    if _NUMBER.search(before) or (_DAY.search(before) and word.lower() in _MONTHS):
        return True
    found = _REVERSED_WORD.match(before[::-1])
    last = found[0][::-1] if found else ""
    key = last.lower()
    if word[:1].isdigit() and key in _BEFORE_NUMBER:
        return True
    if key in _LAST_BEFORE_CAPITAL:
        return not word[:1].isupper() or _OF_HOURS.fullmatch(word) is not None
    if key in _BEFORE_NAME:
        return True
    is_initial = len(last) == 1 and last.isupper() and last != "I"
    may_be_last = is_initial or key in _LAST_OR_NOT or _DOTTED.fullmatch(last) is not None
    return may_be_last and not _begins(word)


def _goes_on(text: str, start: int, mark: re.Match[str], word: str) -> bool:
    """Return True if a sentence goes on after a closing quote or bracket, as in "Go!" he said."""
    closing, end = mark["closing"][-1], mark.end()
    if word[:1].islower() or closing in "》〉" or _PARTICLE.match(text, end):
        return True
    if closing in "）】":
        return text[start : start + _REACH].lstrip()[:1] not in "（【"
    speaks = _SPEAKS.match(text, end)
    if not speaks or (not speaks["tag"] and mark["marks"][-1] not in "?!？！"):
        return False
    opening = _OPENING.get(closing, closing)
    opened = text.rfind(opening, max(start, mark.start() - _MOST_QUOTED), mark.start())
    return opened < 1 or text[opened - 1] not in "：:"
