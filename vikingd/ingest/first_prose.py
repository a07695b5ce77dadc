"""The first prose of a text that describes its topic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from vikingd.domain.sentences import sentence_ends
from vikingd.domain.text import CJK_CHARS, approximate_tokens, join_lines, lazy
from vikingd.ingest.markdown import TooCostly

PROSE_TOKENS = 8
"""The least tokens of prose; a shorter text is a label, a badge or a greeting."""

_GREETING_TOKENS = 12  # A longer greeting says something.
_ENOUGH = 25  # tokens of a paragraph that needs no other one
_LATER = 4  # later prose that is looked at for words of the title
_MOST = 0.6  # share of the title's words that later prose has at once
_SUBJECT = 32  # characters of later prose in which they are
_SHORT_WORD, _KEY = 4, 6  # letters of a word that counts, and of its beginning
_WORD = re.compile(rf"[^\W\d_{CJK_CHARS}]+")
_CJK_RUN = re.compile(rf"[{CJK_CHARS}]{{2,}}")
WIKI_LINK = lazy(r"\[\[(?:[^\]\[|]*\|)?([^\]\[|]+)\]\]")
"""A link of a wiki; its group is the text that a reader sees."""
_LINK = re.compile(r"(?<!\S)\S*://\S*")

_GREETS = lazy(
    r"(?i:welcome\b|hi\b|hello\b|hey\b|thanks? (?:you )?for\b|congratulations\b)"
    r"|欢迎|歡迎|[你您]好|大家好|感谢|感謝|恭喜"
)
# Announcements, and remarks about the text itself.
_BESIDE = lazy(
    r"(?i:we(?:'re| are) (?:very |so )?(?:excited|happy|pleased|thrilled|proud)\b"
    r"|(?:sponsor|last updated|translat|table of contents|on this page|disclaimer)"
    r"|(?:published|written|posted) (?:on|by)\b|read (?:this|it) in\b"
    r"|(?:note|tip|warning|important|caution):|looking for .*\?|want (?:to|more)\b.*[?!]"
    r"|th(?:is|e) (?:page|article|document|documentation|section|guide|feature|rule|post|file) "
    r"(?:is|was|has been) (?:\w+ )?(?:moved|deprecated|outdated|out of date|obsolete|incomplete"
    r"|under construction|a work in progress|translated|(?:auto-?)?generated|available in))"
    r"|(?i:(?:so far|up to now|until now)\b|you(?:'ve| have) already\b"
    r"|(?:in|as) the (?:previous|last|preceding) (?:chapter|section|part|tutorial|lesson)\b)"
    r"|在?(?:上一?|前(?:面)?几?)个?(?:章|节|篇|小节)|到目前为止"
    r"|(?i:th(?:is|e) (?:page|guide|section|tutorial|article|chapter|document) assumes\b)"
    r"|[\w-]+(?: \w+)?(?: [|·•/] [^|·•/]{1,48}){2,}\Z"  # "English | Deutsch | Español"
    r"|(?:注意|提示|警告|重要)[:：]|本(?:文|页|文档)(?:由|已|假设|假定)|此(?:页|章节|章|节)假[设定]|翻译|此页"
    r"|[^。\n]{0,40}(?:公众号|公眾號|扫码|掃碼|微信群|交流群)"
)

# The beginnings of sentences that refer to the sentence before, or to another place.
_LEANS = lazy(
    r"(?i:(?:it|they|he|she|but|and|so|then|however|also|therefore|otherwise|instead|such|"
    r"thus|hence|"
    r"alternatively|moreover|furthermore|for example|in addition|for more|see|more|"
    r"read more|learn more|refer to|note that|after that|now)\b"
    r"|(?:this|that|these|those)(?:'s|,)?[ ](?:is|was|are|were|means?|can|will|would|should|may|"
    r"might|has|have|does|do|makes?|allows?|lets?|way|gives?|also|happens?|works?|could|must|ones?|"
    r"approach|time)\b"
    r"|\.{3}|…|并[且把将]|将[其它]|把[其它]|该|它|他们|她|这|這|那|但|而|于是|於是|因此|所以|其中|此外|另外|另一|例如|比如|相当于|区别在于|然后|不过|"
    r"同时|否则|如果您?在|参见|请参[见阅考]|詳見|详见|更多|上述|以上|下面|接下来|書接|书接)"
)
# An introduction that says nothing without what it introduces.
_POINTS = lazy(
    r"(?i:\b(?:this|these|following|follows|below|examples?|here|above)\b)|如下|以下|下面|这样|下列|示例|例如"
)


def first_prose(paragraphs: Iterable[tuple[str, bool]], title: str = "") -> str:
    """Return the first prose of a text; all paragraphs if there is no prose.

    Each paragraph has a flag: True if it may be the prose. Prose that is not about the topic (see
    `_is_off_topic`) is taken only if there is no other. The same holds for a sentence that refers
    back to the introduction of a list or code. Without any, all such introductions are taken. If
    the first prose has no word of the title, a later one that begins with such words is taken.
    Short prose is continued with the next paragraphs, up to a heading, which is an empty paragraph.

    Raises:
        TooCostly: the paragraphs before the first prose take too long to parse.
    """
    keys = _title_keys(title)
    passed_over, introductions, introduction, leaning = list[str](), list[str](), "", ""
    beside, first, found = "", list[str](), list[str]()
    looked_at, is_introduced = 0, False
    try:
        for text, may_be in paragraphs:
            prose = _prose_of(text) if may_be else ""
            if found:
                if not prose:
                    if not first and not _has_title_words(keys, " ".join(found)):
                        first, found = found, []
                        continue
                    break
                found.append(prose)
            elif first:
                looked_at += bool(prose)
                if (
                    prose
                    and _has_title_words(keys, prose[:_SUBJECT], _MOST)
                    and not (_is_off_topic(prose) or refers_back(prose))
                ):
                    return prose
                if looked_at == _LATER:
                    break
                continue
            elif prose and is_introduced and refers_back(prose):
                leaning = leaning or prose
            elif prose and not _is_off_topic(prose):
                found.append(prose)
            elif prose:
                beside = beside or prose
            elif text and not _is_rule(text):
                passed_over.append(text)
                if may_be and is_prose(text):
                    introductions.append(text)
                    if not _POINTS.search(text):
                        introduction = introduction or text
            ends_open = text.endswith((":", "："))
            is_introduced = ends_open or (is_introduced and not may_be)
            is_enough = sum(map(approximate_tokens, found)) >= _ENOUGH
            if found and (is_enough or ends_open):
                if _has_title_words(keys, " ".join(found)):
                    break
                first, found = found, []
    except TooCostly:
        if not (first or found):
            raise
    told = first or found
    if len(told) == 1:
        return told[0]
    told = told or [introduction or leaning or beside]
    return join_lines(told) or " ".join(introductions or passed_over)


def _title_keys(title: str) -> list[str]:
    """Return the keys of a title: the beginnings of its longer words, and pairs of CJK characters.

    A text with a word of the title contains such a key.
    """
    keys = [word[:_KEY].casefold() for word in _WORD.findall(title) if len(word) >= _SHORT_WORD]
    return keys + [a + b for run in _CJK_RUN.findall(title) for a, b in pairwise(run)]


def _has_title_words(keys: Sequence[str], text: str, share: float = 0.0) -> bool:
    """Return True if a text has at least one of the keys and at least the share `share` of them.

    Without keys the result is True.
    """
    if not keys:
        return True
    folded = text.casefold()
    return sum(key in folded for key in keys) >= max(share * len(keys), 1)


def refers_back(sentence: str) -> bool:
    """Return True if the first words of a sentence refer to other text, as in "It also runs"."""
    return _LEANS.match(sentence) is not None


def is_prose(text: str) -> bool:
    """Return True for a text of at least PROSE_TOKENS tokens, not counting web addresses.

    A line of punctuation such as `-----` is no prose.
    """
    shown = _LINK.sub("", text) if "://" in text else text
    return approximate_tokens(shown) >= PROSE_TOKENS and not _is_rule(shown)


def _prose_of(text: str) -> str:
    """Return the prose sentences of a paragraph; "" if it has none.

    A sentence that introduces a list or code and a short greeting are no prose.
    """
    if "[[" in text:
        text = WIKI_LINK.sub(r"\1", text)
    if text.endswith((":", "：")):
        ends = sentence_ends(text)
        text = text[: ends[-2]].rstrip() if len(ends) > 1 else ""
    if not is_prose(text):
        return ""
    if _GREETS.match(text):
        end = sentence_ends(text)[0]
        if approximate_tokens(text[:end]) < _GREETING_TOKENS and is_prose(text[end:]):
            return text[end:].lstrip()
    return text


def _is_off_topic(text: str) -> bool:
    """Return True for prose about the page instead of its topic, and for a single question.

    Examples are "We are excited to announce ...", "This page is deprecated." and a warning in
    capitals.
    """
    if _BESIDE.match(text) or _is_in_capitals(text):
        return True
    return text.endswith(("?", "？")) and len(sentence_ends(text)) == 1


def _is_rule(text: str) -> bool:
    return len(set(text)) < 4 and not any(map(str.isalnum, text))


def _is_in_capitals(text: str) -> bool:
    text = _LINK.sub("", text) if "://" in text else text
    return sum(map(str.isupper, text)) * 2 > len(text)
