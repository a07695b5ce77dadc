"""The choice of answers that the event loop makes, and the work that is counted for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from vikingd.domain.contexts import Draft
from vikingd.domain.find_query import FindQuery
from vikingd.domain.retrieve_query import Mode, RetrieveQuery
from vikingd.domain.rights import LOCAL
from vikingd.engine import Engine, EngineSettings
from vikingd.index.lexicon.tokens import query_terms
from vikingd.ingest.draft_preparation import prepare
from vikingd.lanes import call_cost
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.plan.find_plan import compile_find
from vikingd.plan.retrieve_plan import POSTINGS_OF_A_TEXT, compile_retrieve

FILES = 40
RARE = 4  # one file of so many has the word


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Yield an engine whose base has a word in all files, and another in some."""
    path = tmp_path_factory.mktemp("light")
    engine = Engine(EngineSettings(path, EmbedSettings(provider="none")))
    drafts = [
        Draft(
            f"viking://resources/{i}.md", content="harbour" if i % RARE else "harbour, lighthouse"
        )
        for i in range(FILES)
    ]
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()
    engine.optimize()
    yield engine
    engine.close()


def test_postings_are_counted_by_term(engine: Engine) -> None:
    """The count is that of the texts that have each term; an unknown term has none."""

    def count(text: str) -> int:
        return engine.snapshot.count_postings(query_terms(text).hashes)

    assert count("harbour") == FILES
    assert count("lighthouse") == FILES // RARE
    assert count("lighthouse harbour zebra") == FILES + FILES // RARE
    assert count("zebra") == 0
    assert engine.snapshot.count_postings(np.zeros(0, np.uint64)) == 0


def test_a_search_by_words_alone_costs_its_postings(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare word in a large scope is light. A find there is not, nor a search by meaning."""
    rare, common = FILES // RARE // POSTINGS_OF_A_TEXT, FILES // POSTINGS_OF_A_TEXT
    monkeypatch.setattr(call_cost, "_LIGHT_TEXTS", (rare + common) // 2)

    def light(text: str, mode: Mode) -> bool:
        plan = compile_retrieve(engine, RetrieveQuery(text, mode=mode), LOCAL)
        return call_cost.is_light_retrieve(plan)

    assert light("lighthouse", Mode.KEYWORD)
    assert not light("harbour", Mode.KEYWORD)
    assert not light("lighthouse", Mode.VECTOR)
    assert not light("lighthouse", Mode.HYBRID)
    assert not call_cost.is_light_find([compile_find(engine, FindQuery("lighthouse"), LOCAL)])
