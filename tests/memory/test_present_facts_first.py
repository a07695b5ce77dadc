"""Recalls of what holds now: a present fact comes before what was said of it earlier."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tests.daemons import serving
from tests.memory.extract_helpers import ROOT, session
from vikingd.client import Client, Strength
from vikingd.memory.memory_types import EARLIER
from vikingd.memory.relations import Asked, asked_of
from vikingd.memory_calls.present_facts_first import Found, ranked_now

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
DAYS = (
    (
        "Hello! I'm a translator at Northgate, I live in Utrecht and I paint on Sundays.",
        "我最喜欢喝豆浆，每天早上都要来一碗",
    ),
    ("I moved to Groningen, there are boxes in every room and the heating is broken.",),
    ("昨天是我在Northgate的最后一天。今天是我去Wattwerk上班的第一天，好紧张",),
    ("豆浆我也戒了，现在最喜欢喝的是乌龙茶",),
)


@pytest.fixture(scope="module")
def life() -> Iterator[Client]:
    """Yield a client of a daemon that remembers four days."""
    with serving("--provider", "e5") as where, Client(where, timeout=60) as client:
        for number, said in enumerate(DAYS):
            client.extract(session(*said), time=START + timedelta(days=7 * number))
        end = {"uri": "viking://resources/end.md", "content": "The end."}
        client.put([end], wait_for_vectors=True)
        yield client


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where do I live now?", "Groningen"),
        ("我现在住在哪儿？", "Groningen"),
        ("Where do I work?", "Wattwerk"),
        ("Where does the user live?", "Groningen"),
        ("我在哪家公司上班？", "Wattwerk"),
        ("我最喜欢喝什么？", "乌龙茶"),
    ],
)
def test_the_present_fact_is_first_and_strong(life: Client, question: str, answer: str) -> None:
    """A question about a relation has its fact first, in other words or languages, too."""
    found = life.recall(question, now=START + timedelta(days=30))
    assert answer in found.results[0].content
    assert found.confidence is not None
    assert found.confidence.strength is Strength.STRONG


def ranked(asked: Asked, known: list[int], *of: tuple[str, str, int, float]) -> list[int]:
    """Return the order of memories, each with its file, section, time and score."""
    found = [Found(f"{ROOT}/{uri}", section, time) for uri, section, time, _ in of]
    scores = ranked_now(asked, found, known, np.array([score for *_, score in of]))
    return [int(i) for i in np.argsort(-scores, kind="stable")]


TURN, FACT, NEW = ("journal/2026-03-02/session-a.md", "", 1), ("a.md", EARLIER, 1), ("a.md", "", 2)


def test_a_turn_that_said_a_replaced_fact_counts_half() -> None:
    """Its fact counts half as well, if the question is about it and not about the past."""
    of = ((*TURN, 0.9), (*FACT, 0.8), (*NEW, 0.7))
    assert ranked(Asked(), [], *of) == [2, 0, 1]
    assert ranked(Asked(is_past=True), [], *of) == [0, 2, 1]
    assert ranked(Asked(), [], (*TURN, 0.9), (*FACT, 0.3), (*NEW, 0.7)) == [0, 2, 1]
    later = (TURN[0], "", 3)
    assert ranked(Asked(), [], (*later, 0.9), (*FACT, 0.8), (*NEW, 0.7)) == [0, 2, 1]


def test_a_known_fact_comes_before_what_is_not_newer() -> None:
    """What was said after the fact keeps its place, since it may tell of a change."""
    after = ("journal/2026-03-09/session-b.md", "", 3)
    assert ranked(Asked(), [2], (*after, 0.9), (*TURN, 0.8), (*NEW, 0.1)) == [0, 2, 1]


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("So where do we live these days?", {"home"}),
        ("What’s my favourite tea now?", {"favorite tea"}),
        ("who do I work for?", {"work"}),
        ("What's my sister's name?", {"sister is called"}),
        ("你还记得我住在哪里吗？", {"home"}),
        ("我们家的狗叫什么名字？", {"狗", "狗 is called"}),
        ("我的血型是什么？", {"血型"}),
        ("How old am I?", {"age"}),
        ("我多大了？", {"age"}),
        ("我今年几岁了？", {"age"}),
        ("What is my first name?", {"name"}),
        ("Where do I live and work?", set()),
        ("Where does Tom live?", set()),
        ("我住的酒店在哪里？", set()),
    ],
)
def test_questions_ask_for_relations(question: str, keys: set[str]) -> None:
    """A question asks for a relation only if a form matches all of it."""
    assert asked_of([question]) == (frozenset(keys), False)


@pytest.mark.parametrize(
    "question",
    [
        "Where did I live before Delft?",
        "what was my old job?",
        "我之前在哪儿上班？",
        "我住过哪儿了？",
    ],
)
def test_questions_about_the_past_ask_for_no_present_fact(question: str) -> None:
    """The turns that say what was are not moved behind, and no fact is moved to the front."""
    assert asked_of([question, "Where do I live?"]) == (frozenset(), True)
