"""Dates of front matter as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vikingd.ingest.frontmatter import faults, front_matter
from vikingd.ingest.stated_dates import fault, time_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2024-01-05", "2024-01-05T00:00:00"),
        ("2024-1-5", "2024-01-05T00:00:00"),
        ("2020/02/09", "2020-02-09T00:00:00"),
        ("2020/2/9", "2020-02-09T00:00:00"),
        ("2024.01.05", "2024-01-05T00:00:00"),
        ("20240105", "2024-01-05T00:00:00"),
        (" 2024-01-05 ", "2024-01-05T00:00:00"),
        ("2024年1月5日", "2024-01-05T00:00:00"),
        ("2024 年 1 月 5 日", "2024-01-05T00:00:00"),
        ("2024년 1월 5일", "2024-01-05T00:00:00"),
        ("Jan 5, 2024", "2024-01-05T00:00:00"),
        ("Jan. 5, 2024", "2024-01-05T00:00:00"),
        ("January 5, 2024", "2024-01-05T00:00:00"),
        ("January 5th, 2024", "2024-01-05T00:00:00"),
        ("january 5 2024", "2024-01-05T00:00:00"),
        ("Sept 30, 2024", "2024-09-30T00:00:00"),
        ("5 January 2024", "2024-01-05T00:00:00"),
        ("5 Jan 2024", "2024-01-05T00:00:00"),
        ("05-Jan-2024", "2024-01-05T00:00:00"),
        ("5th of May, 2024", "2024-05-05T00:00:00"),
        ("2024 Jan 5", "2024-01-05T00:00:00"),
        ("Fri, 05 Jan 2024 10:30:00 +0000", "2024-01-05T10:30:00"),
        ("Friday, January 5, 2024", "2024-01-05T00:00:00"),
        ("Jan 5, 2024 3:07 PM", "2024-01-05T15:07:00"),
        ("Jan 5, 2024 at 12:07 am", "2024-01-05T00:07:00"),
        ("2024-01-05 10:30", "2024-01-05T10:30:00"),
        ("2024/01/05 10:30:15", "2024-01-05T10:30:15"),
        ("2024-1-5 9:05:00", "2024-01-05T09:05:00"),
        ("2024-01-05T10:30:00Z", "2024-01-05T10:30:00"),
        ("2024-01-05 10:30:00 +0800", "2024-01-05T02:30:00"),
        ("2024-01-05 10:30:00 +08:00", "2024-01-05T02:30:00"),
        ("2024-01-05 10:30:00 -5", "2024-01-05T15:30:00"),
        ("2024-01-05 10:30 UTC", "2024-01-05T10:30:00"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-15T02:59:43.100000"),
        # Only one order of day and month gives a date, or both give the same.
        ("13/02/2024", "2024-02-13T00:00:00"),
        ("02/13/2024", "2024-02-13T00:00:00"),
        ("31.12.2024", "2024-12-31T00:00:00"),
        ("02/02/2024", "2024-02-02T00:00:00"),
        (20240105, "2024-01-05T00:00:00"),
    ],
)
def test_a_date_that_can_mean_one_day_is_read(written: object, moment: str) -> None:
    """A date is read as the one moment that it can mean."""
    time = (datetime.fromisoformat(moment).replace(tzinfo=UTC) - _EPOCH).total_seconds()
    assert time_of(written) == round(time * 1_000_000)
    assert fault(written) == ""


@pytest.mark.parametrize(
    "written",
    [
        "01/02/2024",
        "1.2.2024",
        "24-01-05",
        "5/1/24",
        "2024-02-31",
        "2024-13-01",
        "32/12/2024",
        "2024",
        2024,
        1704412800,
        "2024-01",
        "Jan 2024",
        "Jan 5",
        "yesterday",
        "TBD",
        "2024-01-05 25:00",
        "Jan 5, 2024 13:00 pm",
        "2024-01-05 10:30 PST",
        "about 2024-01-05",
        "2024-01-05 - 2024-01-07",
        "Jän 5, 2024",
        "9" * 5000,
        "2024-01-05 10:30:00 +99:00",
        "0000-01-01",
        1.5,
        True,
        ["2024-01-05"],
        {"on": "2024-01-05"},
    ],
)
def test_a_date_that_cannot_be_read_is_told(written: object) -> None:
    """A date that means no day or several is no time, and has a reason."""
    assert time_of(written) is None
    assert "no day can be read" in fault(written)


def test_the_report_of_front_matter_names_the_date() -> None:
    """A date that cannot be read stays as it is written, and is told; none is told without one."""
    content = "---\ndate: 01/02/2024\n---\nText"
    assert front_matter(content)[0] == {"date": "01/02/2024"}
    assert faults(content) == ["date: no day can be read from '01/02/2024'; write it as 2024-05-31"]
    for empty in ("date:", "date: ''", "title: x"):
        assert faults(f"---\n{empty}\n---\nText") == []
