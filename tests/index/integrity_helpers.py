"""Stores with files and an index, for tests of identity and damage."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.nodes.reader_helpers import note
from vikingd.engine import Engine, EngineSettings
from vikingd.index.settings import IndexSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

DATABASE = "store.sqlite3"


def settings(path: Path, **options: Any) -> EngineSettings:
    """Return settings with an inverted file for the bases and no embedder."""
    index = IndexSettings(compact_min=10_000, ivf_rows=20)
    return EngineSettings(path, EmbedSettings(provider="none"), index, **options)


def put(engine: Engine, *numbers: int) -> None:
    """Write a file for each number."""
    engine.writable_store.put(
        [prepare(replace(note(n), metadata={"n": n, "of": ["a", n % 3]})) for n in numbers]
    )
    engine.writable_store.put([]).result()


def numbers(engine: Engine) -> list[int]:
    """Verify the index, and return the numbers of the files in the snapshot."""
    report = engine.verify()
    assert report.ok, report.problems
    return [n for n in range(100) if engine.snapshot.find(note(n).uri) is not None]


def made(path: Path, *given: int) -> None:
    """Make a store with these files, all of them in the base."""
    with closing(Engine(settings(path))) as engine:
        put(engine, *given)
        engine.optimize()


def copied(path: Path, to: Path) -> Path:
    """Copy the database with all files of its directory."""
    return Path(shutil.copytree(path, to))
