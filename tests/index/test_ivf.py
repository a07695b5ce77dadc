"""The inverted file of a large base, and its use in a walk."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.index.find_helpers import find
from vikingd.domain.contexts import Draft
from vikingd.domain.find_query import FindQuery, Method
from vikingd.engine import Engine, EngineSettings
from vikingd.index import ivf
from vikingd.index.ivf import InvertedFile
from vikingd.index.segment import segment_files as files
from vikingd.index.settings import IndexSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

DIMENSION = 32
ROOT = "viking://resources/large"


def unit(rng: np.random.Generator, around: np.ndarray | None = None) -> np.ndarray:
    """Return a random unit vector, near another vector if one is given."""
    raw = rng.normal(size=DIMENSION) * (1 if around is None else 0.1) + (
        0 if around is None else around
    )
    return (raw / np.linalg.norm(raw)).astype("<f4")


def test_near_returns_only_rows_of_the_range_and_the_nearest_first() -> None:
    """Only rows of the range are proposed, and the nearest vector is the first."""
    rng = np.random.default_rng(1)
    raw = np.stack([unit(rng) for _ in range(2000)])
    index = InvertedFile.build(raw, np.arange(2000))
    for row in (3, 500, 1999):
        assert index.near(raw[row], 0, 2000)[0] == row
    found = index.near(raw[500], 400, 600)
    assert len(found)
    assert found.min() >= 400
    assert found.max() < 600


def test_the_same_vectors_make_the_same_inverted_file() -> None:
    """Two inverted files of the same vectors propose the same rows."""
    rng = np.random.default_rng(2)
    raw = np.stack([unit(rng) for _ in range(1000)])
    one, other = (InvertedFile.build(raw, np.arange(1000)) for _ in range(2))
    for query in raw[:20]:
        assert one.near(query, 0, 1000).tolist() == other.near(query, 0, 1000).tolist()


def test_a_walk_finds_a_file_in_a_directory_unlike_it(tmp_path: Path) -> None:
    """A walk finds a file outside its opened directories if the inverted file proposes it.

    The same holds after a restart, which reads the inverted file from disk.
    """
    rng = np.random.default_rng(3)
    topics = [unit(rng) for _ in range(60)]
    drafts = [
        Draft(
            f"{ROOT}/{d:02}/{f:02}.md", content=f"text {d} {f}", vector=unit(rng, topic).tobytes()
        )
        for d, topic in enumerate(topics)
        for f in range(12)
    ]
    stray = unit(rng)
    drafts.append(Draft(f"{ROOT}/17/stray.md", content="it strayed", vector=stray.tobytes()))
    query = FindQuery("", target_uri=ROOT, method=Method.BEST_FIRST, max_directories=3, limit=1)

    def settings(ivf_rows: int, name: str) -> EngineSettings:
        index = IndexSettings(ivf_rows=ivf_rows)
        return EngineSettings(tmp_path / name, EmbedSettings(provider="none"), index)

    for ivf_rows, name, expected in ((10**6, "without", False), (100, "with", True)):
        engine = Engine(settings(ivf_rows, name))
        engine.writable_store.put([prepare(draft) for draft in drafts]).result()
        engine.optimize()
        assert (engine.snapshot.inverted_file is not None) == expected
        found = find(engine, query, stray).matches
        assert (found[0].uri == f"{ROOT}/17/stray.md") == expected
        # A word of no text proposes no file; a word of the stray file proposes it.
        for text, proposed in (("zebra", expected), ("strayed", True)):
            match = find(engine, replace(query, text=text), stray).matches[0]
            assert (match.uri == f"{ROOT}/17/stray.md") == proposed
        if expected:
            whole = find(engine, replace(query, method=Method.EXACT), stray).matches
            assert found[0].score == whole[0].score
            engine.close()
            engine = Engine(settings(ivf_rows, name))
            assert find(engine, query, stray).matches == found
        engine.close()


def test_a_start_does_not_wait_for_a_large_inverted_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine answers while the inverted file is read; only a find that needs it waits."""
    rng = np.random.default_rng(4)
    settings = EngineSettings(tmp_path, EmbedSettings(provider="none"), IndexSettings(ivf_rows=10))
    vectors = [unit(rng) for _ in range(40)]
    with closing(Engine(settings)) as engine:
        engine.writable_store.put(
            [
                prepare(Draft(f"{ROOT}/{n}.md", content=f"text {n}", vector=vector.tobytes()))
                for n, vector in enumerate(vectors)
            ]
        ).result()
        engine.optimize()
    may_load, loaded, load = threading.Event(), threading.Event(), ivf.load

    def late(path: str) -> object:
        may_load.wait(20)
        loaded.set()
        return load(path)

    monkeypatch.setattr(ivf, "load", late)
    monkeypatch.setattr(files, "_LARGE", 64)
    query = FindQuery("", target_uri=ROOT, method=Method.BEST_FIRST, limit=1)
    with closing(Engine(settings)) as engine, ThreadPoolExecutor(1) as executor:
        assert not loaded.is_set()
        waiting = executor.submit(find, engine, query, vectors[7])
        try:
            exact = find(engine, replace(query, method=Method.EXACT), vectors[7])
            assert not waiting.done()
        finally:
            may_load.set()
        assert waiting.result().matches[0].uri == exact.matches[0].uri == f"{ROOT}/7.md"
