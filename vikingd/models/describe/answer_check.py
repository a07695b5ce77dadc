"""The check of a model's description: its form, and that all it states is in the material."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import NamedTuple

from vikingd.domain import hidden_characters
from vikingd.domain.text import CJK_CHARS, NONE, lazy, script_of
from vikingd.models.chat.call_errors import Garbage
from vikingd.models.chat.chat_question import prompt_of
from vikingd.models.chat.json_answer import read_json
from vikingd.models.describe.stated_facts import Facts, folded, invented_fact, without_addresses
from vikingd.models.describe.stated_names import Names, invented_name, language_of

MAX_ABSTRACT = 400
"""The most characters of an abstract."""
MAX_OVERVIEW = 2_000
"""The most characters of an overview."""

_MIN_WORDS = 3  # different ones
_MIN_CJK = 5  # different characters of Chinese or Japanese
_REPEATED = 7  # words of the prompt in a row

_CODE = lazy(r"```.*?(?:```|\Z)|(`+).+?\1", re.DOTALL)
_MARKUP = {
    "an image": lazy(r"!\["),
    "HTML": lazy(r"<(?![\w.+-]+@[\w.-]+>|https?://[^\s<>]+>)[a-zA-Z/!?]"),
    "a mark of a role": lazy(
        r"<\||\|>|\[/?INST\]|<</?SYS>>|^\W*(?:system|assistant|human|user|developer|tool)\W{0,2}:"
        r"|^\W*(?:系统|助手|用户|开发者)\W{0,2}[:：]",
        re.IGNORECASE | re.MULTILINE,
    ),
    "a call of a tool": lazy(
        r"\"(?:name|arguments|parameters|function|tool)\" ?:|tool_?calls?\b|function_call\b"
    ),
    "a link that is no address": lazy(r"\]\( ?<?(?!https?://|viking://)|^\[[^\]]+\]:", re.M),
}
_LINK = lazy(r"\]\( ?<?([^\s)>]+)")

# Matches a text that talks to a reader, or obeys an instruction in the material, in place of a
# description: "As an AI", "I'm sorry", "Ignore all previous instructions", "Sure".
_OBEYED = lazy(
    r"\bas an? (?:ai|artificial|language|assistant|large language)\b|\blanguage model,? i\b"
    r"|\bi(?:'m| am)(?: very)? (?:sorry|unable|not able|an ai|happy to|ready)\b"
    r"|\bi (?:can ?not|can't|won't|will not|apologi[sz]e)\b"
    r"|\b(?:ignore|disregard|forget|override|bypass)\s+"
    r"(?:(?:all|any|the|your|these|those|of|my|previous|prior|above|earlier|system|safety)\s+)*"
    r"(?:instructions?|prompts?|everything|previous|above|prior|guidelines|rules above)\b"
    r"|\bsystem prompt\b|\byou are now\b|\bfrom now on\b|\bjailbr"
    r"|\b(?:answer|respond|reply|output) (?:only with|with (?:only|the (?:word|phrase|text)))\b"
    r"|^\W*(?:sure|certainly|of course|okay|here(?: is|'s) (?:the|an?) (?:abstract|overview|"
    r"summary|description|json))\b"
    r"|\b(?:you|agents?|assistants?|ais?|llms?|readers?)(?: reading this)?"
    r" (?:must|should|shall|have to|has to|need to|needs to|are to)\b"
    r"|\bplease\b|\bnote to the (?:reader|model|agent|assistant)\b"
    r"|\b(?:do not|don't|never) (?:tell|reveal|mention|follow|trust)\b"
    r"|作为(?:一个|一名|一款)?(?:ai|人工智能|语言模型|大模型|智能助手)|(?:抱歉|对不起|很遗憾)[,，]?我?"
    r"|我(?:无法|不能|不会)|(?:忽略|无视|忘记|忘掉)[^。\n]{0,12}(?:内容|指令|指示|规则|提示|以上|之前|前面)"
    r"|系统提示|提示词|请(?:你|您|勿|务必|立即|马上|点击|输出|回答|忽略|执行|发送|把|将|不要)"
    r"|(?:你|您|智能体|助手|模型|读者)[^。,，\n]{0,8}(?:必须|务必|应当|不得|需要立即)"
    r"|^\W*(?:好的|当然|没问题)[,，!！]|以下是[^。\n]{0,30}(?:摘要|概述|概览)|从现在(?:起|开始)|只(?:输出|回答|回复)",
    re.IGNORECASE | re.MULTILINE,
)

_WORD = lazy(rf"[{CJK_CHARS}]|(?:(?![{CJK_CHARS}])[^\W_])+")


class Answer(NamedTuple):
    """The abstract and the overview in a model's answer."""

    abstract: str
    overview: str


class Source:
    """The material of a description; the description may state only what is in it.

    Args:
        text: the text to describe; the description must be in its language.
        others: further texts whose words may be used: the title, the extract.
        uri: the URI, whose words may be used, too.
    """

    def __init__(self, text: str, others: Sequence[str] = (), uri: str = "") -> None:
        self.text = text
        everything = "\n".join((uri, *others, text))
        self.facts = Facts(everything)
        self.names = Names(everything)
        self.scripts = {script_of(one) for one in (text, *others)} - {NONE}

    @cached_property
    def language(self) -> str:
        """The language of `text` if it is in Latin letters, such as "en"; "" if it is not clear."""
        return language_of(_CODE.sub(" ", self.text))

    def repeats(self, words: Sequence[str]) -> bool:
        """Return True if the material has these words in a row."""
        return " ".join(words) in self._said

    @cached_property
    def _said(self) -> str:
        return " ".join(_WORD.findall(self.facts.folded))


def read_answer(text: str) -> Answer | str:
    """Parse an answer; return its two texts, or the reason why it cannot be used."""
    try:
        answer = read_json(text)
    except Garbage:
        return "the answer is not JSON"
    given = answer if isinstance(answer, dict) else {}
    abstract, overview = given.get("abstract"), given.get("overview")
    if not isinstance(abstract, str) or not isinstance(overview, str):
        return "the answer is no object with the texts abstract and overview"
    return Answer(abstract.strip(), overview.strip())


def refusal(answer: Answer, source: Source) -> str:
    """Return the reason why an answer is refused; "" if it passes all checks."""
    if "\n" in answer.abstract:
        return "the abstract has several lines"
    for field, text, limit in (
        ("abstract", answer.abstract, MAX_ABSTRACT),
        ("overview", answer.overview, MAX_OVERVIEW),
    ):
        if reason := (
            _malformed(text, limit)
            or _foreign(text, source)
            or _obedient(text)
            or _repeated(text, source)
            or _invented(text, source)
        ):
            return f"the {field} {reason}"
    return ""


def _malformed(text: str, limit: int) -> str:
    if not text:
        return "is empty"
    if len(text) > limit:
        return f"has {len(text):,} characters, more than {limit:,}"
    if named := hidden_characters.first(text):
        return f"has the hidden character {named}"
    if any("\ud800" <= one <= "\udfff" for one in text):
        return "has half a character"
    words = set(_WORD.findall(folded(text)))
    wide = sum(not word.isascii() and len(word) == 1 for word in words)
    if len(words) < _MIN_WORDS or (wide == len(words) and wide < _MIN_CJK):
        return "says too little"
    bare = _CODE.sub(" ", text)
    for name, pattern in _MARKUP.items():
        if pattern.search(bare):
            return f"has {name}"
    return ""


def _foreign(text: str, source: Source) -> str:
    bare = without_addresses(_CODE.sub(" ", text))
    if script_of(bare) not in source.scripts and source.scripts:
        return "is not in the script of the text"
    own = language_of(bare)
    if own and source.language and own != source.language:
        return "is not in the language of the text"
    return ""


def _obedient(text: str) -> str:
    found = _OBEYED.search(_CODE.sub(" ", text.replace("’", "'")))
    return f"speaks to the reader or about itself: {found[0].strip()!r}" if found else ""


@cache
def _prompt() -> frozenset[tuple[str, ...]]:
    return frozenset(_in_rows(prompt_of(__package__)))


def _in_rows(text: str) -> list[tuple[str, ...]]:
    words = _WORD.findall(folded(text))
    return [tuple(words[at : at + _REPEATED]) for at in range(len(words) - _REPEATED + 1)]


def _repeated(text: str, source: Source) -> str:
    for row in _in_rows(text):
        if row in _prompt() and not source.repeats(row):
            return "repeats the task"
    return ""


def _invented(text: str, source: Source) -> str:
    for address in _LINK.findall(text):
        if not source.facts.has_address(address.rstrip(".,;")):
            return f"links to {address!r}, which the text does not have"
    found = invented_fact(text, source.facts) or invented_name(text, source.names)
    return f"has {found!r}, which the text does not have" if found else ""
