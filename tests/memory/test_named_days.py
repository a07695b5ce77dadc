"""Days that a question names, and questions for nothing but these days."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vikingd.memory.named_days import Days, days_of, is_frame

NOW = datetime(2024, 3, 1, 15, tzinfo=ZoneInfo("Europe/Berlin"))  # a Friday
relaxed = settings(deadline=None, print_blob=True)


def only(question: str) -> bool:
    """Return True if a question asks for nothing but days; it must name some."""
    found = days_of(question, NOW)
    assert found is not None
    return found.only


@pytest.mark.parametrize(
    "question",
    [
        "yesterday",
        "What did I do yesterday?",
        "What was I working on last Tuesday?",
        "what happened on November 26?",
        "Tell me about last week",
        "What happened between Monday and Wednesday?",
        "What have I been up to lately?",
        "昨天做了什么？",
        "上周二我在忙什么",
        "最近在忙什么",
        "前天发生了什么事情",
        "过去三天的日记",
        "这几天忙什么",
    ],
)
def test_a_question_may_ask_for_days_alone(question: str) -> None:
    """A question of words that ask, and of days, asks for the days as a whole."""
    assert only(question)


@pytest.mark.parametrize(
    "question",
    [
        "What did I eat yesterday?",
        "Whom did I phone last night?",
        "Which bicycle did I buy in 2024?",
        "any recent changes of the parser?",
        "昨天吃了什么？",
        "上周四和房东谈了什么？",
        "最近去哪里旅游了",
    ],
)
def test_a_question_with_a_subject_asks_for_more(question: str) -> None:
    """A question with a subject beside the days asks for something in particular."""
    assert not only(question)


@pytest.mark.parametrize("word", ["recently", "lately", "recent", "最近", "近来", "近來"])
def test_a_vague_word_names_the_last_seven_days(word: str) -> None:
    """A vague word names the last seven days, and says that it is vague."""
    found = days_of(f"what happened {word}", NOW)
    assert found == Days(
        ((date(2024, 2, 24), date(2024, 3, 1)),), word, "what happened  ", True, vague=True
    )


def test_a_vague_word_beside_a_day_names_nothing() -> None:
    """Beside a day a vague word is ignored."""
    found = days_of("recent notes from yesterday", NOW)
    assert found is not None
    assert found.spans == ((date(2024, 2, 29), date(2024, 2, 29)),)
    assert not found.vague


def test_several_days_are_those_days_and_none_between() -> None:
    """Several phrases name their own days, and each once."""
    found = days_of("What did I do yesterday and on Monday, I mean yesterday?", NOW)
    assert found is not None
    assert found.spans == ((date(2024, 2, 29),) * 2, (date(2024, 2, 26),) * 2)
    assert [date(2024, 2, day) in found for day in (26, 27, 28, 29)] == [True, False, False, True]
    assert str(found) == "'yesterday, Monday' means 2024-02-29, 2024-02-26"


@pytest.mark.parametrize(
    "question", ["", "USA Today", "《昨天》是谁唱的", "recentness", "怎么部署"]
)
def test_other_questions_name_no_days(question: str) -> None:
    """Questions without a time name no days."""
    assert days_of(question, NOW) is None


def test_a_day_begins_and_ends_in_the_time_zone() -> None:
    """The moments of a span are from one midnight of the time zone to another, summer time too."""
    days = Days(((date(2024, 3, 31), date(2024, 3, 31)),), "", "", only=True)
    ((low, high),) = days.moments("Europe/Berlin")
    assert high - low == 23 * 3_600_000_000
    assert datetime.fromtimestamp(low / 1e6, ZoneInfo("Europe/Berlin")).isoformat() == (
        "2024-03-31T00:00:00+01:00"
    )
    ends = Days(((date.min, date.max),), "", "", only=True)
    ((low, high),) = ends.moments("Pacific/Kiritimati")
    assert low < -(10**16) < 10**16 < high


@relaxed
@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """Any text is a frame or none, alone and twice alike."""
    assert is_frame(text) == is_frame(f"{text} {text}")
