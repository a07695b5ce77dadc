"""Dates behind the phrases of time in what was said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vikingd.memory.said_dates import with_dates

WEDNESDAY = datetime(2026, 11, 18, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "dated"),
    [
        ("My bike was stolen last night. Sad.", "My bike was stolen last night [2026-11-17]. Sad."),
        ("Next Friday I fly to Oslo.", "Next Friday [2026-11-27] I fly to Oslo."),
        ("In three weeks we move.", "In three weeks [2026-12-09] we move."),
        ("She comes next month.", "She comes next month [2026-12]."),
        ("We met last year.", "We met last year [2025]."),
        ("I was ill last week.", "I was ill last week [2026-11-09 to 2026-11-15]."),
        ("The exam is on the 26th.", "The exam is on the 26th [2026-11-26]."),
        (
            "我妈前天做了手术。明年三月再去。",
            "我妈前天[2026-11-16]做了手术。明年三月[2027-03]再去。",
        ),
        ("昨晚下雨了吗？下周二也下。", "昨晚[2026-11-17]下雨了吗？下周二[2026-11-24]也下。"),
    ],
)
def test_a_phrase_gets_its_date(said: str, dated: str) -> None:
    """The date of each relative phrase stands behind it, in each sentence."""
    assert with_dates(said, WEDNESDAY) == dated


@pytest.mark.parametrize(
    "said",
    [
        "My favourite song is Yesterday.",
        "I read USA Today.",
        "It was last year's best.",
        "I call you in 5 minutes.",
        "I swim every Monday.",
        "I was born on January 5, 1990.",
        "她最喜欢的歌是《昨天》。",
        "2026年12月1日开会。",
        "",
    ],
)
def test_what_is_no_relative_day_stays(said: str) -> None:
    """Titles, names, habits, minutes and full dates get none."""
    assert with_dates(said, WEDNESDAY) == said
