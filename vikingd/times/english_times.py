"""Rules for English phrases of time.

A rule is a pattern over normalised text and a function that returns the days of a match. The
longest match at a place counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from vikingd.domain.text import lazy
from vikingd.times.calendar_spans import (
    Calendar,
    Days,
    month_of,
    one,
    season_of,
    shifted,
    third_of,
    whole,
)

Match = re.Match[str]

_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
_NUMBERS = {word: number for number, word in enumerate(_COUNTED.split())}
_NUMBERS |= {"a": 1, "an": 1, "a couple of": 2, "couple of": 2, "few": 7, "a few": 7}
_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT_DAYS = {"tues": 1, "thur": 3, "thurs": 3} | {day[:3]: i for i, day in enumerate(_DAY_NAMES)}
_WEEKDAYS = {day: i for i, day in enumerate(_DAY_NAMES)} | _SHORT_DAYS
_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, start=1)}
_MONTHS |= {name[:3]: i for name, i in _MONTHS.items()} | {"sept": 9}
_PEOPLE = {"april", "may", "june", "august", "march"}
_HOLIDAYS = {
    "christmas eve": (12, 24), "christmas day": (12, 25), "christmas": (12, 25),
    "new year's eve": (12, 31), "new year's day": (1, 1),
    "halloween": (10, 31), "valentine's day": (2, 14),
}  # fmt: skip
_SIDES = {"last": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "following": 1}
_THIRDS = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}
_DAY_WORDS = {
    "the day before yesterday": -2, "the night before last": -2, "yesterday": -1,
    "last night": -1, "last evening": -1, "today": 0, "tonight": 0, "tomorrow": 1,
    "the day after tomorrow": 2,
} | {f"this {part}": 0 for part in ("morning", "afternoon", "evening")}  # fmt: skip
_HOURS = {"hour": 1, "minute": 1 / 60}


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_N = rf"(?P<n>\d{{1,4}}|{_any(_NUMBERS)})[ -]"
_UNIT = r"(?P<unit>day|week|month|quarter|year|hour|minute|fortnight)s?\b"
_WHOLE = "week|weekend|month|quarter|year"
_SIDE = rf"(?P<side>{_any(_SIDES)})"
_M = rf"(?P<month>{_any(_MONTHS)})\b\.?"
_D = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\b"
_Y = r"(?P<year>(?:19|20)\d\d)\b(?![./-]\d)"
_W = rf"(?P<weekday>{_any(_DAY_NAMES)})\b"
_PART = r"(?: (?:morning|noon|afternoon|evening|night)\b|(?! (?:morning|afternoon|evening|night)s))"
_OF_YEAR = rf"(?: ?,? (?:of |in )?(?:{_Y}|{_SIDE} year\b))?"
_THIRD = r"(?:(?P<third>early|mid|late)[ -]|(?:the )?(?P<edge>beginning|start|middle|end) of )"
_TO = r" ?(?:-|–|to|until|till|through) ?"


def _moved(match: Match, calendar: Calendar, sign: int) -> Days | None:
    unit, count = _counted(match)
    if unit in _HOURS:
        return one(calendar.hours(sign * count * _HOURS[unit]))
    if match["n"].endswith("few"):
        if unit != "day":
            return None
        yesterday = shifted(calendar.today, "day", -1)
        return (
            calendar.rolling(unit, count)
            if sign > 0
            else (shifted(calendar.today, unit, -count), yesterday)
        )
    return calendar.at(unit, sign * count)


def _counted(match: Match) -> tuple[str, int]:
    """Return (unit, number of units) of a match, such as ("week", 4) for "two fortnights"."""
    words = match.groupdict().get("n") or "a"
    count = int(words) if words.isdigit() else _NUMBERS[words]
    return ("week", 2 * count) if match["unit"] == "fortnight" else (match["unit"], count)


def _ago(match: Match, calendar: Calendar) -> Days | None:
    if match["exact"]:
        unit, count = _counted(match)
        return one(shifted(calendar.today, unit, -count))
    return _moved(match, calendar, -1)


def _from_day(match: Match, calendar: Calendar) -> Days | None:
    if match["of"] == "now":
        return _moved(match, calendar, 1)
    start = shifted(calendar.today, "day", _DAY_WORDS[match["of"]])
    return one(shifted(start, *_counted(match)))


def _in(match: Match, calendar: Calendar) -> Days | None:
    return _moved(match, calendar, 1) if calendar.ahead else None


def _rolling(match: Match, calendar: Calendar) -> Days | None:
    unit, count = _counted(match)
    if unit != "day" and (match.groupdict().get("n") or "").endswith("few"):
        return None
    ahead = match["way"] in ("next", "coming", "upcoming", "following")
    if unit in _HOURS:
        day = calendar.hours((count if ahead else -count) * _HOURS[unit])
        return (calendar.today, day) if ahead else (day, calendar.today)
    return calendar.rolling(unit, count if ahead else -count)


def _unit(match: Match, calendar: Calendar) -> Days:
    return calendar.at(match["unit"], _SIDES[match["side"]])


def _second_unit(match: Match, calendar: Calendar) -> Days:
    return calendar.at(match["unit"], -2 if match["way"] == "before last" else 2)


def _weekend(_: Match, calendar: Calendar) -> Days:
    this = calendar.at("weekend", 0)
    return this if calendar.ahead or this[0] <= calendar.today else calendar.at("weekend", -1)


def _weekday(match: Match, calendar: Calendar) -> Days:
    weekday, side = _WEEKDAYS[match["weekday"]], match.groupdict().get("side")
    if not side:
        return calendar.near_weekday(weekday)
    if _SIDES[side] < 0:
        return calendar.last_weekday(weekday)
    return calendar.weekday(weekday, _SIDES[side])


def _weekday_of_week(match: Match, calendar: Calendar) -> Days:
    return calendar.weekday(_WEEKDAYS[match["weekday"]], _SIDES[match["side"]])


def _year_of(match: Match, calendar: Calendar) -> int | None:
    if match["year"]:
        return int(match["year"])
    return calendar.today.year + _SIDES[match["side"]] if match["side"] else None


def _date(match: Match, calendar: Calendar) -> Days:
    return calendar.date(_MONTHS[match["month"]], int(match["day"]), _year_of(match, calendar))


def _dates(match: Match, calendar: Calendar) -> Days:
    first, _ = _date(match, calendar)
    return first, first.replace(day=int(match["last"]))


def _week_of(match: Match, calendar: Calendar) -> Days:
    return whole("week", _date(match, calendar)[0])


def _month(match: Match, calendar: Calendar) -> Days | None:
    month, before, third = _MONTHS[match["month"]], match["before"], match["third"] or match["edge"]
    year = _year_of(match, calendar)
    at = match["at"]
    if at in ("from", "before", "after", "of") and match["month"] in _PEOPLE:
        at = None
    if not (at or before or third or year):
        return None  # The word may be a name.
    if before:
        year = _sided_year(calendar, before, (month, 1), (month, 31))
    days = calendar.month(month, year)
    return third_of(days, _THIRDS[third]) if third else days


def _sided_year(
    calendar: Calendar, side: str, first: tuple[int, int], last: tuple[int, int]
) -> int:
    """Return the year of a yearly span after "last", "this" or "next", as in "next May".

    "Last" is the newest span that is over, and "next" the first that has not begun. `first` and
    `last` are the days of the span as (month, day).
    """
    today = calendar.today.month, calendar.today.day
    if _SIDES[side] < 0:
        return calendar.today.year - (last >= today)
    return calendar.today.year + (_SIDES[side] > 0 and first <= today)


def _months(match: Match, calendar: Calendar) -> Days:
    last = calendar.month(_MONTHS[match["last"]], _year_of(match, calendar))
    first = month_of(last[0].year, _MONTHS[match["month"]])
    if first > last:
        first = month_of(last[0].year - 1, _MONTHS[match["month"]])
    return first[0], last[1]


def _third_of_month(match: Match, calendar: Calendar) -> Days:
    return third_of(calendar.at("month", _SIDES[match["side"]]), _THIRDS[match["edge"]])


def _nth(match: Match, calendar: Calendar) -> Days:
    if match["side"]:
        return one(calendar.at("month", _SIDES[match["side"]])[0].replace(day=int(match["day"])))
    return calendar.day_of_month(int(match["day"]))


def _quarter(match: Match, calendar: Calendar) -> Days | None:
    quarter, year = match["quarter"], _year_of(match, calendar)
    if quarter.isdigit():
        return calendar.quarter(int(quarter), year)
    return calendar.quarter(_ORDINALS[quarter], year) if year else None  # A game has quarters, too.


def _half(match: Match, calendar: Calendar) -> Days | None:
    year = _year_of(match, calendar)
    return calendar.half(1 + (match["half"] in ("h2", "second half")), year) if year else None


def _year(match: Match, _: Calendar) -> Days:
    return whole("year", date(int(match["year"]), 1, 1))


def _decade(match: Match, _: Calendar) -> Days:
    year = int(match["year"])
    return date(year, 1, 1), date(year + 9, 12, 31)


def _season(match: Match, calendar: Calendar) -> Days | None:
    season = match["season"].replace("fall", "autumn")
    if match["side"]:
        return calendar.season(season, _SIDES[match["side"]])
    return season_of(int(match["year"]), season) if match["year"] else None


def _holiday(match: Match, calendar: Calendar) -> Days:
    day = _HOLIDAYS[match["holiday"]]
    year = _year_of(match, calendar)
    if match["before"]:
        year = _sided_year(calendar, match["before"], day, day)
    return calendar.date(*day, year)


def _named_day(match: Match, calendar: Calendar) -> Days:
    return one(shifted(calendar.today, "day", _DAY_WORDS[match["word"]]))


_SINGLE = (*_HOURS, *_WHOLE.split("|"), "day", "fortnight")
_OTHERS = """
q1 q2 q3 q4 h1 h2 yesterday tomorrow today tonight night evening morning afternoon half spring
summer autumn winter fall
"""
CUES = frozenset(
    (
        *_SINGLE,
        *(f"{unit}s" for unit in _SINGLE),
        *_WEEKDAYS,
        *_MONTHS,
        *_OTHERS.split(),
        *(name.split()[0].partition("'")[0] for name in _HOLIDAYS),
    )
)
"""The words of time phrases: each phrase has one, except numbers and dates in digits."""

PROPER = frozenset((*_WEEKDAYS, *_MONTHS, *(name.split()[0] for name in _HOLIDAYS)))
"""The words of time phrases that always have a capital, such as months."""

RULES = tuple(
    (lazy(rf"\b{source}"), meaning)
    for source, meaning in (
        # yesterday
        (rf"(?P<word>{_any(_DAY_WORDS)})\b{_PART}", _named_day),
        # three days ago
        (rf"{_N}{_UNIT} ago\b(?P<exact> today\b)?", _ago),
        # two weeks from now
        (rf"{_N}{_UNIT} from (?P<of>now|today|tomorrow|yesterday)\b", _from_day),
        # in two weeks
        (rf"in {_N}{_UNIT}(?:'s? time\b|(?!['-]))", _in),
        # last three months
        (
            rf"(?P<way>last|past|previous|next|coming|upcoming|following) {_N}{_UNIT}(?! of\b)",
            _rolling,
        ),
        # past month
        (rf"(?P<way>past|coming|upcoming) {_UNIT}", _rolling),
        # last week
        (rf"{_SIDE} (?P<unit>{_WHOLE})\b(?! of\b)", _unit),
        # the week before last
        (rf"the (?P<unit>{_WHOLE}) (?P<way>before last|after next)\b", _second_unit),
        # over the weekend
        (r"(?:over|on|at|during) the weekend\b", _weekend),
        # last monday morning
        (rf"(?:{_SIDE} )?{_W}{_PART}", _weekday),
        # on mon
        (rf"(?:on|since|until|by) (?P<weekday>{_any(_SHORT_DAYS)})\b", _weekday),
        # last wed
        (rf"{_SIDE} (?P<weekday>tues?|thurs?|wed|fri)\b", _weekday),
        # monday of next week
        (rf"{_W}{_PART},? (?:of |in )?{_SIDE} week\b", _weekday_of_week),
        # next week on monday
        (rf"{_SIDE} week,? (?:on )?{_W}", _weekday_of_week),
        # may 3rd, 2026
        (rf"(?:{_W},? )?{_M} ?{_D}{_OF_YEAR}", _date),
        # the 3rd of may 2026
        (rf"(?:{_W},? )?(?:the )?{_D} (?:of )?{_M}{_OF_YEAR}", _date),
        # may 3-5
        (rf"{_M} ?{_D}{_TO}(?P<last>[0-3]?\d)(?:st|nd|rd|th)?\b{_OF_YEAR}", _dates),
        # 3 to 5 may
        (rf"{_D}{_TO}(?P<last>[0-3]?\d)(?:st|nd|rd|th)? (?:of )?{_M}{_OF_YEAR}", _dates),
        # between 3 and 5 may
        (
            rf"between (?:the )?{_D} and (?:the )?(?P<last>[0-3]?\d)(?:st|nd|rd|th)?"
            rf" (?:of )?{_M}{_OF_YEAR}",
            _dates,
        ),
        # the week of may 3
        (rf"the week of {_M} ?{_D}{_OF_YEAR}", _week_of),
        # in early may 2026
        (
            rf"(?:(?P<at>in|since|during|until|till|by|throughout|from|before|after|of) )?{_THIRD}?"
            rf"(?:(?P<before>last|previous|this|next) )?{_M}(?! ?\d\d?\b){_OF_YEAR}",
            _month,
        ),
        # from may to july
        (rf"(?:from|between) {_M}(?:{_TO}| and )(?P<last>{_any(_MONTHS)})\b{_OF_YEAR}", _months),
        # the end of last month
        (rf"(?:the )?(?P<edge>beginning|start|middle|end) of {_SIDE} month\b", _third_of_month),
        # on the 5th
        (
            rf"(?:{_W},? )?(?:on )?the (?P<day>[0-3]?\d)(?:st|nd|rd|th)\b(?: of {_SIDE} month\b)?"
            r"(?= ?[,.;:?!)]|$| (?:and|or|at|in|with|when|did|was|to|for|by|about)\b)",
            _nth,
        ),
        # q3 2026
        (rf"(?:the )?q(?P<quarter>[1-4])\b{_OF_YEAR}", _quarter),
        # the third quarter of 2026
        (rf"the (?P<quarter>{_any(_ORDINALS)}) quarter\b{_OF_YEAR}", _quarter),
        # h1 2026
        (rf"(?:the )?(?P<half>h1|h2|first half|second half)\b{_OF_YEAR}", _half),
        # in 2026
        (rf"(?:in|since|during|year) {_Y}", _year),
        # before 2026
        (
            rf"(?:by|until|till|before|after|from|to|between|and) {_Y}"
            r"(?= ?[?.!,;:)\-–]|$| (?:to|and|until|till|through)\b)",
            _year,
        ),
        # in the 1990s
        (r"(?:in|during|of|from|since) the (?P<year>(?:19|20)\d0)'?s\b", _decade),
        # last summer
        (
            r"(?:in )?(?:the )?(?:(?P<side>last|this|next) )?"
            rf"(?P<season>spring|summer|autumn|fall|winter)\b(?: (?:of )?{_Y})?",
            _season,
        ),
        # last christmas
        (
            rf"(?:(?P<before>last|this|next) )?(?P<holiday>{_any(_HOLIDAYS)})\b{_OF_YEAR}",
            _holiday,
        ),
    )
)
"""The patterns over folded text, each with a function for its days; None or an error: no time."""
