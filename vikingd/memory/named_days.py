"""Days that a question names, and questions that ask only for days or only for a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from vikingd.domain.text import CJK_CHARS, lazy, normalized
from vikingd.times.time_phrases import spans

_RECENT_DAYS = 7  # of a word such as "recently"
_MICROSECONDS = 1_000_000

_RECENT = lazy(r"\b(?:recent|recently|lately)\b|最近|近来|近來")
_WORDS = lazy(rf"[{CJK_CHARS}]+|[^\W{CJK_CHARS}]+(?:'[^\W{CJK_CHARS}]+)*")

# Words of a question for what a day or a file holds, and for nothing of it in particular.
_FRAME_WORDS = (
    "a about again all and any anything are around as at be been between busy can come could"
    " current currently day days diary did do does doing done during entries entry event"
    " events ever everything for from get give go going got had happen happened happening has"
    " have her his how i i've in is it journal know known last let list log look made make me"
    " memories memory mine my need next note notes of on open or our out over past please read"
    " recall recap remember remind right said saved say see show so some still stored"
    " summarise summarize summary tell that the their them there these they thing things this"
    " those through to told up us user user's was we went were what what's when where which"
    " who whom with work working would write written you your"
)
_FRAME = frozenset(_FRAME_WORDS.split())
_FRAME_CHINESE = lazy(
    "什么|甚么|什麼|哪些|哪个|哪里|哪儿|怎么样|怎样|如何|做了|做过|干了|干嘛|发生|發生|事情|事儿|活动|情况|记录|日记"
    "|日志|笔记|告诉|显示|列出|列表|清单|看一下|一下|看看|总结|回顾|还有|有没有|所有|全部|目前|现在|当前|我们|咱们"
    "|你们|大家|用户|当天|那天|都|还|请|帮|给|列|看|忙|做|干|事|些|了|过|的|地|是|有|在|我|你|他|她|呢|吗|嗎|啊"
    "|吧|和|与|跟|去|来|说|要|会|天|里|上|下|些|着"
)


@dataclass(frozen=True, slots=True)
class Days:
    """The days that a question names.

    Attributes:
        spans: first and last day of each, inclusive.
        words: the words of the question that name them.
        rest: the question without these words.
        only: True if the question asks for nothing else.
        vague: True for a word such as "recently", which is a wish for the newest.
    """

    spans: tuple[tuple[date, date], ...]
    words: str
    rest: str
    only: bool
    vague: bool = False

    def __contains__(self, day: date) -> bool:
        return any(first <= day <= last for first, last in self.spans)

    def __str__(self) -> str:
        named = (f"{one}" if one == last else f"{one} to {last}" for one, last in self.spans)
        return f"{self.words!r} means {', '.join(named)}"

    def moments(self, time_zone: str) -> list[tuple[int, int]]:
        """Return (first microsecond, first microsecond after) of each span, since the epoch."""
        return [
            (_midnight(first, time_zone, 0), _midnight(last, time_zone, 1))
            for first, last in self.spans
        ]

    def contain(self, times: Iterable[int | None], time_zone: str) -> list[bool]:
        """Return for each time (microseconds) whether it is on one of the days in a time zone."""
        spans = self.moments(time_zone)
        return [t is not None and any(low <= t < high for low, high in spans) for t in times]


def days_of(question: str, now: datetime) -> Days | None:
    """Return the days that a question names, or None.

    A word such as "recently" names the last seven days, but only if nothing else names a day.
    """
    found = spans(question, now)
    if found:
        rest, end = [], 0
        for span in found:
            rest.append(question[end : span.start])
            end = span.end
        rest.append(question[end:])
        named = dict.fromkeys((span.first, span.last) for span in found)
        words = ", ".join(dict.fromkeys(span.words for span in found))
        left = " ".join(rest)
        return Days(tuple(named), words, left, is_frame(left))
    folded = normalized(question).casefold()
    recent = _RECENT.search(folded)
    if recent is None:
        return None
    today = now.date()
    first = date.fromordinal(max(today.toordinal() - _RECENT_DAYS + 1, 1))
    left = _RECENT.sub(" ", folded)
    return Days(((first, today),), recent[0], left, is_frame(left), vague=True)


def is_frame(text: str) -> bool:
    """Return True if a text has only words of questions, such as "what did I do" and 做了什么."""
    folded = normalized(text).casefold().replace("’", "'")
    for word in _WORDS.findall(folded):
        if word[0].isascii() or not re.match(f"[{CJK_CHARS}]", word[0]):
            if word not in _FRAME:
                return False
        elif _FRAME_CHINESE.sub("", word):
            return False
    return True


def _midnight(day: date, time_zone: str, later: int) -> int:
    try:
        day += timedelta(days=later)
        moment = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(time_zone))
        return round(moment.timestamp() * _MICROSECONDS)
    except (ValueError, OverflowError):
        return (1 if later else -1) * (1 << 62)
