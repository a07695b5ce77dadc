"""Phrases of time in a question, such as "last week", and the days that they mean.

These phrases are ignored: a title in quotes, a name in capitals, a habit ("every Tuesday"), a
quantity ("three days by car") and a word such as "recently". If a text has questions, only the
phrases in these sentences count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import pairwise

from vikingd.domain.sentences import sentence_ends
from vikingd.domain.text import lazy, normalized
from vikingd.domain.traditional_chinese import simplified
from vikingd.times import chinese_times, english_times
from vikingd.times.calendar_spans import Calendar, Days, month_of, shifted


@dataclass(frozen=True, slots=True)
class Span:
    """A phrase of time in a text: its place and words, and the first and last day it means."""

    start: int  # in characters of the text
    end: int
    first: date
    last: date
    words: str


_TITLES = lazy(
    r"\"[^\"]{0,99}\"|“[^”]{0,99}”|‘[^’]{0,99}’(?!\w)|«[^»]{0,99}»|`[^`]{0,99}`"
    r"|《[^》]{0,99}》|〈[^〉]{0,99}〉|「[^」]{0,99}」|『[^』]{0,99}』"
)
_LINE_END = lazy(r"\n\s*")
# A sentence such as "you told me about it" belongs to the question after it.
_ASKS = lazy(
    r"[?？]\W*$|[吗呢]\W*$"
    r"|\b(?:i|you|we) (?:mentioned|told|said|asked|discussed|noted|wrote|talked)\b|提到过|说过"
)
# Words of a sentence about the future, as in "what will I do on Monday?".
_AHEAD = lazy(
    r"\b(?:will|shall|going to|gonna|plan|plans|planned|planning|must|should|due|scheduled"
    r"|upcoming|need to|have to|are we|am i|is there|are there|do we|do i have|when do"
    r"|when does)\b|'ll\b|将|打算|计划|安排|准备|即将|要"
)
# Words of a sentence about the past, as in "what did I do on Monday?".
_BEHIND = lazy(r"\b(?:did|was|were|had|has|have been|happened|went)\b|[了过]")
# Matches the end of the text before a habit: "every " of "every Tuesday".
_REPEATED = lazy(r"(?:\b(?:every|each|per|any|other) |[每逢])$")
_USUAL = lazy(r"\b(?:usually|normally|always|typically)\b|一般|通常|平时|平常|每[天周月年]|总是")
# Prepositions of a time: at its beginning (_LEADS), or before it (_LEAD).
_LEADS = lazy(r"(?:since|until|till|by|before|after|from|to|between|and|or) ")
_LEAD = lazy(r"\b(?:on|since|until|till|by|before|after|from|to|between|and|or|for) $")
# Matches the end of the text before a name: "called " of "a girl called Wednesday".
_NAMED = lazy(r"\b(?:the|an?|of|called|named|is|like|with|than|about|my|your|our) $")
_BETWEEN = lazy(r"\bbetween $")
_SINCE = lazy(r"\bsince $")
_TO = lazy(r"(?:\s*(?:to|until|till|through|[-–—~到至])\s*)$")
_AND = lazy(r"\s+and\s+$")
# Matches the words before or after a day that make it another time: "before ", "two days from ",
# "born on ", 之前.
_APART_BEFORE = lazy(
    r"(?:\b(?:(?:days?|weeks?|months?) from|before|after|prior to|earlier than|later than"
    r"|born (?:on|in)|birthday (?:is|was)(?: on| in)?) |生日(?:是|在|为)?|出生[于在])$"
)
_APART_AFTER = lazy(r" ?(?:以前|之前|以后|之后|的?过?生日|birthday\b)")
# Matches the words after the beginning of a range up to today: 以来 of 五月以来.
_ONWARDS = lazy(r"以来|至今|到现在|起(?![床来飞诉码])")
_IN = lazy(r"(?:in|on) ")
_WORDS = lazy(r"[a-z][a-z']+")
_LAST_WORD = lazy(r"(\w+) $")
# Matches a word with a capital letter after a weekday, as in "Monday Blues".
_CAPITAL_NEXT = lazy(r"'?s? (?!I\b)[A-Z]")
_DAY_LEAD = lazy(r"\b(?:on|since|until) $")
# Matches the text after a weekday at the end of a phrase: "?", ", ", " and".
_ENDS = lazy(r"\s*(?:[?.!,;:)]|$)|'s\b| (?:and|or|to)\b")
# Match the text around a number that is part of an identifier: "-rc" after, "v/" before.
_GLUED_AFTER = lazy(r"[-._@/]\w")
_GLUED_BEFORE = lazy(r"[-._@/]$")
# Matches the words after 后天 where it means "acquired", not "the day after tomorrow".
_INBORN = lazy(r"性|免疫|获得|养成|形成")


_MONTHS = 12
_NEAR = 64  # characters around a phrase that are read to classify it
_WEEKENDS = ("weekend", "周末")


def _slashed(match: re.Match[str], calendar: Calendar) -> Days | None:
    """Return the day of numbers such as 26/11/2026; None if both may be the month, as in 5/6."""
    month, day = sorted((int(match["one"]), int(match["two"])))
    if month != day <= _MONTHS:
        return None
    return calendar.date(month, day, int(match["year"]) if match["year"] else None)


def _date(match: re.Match[str], calendar: Calendar) -> Days:
    year = int(match["year"]) if match["year"] else None
    return calendar.date(int(match["month"]), int(match["day"]), year)


def _years(match: re.Match[str], _: Calendar) -> Days:
    return date(int(match["year"]), 1, 1), date(int(match["last"]), 12, 31)


def _iso_month(match: re.Match[str], _: Calendar) -> Days:
    return month_of(int(match["year"]), int(match["month"]))


_YEAR = r"(?P<year>(?:19|20)\d\d)"
_FREE = r"(?<![\w./-])(?<!version )"
# The patterns match, in this order: "2026-05-03", "2026-05", "26/11/2026", "on 26/11",
# "2019 to 2021", "3. 5. 2026", "on 3.5.".
_NUMERIC = tuple(
    (lazy(source), meaning)
    for source, meaning in (
        (
            rf"{_FREE}{_YEAR}([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)(?!\d|[a-su-z]|[-/.]\d)",
            _date,
        ),
        (rf"{_FREE}{_YEAR}-(?P<month>0[1-9]|1[0-2])(?![\da-z]|[-/.]\d)", _iso_month),
        (rf"{_FREE}(?P<one>\d\d?)([/-])(?P<two>\d\d?)\2{_YEAR}(?![\w/-])", _slashed),
        (r"\b(?:on|since|by|until) (?P<one>\d\d?)/(?P<two>\d\d?)(?P<year>)(?![\w/])", _slashed),
        (
            rf"{_FREE}(?:from )?{_YEAR}年?(?: ?[-–—~到至] ?| to | until | through )"
            r"(?P<last>(?:19|20)\d\d)年?(?![\da-z/-])",
            _years,
        ),
        (rf"{_FREE}(?P<day>\d\d?)\. ?(?P<month>\d\d?)\. ?{_YEAR}(?![\w.]\d)", _date),
        (r"\b(?:on|since|by|until) (?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>)(?!\d)", _date),
    )
)
# The rules take 0.2 ms. A question without these cues names no day, so they are not tried.
_CUE = lazy(rf"(?<![\da-z_])\d|\b(?:{'|'.join(english_times.CUES)})\b|{chinese_times.CUE}")
_TOKENS = lazy(r"\w+")
_RULES = (*_NUMERIC, *english_times.RULES, *chinese_times.RULES)


def spans(question: str, now: datetime, *, ahead: bool | None = None) -> tuple[Span, ...]:
    """Return the phrases of time in a question, in the order of the text.

    A date without a year, or a weekday alone, means the nearest one in the past, or in the future
    if the sentence is about the future. A phrase outside the calendar is left out.

    Args:
        question: the text.
        now: the present time, with its time zone.
        ahead: True if the text is about the future; None: its words decide.
    """
    plain = normalized(question).casefold()
    if plain.isascii():  # a look at its words is quicker than the pattern
        words = _TOKENS.findall(plain)
        begins_with_digit = min(words, default="_") < ":"
        may_name = begins_with_digit or not english_times.CUES.isdisjoint(words)
    else:
        may_name = _CUE.search(simplified(plain)) is not None
    if not may_name:
        return ()
    folded = _folded(question)
    cased = question not in (question.lower(), question.upper())
    found: list[Span] = []
    for start, end in _questions_in(question, folded):
        sentence = _Sentence(start, question[start:end], folded[start:end], cased, ahead)
        found += _joined(sentence, list(_phrases(sentence, now)), now.date())
    return tuple(found)


class _Sentence:
    """A sentence of a question, as written and folded, with facts that classify its phrases."""

    def __init__(
        self, start: int, written: str, folded: str, cased: bool, ahead: bool | None
    ) -> None:
        self.start = start  # in the question
        self.written = written
        self.folded = folded
        self.cased = cased  # Capitals tell names from other words.
        self.opening = len(folded) - len(folded.lstrip())
        will = bool(_AHEAD.search(folded)) and not _BEHIND.search(folded)
        self.ahead = will if ahead is None else ahead
        self.usual = bool(_USUAL.search(folded))
        self.inborn = "先天" in folded

    def before(self, place: int) -> str:
        """Return the normalised text just before an index, at most _NEAR characters."""
        return self.folded[max(0, place - _NEAR) : place]

    def after(self, place: int) -> str:
        """Return the normalised text from an index on, at most _NEAR characters."""
        return self.folded[place : place + _NEAR]

    def span(self, start: int, end: int, days: Days) -> Span:
        """Return the Span of a phrase in the question, given its place in the sentence."""
        words = self.written[start:end]
        return Span(self.start + start, self.start + end, days[0], days[1], words)


def _folded(text: str) -> str:
    """Return a text in lower case and simplified Chinese, of the same length.

    Characters of titles in quotes become NUL, so that no phrase matches there.
    """
    folded = "".join(map(_same_length, text))
    folded = simplified(folded).replace("’", "'")
    return _TITLES.sub(lambda match: "\0" * len(match[0]), folded)


def _same_length(character: str) -> str:
    folded = normalized(character).casefold()
    return folded if len(folded) == 1 else character


def _questions_in(question: str, folded: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence that asks something; of all sentences if none does."""
    written = _TITLES.sub(lambda match: "\0" * len(match[0]), question)  # Capitals show ends.
    lines = (found.end() for found in _LINE_END.finditer(folded))
    places = list(pairwise(sorted({0, *lines, *sentence_ends(written)})))
    asking = [(start, end) for start, end in places if _ASKS.search(folded[start:end])]
    return asking or places


def _phrases(sentence: _Sentence, now: datetime) -> Iterator[Span]:
    """Yield the phrases of a sentence, the longest match at each place.

    A preposition at the beginning, such as "since", is not a part of the phrase.
    """
    calendar = Calendar(now, sentence.ahead)
    matches = [
        (match.start(), -match.end(), order, match)
        for order, (pattern, _) in enumerate(_RULES)
        for match in pattern.finditer(sentence.folded)
    ]
    matches.sort(key=lambda found: found[:3])
    place = 0
    for start, _, order, match in matches:
        if start < place:
            continue
        place = match.end()
        if _is_name(sentence, match) or _is_habit(sentence, match) or _is_anchor(sentence, match):
            continue
        try:
            days = _RULES[order][1](match, calendar)
        except (LookupError, ValueError, OverflowError):  # no such day or unit, other digits
            continue
        if days and days[0] <= days[1]:
            lead = _LEADS.match(match[0])
            yield sentence.span(start + (lead.end() if lead else 0), place, days)


def _is_name(sentence: _Sentence, match: re.Match[str]) -> bool:
    """Return True if a match is probably part of a name: "Black Friday", "v2024-05"."""
    before, after = sentence.before(match.start()), sentence.after(match.end())
    if not match[0][0].isascii():
        return match[0] == "后天" and (sentence.inborn or bool(_INBORN.match(after)))
    if match[0].isascii() and (_GLUED_AFTER.match(after) or _GLUED_BEFORE.search(before)):
        return True
    groups = match.groupdict()
    if sentence.cased and "holiday" not in groups:
        for word in _WORDS.finditer(match[0]):
            place = match.start() + word.start()
            proper = word[0].split("'")[0] in english_times.PROPER
            if sentence.written[place].isupper() and place > sentence.opening and not proper:
                return True
    weekday = groups.get("weekday")
    alone = weekday and match[0].startswith(weekday)
    if not alone or groups.get("side") or groups.get("day"):
        return False
    return not _is_weekday(sentence, match)


def _is_weekday(sentence: _Sentence, match: re.Match[str]) -> bool:
    """Return True if a weekday without other words is a time, as in "on Monday" or "Monday night".

    It may be a name, as in "a girl called Wednesday".
    """
    before, after = sentence.before(match.start()), sentence.after(match.end())
    written = sentence.written[match.end() : match.end() + _NEAR]
    capital_next = sentence.cased and bool(_CAPITAL_NEXT.match(written))
    if _LEAD.search(before):
        return not capital_next or bool(_DAY_LEAD.search(before))
    last = _LAST_WORD.search(before)
    if last and sentence.cased:
        place = match.start() - len(last[0])
        if place > sentence.opening and sentence.written[place].isupper() and last[1] != "i":
            return False
    if capital_next:
        return False
    if _NAMED.search(before):
        return after.startswith("'s ") and not before.endswith(("called ", "named "))
    opens = match.start() == sentence.opening
    return opens or " " in match[0] or bool(_ENDS.match(after))


def _is_habit(sentence: _Sentence, match: re.Match[str]) -> bool:
    """Return True if a match is a repeated time, as in "every Tuesday"."""
    if _REPEATED.search(sentence.before(match.start())):
        return True
    groups = match.groupdict()
    alone = groups.get("weekday") or match[0].endswith(_WEEKENDS)
    return bool(sentence.usual and alone and not groups.get("side"))


def _is_anchor(sentence: _Sentence, match: re.Match[str]) -> bool:
    """Return True if a match only helps to name another time: Monday in "two days before Monday".

    A day after "born on" or "birthday is" counts, too, because the birthday comes every year.
    """
    lead = _LEADS.match(match[0]) or _IN.match(match[0])
    before = sentence.before(match.start()) + (lead[0] if lead else "")
    return bool(_APART_BEFORE.search(before) or _APART_AFTER.match(sentence.after(match.end())))


def _joined(sentence: _Sentence, phrases: list[Span], today: date) -> list[Span]:
    """Join phrases that bound a range ("from May to July"), and extend "since May" to today."""
    joined: list[Span] = []
    for phrase in phrases:
        if joined and (whole := _range(sentence, joined[-1], phrase)):
            joined[-1] = whole
        else:
            joined.append(phrase)
    return [
        replace(span, last=max(today, span.first))
        if _SINCE.search(sentence.before(span.start - sentence.start))
        or _ONWARDS.match(sentence.after(span.end - sentence.start))
        else span
        for span in joined
    ]


def _range(sentence: _Sentence, first: Span, last: Span) -> Span | None:
    """Return the span of two phrases that are joined by "to" or "between ... and", else None."""
    start, end = first.start - sentence.start, last.end - sentence.start
    gap = sentence.folded[first.end - sentence.start : last.start - sentence.start]
    between = _AND.match(gap) and _BETWEEN.search(sentence.before(start))
    if not (_TO.match(gap) or between):
        return None
    since, until = first.first, last.last
    try:
        if until < since <= until + timedelta(days=7):
            until += timedelta(days=7)  # From Friday to Monday.
        elif until < since <= shifted(until, "year", 1):
            since = shifted(since, "year", -1)  # From November to February.
    except (LookupError, ValueError, OverflowError):  # no such day or unit, other digits
        return None
    return sentence.span(start, end, (since, until)) if until >= since else None
