"""Scores compared with an independent recomputation in float64 from the database."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks.recompute import Recomputation, compare
from benchmarks.stored import read_store
from tests.index.find_helpers import find
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft, Passage, Prepared
from vikingd.domain.find_query import FindQuery, Levels, Method
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import check, prepare
from vikingd.ingest.files import read_tree
from vikingd.models.embed.embed_settings import EmbedSettings

DIMENSION = 384
LIMIT = 1000
TOLERANCES = {Method.EXHAUSTIVE: 1e-3, Method.EXACT: 1e-5}
QUERIES = (
    "how do I return a custom status code",
    "what does the user like to drink",
    "用户喜欢喝什么茶",
    "配置文件 API",
    "README.md",
    "no-such-identifier_4711",
    "where did we buy tea in May 2023?",
    "what did I write today about tea and colours, and which status codes?",
    "the",
    "",
)
ALPHAS = (None, 0.3)
SAID = (
    ("Ann: Do you know where to buy good tea?", "2023-05-08"),
    ("Bo: Yes. The shop at the harbour has some.", "2023-05-08"),
    ("Ann: Which one? The harbour has many shops.", "2023-05-09"),
    ("Ann: I mean those for tea, not those for coffee.", "2023-05-09"),
    ("**Bo**：在码头旁边。" + "那里有很多种茶，绿茶、红茶和白茶。" * 9, "2023-06-01"),
)


def demo_drafts() -> list[Draft]:
    """Return the demo tree of the package."""
    with importlib.resources.as_file(importlib.resources.files("vikingd") / "demo_tree") as tree:
        return [item for item in read_tree(tree, uris.ROOT) if isinstance(item, Draft)]


def conversation() -> list[Draft]:
    """Return the turns of a conversation, each a file with its day."""
    return [
        Draft(
            f"viking://user/memories/talk/{number:03}",
            content=text,
            time=int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 10**6,
        )
        for number, (text, day) in enumerate(SAID)
    ]


def with_vectors(draft: Draft, rng: np.random.Generator) -> Draft:
    """Return the draft with vectors near those of its script and its directory."""

    def vector(script: int) -> bytes:
        if rng.random() < 0.1:
            return b""
        script_mean = np.random.default_rng(script).normal(size=DIMENSION)
        seed = sum(uris.parent(draft.uri).encode())
        topic = np.random.default_rng(seed).normal(size=DIMENSION)
        drawn = script_mean + topic + 1.5 * rng.normal(size=DIMENSION)
        return (drawn / np.linalg.norm(drawn)).astype("<f4").tobytes()

    texts = prepare(draft).texts
    passages = [Passage(t.section, t.start, t.end, vector(t.script)) for t in texts if t.ordinal]
    abstract = vector(texts[0].script) if texts and texts[0].ordinal == 0 else b""
    return replace(draft, passages=passages or None, vector=abstract)


@contextmanager
def opened(path: Path, contexts: list[Prepared]) -> Iterator[Engine]:
    """Yield an engine without an embedder, with these contexts in its tail."""
    engine = Engine(EngineSettings(path, EmbedSettings(provider="none")))
    try:
        engine.writable_store.put(contexts).result()
        yield engine
    finally:
        engine.close()


def assert_equal(engine: Engine, *, vectors: bool) -> None:
    """Compare all scores of every query in several scopes, with and without a vector."""
    stored = read_store(engine.settings.path)
    directories = sorted(c.uri for c in stored.contexts if c.is_directory)
    rng = np.random.default_rng(7)
    for scope in directories[::4]:
        recomputation = Recomputation(stored, scope)
        for text, given, alpha in product(QUERIES, {False, vectors}, ALPHAS):
            if not (text or given):
                continue
            vector = rng.normal(size=DIMENSION).astype(np.float32) if given else None
            wide = None if vector is None else vector.astype(np.float64)
            expected = recomputation.scores(text, wide, alpha)
            possible = {**expected.files, **expected.directories}
            del possible[scope]
            possible = {u: s for u, s in possible.items() if uris.context_type(u)}
            for method, tolerance in TOLERANCES.items():
                query = FindQuery(
                    text,
                    target_uri=scope,
                    levels=Levels.BOTH,
                    limit=LIMIT,
                    alpha=alpha,
                    method=method,
                )
                matches = find(engine, query, vector).matches
                compared = compare([(m.uri, m.score) for m in matches], possible, LIMIT)
                worst = max(compared.difference, compared.misplaced)
                assert worst <= tolerance, (scope, query, vector, compared)


def test_scores_equal_the_recomputation(tmp_path: Path) -> None:
    """All scores of the demo tree equal the recomputation, for each query in several scopes.

    Most rows are in the base, which uses int8 codes, and the others are in the tail.
    """
    rng = np.random.default_rng(5)
    drafts = [*demo_drafts(), *conversation()]
    contexts = [prepare(check(with_vectors(draft, rng))) for draft in drafts]
    most = len(contexts) * 2 // 3
    with opened(tmp_path, contexts[:most]) as engine:
        engine.optimize()
        engine.writable_store.put(contexts[most:]).result()
        assert_equal(engine, vectors=True)


def test_scores_of_text_alone_equal_the_recomputation(tmp_path: Path) -> None:
    """Scores in a store without vectors equal the recomputation."""
    with opened(tmp_path, [prepare(check(d)) for d in (*conversation(), *demo_drafts())]) as engine:
        engine.optimize()
        assert_equal(engine, vectors=False)


def test_compare_finds_what_is_missing_or_out_of_place() -> None:
    """`compare` finds a missing result, an extra result and a wrong order."""
    expected = {"a": 0.5, "b": 0.4, "c": 0.0}
    assert compare([("a", 0.5), ("b", 0.4)], expected, 10).misplaced == 0
    assert compare([("a", 0.5)], expected, 10).misplaced == 0.4
    assert compare([("a", 0.5)], expected, 1).same_order
    swapped = compare([("b", 0.4), ("a", 0.5)], expected, 10)
    assert swapped.misplaced == pytest.approx(0.1)
    assert not swapped.same_order
    assert compare([("a", 0.5), ("b", 0.4), ("d", 0.3)], expected, 10).difference == float("inf")
