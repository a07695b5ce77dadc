"""Answers over brought vectors, with every bit of their scores, to compare between processors."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tests.index.find_helpers import Answer, find
from vikingd.domain.contexts import Draft
from vikingd.domain.find_query import FindQuery, Method
from vikingd.engine import Engine, EngineSettings
from vikingd.index.settings import IndexSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.wire.messages.decode import unit_vector

CONTEXTS = 240
QUERIES = 24
DIMENSION = 200  # not a multiple of any padding
METHODS = (Method.EXHAUSTIVE, Method.BEST_FIRST, Method.EXACT)
WORDS = ("harbour", "crane", "tide", "deploy", "ключ", "сервер", "отказ", "港口", "潮汐", "部署")


def brought(dice: np.random.Generator) -> bytes:
    """Return a vector as a client sends it. Integers are the same on every processor."""
    return unit_vector(
        dice.integers(-99, 100, DIMENSION).astype("<f4").tobytes(), None, ""
    ).tobytes()


def written() -> str:
    """Return the answers to all queries: from the tail first, then from a base with codes."""
    dice = np.random.default_rng(29)
    lines = []
    with tempfile.TemporaryDirectory() as directory:
        settings = IndexSettings(compact_min=10 * CONTEXTS)
        engine = Engine(EngineSettings(Path(directory), EmbedSettings(provider="none"), settings))
        for number in range(CONTEXTS):
            text = " ".join(WORDS[i] for i in dice.integers(0, len(WORDS), 12))
            uri = f"viking://resources/{number % 5}/{number % 7}/{number}.md"
            draft = Draft(uri, content=f"{text} {number}", vector=brought(dice))
            engine.writable_store.put([prepare(draft)]).result()
        queries = [(WORDS[i % len(WORDS)], brought(dice)) for i in range(QUERIES)]
        for form in ("tail", "base"):
            for text, raw in queries:
                vector = np.frombuffer(raw, "<f4")
                for method in METHODS:
                    query = FindQuery(text=text, limit=20, method=method, trace=True)
                    found = find(engine, query, vector)
                    lines += told(f"{form} {method.name} {text}", found)
            engine.optimize()
        engine.close()
    return "\n".join(lines)


def told(question: str, found: Answer) -> list[str]:
    """Return a line for each match, with its score and the parts of it."""
    lines = []
    for match, hit in zip(found.matches, found.hits.hits, strict=True):
        assert hit.parts is not None
        parts = {"score": hit.score, **asdict(hit.parts)}
        shown = (f"{name}={value.hex()}" for name, value in parts.items() if value is not None)
        lines.append(f"{question} {match.uri} {' '.join(shown)}")
    return lines


if __name__ == "__main__":
    sys.stdout.write(written() + "\n")
