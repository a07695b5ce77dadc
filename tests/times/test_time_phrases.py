"""Phrases of time in questions, and the days that they mean.

The table `time_phrases.jsonl` follows these rules. Weeks begin on Monday, days are those of now's
time zone, and a night has the date of its evening. "Last", "this" and "next" with a unit, and N
units ago or from now, name the whole calendar unit (a week ago is the week that holds that day; "a
week ago today" is the day). "Past", "最近" and "last" with a number name units that end today.
"Last Tuesday" is the latest one before today and "next Tuesday" that of the next calendar week;
上周二 and 下周二 are those of the last and the next calendar week. A weekday, month or date
without a year is the nearest one that has begun, or one to come where the sentence looks ahead.
"Since" runs to today; early, mid and late are ten days each. A phrase is none inside a title or a
name, as a habit ("every Tuesday", 每周二: it names no single day), as a quantity, as a number that
is no date, as a vague word ("recently", 最近: a wish for the newest), as a birthday, before or
after a day (open to one side), and in a sentence that does not ask, beside one that does. Slashes
with two possible months are no date. Rules are tuned on the rows whose `part` is `tune` and
measured on `held`.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vikingd.times.time_phrases import spans

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "time_phrases.jsonl").read_text("utf-8").splitlines()
]
NOW = datetime(2026, 11, 27, 12)
# Words that rules are made of, in any order.
ENGLISH = (
    "last this next past in on of the a few 3 31 2026 zero hour minute day days week fortnight"
    " weekend weekends month quarter quarters year ago from now today before after next and between"
    " to since friday Friday tues may May 31st end beginning mid summer fall q4 first half ."
    " christmas ?"
)
CHINESE = [
    *"上下个这本前后大去今明昨年月周日天季度号半几三十二0九末底初旬以来到节小时分钟近过第",
    *("星期", "最近"),
]

relaxed = settings(deadline=None, print_blob=True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['now'][:10]} {row['text']}")
def test_a_phrase_means_its_days(row: dict) -> None:
    """Each phrase of the table is found in its place, with its days, and no other."""
    found = spans(row["text"], datetime.fromisoformat(row["now"]))
    expected = row["spans"]
    assert [(str(one.first), str(one.last)) for one in found] == [
        (one["first"], one["last"]) for one in expected
    ]
    for one, right in zip(found, expected, strict=True):
        assert one.words in right["words"] or right["words"] in one.words


def test_the_table_covers_both_languages() -> None:
    """The table has at least 200 phrases and 50 questions without one."""
    assert {row["language"] for row in ROWS} == {"en", "zh"}
    assert sum(bool(row["spans"]) for row in ROWS) >= 200
    assert sum(not row["spans"] for row in ROWS) >= 50


@relaxed
@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(ENGLISH.split())).map(" ".join),
        st.lists(st.sampled_from(CHINESE)).map("".join),
    ),
    st.datetimes(),
)
def test_any_text_has_spans_in_order(text: str, now: datetime) -> None:
    """Any text at any time has spans that lie apart, in order, each a part of the text."""
    found = spans(text, now)
    for one in found:
        assert one.words == text[one.start : one.end] != ""
        assert one.first <= one.last
    assert all(one.end <= other.start for one, other in pairwise(found))


@pytest.mark.parametrize(
    "now", [datetime.combine(day, datetime.min.time()) for day in (date.min, date.max)]
)
def test_days_outside_the_calendar_are_left_out(now: datetime) -> None:
    """A phrase that leaves the calendar is no time, and no error."""
    text = "Was it last week, next week, 3000 years ago, 9999 days from now, last summer or 前年?"
    text += " From Friday to Monday? 8月到2月？ Since Monday?"
    assert all(date.min <= one.first <= one.last <= date.max for one in spans(text, now))


@pytest.mark.parametrize(
    "text",
    [
        *("two hours from yesterday?", "an hour from today", "3 hours ago today", "٣天前做了什么?"),
        *("3小时前的今天", "半小时前的今天做了什么？", "5月٣日发生了什么?", "我٣号做了什么"),
    ],
)
def test_an_hour_of_a_day_and_foreign_digits_are_no_error(text: str) -> None:
    """Phrases that name no day, and digits of other scripts, end in spans or in none."""
    spans(text, NOW)


@pytest.mark.deep_after(5)
@pytest.mark.parametrize("text", ["一", "上", "last week ", "《", "? ", "昨天到"])
def test_long_texts_are_read_in_linear_time(text: str) -> None:
    """A text of repeated pieces ends; a quadratic rule would take minutes."""
    spans(text * (100_000 // len(text)), NOW)
