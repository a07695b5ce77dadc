"""Phrases of time in a question, and the days that they mean.

A phrase counts where it stands as time. A title in quotes, a name in capitals, a habit ("every
Tuesday"), a quantity ("three days by car") and a word such as "recently" name no day. Of several
sentences those that ask count alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from vikingd.domain.text import lazy, normalized
from vikingd.memory import chinese_times, english_times
from vikingd.memory.calendar_spans import Calendar, Days, month_of


@dataclass(frozen=True, slots=True)
class Span:
    """A phrase of time in a text and the days that it means, from the first to the last."""

    start: int  # in characters of the text
    end: int
    first: date
    last: date
    words: str


_TITLES = lazy(
    r"\"[^\"]*\"|“[^”]*”|‘[^’]*’(?!\w)|《[^》]*》|〈[^〉]*〉|「[^」]*」|『[^』]*』|«[^»]*»|`[^`]*`"
)
# A full stop ends a sentence before a space, but not within a date: Dec. 3, 26.11.
_SENTENCES = lazy(r"(?:[^.!?。！？\n]|[.!?](?=\w|[.!?]|\s*\d)|(?<=\d)\.(?=\s))+[.!?。！？]*")
_ASKS = lazy(r"[?？]\W*$|[吗呢]\W*$")
_AHEAD = lazy(
    r"\b(?:will|shall|going to|gonna|plan|plans|planned|planning|must|should|due|scheduled"
    r"|upcoming|need to|have to|are we|am i|do we|do i have|when do|when does)\b|'ll\b"
    r"|将|打算|计划|安排|准备|即将|要"
)
_BEHIND = lazy(r"\b(?:did|was|were|had|has|have been|happened|went)\b|[了过]")
_REPEATED = lazy(r"(?:\b(?:every|each|per|most|all|any|other) |[每逢])$")
_USUAL = lazy(r"\b(?:usually|normally|always|typically)\b|一般|通常|平时|平常|每[天周月年]|总是")
_LEADS = lazy(r"(?:since|until|till|by|before|after|from|to|between|and|or) ")
_LEAD = lazy(r"\b(?:on|since|until|till|by|before|after|from|to|between|and|or|for) $")
_NAMED = lazy(r"\b(?:the|an?|of|called|named|is|like|with|than|about|my|your|our) $")
_BETWEEN = lazy(r"\bbetween $")
_SINCE = lazy(r"\bsince $")
_TO = lazy(r"(?:\s*(?:to|until|till|through|[-–—~到至])\s*)$")
_AND = lazy(r"\s+and\s+$")
_ONWARDS = lazy(r"以来|至今|到现在|起(?![床来飞诉码])")
_INBORN = lazy(r"性|免疫|获得|养成|形成")


_MONTHS = 12
_WEEKENDS = ("weekend", "周末")


def _slashed(match: re.Match[str], calendar: Calendar) -> Days | None:
    """Return the day of two numbers of which only one can be a month; None of others."""
    month, day = sorted((int(match["one"]), int(match["two"])))
    if month != day <= _MONTHS:
        return None
    return calendar.date(month, day, int(match["year"]) if match["year"] else None)


def _date(match: re.Match[str], calendar: Calendar) -> Days:
    year = int(match["year"]) if match["year"] else None
    return calendar.date(int(match["month"]), int(match["day"]), year)


def _iso_month(match: re.Match[str], _: Calendar) -> Days:
    return month_of(int(match["year"]), int(match["month"]))


_YEAR = r"(?P<year>(?:19|20)\d\d)"
_FREE = r"(?<![\w./-])(?<!version )"
_NUMERIC = tuple(
    (lazy(source), meaning)
    for source, meaning in (
        (
            rf"{_FREE}{_YEAR}([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)(?!\d|[a-su-z]|[-/.]\d)",
            _date,
        ),
        (rf"{_FREE}{_YEAR}-(?P<month>0[1-9]|1[0-2])(?![\da-z]|[-/.]\d)", _iso_month),
        (rf"{_FREE}(?P<one>\d\d?)/(?P<two>\d\d?)/{_YEAR}(?![\w/])", _slashed),
        (r"\b(?:on|since|by|until) (?P<one>\d\d?)/(?P<two>\d\d?)(?P<year>)(?![\w/])", _slashed),
        (rf"{_FREE}(?P<day>\d\d?)\. ?(?P<month>\d\d?)\. ?{_YEAR}(?![\w.]\d)", _date),
        (r"\b(?:on|since|by|until) (?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>)(?!\d)", _date),
    )
)
_RULES = (*_NUMERIC, *english_times.RULES, *chinese_times.RULES)


def spans(question: str, now: datetime) -> tuple[Span, ...]:
    """Return the phrases of time in a question, in the order of the text.

    A date without a year, and a weekday alone, is the nearest one in the past, or to come where the
    sentence speaks of what is to come. A phrase outside the calendar is left out.
    """
    folded = _folded(question)
    found: list[Span] = []
    for start, end in _asking(folded):
        sentence = folded[start:end]
        ahead = bool(_AHEAD.search(sentence)) and not _BEHIND.search(sentence)
        phrases = list(_phrases(question, folded, start, end, Calendar(now, ahead)))
        found += _joined(question, folded, phrases, now.date())
    return tuple(found)


def _folded(text: str) -> str:
    """Return the text in lower case and simplified characters, as long as it is, without titles."""
    folded = "".join(_same_length(character) for character in text)
    folded = folded.translate(chinese_times.SIMPLIFIED).replace("’", "'")
    return _TITLES.sub(lambda match: "\0" * len(match[0]), folded)


def _same_length(character: str) -> str:
    folded = normalized(character).casefold()
    return folded if len(folded) == 1 else character


def _asking(folded: str) -> list[tuple[int, int]]:
    """Return the places of the sentences that ask; of all sentences if none does."""
    places = [match.span() for match in _SENTENCES.finditer(folded)]
    asking = [(start, end) for start, end in places if _ASKS.search(folded[start:end])]
    return asking or places


def _phrases(
    question: str, folded: str, start: int, end: int, calendar: Calendar
) -> Iterator[Span]:
    """Yield the phrases of a sentence: the longest at each place, without a preposition before."""
    matches = [
        (match.start(), -match.end(), order, match)
        for order, (pattern, _) in enumerate(_RULES)
        for match in pattern.finditer(folded, start, end)
    ]
    matches.sort(key=lambda found: found[:3])
    place = start
    for first, _, order, match in matches:
        if first < place:
            continue
        place = match.end()
        if _is_name(question, folded, (start, end), match) or _is_habit(folded, start, end, match):
            continue
        try:
            days = _RULES[order][1](match, calendar)
        except (ValueError, OverflowError):
            continue
        if days:
            lead = _LEADS.match(folded, first)
            begin = lead.end() if lead else first
            yield Span(begin, place, days[0], days[1], question[begin:place])


def _is_name(question: str, folded: str, sentence: tuple[int, int], match: re.Match[str]) -> bool:
    """Return True if a phrase looks like a part of a name, by its capitals and neighbours."""
    start, end = sentence
    before, after = folded[start : match.start()], folded[match.end() : end]
    if not match[0][0].isascii():
        inborn = match[0] == "后天" and ("先天" in before + after or _INBORN.match(after))
        return bool(inborn)
    if re.match(r"[-._@/]\w", after) or re.search(r"[-._@/]$", before):
        return True
    cased = question != question.lower() and question != question.upper()
    words = list(re.finditer(r"[a-z']+", match[0])) if cased else []
    for word in words:
        at = match.start() + word.start()
        opens = not before.strip() and word.start() == 0
        proper = word[0].split("'")[0] in english_times.PROPER or "holiday" in match.groupdict()
        if question[at].isupper() and not opens and not proper and len(word[0]) > 1:
            return True
    weekday = match.groupdict().get("weekday")
    return bool(
        weekday
        and match[0].startswith(weekday)
        and not match.groupdict().get("side")
        and not match.groupdict().get("day")
        and _is_bare_name(question, before, after, match, cased)
    )


def _is_bare_name(
    question: str, before: str, after: str, match: re.Match[str], cased: bool
) -> bool:
    """Return True if a weekday alone does not stand as time."""
    capital_next = cased and bool(re.match(r"'?s? (?!I\b)[A-Z]", question[match.end() :]))
    if _LEAD.search(before):
        return capital_next and not re.search(r"\b(?:on|since|until) $", before)
    last = re.search(r"(\w+) $", before)
    if last and cased and before[: last.start()].strip():
        place = match.start() - len(last[0])
        if question[place].isupper() and last[1] != "i":
            return True
    if capital_next:
        return True
    if _NAMED.search(before):
        return re.match(r"'s\b", after) is None or before.endswith(("called ", "named "))
    ends = re.match(r"\s*(?:[?.!,;:)]|$)|'s\b| (?:and|or|to)\b", after)
    return not (ends or " " in match[0] or not before.strip())


def _is_habit(folded: str, start: int, end: int, match: re.Match[str]) -> bool:
    """Return True if a phrase stands for a time that comes again."""
    if _REPEATED.search(folded[start : match.start()]):
        return True
    groups = match.groupdict()
    bare = not groups.get("side") and (groups.get("weekday") or match[0].endswith(_WEEKENDS))
    return bool(bare and _USUAL.search(folded[start:end]))


def _joined(question: str, folded: str, phrases: list[Span], today: date) -> list[Span]:
    """Return the phrases with those that bound a range as one: from, to, between, since."""
    joined: list[Span] = []
    for phrase in phrases:
        if joined and (whole := _range(question, folded, joined[-1], phrase)):
            joined[-1] = whole
        else:
            joined.append(phrase)
    return [
        replace(span, last=max(today, span.first))
        if _SINCE.search(folded[: span.start]) or _ONWARDS.match(folded, span.end)
        else span
        for span in joined
    ]


def _range(question: str, folded: str, first: Span, last: Span) -> Span | None:
    """Return the range from one phrase to another, or None if they are apart."""
    gap = folded[first.end : last.start]
    between = _AND.match(gap) and _BETWEEN.search(folded[: first.start])
    if not (_TO.match(gap) or between):
        return None
    end = last.last
    if end < first.first:
        end += timedelta(days=7)  # From a weekday to one of the week after.
    if end < first.first:
        return None
    return Span(first.start, last.end, first.first, end, question[first.start : last.end])
