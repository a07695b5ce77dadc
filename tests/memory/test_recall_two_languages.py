"""Recalls of a user who speaks two languages: what was never said is not strong in either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.daemons import serving
from vikingd.client import Client, Strength
from vikingd.memory.relations import in_first_person

SAID = {
    "health": ["The user is allergic to penicillin.", "用户对芒果过敏。"],
    "profile": [
        "The user works at Siemens in Munich as a firmware engineer.",
        "用户住在上海浦东，周末常去游泳。",
        "用户的女儿叫小雨，上二年级。",
    ],
    "preferences": [
        "Likes oolong tea in the afternoon.",
        "The user plays the cello on Sundays.",
        "用户喜欢喝手冲咖啡。",
    ],
}


@pytest.fixture(scope="module")
def bilingual() -> Iterator[Client]:
    """Yield a client of a daemon with memories in English and Chinese, and their vectors."""
    with serving("--provider", "e5") as where, Client(where, timeout=60) as client:
        for kind, texts in SAID.items():
            for text in texts:
                client.remember(text, kind)
        end = {"uri": "viking://resources/end.md", "content": "The end."}
        client.put([end], wait_for_vectors=True)
        yield client


@pytest.mark.parametrize(
    "question",
    [
        "what is the user's blood type",
        "capital of Mongolia",
        "用户开什么车？",
        "which car does the user drive?",
        "does the user have pets?",
        "用户有宠物吗？",
    ],
)
def test_what_was_never_said_is_not_strong(bilingual: Client, question: str) -> None:
    """A memory in the other language, which only meaning compares, does not make it strong."""
    confidence = bilingual.recall(question).confidence
    assert confidence is not None
    assert confidence.strength is not Strength.STRONG


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("what is the user allergic to?", "penicillin"),
        ("where does the user work?", "Siemens"),
        ("用户女儿叫什么", "小雨"),
    ],
)
def test_what_was_said_is_strong(bilingual: Client, question: str, answer: str) -> None:
    """The memory in the language of the question comes first."""
    recalled = bilingual.recall(question)
    assert recalled.confidence is not None
    assert recalled.confidence.strength is Strength.STRONG
    assert answer in recalled[0].content


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("Which car does the user drive?", "Which car do I drive?"),
        ("What is the user's mother allergic to?", "What is my mother allergic to?"),
        ("How does the user interface look?", "How does the user interface look?"),
        ("用户开什么车？", "我开什么车？"),
        ("用户名是什么？", "用户名是什么？"),
    ],
)
def test_a_question_about_the_user_is_searched_in_the_first_person(
    question: str, searched: str
) -> None:
    """Most notes begin with "The user", so these words tell nothing."""
    assert in_first_person(question) == searched
