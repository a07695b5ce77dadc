"""Rules for Chinese phrases of time, over normalised text in simplified characters.

A rule is a pattern and a function that returns the days of a match. The longest match at a place
counts.
"""

from __future__ import annotations

import re
from datetime import date

from vikingd.domain.text import lazy
from vikingd.times.calendar_spans import (
    Calendar,
    Days,
    one,
    season_of,
    shifted,
    third_of,
    whole,
)

Match = re.Match[str]

_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"两": 2}
_WEEKDAYS = {day: i for i, day in enumerate("一二三四五六日")} | {"天": 6}
_DAYS = {
    "大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "大后": 3,
}  # fmt: skip
_YEARS = {"大前": -3, "前": -2, "去": -1, "今": 0, "本": 0, "明": 1, "后": 2}
_UNITS = {"天": "day", "日": "day", "周": "week", "星期": "week", "礼拜": "week", "月": "month"}
_UNITS |= {"季度": "quarter", "季": "quarter", "年": "year", "小时": "hour", "分钟": "minute"}
_HOURS = {"hour": 1, "minute": 1 / 60}
_THIRDS = {"初": 0, "上旬": 0, "中": 1, "中旬": 1, "下旬": 2, "底": 2, "末": 2}
_SEASONS = {"春": "spring", "夏": "summer", "秋": "autumn", "冬": "winter"}
_HOLIDAYS = {
    "元旦": (1, 1), "情人节": (2, 14), "妇女节": (3, 8), "劳动节": (5, 1), "儿童节": (6, 1),
    "国庆节": (10, 1), "平安夜": (12, 24), "圣诞节": (12, 25),
}  # fmt: skip
_FEW = 7  # days, for 几

_PART = r"(?:早上|早晨|清晨|上午|中午|下午|傍晚|晚上|夜里|半夜|凌晨|夜晚|早|晚)?"
_N = r"(?P<n>\d{1,4}|[零一二三四五六七八九十百两]{1,6}|半|几) ?"
_WEEK = r"(?:周|星期|礼拜)"
_UNIT = r"(?P<unit>天|周|个?星期|个?礼拜|个?月|个?季度|年|个?小时|分钟)(?![庆薪票租饼亮级])"
_SIDE = r"(?P<side>上{1,3}|下{1,3}|这一?|本)个?"
_YEAR = r"(?P<year>(?:19|20)\d\d|\d\d(?= ?年 ?\d\d? ?月)|[一二][零一二三四五六七八九]{3})"
_Y = rf"(?:(?:{_YEAR}|(?P<old>大前|前|去|今|本|明|后)) ?年的? ?)"
_MONTH = r"(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九]) ?月"
_DAY_NUMBER = r"[0-3]?\d|三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九]"
_DAY = rf" ?(?P<day>{_DAY_NUMBER}) ?"
_SIDE_MONTH = r"(?<![早晚])(?P<side>上{1,3}|下{1,3}|这|本)个?月(?![饼亮球薪票租嫂季])份?的?"
_THIRD = r"(?P<third>上旬|中旬|下旬|初(?![一二三四五六七八九十])|底|末|中(?!旬|秋|午))"
# A number with 号 after it may count things: 3号楼, 一号线.
_NO_NUMBER = r"(?![楼线店门房机桌院馆车公台选电球仓井码库柜厅节桥站路文称])"
_WORD = r"(?<![\da-z.])"
_SUN = r"(?<!年)(?<![农阴]历)"  # neither of an era nor of the lunar calendar


def number(text: str) -> int:
    """Return the value of a number such as 12, 十二, 二零二六 or 一百二十."""
    if text.isascii():
        return int(text)
    if not set(text) & set("十百"):
        return int("".join(str(_DIGITS[digit]) for digit in text))
    total = digit = 0
    for character in text:
        if unit := {"十": 10, "百": 100}.get(character):
            total += (digit or 1) * unit
            digit = 0
        else:
            digit = _DIGITS[character]
    return total + digit


def _side(text: str) -> int:
    """Return the number of units in a word: 上 is -1 (last), 上上 is -2, 下 is 1, 这 is 0."""
    return text.count("下") - text.count("上")


def _counted(match: Match) -> tuple[str, int]:
    """Return (unit, number of units) of a match, such as ("week", 3) for 三个星期."""
    unit, words = _UNITS[match["unit"].removeprefix("个")], match["n"]
    if words == "半":
        return {"year": ("month", 6), "month": ("day", 15)}.get(unit, (unit, 1))
    return unit, _FEW if words == "几" else number(words)


def _moved(match: Match, calendar: Calendar, sign: int) -> Days:
    unit, count = _counted(match)
    if unit in _HOURS:
        hours = 0.5 if match["n"] == "半" else count * _HOURS[unit]
        return one(calendar.hours(sign * hours))
    if match["n"] == "几" and sign < 0:
        return _days_before(calendar)
    return calendar.at(unit, sign * count)


def _days_before(calendar: Calendar) -> Days:
    """Return the span that "a few days ago" means: the seven days before today."""
    return shifted(calendar.today, "day", -_FEW), shifted(calendar.today, "day", -1)


def _ago(match: Match, calendar: Calendar) -> Days | None:
    if match["unit"] == "年" and re.fullmatch(r"(?:19|20)\d\d", match["n"]):
        return None  # 2019年前 is the time before that year.
    if match["exact"]:
        unit, count = _counted(match)
        return one(shifted(calendar.today, unit, -count))
    return _moved(match, calendar, -1)


def _later(match: Match, calendar: Calendar) -> Days:
    return _moved(match, calendar, 1)


def _rolling(match: Match, calendar: Calendar) -> Days:
    unit, count = _counted(match)
    ahead = match["way"][0] in "未接今往"
    if unit in _HOURS:
        day = calendar.hours((count if ahead else -count) * _HOURS[unit])
        return (calendar.today, day) if ahead else (day, calendar.today)
    return calendar.rolling(unit, count if ahead else -count)


def _few_days(match: Match, calendar: Calendar) -> Days:
    return _days_before(calendar) if match["before"] else calendar.rolling("day", -_FEW)


def _named_day(match: Match, calendar: Calendar) -> Days:
    return one(shifted(calendar.today, "day", _DAYS[match["word"]]))


def _unit(match: Match, calendar: Calendar) -> Days:
    unit = "weekend" if match["end"] else _UNITS[match["unit"]]
    return calendar.at(unit, _side(match["side"]))


def _month(match: Match, calendar: Calendar) -> Days:
    days = calendar.at("month", _side(match["side"]))
    if match["day"]:
        return one(days[0].replace(day=number(match["day"])))
    return third_of(days, _THIRDS[match["third"]]) if match["third"] else days


def _weekend(_: Match, calendar: Calendar) -> Days:
    this = calendar.at("weekend", 0)
    return this if calendar.ahead or this[0] <= calendar.today else calendar.at("weekend", -1)


def _weekday(match: Match, calendar: Calendar) -> Days:
    weekday = _WEEKDAYS[match["weekday"]]
    if match["side"]:
        return calendar.weekday(weekday, _side(match["side"]))
    return calendar.near_weekday(weekday)


def _year_of(match: Match, calendar: Calendar) -> int | None:
    if match["year"]:
        year = number(match["year"])
        century = calendar.today.year // 100 * 100
        return year + century if year < 100 else year
    return calendar.today.year + _YEARS[match["old"]] if match["old"] else None


def _year(match: Match, calendar: Calendar) -> Days | None:
    year = _year_of(match, calendar)
    return whole("year", date(year, 1, 1)) if year else None


def _same_day(match: Match, calendar: Calendar) -> Days:
    return one(shifted(calendar.today, "year", _YEARS[match["old"]]))


def _date(match: Match, calendar: Calendar) -> Days:
    day = calendar.date(number(match["month"]), number(match["day"]), _year_of(match, calendar))
    if not match["last"]:
        return day
    month = number(match["last_month"] or match["month"])
    return day[0], date(day[0].year, month, number(match["last"]))


def _named_month(match: Match, calendar: Calendar) -> Days:
    days = calendar.month(number(match["month"]), _year_of(match, calendar))
    return third_of(days, _THIRDS[match["third"]]) if match["third"] else days


def _third(match: Match, calendar: Calendar) -> Days:
    third = _THIRDS[match["third"]]
    this = third_of(calendar.at("month", 0), third)
    if calendar.ahead or this[0] <= calendar.today:
        return this
    return third_of(calendar.at("month", -1), third)


def _day(match: Match, calendar: Calendar) -> Days:
    return calendar.day_of_month(number(match["day"]))


def _quarter(match: Match, calendar: Calendar) -> Days:
    return calendar.quarter(number(match["quarter"]), _year_of(match, calendar))


def _half(match: Match, calendar: Calendar) -> Days:
    return calendar.half(1 if match["half"] in "上前" else 2, _year_of(match, calendar))


def _season(match: Match, calendar: Calendar) -> Days | None:
    year = _year_of(match, calendar)
    return season_of(year, _SEASONS[match["season"]]) if year else None


def _holiday(match: Match, calendar: Calendar) -> Days:
    return calendar.date(*_HOLIDAYS[match["holiday"]], _year_of(match, calendar))


CUE = "[天日号周期拜月年晚夜早晨季时钟节旦]"
"""The pattern of a character that every Chinese phrase of time has, in simplified characters."""

RULES = tuple(
    (lazy(source), meaning)
    for source, meaning in (
        # 昨天晚上
        (rf"(?P<word>大?前|大?后|昨|今|明)(?:天|日(?!头条|方舟)){_PART}", _named_day),
        # 昨晚
        (r"(?P<word>昨|今|明|前)(?:晚上?|夜|早上?|晨)", _named_day),
        # 三天前
        (rf"{_WORD}{_N}{_UNIT}(?:以前|之前|前)(?P<exact>的今天)?", _ago),
        # 三天后
        (rf"(?:(?<=[我你他她们在])|(?<!\w)){_N}{_UNIT}(?:以后|之后|后|之内|内)", _later),
        # 最近三个月
        (rf"(?P<way>最近|近|过去|这(?!一)|未来|接下来|今后|往后)的?{_N}{_UNIT}", _rolling),
        # 前几天
        (r"(?:(?<!提)(?P<before>前)|这|近|最近|过去)的?(?:几天|些天|些日子)", _few_days),
        # 上周
        (rf"(?<![早晚]){_SIDE}(?P<unit>周|星期|礼拜)(?![刊报围福杰年边岁])(?P<end>末)?", _unit),
        # 上个季度
        (rf"{_SIDE}(?P<unit>季度)(?P<end>x)?", _unit),
        # 上个月3号
        (rf"{_SIDE_MONTH}(?:{_DAY}[日号]{_PART}|{_THIRD})?", _month),
        # 周末
        (r"周末(?!愉快)", _weekend),
        # 上周三
        (
            rf"(?<![早晚每])(?:{_SIDE})?{_WEEK}(?P<weekday>[一二三四五六日天])"
            rf"(?![围福年岁期报刊边]|餐厅){_PART}",
            _weekday,
        ),
        # 2026年, 去年
        (rf"{_WORD}{_Y}", _year),
        # 去年今天
        (r"(?P<old>去|前|大前)年的?今天", _same_day),
        # 2026年5月3日, 5月3日到5日
        (
            rf"{_WORD}{_SUN}{_Y}?{_MONTH}{_DAY}[日号]{_NO_NUMBER}"
            rf"(?: ?[到至—~-] ?(?:(?P<last_month>\d\d?) ?月 ?)?(?P<last>{_DAY_NUMBER}) ?[日号])?"
            rf"{_PART}",
            _date,
        ),
        # 去年5月底
        (
            rf"{_WORD}{_SUN}{_Y}?{_MONTH}(?:份|{_THIRD})?(?![饼亮球薪票租嫂季]|天(?!气)|\d)",
            _named_month,
        ),
        # 月底
        (rf"(?:(?<!\w)|(?<=[在到从]))月{_THIRD}", _third),
        # 3号
        (
            rf"(?:(?<!\w)|(?<=[我你他她们在于到从自至和与跟是了])){_DAY}(?:号|日(?![游元内后前子用本期]))"
            rf"{_NO_NUMBER}{_PART}",
            _day,
        ),
        # 去年第三季度
        (rf"{_Y}?第?(?P<quarter>[一二三四1-4])季度", _quarter),
        # 去年q3
        (rf"{_Y}?q(?P<quarter>[1-4])(?!\w)", _quarter),
        # 去年上半年
        (rf"{_Y}?(?P<half>[上下前后])半年", _half),
        # 去年夏天
        (rf"{_Y}(?P<season>[春夏秋冬])[天季]?", _season),
        # 去年国庆节
        (rf"{_Y}?(?P<holiday>{'|'.join(_HOLIDAYS)})", _holiday),
    )
)
"""The patterns over folded text, each with a function for its days; None or an error: no time."""
