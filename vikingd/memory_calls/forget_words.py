"""The comparison of a request to forget with memories and with the turns of a conversation.

Words decide, and not vectors: a memory with a similar meaning may be another fact. English words
are compared as search terms, without stop words; Chinese by characters and by pairs of them. "I",
"my" and "the user" count as the same word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from vikingd.domain.extract import ForgetRequest, Meant
from vikingd.domain.search_query import SessionMessage
from vikingd.domain.text import CJK_CHARS, SECTION_SEPARATOR, lazy
from vikingd.domain.traditional_chinese import simplified
from vikingd.index.lexicon.tokens import terms
from vikingd.memory.clause_patterns import language
from vikingd.memory.forget_forms import Patterns
from vikingd.memory.relations import Relation, relation_of
from vikingd.memory.said_dates import SaidAt
from vikingd.memory.statements import read

_HAN = lazy(f"[{CJK_CHARS}]")
_FORM = Patterns("forget_words")
_USER = frozenset(("user", "users"))
_LOOSE, _NAMING = (frozenset(terms(" ".join(_FORM.words(one)))) for one in ("LOOSE", "NAMING"))
_PEOPLE = "|".join(language(one).named["PEOPLE"] for one in ("english", "chinese"))
_PEOPLE = rf"(?:{_PEOPLE}|clients?|customers?|教练|医生|客户|保姆|阿嬷|姑姑|堂[哥姐弟妹])"
# Matches "Ana" in "Ana's car", "user's older sister", and 姐姐 in 用户的姐姐.
_PERSON = lazy(
    rf"\b(?!user)\w+(?='s\b)|(?:user's|\bmy|\bour) (?:[\w-]+ ){{0,2}}?{_PEOPLE}\b|"
    rf"(?<=用户)(?:家|们)?的?\w{{0,3}}?(?P<zh>{_PEOPLE})",
    re.IGNORECASE,
)
# Matches "the user's best friend", 用户的朋友.
_OF_PERSON = lazy(
    rf"(?:the )?user's (?:[\w-]+ ){{0,2}}?{_PEOPLE}\b|用户(?:家|们)?的?\w{{0,3}}?{_PEOPLE}的?",
    re.IGNORECASE,
)
# "my age" means a memory such as "The user is 40 years old".
_ATTRIBUTES = (
    (r"age|how old.*|年龄|年纪|岁数|几岁|多大", r"\byears? old\b|\bage\b|岁|年龄"),
    (r"weight|体重", r"\bweighs?\b|\bweight\b|体重|公斤|\bkg\b"),
    (r"height|how tall.*|身高|个子", r"\btall\b|\bheight\b|身高"),
    (r"salary|income|wages?|pay|工资|薪水|月薪|薪资|收入", r"\bearns?\b|\bsalary\b|工资|薪|收入"),
    (r"(?:tele|cell)?phone(?: number)?|手机号?码?|电话号?码?", r"\bphone\b|\bmobile\b|手机|电话"),
    (r"座机号?码?|固定电话|固话", r"座机|固定电话|固话"),
    (r"e-?mail(?: address)?|邮箱|邮件地址", r"\be-?mail\b|邮箱"),
    (r"birthday|bday|date of birth|生日", r"\bbirthday\b|\bborn\b|生日|出生"),
)
"""Attributes that every person has, such as the age, and patterns of texts that state them."""
# "my address" may mean a memory such as "The user lives in Oslo".
_NEAR = (
    (r"address|home|town|city|地址|住址|住处|住的地方", "home"),
    (r"job|employer|company|工作|公司|单位", "work"),
)
"""Words for a topic with a relation of similar meaning; such a match is only proposed."""


class Fit(IntEnum):
    """How well a memory matches a request."""

    NONE = 0
    WEAK = 1  # it has only some of the words, or says the same about somebody else
    MORE = 2  # it begins with the statement and continues
    WHOLE = 3  # it states the same, or has all words of the topic


def words(text: str) -> tuple[str, ...]:
    """Return the words of a statement in order.

    "The user" and a duration at the end, such as "since May", are left out.
    """
    if _HAN.search(text):
        plain = _FORM.ZH_USER.sub("", _FORM.ZH_SINCE.sub("", simplified(text).casefold()), count=1)
        return tuple(_FORM.ZH_EMPTY.sub("", _FORM.ZH_USER.sub("", plain)))
    plain = language("english").rewritten(
        "when", _FORM.SINCE.sub("", text.replace("’", "'").strip())
    )
    return tuple(term for term in terms(plain) if term not in _USER)


def _folded(text: str) -> frozenset[str]:
    """Return the search terms of a text.

    "allergy" and "allergic" give the same term, for example, and so do the spellings of a word.
    """
    text = language("english").rewritten("spelling", text)
    plain = re.sub(r"\b(is|are|was) called\b", r"\1 named", text)
    return frozenset("allerg" if term == "allergi" else term for term in terms(plain))


@dataclass(frozen=True)
class Text:
    """The text of a memory, prepared for comparisons.

    Attributes:
        text: the text.
        section: the headings above it.
        memory_type: the type of its file.
    """

    text: str
    section: str = ""
    memory_type: str = ""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of the text in order."""
        return words(self.text)

    @cached_property
    def relation(self) -> Relation | None:
        """The relation that the text states; None for none."""
        return relation_of(self.text)

    @cached_property
    def bare(self) -> tuple[str, ...]:
        """The words of the text without a phrase such as "the user's friend"."""
        return words(_OF_PERSON.sub("", simplified(self.text), count=1))

    @property
    def denies(self) -> bool:
        """True if the text has a negation."""
        return _FORM.NOT.search(self.text) is not None

    def says_same(self, other: Text) -> bool:
        """Return True if both texts state the same."""
        if self.relation is None or other.relation is None:
            return self.words == other.words
        is_same = self.words == other.words and self.denies is other.denies
        return is_same or self.relation == other.relation

    def is_of_another(self, topic: str) -> bool:
        """Return True if the text is about somebody whom `topic` does not name.

        Only the first person in the text counts, such as "sister" in "the user's sister".
        """
        text, named = simplified(self.text), simplified(topic).casefold()
        if found := _PERSON.search(text):
            one = found["zh"][0] if found["zh"] else found[0].casefold().split()[-1].rstrip("s")
            return one not in named
        if self.memory_type == "entities" and not re.match(r"(?:the )?user\b|用户", text, re.I):
            return self.words[:1] <= () or not (
                self.words[0] in terms(named) or named.startswith(text[:2].casefold())
            )
        return False


class Topic:
    """The topic of a request to forget, prepared for comparisons."""

    def __init__(self, request: ForgetRequest) -> None:
        self._said = request.topic
        plain = simplified(request.topic)
        self._is_own = _FORM.OWN.match(plain) is not None
        states = request.meant is Meant.STATEMENT
        self._statements = [Text(one) for one in (self._said, *notes(self._said))] if states else []
        self._is_old = not states and _FORM.OLD.search(plain) is not None
        name = _FORM.OLD.sub(" ", plain) if self._is_old else plain
        self._han = _HAN.search(name) is not None
        plain = _FORM.ZH_USER.sub("", name, count=1)
        self._parts = [p for p in re.split(r"[的和与跟、\W]+", _FORM.ZH_LOOSE.sub(" ", plain)) if p]
        self._terms = _folded(name) - _USER - _LOOSE
        name = re.sub(r"^(?:my|our|the) ", "", plain.strip(), flags=re.I).strip("的 ")
        self._near = [key for names, key in _NEAR if re.fullmatch(names, name, re.I)]
        found = (said for names, said in _ATTRIBUTES if re.fullmatch(names, name, re.I))
        self._attribute = next(found, "")

    @property
    def is_specific(self) -> bool:
        """True if the topic has enough words to be recognized in the turns of a conversation."""
        if self._statements:
            return len(self._statements[0].words) > 1
        return sum(map(len, self._parts)) > 3 if self._han else len(self._terms) > 1

    def is_in(self, sentence: str) -> bool:
        """Return True if a sentence has all words of the topic."""
        text = Text(sentence)
        if not self._statements:
            return self._share_of_words(text) == 1
        said = self._statements[0].words
        if _HAN.search(self._said):
            return "".join(said) in "".join(text.words)
        return bool(said) and set(said) <= set(text.words)

    def fit(self, text: Text, *, earlier: bool = False) -> Fit:
        """Return how well a memory matches the request.

        `earlier` is True if the memory is below the heading "Earlier", so that it was replaced.
        """
        if self._statements:
            return max(self._states(one, text) for one in self._statements)
        held = self._share_of_words(text)
        if held < 1:
            is_near = held >= 0.6 or (text.relation is not None and text.relation.key in self._near)
            return Fit.WEAK if is_near and not text.is_of_another(self._said) else Fit.NONE
        is_another = text.is_of_another(self._said) or (
            self._attribute and _FORM.THING_IS.match(text.text)
        )
        is_new = self._is_old and not (earlier or _FORM.OLD.search(simplified(text.text)))
        return Fit.WEAK if (self._is_own and is_another) or is_new else Fit.WHOLE

    def names(self, text: Text) -> bool:
        """Return True if the topic is a heading above a memory, or the name of its file."""
        wanted = _heading(self._said)
        headings = [text.memory_type, *text.section.split(SECTION_SEPARATOR)]
        return bool(wanted) and any(_heading(one) == wanted for one in headings if one)

    def _states(self, said: Text, text: Text) -> Fit:
        if not said.words or not text.words:
            return Fit.NONE
        if said.says_same(text) or said.words == text.words:
            return Fit.WHOLE
        if not self._is_own and said.words == text.bare:
            return Fit.WHOLE
        size = len(said.words)
        begins = said.words in (text.words[:size], () if self._is_own else text.bare[:size])
        if said.relation is not None and text.relation is not None and not begins:
            return Fit.NONE
        owns = [_FORM.POSSESSIVE.match(simplified(one.text)) is None for one in (said, text)]
        if begins and (owns[0] == owns[1] or not self._is_own):
            return Fit.MORE
        is_held = (
            self.is_in(text.text)
            if said is self._statements[0]
            else set(said.words) <= set(text.words)
        )
        return Fit.WEAK if is_held and not text.is_of_another(said.text) else Fit.NONE

    def _share_of_words(self, text: Text) -> float:
        """Return the share of the topic's words that a memory or its headings have, in [0, 1]."""
        plain = simplified(f"{text.text}\n{text.section}")
        if (
            self._attribute
            and re.search(self._attribute, plain, re.I)
            and _FORM.VALUE.search(plain)
        ):
            return 1.0
        if self._han:
            there = plain.casefold() + ("名字姓名" if "叫" in plain else "")
            held = sum(
                len(part) for part in self._parts if _has_chinese_part(part.casefold(), there)
            )
            return held / (sum(map(len, self._parts)) or 1)
        known = _folded(plain)
        held = len(self._terms & known)
        if held and held == len(self._terms) - 1:
            [word] = self._terms - known  # it may be misspelt: "nubmer"
            held += len(word) > 5 and any(sorted(word) == sorted(one) for one in known)
        return (
            held / len(self._terms) if held and held in (len(self._terms), *range(2, 99)) else 0.0
        )


def _heading(name: str) -> tuple[str, ...]:
    if _HAN.search(name):
        plain = re.sub(r"^[我的]+|[\W_]+", "", _FORM.ZH_LOOSE.sub("", simplified(name)))
        return tuple(re.sub(r"(?:标题|栏目?|分类|部分|那一|这一|下面?|里面?)+$", "", plain))
    empty = _LOOSE.union(("head", "section", "categori"))
    return tuple(term for term in terms(name) if term not in empty)


def notes(said: str) -> list[str]:
    """Return the texts of the memories that the rules of Extract make of a user's statement."""
    found = read((SessionMessage("user", said),), 0, SaidAt(0))
    return [proposal.text for proposal in found.proposals]


def says(sentence: str, text: Text, *, of_agent: bool = False) -> bool:
    """Return True if a sentence states the same about the user as a memory.

    Args:
        sentence: a sentence of the user or of the agent.
        text: the memory.
        of_agent: True if the agent says the sentence: then "you" means the user, not "I".
    """
    return any(
        clause.words[: len(text.words)] == text.words
        or (clause.relation is not None and clause.relation == text.relation)
        for clause in _clauses(sentence, of_agent=of_agent)
        if text.words
    ) or any(Text(note).says_same(text) for note in (() if of_agent else notes(sentence)))


def says_in_all(sentence: str, text: Text) -> bool:
    """Return True if a sentence of the user states a memory or has all of its words.

    A memory of fewer than three words must be stated: having its words is not enough.
    """
    said, told = _folded(sentence), _folded(text.text) - _USER - _LOOSE - _NAMING
    is_own = _FORM.I.match(sentence) or sentence.startswith("The ")
    is_another = Text(sentence).is_of_another(text.text) or _OF_PERSON.match(text.text)
    if is_own and not is_another and len(told) > 2 and told <= said:
        return Text(sentence).denies is text.denies or says(sentence, text)
    return says(sentence, text)


def _clauses(sentence: str, *, of_agent: bool) -> Iterator[Text]:
    is_own = _HAN.search(sentence) is not None
    for clause in (sentence, *_FORM.CLAUSE.split(sentence)):
        if (_FORM.YOU if of_agent else _FORM.I).match(clause):
            is_own = True
        elif _FORM.HE.match(clause) or (_FORM.I if of_agent else _FORM.YOU).match(clause):
            is_own = False
        if clause and is_own:
            yield Text(re.sub(r"^\W+", "", clause))


def _has_chinese_part(part: str, text: str) -> bool:
    """Return True if a text has all characters of a Chinese word or phrase.

    Unless the text has the phrase as a whole, it must also have two thirds of the phrase's pairs of
    adjacent characters.
    """
    if part in text:
        return True
    if len(part) < 3 or not set(part) <= set(text):
        return False
    pairs = [part[i : i + 2] for i in range(len(part) - 1)]
    return sum(pair not in text for pair in pairs) <= len(pairs) // 3


def groups(texts: Sequence[Text]) -> int:
    """Return the number of different statements among memories; equal statements count once."""
    found: list[Text] = []
    for one in texts:
        if not any(one.says_same(other) for other in found):
            found.append(one)
    return len(found)
