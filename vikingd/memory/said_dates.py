"""Phrases of time in what a user said, replaced by dates.

"next Tuesday" becomes "on Tuesday, 2026-12-01", because a relative phrase is false a week later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from vikingd.domain.search_query import SessionMessage
from vikingd.domain.sentences import sentence_ends
from vikingd.domain.text import lazy
from vikingd.memory.clause_patterns import DATE
from vikingd.memory.third_person import HAN
from vikingd.times.time_phrases import Span, spans

_MICROSECONDS = 1_000_000
_MARKS = "".join(chr(0xE000 + i) for i in range(16))
_MARKED = lazy(
    rf"(?:\b(?P<before>on|in|at|by|from|until|since|for|over|during) )?(?P<mark>{DATE})",
    re.IGNORECASE,
)
_PAST = lazy(
    r"(?!signed up for\b|registered for\b|enrolled (?:in|for|on)\b|entered\b)"
    r"(?!booked\b|reserved\b|scheduled\b|arranged\b|need\b|bed\b|red\b|wed\b|med\b)"
    r"\b(?<!get )(?<!getting )(?<!be )\w{2,}ed\b|\b(?:ran|met|won|bought|sold|lost|gave|"
    r"(?<!have )(?<!'ve )got|quit|began|broke|went|came|took|made|wrote|left|grew|became|built|"
    r"tore|learnt|was|had)\b|(?<![约订报不])(?<!不.)了|过",
    re.IGNORECASE,
)
_FEASTS = (
    r"(?:christmas|easter|new year|thanksgiving|halloween|valentine|hanukkah|diwali|"
    r"(?:mother|father)'s day)"
)
_FEAST = lazy(_FEASTS, re.IGNORECASE)
# What somebody bought is for a feast ahead.
_GIFT = lazy(
    rf"\b(?:bought|ordered|got|made|booked|rented|reserved)\b.* for {_FEASTS}", re.IGNORECASE
)
_YEARLY = lazy(r"\banniversary\b|纪念日", re.IGNORECASE)
_WEEKDAY = lazy(
    r"(?:on )?(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:周|星期|礼拜)[一二三四五六日天]",
    re.IGNORECASE,
)
_HOURS = lazy(r".*\b(?:hour|minute)s?\b.*|.*(?:小时|分钟).*", re.IGNORECASE)
_WEEKS_LATER = lazy(r"in (?!the\b).*\bweeks?|.*(?:周|星期|礼拜)(?:以后|之后|后)", re.IGNORECASE)
_PART = lazy(r"\b(?:morning|afternoon|evening)\b|早上|上午|中午|下午|傍晚|晚上|晚", re.IGNORECASE)
_UNDATED = lazy(r".['’]s\b|(?<=minute)s|(?<=hour)s|[钟时]")
_MONTH_WORDS = lazy(
    r"\d[-/.]\d|\d[年月]|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE
)
_NAMED_DAY = lazy(
    r"\b(?:mon|tue|wed|thu|fri|sat|sun)|(?:周|週|星期|[礼禮]拜)([一二三四五六日天])", re.IGNORECASE
)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CHINESE_DAYS = ("一", "二", "三", "四", "五", "六", "日天")
_RELATIVE = lazy(
    r"\b(?:next|last|this|ago|in|today|week|month|days?|years?)\b|day\b|[上下这本去明今后前]|[天周]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SaidAt:
    """The default time of messages that have none, in microseconds, and the time zone."""

    time: int
    time_zone: str = "UTC"

    def of(self, message: SessionMessage) -> datetime:
        """Return the time at which a message was said, as a datetime in the time zone."""
        time = self.time if message.time is None else message.time
        try:
            return datetime.fromtimestamp(time / _MICROSECONDS, ZoneInfo(self.time_zone))
        except (ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Marked:
    """A clause in which one character stands for each phrase of time, see `clause_patterns.DATE`.

    Attributes:
        plain: the clause with these characters.
        phrases: the phrases, in the order of their characters.
        today: the day on which the clause was said.
    """

    plain: str
    phrases: tuple[Span, ...]
    today: date

    def are_past(self, text: str) -> bool:
        """Return True if all days named in this part of the clause are today or earlier."""
        return all(one.first <= self.today for mark, one in self._of(text) if mark)

    def shown(self, text: str) -> str:
        """Return a part of the clause with dates in place of its relative phrases of time."""
        if not self.phrases:
            return text
        if _YEARLY.search(text) and all(_is_date(one.words) for one in self.phrases):
            return self.raw(text)  # of each year
        write = self._chinese if HAN.search(text) else self._english
        return _MARKED.sub(write, text)

    def raw(self, text: str) -> str:
        """Return a part of the clause with its original phrases of time."""
        return re.sub(DATE, lambda found: self.phrases[_MARKS.index(found[0])].words, text)

    def _of(self, text: str) -> list[tuple[str, Span]]:
        return [(mark, self.phrases[_MARKS.index(mark)]) for mark in re.findall(DATE, text)]

    def _english(self, found: re.Match[str]) -> str:
        span = self.phrases[_MARKS.index(found["mark"])]
        before = (found["before"] or "").lower()
        if _is_date(span.words):
            year = "" if re.search(r"\d{4}", span.words) else f" {span.first.year}"
            return f"{before} {span.words.rstrip('.')}{year}".strip()
        first, last = span.first, span.last
        if first == last:
            is_for = before == "for" and _FEAST.search(span.words)
            lead = before if is_for or before in ("by", "until", "since", "from") else "on"
            part = _PART.search(span.words)
            return f"{lead} {first:%A}, {first}" + (f" in the {part[0].lower()}" if part else "")
        if _is_month(first, last):
            return f"{before or 'in'} {first:%B} {first.year}"
        if _is_year(first, last):
            return f"{before or 'in'} {first.year}"
        return f"between {first} and {last}"

    def _chinese(self, found: re.Match[str]) -> str:
        span = self.phrases[_MARKS.index(found["mark"])]
        first, last = span.first, span.last
        before = found["before"] or ""
        if first == last:
            day = f"{first.year}年{first.month}月{first.day}日"
            if not _is_date(span.words):
                day += f"（周{'一二三四五六日'[first.weekday()]}）"
            part = _PART.search(span.words)
            return before + day + (part[0] + "上" * (part[0] == "晚") if part else "")
        if _is_month(first, last):
            return f"{before}{first.year}年{first.month}月"
        if _is_year(first, last):
            return f"{before}{first.year}年"
        return f"{before}{first.year}年{first.month}月{first.day}日至{last.month}月{last.day}日"


def marked(clause: str, now: datetime, *, weekdays: bool = True) -> Marked:
    """Replace each phrase of time in a clause by one character; `now` is the time of the clause.

    Args:
        weekdays: replace a weekday alone, too, which may mean that day of each week.
    """
    clause = re.sub(DATE, " ", clause)
    is_past = _PAST.search(clause) is not None and not _GIFT.search(clause)
    found = spans(clause, now, ahead=not is_past)[: len(_MARKS)]
    left_out = _HOURS if weekdays else _WEEKDAY
    found = tuple(one for one in found if not left_out.fullmatch(one.words) and _agrees(one))
    found = _in_order([_single_day(one, now.date()) for one in found])
    pieces, at = [], 0
    for mark, span in zip(_MARKS, found, strict=False):
        pieces += [clause[at : span.start], mark]
        at = span.end
    return Marked("".join([*pieces, clause[at:]]), tuple(found), now.date())


def with_dates(text: str, now: datetime) -> str:
    """Return a text with a date after each phrase of time: "last night [2026-11-06]".

    `now` is the time at which the text was said.
    """
    pieces, at = list[str](), 0
    for start, end in pairwise([0, *sentence_ends(text)]):
        for span in marked(text[start:end], now, weekdays=False).phrases:
            if not _is_date(span.words) and not _UNDATED.match(text, start + span.end - 1):
                space = "" if HAN.match(text, start + span.end - 1) else " "
                pieces += [text[at : start + span.end], f"{space}[{_days(span)}]"]
                at = start + span.end
    return "".join([*pieces, text[at:]])


def _days(span: Span) -> str:
    first, last = span.first, span.last
    if first == last:
        return f"{first}"
    if _is_month(first, last):
        return f"{first:%Y-%m}"
    return f"{first:%Y}" if _is_year(first, last) else f"{first} to {last}"


def _agrees(span: Span) -> bool:
    """Return False for a date whose weekday is another one: of another year, or a mistake."""
    named = _NAMED_DAY.search(span.words) if _MONTH_WORDS.search(span.words) else None
    if named is None or span.first != span.last:
        return True
    day = span.first.weekday()
    return named[0].lower() == _DAYS[day] or named[1] in tuple(_CHINESE_DAYS[day])


def _single_day(span: Span, today: date) -> Span:
    """Return the one day that "in two weeks" means in a statement.

    In a question it means a week.
    """
    if (span.last - span.first).days != 6 or not _WEEKS_LATER.fullmatch(span.words):
        return span
    day = span.first + timedelta(days=today.weekday())
    return replace(span, first=day, last=day)


def _in_order(found: list[Span]) -> tuple[Span, ...]:
    """Move a weekday that follows a later day to the week after that day.

    In "next Wednesday, back on Friday" the Friday is the one after that Wednesday.
    """
    for i, (before, one) in enumerate(pairwise(found), start=1):
        weeks = (before.first - one.first).days // 7 + 1
        if one.first < before.first and _WEEKDAY.fullmatch(one.words):
            week = timedelta(days=7 * weeks)
            found[i] = replace(one, first=one.first + week, last=one.last + week)
    return tuple(found)


def _is_date(words: str) -> bool:
    """Return True if the words name a day or a month of the calendar, such as 3 July."""
    return _MONTH_WORDS.search(words) is not None and not _RELATIVE.search(words)


def _is_month(first: date, last: date) -> bool:
    return (
        first.day == 1
        and (last + timedelta(days=1)).day == 1
        and (first.year, first.month) == (last.year, last.month)
    )


def _is_year(first: date, last: date) -> bool:
    return (first.month, first.day, last.month, last.day) == (
        1,
        1,
        12,
        31,
    ) and first.year == last.year
