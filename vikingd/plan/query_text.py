"""The text of a query: the questions that it asks, and the name whose definition it asks for.

Questions: "Who is Ada? Also, where is the key?". The rules are cautious: a request that is not
clearly several questions is one. Definitions: "where is Client.get defined", "def get", "get()".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from vikingd.domain.find_query import FindQuery
from vikingd.domain.sentences import sentence_ends
from vikingd.domain.text import CJK_CHARS, lazy
from vikingd.index.lexicon.tokens import query_terms, terms

MOST = 4
"""The most questions of a request; the last one has the text of all further ones."""

_LONGEST = 4000
"""The most characters of a request that is divided; a longer one is a pasted document."""

_NAMES = 2
"""The least number of names in a question that no word introduces."""

# Signs of code: "`name`", "x == y", "f()", "a -> b".
_CODE = re.compile(r"```|`[^`\n]*`|[{};]\s*$|\)\s*\{|==|=>|->|::|\w\(\)", re.MULTILINE)
_QUOTED = lazy(
    r"\"[^\"\n]*\"|“[^”\n]*”|「[^」\n]*」|『[^』\n]*』|《[^》\n]*》|\([^()\n]*\)|（[^（）\n]*）"
)
_END = lazy(r"；\s*|\n\s*")
"""The ends of what is asked, besides those of sentences."""

_ASKS = lazy(r"[?？][\"'”’』」)）\s]*\Z")
# The beginning of a further question: "Also, ", "And additionally ", "Another question: ".
_NEXT = lazy(
    r"\s*(?:(?:and\s+)?(?:also|additionally|in\s+addition|besides|plus|by\s+the\s+way|moreover"
    r"|furthermore|(?:one\s+more|another)\s+(?:question|thing))\b[\s,:]*"
    r"|and\s+(?=what\s+about\b)"
    r"|(?:另外|此外|还有|除此之外|顺便|对了|再(?=[请问想]))(?:再|也)?(?:想?请?问(?:一下|一个|下)?)?[，,：:\s]*)",
    re.IGNORECASE,
)
"""The words that introduce one more question."""

# The place between two questions of a sentence: the ", " of "Who is Ada, and what about Bob?".
_JOINT = lazy(
    r"[,;]\s*(?=and\s+(?:(?:also|additionally)[\s,]+(?:wh\w+|how|is|are|do|does|did)|what\s+about)\b)"
    r"|[,，;；]\s*(?=另外|此外|还有|顺便)"
    r"|(?<=[?？])\s+(?=\d{1,2}[.)]\s)|(?<=[?？])(?=[一二三四五六七八九]、)",
    re.IGNORECASE,
)
"""The place between two questions of one line."""

_NUMBER = lazy(r"\s*(?:\d{1,2}[.)]\s+|[一二三四五六七八九]、\s*|[-*•]\s+)")
# The beginning of a request: "Please show", "Can you find", "List".
_WISH = lazy(
    r"\s*(?:please\s+|(?:could|can)\s+you\s+)?(?:show|tell|find|list|give|look\s+up)\b"
    r"|请|帮我|帮忙|给我|告诉我|查一下|列出",
    re.IGNORECASE,
)
_QUESTION_WORD = lazy(
    r"\s*(?:who|whose|whom|what|which|when|where|why|how|is|are|was|were|do|does|did|can|could"
    r"|will|would|should|has|have)\b|.*(?:什么|谁|哪|怎么|怎样|多少|几|吗|呢|如何|为何|是否|何时)",
    re.IGNORECASE,
)
_BEGINS_ANEW = lazy(
    r"我(?:真正|其实|实际上?)?想要?(?:问|了解|知道)的|(?:真正|实际)的?问题是|我那个问题是"
    r"|what\s+i\s+(?:really|actually)\s+(?:want|mean)|my\s+(?:real|actual)\s+question",
    re.IGNORECASE,
)
"""The words of a speaker who comes to the point: the questions before them were talk."""

# Words that refer to the question before: "Where is it?", "And that works?", "Or Bob?".
_REFERS = lazy(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|these|those|one|ones|if)\b"
    r"|\bthat(?=\W*(?:\Z|is\b|was\b|work|happen|mean))"
    r"|\A\s*(?:/|maybe\b|perhaps\b|or\b|或者|还是|那么|那?(?:[它他她]|其(?![实他余中]))|这|该|此|是[吗么]|对[吗吧])|[它其]的|[它他她]们|[对为]此",
    re.IGNORECASE,
)
"""The words by which a question is about the one before it."""

_SUBJECTLESS = lazy(
    r"\s*(?:可以|可否|可不可以|能否|能不能|是否|是不是|会不会|要不要|有没有|需要|需不需要|应该|应当"
    r"|如何|怎么|怎样|为什么|为何|多久|多少)"
)
"""The beginning of a Chinese question without a subject, which is that of the one before."""

_PLAIN_LISTED = """
about actual again also anybodi anyon anyth els ever everyth get give happen hello help hi idea kind
know like look make mean need new ok okay pleas possibl provid question quick real right say show
someon someth sort still sure tell thank thing want way wonder work yes
"""
_PLAIN = frozenset(_PLAIN_LISTED.split())
"""Stems of words that name nothing."""

_PLAIN_CHARACTERS = frozenset(
    "什么怎样哪个谁几多少吗呢吧啊呀是的有了我你您们可以能会要应该需如何为在和或与及请问想知道些那这来着到叫名其之对不没"
)
_CJK = lazy(f"[{CJK_CHARS}]")


_LETTERS = r"[A-Za-z_$\u00c0-\u024f]"
# A part may have hyphens, as the names of Bash and Lisp: "roll-back".
_NAME_PART = rf"{_LETTERS}(?:{_LETTERS}|\d|-(?=[A-Za-z\d]))*[!?]?"
_DEFINED = rf"`?(?P<name>{_NAME_PART}(?:(?:\.|::|#|->|/){_NAME_PART})*)(?:\(\))?`?"
_KIND = (
    r"(?:(?:async\s+)?(?:function|func|fn|def|method|class|struct|enum|union|trait|interface|type"
    r"|typedef|macro|module|namespace|constant|const|variable|var|component|hook|object|record"
    r"|protocol|impl))"
)


def _questions(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(
        re.compile(rf"\s*(?:{pattern})\s*[?？.。!！]*\s*", re.IGNORECASE) for pattern in patterns
    )


_ENGLISH_DEFINITION = _questions(
    _DEFINED,
    rf"{_KIND}\s+{_DEFINED}(?:\(.*\))?",
    rf"(?:where|in\s+(?:which|what)\s+(?:file|module))(?:\s+(?:is|are|was|did|do|does)|'s)\s+"
    rf"(?:the\s+)?(?:{_KIND}\s+)?{_DEFINED}(?:\s+{_KIND})?\s+"
    r"(?:defined|declared|implemented|definition|located)",
    rf"(?:which|what)\s+(?:file|module)\s+(?:defines|declares|implements|has|contains)\s+"
    rf"(?:the\s+)?(?:{_KIND}\s+)?{_DEFINED}",
    rf"(?:(?:find|show|get|go\s+to|jump\s+to)\s+)?(?:me\s+)?(?:the\s+)?"
    rf"(?:definition|declaration|implementation|source)\s+of\s+(?:the\s+)?(?:{_KIND}\s+)?{_DEFINED}"
    rf"(?:\s+{_KIND})?",
    rf"{_DEFINED}\s+(?:definition|declaration|implementation)",
)
_CHINESE_DEFINITION = _questions(
    rf"(?:类|函数|方法|接口|结构体|类型|变量|常量)?\s*{_DEFINED}\s*(?:这个|的)?(?:类|函数|方法|接口|结构体|类型|变量|常量)?"
    r"\s*(?:是)?(?:在|定义在|声明在|实现在)?\s*(?:哪里|哪儿|哪个文件|何处|什么地方)(?:里|中)?"
    r"(?:被)?(?:定义|声明|实现)?的?",
    rf"(?:哪里|哪儿|哪个文件|什么地方)(?:里|中)?(?:定义|声明|实现)了?\s*{_DEFINED}",
    rf"(?:查找|找到|找|查看)?\s*{_DEFINED}\s*的(?:定义|声明|实现|源码)",
)
_LONGEST_DEFINITION = 200  # characters of a question for a definition
_DOTS = re.compile(r"\.|::|#|->|/")


class _Piece(NamedTuple):
    """A question with the statements before it.

    Attributes:
        start: the index of its first character in the request.
        is_next: True if it begins with words such as "Also,".
        names: the terms of the question that can be searched.
        refers: True if it refers to the question before it, as in "And where is it?".
    """

    start: int
    is_next: bool
    names: frozenset[str]
    refers: bool


class _Sentence(NamedTuple):
    start: int
    text: str  # without the words that introduce it
    is_next: bool
    asks: bool


def questions_of(text: str) -> tuple[str, ...]:
    """Return the questions of a request in their order, at most `MOST`; mostly the request alone.

    A statement belongs to the question after it, or to the last question. A request of code or of
    identifiers is not divided. Questions that share a name, or that refer to the question before,
    stay together.
    """
    if ("?" not in text and "？" not in text) or len(text) > _LONGEST:
        return (text,)
    return _questions_of(text)


def finds_of(query: FindQuery) -> tuple[FindQuery, ...]:
    """Return a find for each question of a query; a query with a vector is one question."""
    questions = questions_of(query.text) if query.vector is None else ()
    if len(questions) < 2:
        return (query,)
    return tuple(replace(query, text=question) for question in questions)


@lru_cache(maxsize=1 << 10)
def _questions_of(text: str) -> tuple[str, ...]:
    if _CODE.search(text) or query_terms(text).identifiers:
        return (text,)
    starts = list(_starts(list(_pieces(list(_sentences(text))))))[: MOST - 1]
    parts = [text[low:high] for low, high in pairwise((0, *starts, len(text)))]
    if len(parts) == 1:
        return (text,)
    return tuple(_without_lead(part).strip().rstrip(",;，；") for part in parts)


def _sentences(text: str) -> Iterator[_Sentence]:
    """Yield the sentences of a request; a sentence that joins several questions is divided."""
    plain = _QUOTED.sub(lambda quoted: "·" * len(quoted[0]), text)
    ends = {found.end() for found in chain(_END.finditer(plain), _JOINT.finditer(plain))}
    ends.update(sentence_ends(plain))
    joined = {found.end() for found in _JOINT.finditer(plain)}
    for start, end in pairwise(sorted({0, len(text), *ends})):
        part = plain[start:end]
        said = _without_number(part)
        found = _NEXT.match(said)
        rest = said[found.end() :] if found else said
        may_ask = found is not None or start in joined or end in joined
        asks = _ASKS.search(rest) is not None or (
            may_ask and (_WISH.match(rest) or _QUESTION_WORD.match(rest)) is not None
        )
        yield _Sentence(start, rest, found is not None, asks)


def _pieces(sentences: Sequence[_Sentence]) -> Iterator[_Piece]:
    """Yield the questions, each with the statements before it."""
    talk, is_talk = list[bool](), False
    for sentence in reversed(sentences):
        talk.append(is_talk)
        is_talk = is_talk or _BEGINS_ANEW.search(sentence.text) is not None
        if sentence.is_next:
            is_talk = False
    start: int | None = None
    is_next = False
    for sentence, is_talk in zip(sentences, reversed(talk), strict=True):
        start = sentence.start if start is None else start
        is_next = is_next or sentence.is_next
        if sentence.asks and not is_talk:
            refers = _REFERS.search(sentence.text) is not None or (
                not is_next and _SUBJECTLESS.match(sentence.text) is not None
            )
            yield _Piece(start, is_next, _names(sentence.text), refers)
            start, is_next = None, False


def _starts(pieces: Sequence[_Piece]) -> Iterator[int]:
    """Yield the start of each question that is searched alone, except the first question."""
    known, most = frozenset[str](), 0  # the names so far, and those of the question with most
    for piece in pieces:
        least = 1 if piece.is_next else _NAMES
        is_other = piece.is_next or not (known & piece.names)
        if most >= least and len(piece.names) >= least and is_other and not piece.refers:
            yield piece.start
        known, most = known | piece.names, max(most, len(piece.names))


def _names(question: str) -> frozenset[str]:
    """Return the terms of a question that name something: stems of words, bigrams of CJK."""
    return frozenset(
        term
        for term in terms(question)
        if term not in _PLAIN
        and (not _CJK.match(term) or (len(term) == 2 and not _PLAIN_CHARACTERS.intersection(term)))
    )


def _without_number(text: str) -> str:
    found = _NUMBER.match(text)
    return text[found.end() :] if found else text


def _without_lead(text: str) -> str:
    """Return a question without its number and first words such as "Also,"."""
    text = _without_number(text)
    found = _NEXT.match(text)
    return text[found.end() :] if found else text


def asked_definition(text: str) -> tuple[str, ...]:
    """Return the names whose definition a query asks for, the most precise first.

    For "where is Client.get defined" they are ("Client.get", "get"); () if it asks for no
    definition. A query that is just a name asks for its definition, too.
    """
    if len(text) > _LONGEST_DEFINITION:
        return ()
    chinese = () if text.isascii() else _CHINESE_DEFINITION
    for pattern in (*_ENGLISH_DEFINITION, *chinese):
        if found := pattern.fullmatch(text):
            parts = _DOTS.split(found["name"])
            return (".".join(parts[-2:]), parts[-1]) if parts[1:] else (parts[0],)
    return ()
