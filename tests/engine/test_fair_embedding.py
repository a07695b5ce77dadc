"""The order in which an engine embeds the texts of several imports, seen by its endpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.models.embed_helpers import Endpoint, until
from vikingd.domain.contexts import Draft
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare


def put(engine: Engine, tree: str, files: int) -> None:
    """Import files of an abstract and a passage, of which every third one is a test, at once."""
    drafts = (
        Draft(
            f"viking://{tree}/{number:03}.py",
            content=f"{tree} passage {number} {'test' if number % 3 == 0 else 'source'}.",
            abstract=f"{tree} abstract {number} {'test' if number % 3 == 0 else 'source'}.",
            metadata={"kind": "test" if number % 3 == 0 else "source"},
        )
        for number in range(files)
    )
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()


def is_of_documents(request: dict[str, Any]) -> bool:
    """Return True if a request is no probe of the engine, but has texts of this test."""
    return any("resources/" in text or "Likes tea" in text for text in request["input"])


@pytest.fixture
def held(endpoint: Endpoint) -> Iterator[threading.Event]:
    """Yield the event before which the endpoint answers no request with documents."""
    event = threading.Event()

    def hold(request: dict[str, Any], _data: list[Any]) -> None:
        if is_of_documents(request):
            event.wait(60)

    endpoint.misbehave = hold
    yield event
    event.set()


def groups(endpoint: Endpoint) -> list[list[str]]:
    """Return the groups of documents that the endpoint was asked for."""
    return [r["input"] for r in endpoint.requests if is_of_documents(r)]


def classes(texts: list[str]) -> list[tuple[bool, bool]]:
    """Return (is of a test, is a passage) of texts, each run of equal ones once."""
    each = [("test." in text, "passage" in text) for text in texts]
    return [one for one, before in zip(each, [None, *each], strict=False) if one != before]


@pytest.mark.parametrize(
    ("first", "second", "batch"),
    [
        (20, 60, 8),
        pytest.param(60, 20, 8, marks=pytest.mark.deep),
        pytest.param(30, 30, 1, marks=pytest.mark.deep),
    ],
)
def test_imports_take_turns(
    endpoint: Endpoint,
    held: threading.Event,
    tmp_path: Path,
    first: int,
    second: int,
    batch: int,
) -> None:
    """A later import and an earlier one get turns; in each, abstracts and sources come first.

    A memory that is written last is among the first texts.
    """
    settings = endpoint.settings(batch_size=batch, openai_requests=1, timeout=60.0)
    with closing(Engine(EngineSettings(tmp_path, settings))) as engine:
        put(engine, "resources/first", first)
        until(lambda: bool(groups(endpoint)))  # the others come after the texts of this request
        put(engine, "resources/second", second)
        memory = Draft("viking://user/memories/tea.md", content="Likes tea.")
        engine.writable_store.put([prepare(memory)]).result()
        held.set()
        until(lambda: not engine.embedding.stats().backlog.texts)
    sent = [text for group in groups(endpoint) for text in group]
    assert len(sent) == 2 * (first + second) + 1
    later = sent[len(groups(endpoint)[0]) :]
    assert any("Likes tea" in text for text in later[:4])
    texts = {
        tree: [text for text in sent if f"resources/{tree}" in text] for tree in ("first", "second")
    }
    both = 2 * min(first, second)
    for tree in ("first", "second"):
        found = [f"resources/{tree}" in text for text in later]
        share = sum(found[:both]) / both
        assert 1 / 4 <= share <= 3 / 4, f"{tree} has {share:.0%}"
        in_order = [(False, False), (False, True), (True, False), (True, True)]
        assert classes(texts[tree]) == in_order
