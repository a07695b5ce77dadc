"""The rebuild of an index from the store, also after an interrupted rebuild."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vikingd.domain.contexts import Draft
from vikingd.domain.errors import Corrupt
from vikingd.engine import Engine, EngineSettings, index_follower
from vikingd.index.index import Index
from vikingd.index.lexicon import tokens
from vikingd.index.segment.disk import load
from vikingd.index.settings import IndexSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.system.sealed_files import seal, unseal

FILES = 100


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineSettings:
    """Return settings of a store without an index, whose rebuild needs compactions."""
    settings = EngineSettings(
        tmp_path, EmbedSettings(provider="none"), IndexSettings(compact_min=30, compact_ratio=0.25)
    )
    monkeypatch.setattr(index_follower, "_SCAN_BATCH", 20)
    engine = Engine(settings)
    drafts = [Draft(f"viking://resources/{i}.md", content=f"harbour {i}") for i in range(FILES)]
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()
    engine.close()
    shutil.rmtree(tmp_path / "index")
    return settings


def check(settings: EngineSettings) -> None:
    """Check that the rebuilt index has all contexts of the store."""
    engine = Engine(settings)
    report = engine.verify()
    engine.close()
    assert report.ok, report.problems
    assert report.contexts == FILES + 2


def test_what_was_made_anew_is_whole_after_the_next_start(settings: EngineSettings) -> None:
    """A rebuilt index is complete at each later start."""
    for _ in range(3):
        check(settings)


def test_a_feed_that_was_broken_off_begins_anew(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted rebuild starts again and does not use its incomplete base."""
    apply, calls = Index.apply, 0

    def broken_off(index: Index, *commit: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            index.close()
            raise KeyboardInterrupt
        apply(index, *commit)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Index, "apply", broken_off)
        with pytest.raises(KeyboardInterrupt):
            Engine(settings)
    assert (settings.path / "index" / "CURRENT").exists()
    check(settings)


def changed(record: dict[str, Any], **fields: object) -> dict[str, Any]:
    """Return a manifest in which the record of one array has other fields."""
    arrays = record["arrays"]
    return {**record, "arrays": {**arrays, "text_id": {**arrays["text_id"], **fields}}}


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "damaged",
    [
        lambda _: 7,
        lambda _: "manifest",
        lambda _: None,
        lambda record: [record],
        lambda record: {**record, "arrays": 7},
        lambda record: {**record, "files": ["dir_columns"]},
        lambda record: {**record, "arrays": {"text_id": {"shape": [-1]}}},
        lambda record: changed(record, room=-1),
        lambda record: changed(record, dtype="O"),
        lambda record: {**record, "revision": str(record["revision"])},
        lambda record: {**record, "dimension": None},
        lambda record: {**record, "model": 7},
        lambda record: {**record, "format": [record["format"]]},
        lambda record: {**record, "of": "another version"},
    ],
)
def test_a_manifest_of_another_shape_is_damage(
    settings: EngineSettings, damaged: Callable[[dict[str, Any]], object]
) -> None:
    """A damaged manifest that is valid JSON leads to a rebuild."""
    check(settings)
    index = settings.path / "index"
    manifest = index / (index / "CURRENT").read_text() / "manifest.json"
    manifest.write_text(seal(json.dumps(damaged(json.loads(unseal(manifest.read_text()))))))
    with pytest.raises(Corrupt, match=r"can't be read|another version"):
        load(index)
    check(settings)


def test_an_index_with_the_terms_of_another_version_is_rebuilt_once(
    settings: EngineSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """A base with older terms is rebuilt at the next start, the log and Stats tell why, once."""
    check(settings)
    index = settings.path / "index"
    manifest = index / (index / "CURRENT").read_text() / "manifest.json"
    older = {**json.loads(unseal(manifest.read_text())), "tokens": tokens.VERSION - 1}
    manifest.write_text(seal(json.dumps(older)))
    for why in (f"version {tokens.VERSION - 1} of the terms, now it is {tokens.VERSION}", ""):
        caplog.clear()
        engine = Engine(settings)
        rebuilt, report = engine.stats().index.rebuilt, engine.verify()
        engine.close()
        assert report.ok, report.problems
        assert (why in rebuilt, bool(rebuilt)) == (True, bool(why))
        assert (f"the index is rebuilt from the store: {rebuilt}" in caplog.text) == bool(why)


def test_the_name_of_the_base_may_be_damaged(settings: EngineSettings) -> None:
    """A base name that is not valid text leads to a rebuild."""
    check(settings)
    (settings.path / "index" / "CURRENT").write_bytes(b"base-\xff")
    with pytest.raises(Corrupt):
        load(settings.path / "index")
    check(settings)
