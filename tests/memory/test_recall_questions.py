"""Recalls that ask several questions."""

from __future__ import annotations

import pytest

from tests.memory.recall_helpers import USER, contents, entries
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft

BOILER, RENT = "Who repairs the boiler?", "when is the rent due?"
BOTH = f"{BOILER} Also, {RENT}"


@pytest.fixture
def home(client: MessageClient) -> MessageClient:
    """Remember much about a boiler, which has more of the words of both questions, and one rent."""
    boilers = (f"The boiler of flat {i}: Tom repairs the boiler when due." for i in range(30))
    client.put(
        [entries(*boilers), Draft(f"{USER}/home.md", content="- The rent, on the first of May.\n")]
    )
    return client


def test_each_question_has_memories_in_a_small_budget(home: MessageClient) -> None:
    """The best memory of the second question is among the first two."""
    reply = home.recall(BOTH, top_k=2)
    assert list(reply.questions) == [BOILER, RENT]
    found = contents(reply)
    assert "The rent, on the first of May." in found
    assert any("boiler" in content for content in found)


def test_one_question_names_no_parts(home: MessageClient) -> None:
    """A recall of one question says nothing of questions."""
    assert not home.recall(BOILER).questions


def test_a_memory_of_both_questions_comes_once(home: MessageClient) -> None:
    """No memory is repeated."""
    found = [memory.id for memory in home.recall(BOTH, top_k=50, max_tokens=5000).results]
    assert len(found) == len(set(found)) == 31
