"""The facts in a text that can be compared: numbers, dates, times, addresses, currencies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from vikingd.domain.text import WIDE_CHARS, lazy, normalized


def _listed(words: str) -> list[str]:
    return words.split()


_SMALL = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = _listed("twenty thirty forty fifty sixty seventy eighty ninety")
_ORDINALS = _listed("first second third fourth fifth sixth seventh eighth ninth tenth")
NUMBER_WORDS = (
    {word: number for number, word in enumerate(_SMALL)}
    | {word: 10 * number for number, word in enumerate(_TENS, 2)}
    | {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "once": 1, "twice": 2, "half": 2}
)
_SAID = NUMBER_WORDS | {word: number for number, word in enumerate(_ORDINALS, 1)}

_MONTHS = _listed(
    "january february march april may june july august september october november december"
)
MONTHS = {name: number for number, name in enumerate(_MONTHS, 1)} | {
    name[:length]: number for number, name in enumerate(_MONTHS, 1) for length in (3, 4)
}
_SHORT_MONTHS = "|".join(rf"{n[:3]}(?:{n[3:]}|{n[3:4]})?\.?" for n in _MONTHS if n != "may")
_MONTH = f"(?P<month>may|{_SHORT_MONTHS})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})"
# The patterns match, in this order: "2026-05-03", "2026-05", "3rd of May 2026", "May 3, 2026",
# "May 2026", "2026年5月3日", "5月3日".
_DATES = tuple(
    lazy(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<!\d){_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?![\d])",
        rf"(?<!\d){_YEAR}-(?P<month>\d{{2}})(?![\d-])",
        rf"(?<!\d){_DAY}(?: of)? {_MONTH}\b(?:,? {_YEAR}\b)?",
        rf"\b{_MONTH} {_DAY}\b(?:,? {_YEAR}\b)?",
        rf"\b{_MONTH},? {_YEAR}\b",
        rf"(?<!\d){_YEAR} ?年 ?(?P<month>\d{{1,2}}) ?月(?: ?(?P<day>\d{{1,2}}) ?[日号])?",
        r"(?<![\d年])(?P<month>\d{1,2}) ?月 ?(?P<day>\d{1,2}) ?[日号]",
    )
)
# Matches 3/4/2026 and 3.4.2026, where either number may be the month.
_DAY_FIRST = lazy(r"(?<!\d)(\d{1,2})[/.](\d{1,2})[/.](\d{4})(?!\d)")
# Matches 14:30, 14:30:15 and 2:30 pm.
_TIME = lazy(r"(?<![\d:])(\d{1,2}):(\d{2})(?::\d{2})?(?:[ \u202f]?([ap])\.?m\b)?", re.IGNORECASE)
# Matches 3 pm and 3 p.m.
_HOUR = lazy(r"(?<![\d:.])(\d{1,2})[ \u202f]?([ap])\.?m\b", re.IGNORECASE)

_NUMBER = lazy(r"\d+(?:[.,]\d+)*")
_MAX_NUMBER = 40
"""The most characters of a number that is read."""
_OWN_NUMBER = lazy(r"(?<![A-Za-z]{2})(?<!\d)\d+(?:[.,]\d+)*")
"""A number that is no part of a word; v2 is one."""
# Matches the space in 12 500 and the mark in 12'500.
_SPACED = lazy(r"(?<=\d)[ \u00a0\u202f'’](?=\d{3}(?!\d))")
# Matches 1,250.5 and 1.250,5.
_GROUPED = lazy(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3}){1,}(?:,\d+)?")
_WORD = lazy(r"[^\W_]+")
# Matches 5%, 5 percent and 百分之5.
_PERCENT = lazy(r"(\d+(?:[.,]\d+)*) ?(?:%|percent\b|per cent\b)|百分之(\d+(?:\.\d+)?)")
_MONEY = lazy("[$€£¥]")
_CURRENCIES = {
    "$": "$ usd dollar",
    "€": "€ eur euro",
    "£": "£ gbp pound",
    "¥": "¥ cny rmb jpy yuan yen 元 円 人民币",
}

_HAN_DIGITS = {one: number for number, one in enumerate("〇一二三四五六七八九")} | {
    "零": 0,
    "两": 2,
}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_HAN_RUN = lazy("[〇零一二两三四五六七八九十百千万亿]{1,20}")
_COUNTED = (
    "个|個|種|种|条|項|项|步|次|天|日|月|年|周|小时|分钟|秒|核|人|名|位|章|节|節|部分|类|類|版|台|件|页|"
    "倍|元|美元|套|家|份|张|篇|歳|岁|层|級|级|行|列|字"
)
# Matches a number in Chinese numerals before a measure word: 三个, 二十天.
_HAN_COUNT = lazy(f"([〇零一二两三四五六七八九十百千万亿]{{1,20}})(?:{_COUNTED})")
_HAN_PERCENT = lazy("百分之([〇零一二两三四五六七八九十百千万亿]{1,20})")

# Matches the number of an item or heading at the beginning of a line: "1. ", "## 2) ".
_LIST_NUMBER = lazy(r"^[ \t>]*(?:#{1,6}[ \t]+)?\d{1,3}[.)][ \t]+", re.MULTILINE)

_COUNTABLE = 2
"""The largest number in words that needs no evidence, such as "both" or "two"."""

_WEEKDAY = lazy("(?:周|星期|礼拜|週)([一二三四五六日天末])")

_END = f"\\s<>\"'`“”‘’()\\]\\[{{}}|\\\\{WIDE_CHARS}"
# Matches https://example.com/a, www.example.com and ana@example.com.
_ADDRESS = lazy(
    rf"(?<![A-Za-z0-9])[a-z][a-z0-9+.-]{{1,20}}://[^{_END}]+"
    rf"|(?<![A-Za-z0-9.])www\.[^{_END}]+"
    r"|(?<![a-z0-9._+-])[a-z0-9._+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+",
    re.IGNORECASE,
)


def folded(text: str) -> str:
    """Return a text in lower case, with plain quotation marks and single spaces."""
    text = normalized(text).casefold().replace("’", "'").replace("‘", "'")
    return " ".join(text.replace("“", '"').replace("”", '"').split())


def addresses(text: str) -> Iterator[str]:
    """Yield the URLs and e-mail addresses in a text, without punctuation after them."""
    for found in _ADDRESS.finditer(text):
        yield found[0].rstrip(".,;:!?*_")


def without_addresses(text: str) -> str:
    """Return a text with each address replaced by a space."""
    return _ADDRESS.sub(" ", text)


def readings(number: str) -> set[str]:
    """Return all ways to read a number: "1,250" is 1250 and 1.250, "2.3.1" also begins with 2.3."""
    if len(number) > _MAX_NUMBER:
        return {number}
    parts = [part.lstrip("0") or "0" for part in number.replace(",", ".").split(".")]
    if len(parts) == 1:
        return {parts[0]}
    fractions = number.replace(",", ".").split(".")
    made = {".".join([parts[0], *fractions[1:]]), ".".join(parts)}
    made |= {".".join(parts[:length]) for length in range(2, len(parts))}
    if _GROUPED.fullmatch(number):
        made.add("".join(fractions).lstrip("0") or "0")
    return made


def han_number(run: str) -> int:
    """Return the number in Chinese numerals: 二十三 is 23, 二〇二四 is 2024."""
    if not any(one in _HAN_UNITS for one in run):
        return int("".join(str(_HAN_DIGITS[one]) for one in run))
    total = section = digit = 0
    for one in run:
        if one in _HAN_DIGITS:
            digit = _HAN_DIGITS[one]
        elif (unit := _HAN_UNITS[one]) >= 10_000:
            total = (total + section + digit or 1) * unit
            section = digit = 0
        else:
            section += (digit or 1) * unit
            digit = 0
    return total + section + digit


def without_times(text: str) -> str:
    """Return a text with each time of day replaced by a space."""
    return _HOUR.sub(" ", _TIME.sub(" ", text))


def without_dates(text: str) -> str:
    """Return a text with each date that names a month replaced by a space."""
    for pattern in _DATES:
        text = pattern.sub(" ", text)
    return text


Date = tuple[int, int, int]
"""Year, month and day; 0: not stated."""


def dates(text: str) -> Iterator[tuple[str, Date]]:
    """Yield (its words, the date) for each date in a text that states at least the month."""
    for pattern in _DATES:
        for found in pattern.finditer(text):
            fields = found.groupdict()
            month = fields["month"].rstrip(".").lower()
            number = int(month) if month.isdigit() else MONTHS.get(month, 0)
            if 1 <= number <= 12:
                yield found[0], (int(fields.get("year") or 0), number, int(fields.get("day") or 0))


class Time(NamedTuple):
    """A time of day; `half` is True if the text says which half of the day, as in "3 pm"."""

    hour: int
    minute: int
    half: bool


def times(text: str) -> Iterator[tuple[str, Time]]:
    """Yield (text, time) for each time of day in a text."""
    for found in _TIME.finditer(text):
        yield found[0], _time(int(found[1]), int(found[2]), found[3])
    for found in _HOUR.finditer(text):
        yield found[0], _time(int(found[1]), 0, found[2])


def _time(hour: int, minute: int, half: str | None) -> Time:
    if not half:
        return Time(hour, minute, hour > 12)
    return Time(hour % 12 + (12 if half.lower() == "p" else 0), minute, True)


class Facts:
    """The facts in the material of a description.

    Args:
        text: all text of the material.

    Attributes:
        text: the text in the normal form NFKC.
        folded: the text in lower case.
        addresses: all addresses, in lower case, without a slash at the end.
    """

    def __init__(self, text: str) -> None:
        self.addresses = tuple({one.casefold().rstrip("/") for one in addresses(text)})
        self._given = text
        self.text = normalized(text)
        self.folded = folded(text)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """All readings of all numbers, written in digits or in words.

        Days, hours and most numbers in addresses are left out: they are no amounts.
        """
        made = {str(year) for year, _, _ in self.dates}
        for address in self.addresses:
            for found in _NUMBER.finditer(address):
                made |= readings(found[0]) if "." in found[0] or len(found[0]) > 2 else set()
        text = folded(without_times(without_dates(without_addresses(self._given))))
        for one in (text, _SPACED.sub("", text)):
            for found in _NUMBER.finditer(one):
                made |= readings(found[0])
                if not _GROUPED.fullmatch(found[0]):  # a list such as 3,5, or the 2 of 2.3
                    made |= {
                        one.partition(".")[0].lstrip("0") or "0" for one in found[0].split(",")
                    }
        made |= {str(_SAID[word]) for word in _WORD.findall(text) if word in _SAID}
        for run in _HAN_RUN.findall(text):
            made.add(str(han_number(run)))
        return frozenset(made)

    @cached_property
    def percents(self) -> frozenset[str]:
        """All readings of the numbers of all percentages, such as "5" for "5%"."""
        return frozenset(one for number in percents(self.folded) for one in readings(number))

    @cached_property
    def dates(self) -> frozenset[Date]:
        """All dates; 3/4/2026, whose order is not clear, counts as 3 April and as 4 March."""
        made = {date for _, date in dates(self.text)}
        for first, second, year in _DAY_FIRST.findall(self.text):
            made |= {(int(year), int(first), int(second)), (int(year), int(second), int(first))}
        return frozenset(made)

    @cached_property
    def times(self) -> frozenset[tuple[int, int]]:
        """All times of day as hour and minute."""
        return frozenset((time.hour, time.minute) for _, time in times(self.text))

    def has_time(self, time: Time) -> bool:
        """Return True if the text states this time.

        A time without its half of the day matches in either half.
        """
        hours = (time.hour,) if time.half else (time.hour, time.hour % 12, time.hour % 12 + 12)
        return any((hour, time.minute) in self.times for hour in hours)

    def has_address(self, address: str) -> bool:
        """Return True if the text has this address, or a URL below it."""
        sought = address.casefold().rstrip("/")
        return any(
            one == sought or (one.startswith(sought) and one[len(sought)] in "/?#" and "://" in one)
            for one in self.addresses
        )

    def has_date(self, date: Date) -> bool:
        """Return True if the text states this date; its year may stand elsewhere in the text."""
        year, month, day = date
        return any(
            month == own_month
            and (not day or day == own_day)
            and (not year or year == own_year or (not own_year and str(year) in self.numbers))
            for own_year, own_month, own_day in self.dates
        )

    def has_money(self, sign: str) -> bool:
        """Return True if the text mentions a currency; for "$" also as "USD" or "dollar"."""
        return any(name in self.folded for name in _CURRENCIES[sign].split())

    def has_weekday(self, day: str) -> bool:
        """Return True if the text names a day of the week in Chinese."""
        return any(_same_weekday(one, day) for one in _WEEKDAY.findall(self.text))


def _same_weekday(one: str, other: str) -> bool:
    return one == other or {one, other} == {"日", "天"}


def percents(text: str) -> Iterator[str]:
    """Yield the numbers of the percentages in a folded text: "5" for "5%" or "5 percent"."""
    for found in _PERCENT.finditer(text):
        yield found[1] or found[2]
    for found in _HAN_PERCENT.finditer(text):
        yield str(han_number(found[1]))


def invented_fact(text: str, facts: Facts) -> str:
    """Return the first number, date, time or address in a text that is not in `facts`; else ""."""
    return next(_invented(text, facts), "")


def _invented(text: str, facts: Facts) -> Iterator[str]:
    yield from (one for one in addresses(text) if not facts.has_address(one))
    text = _LIST_NUMBER.sub("", normalized(without_addresses(text)))
    yield from (said for said, date in dates(text) if not facts.has_date(date))
    text = without_dates(text)
    yield from (said for said, time in times(text) if not facts.has_time(time))
    yield from (day[0] for day in _WEEKDAY.finditer(text) if not facts.has_weekday(day[1]))
    text = without_times(text)
    plain = folded(text)
    yield from (f"{one}%" for one in percents(plain) if not readings(one) & facts.percents)
    for number in _OWN_NUMBER.findall(_SPACED.sub("", plain)):
        if not readings(number) & facts.numbers:
            yield number
    yield from (sign for sign in _MONEY.findall(plain) if not facts.has_money(sign))
    said_numbers = [(word, NUMBER_WORDS.get(word, 0)) for word in _WORD.findall(plain)]
    said_numbers += [(one[0], han_number(one[1])) for one in _HAN_COUNT.finditer(text)]
    for word, value in said_numbers:
        if value > _COUNTABLE and str(value) not in facts.numbers:
            yield word
