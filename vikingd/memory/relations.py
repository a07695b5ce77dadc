"""Relations with one value at a time: the home of a person, the work, the name, a favourite.

Two memories of one relation with different values contradict each other; the newer one replaces the
older. The patterns read the first person, as people speak, and the third, as notes are written.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vikingd.domain.text import lazy
from vikingd.memory.same import normalized

HOME, WORK, NAME, ADDRESS = "home", "work", "name", "address"


class Relation(NamedTuple):
    """A relation of the user and its value, both folded: ("home", "paris")."""

    key: str
    value: str


MAX_CHARACTERS = 300
"""A longer text states no single relation."""

_SUBJECT = r"(?:(?:i|we|(?:the )?user)\s+)?"
_ADVERBS = (
    r"(?:(?:really|absolutely|mostly|usually|generally|still|now|currently|just|also|much|actually|"
    r"recently|strongly|truly|finally|have|has|'ve)\s+)*"
)
_I = rf"{_SUBJECT}{_ADVERBS}"
_ZH = (
    r"(?:我们?|用户)(?:现在|目前|如今|也|真的|最|很|特别|非常|比较|还是|一直|都|已经|刚刚?|"
    r"最近|又|终于)*"
)
_LIKES = "likes?|loves?|enjoys?|adores?"
_DISLIKES = (
    r"hates?|dislikes?|detests?|can(?:'t|not| not) stand|"
    r"(?:do(?:es)?n't|do(?:es)? not) (?:like|enjoy)"
)

_ONE = tuple(
    (key, lazy(pattern))
    for key, pattern in (
        (
            HOME,
            rf"{_I}(?:(?:lives?|living|resides?) in|(?:moved|"
            rf"relocated)(?: back)? to) (?P<value>.+)",
        ),
        (HOME, rf"{_ZH}(?:住在|居住在|搬到了?|搬去了?|搬回了?|搬家到了?|定居在?)(?P<value>.+)"),
        (WORK, rf"{_I}works? (?:at|for) (?P<value>.+)"),
        (WORK, rf"{_ZH}在(?P<value>.+?)(?:工作|上班|任职)了?"),
        (WORK, rf"{_ZH}(?:就职于|任职于|供职于)(?P<value>.+)"),
        (NAME, r"(?:my|(?:the )?user's)? ?name(?: is|:|'s) (?P<value>.+)"),
        (NAME, rf"(?:{_ZH}叫|(?:我|用户)的名字[是叫])(?P<value>.+)"),
        (ADDRESS, r"(?:(?:please )?call me|(?:the )?user wants to be called) (?P<value>.+)"),
        (ADDRESS, r"(?:请?(?:叫|称呼)我|用户希望被称为)(?P<value>.+)"),
        ("birthday", r"(?:my|(?:the )?user's) birthday(?: is|:|'s) (?:on )?(?P<value>.+)"),
        ("birthday", r"(?:我|用户)的?生日[是在](?P<value>.+)"),
    )
)
_FAVOURITE = lazy(
    r"(?:(?:my|(?:the )?user's) )?favou?rite (?P<of>.{1,60}?)(?: is|:) (?P<value>.+)"
    r"|(?:我|用户)最喜欢的(?P<zh_of>.{1,30}?)是(?P<zh_value>.+)"
)
_OVER = lazy(
    rf"{_I}prefers? (?!not )(?P<one>.+?) (?:over|to|rather than|instead of) (?P<other>.+)"
    rf"|{_ZH}更?(?:喜欢|偏好|偏爱)(?P<zh_one>.+?)(?:而不是|胜过|多于|甚于|"
    rf"，?不喜欢)(?P<zh_other>.+)"
    rf"|{_ZH}比起(?P<zh_less>.+?)，?(?:我)?更喜欢(?P<zh_more>.+)"
)
_LIKING = lazy(
    rf"{_I}(?:(?P<yes>{_LIKES})|(?P<no>{_DISLIKES})) (?P<of>.+)"
    rf"|{_ZH}(?:(?P<zh_yes>喜欢|喜爱|爱)|(?P<zh_no>不(?:太|再)?喜欢|讨厌|不爱|受不了))(?P<zh_of>.+)"
)
_HABIT = lazy(
    rf"{_SUBJECT}(?:(?P<yes>always)|(?P<no>never)) (?P<of>.+)"
    rf"|(?:我|用户)(?:(?P<zh_yes>总是|总|一直都?)|(?P<zh_no>从不|从来不|绝不))(?P<zh_of>.+)"
)
_WHEN = lazy(
    "(?i)"
    r"(?:,? (?:now|again|today|yesterday|recently|currently|these days|at the moment|anymore|"
    r"instead|"
    r"(?:last|this) (?:week|month|year|summer|spring|autumn|fall|winter)|"
    r"(?:in|since) (?:(?:january|february|march|april|may|june|july|august|september|october|"
    r"november|december)(?: [0-9]{4})?|[0-9]{4})|(?:a|two|three|few|[0-9]+) "
    r"(?:days?|weeks?|months?|years?) ago))+$|[了啦]$"
)
_ENDS = " .!。！，,;；"


def relation_of(text: str) -> Relation | None:
    """Return the relation that a text states; None if it states none, or more than one thing."""
    if len(text) > MAX_CHARACTERS:
        return None
    text = normalized(text).casefold().replace("’", "'").strip(_ENDS)
    text = re.sub(r"^i'(?:ve|m) ", "i ", text)
    if re.search(r"[.!?。！？] ?\S", text):
        return None
    if found := _FAVOURITE.fullmatch(text):
        kind, value = found["of"] or found["zh_of"], found["value"] or found["zh_value"]
        return Relation(f"favourite {kind}", _value(value))
    for key, pattern in _ONE:
        if found := pattern.fullmatch(text):
            return Relation(key, _value(found["value"]))
    if found := _OVER.fullmatch(text):
        more = _value(found["one"] or found["zh_one"] or found["zh_more"])
        less = _value(found["other"] or found["zh_other"] or found["zh_less"])
        return Relation(" or ".join(sorted((more, less))), more)
    for verb, pattern in (("like", _LIKING), ("do", _HABIT)):
        if found := pattern.fullmatch(text):
            holds = bool(found["yes"] or found["zh_yes"])
            return Relation(f"{verb} {_value(found['of'] or found['zh_of'])}", str(holds))
    return None


def without_time(text: str) -> str:
    """Return a statement without words such as "last week" at its end."""
    return _WHEN.sub("", text.strip(_ENDS)).strip(_ENDS)


def _value(text: str) -> str:
    return _WHEN.sub("", text.strip(_ENDS)).strip(_ENDS)
