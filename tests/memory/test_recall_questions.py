"""Recalls that ask several questions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.memory.recall_helpers import NOW, USER, contents, entries, micros
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.memory.memory_types import MemoryScope, RecallQuery, Salience
from vikingd.memory_calls.memory_search import MemorySearch
from vikingd.models.embed.embed_settings import EmbedSettings

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


def test_a_question_behind_an_identifier_keeps_its_meaning(tmp_path: Path) -> None:
    """A vector is needed if one of the questions asks for more than an identifier."""
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        draft = Draft(f"{USER}/home.md", content="- E4711 means that the boiler is cold.\n")
        engine.writable_store.put([prepare(draft)]).result()

        def search(text: str) -> MemorySearch:
            query = RecallQuery(
                text,
                MemoryScope(),
                now=micros(NOW),
                time_zone="UTC",
                max_tokens=1000,
                tokenizer="o200k_base",
                top_k=10,
                without=frozenset(),
                fusion=None,
                salience=Salience(),
                skip_oversize=False,
                no_touch=True,
                min_revision=0,
            )
            return MemorySearch(engine, query)

        assert search(f"What is E4711? Also, {RENT}").texts == ("What is E4711?", RENT)
        assert not search("E4711").needs_vector
        assert search(f"E4711? Also, {RENT}").texts == ("E4711?", RENT)
        assert search(f"E4711? Also, {RENT}").needs_vector
