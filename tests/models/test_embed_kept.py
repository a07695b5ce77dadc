"""Query vectors that survive a restart in an untrusted file."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.models.embed_helpers import DIMENSION, Endpoint, until
from vikingd.answer.query_planning import QueryVectors
from vikingd.domain.rights import CALLER, LOCAL, Caller
from vikingd.engine import Engine, EngineSettings
from vikingd.lanes.call_pools import Threads
from vikingd.models.embed import query_vector_file as kept
from vikingd.models.embed.provider_choice import open_provider
from vikingd.models.embed.query_embedder import QueryEmbedder
from vikingd.models.embed.query_vector_file import FILE, QueryVectorFile
from vikingd.system import sealed_files as sealed

UNIT = np.eye(DIMENSION, dtype=np.float32)


def _started(
    path: Path, endpoint: Endpoint, *, size: int = 9, model: str = "m", read_only: bool = False
) -> tuple[QueryEmbedder, QueryVectorFile]:
    embedder = QueryEmbedder(open_provider(endpoint.settings()), size)
    return embedder, QueryVectorFile(path, embedder, model, DIMENSION, read_only=read_only)


def test_queries_survive_a_restart(endpoint: Endpoint, tmp_path: Path) -> None:
    """Queries survive a restart with vectors and order, in a file that only its owner can read."""
    embedder, queries = _started(tmp_path, endpoint)
    vectors = {text: embedder.embed(text) for text in ("a", "茶\n", "c")}
    embedder.embed("a")
    queries.close()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    again, queries = _started(tmp_path, endpoint, size=2)
    assert list(again.entries()) == ["c", "a"]
    assert again.cached("茶\n") is None
    for text in ("c", "a"):
        np.testing.assert_array_equal(again.entries()[text], vectors[text])
        assert again.embed(text) is again.cached(text)
    assert len(endpoint.requests) == 3
    queries.close()


def test_queries_are_kept_while_the_daemon_runs(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new query is written to the file once while the daemon runs."""
    monkeypatch.setattr(kept, "_INTERVAL", 0.01)
    written: list[int] = []
    monkeypatch.setattr(kept, "write", lambda _path, _model, vectors: written.append(len(vectors)))
    embedder, queries = _started(tmp_path, endpoint)
    embedder.embed("a")
    until(lambda: bool(written))
    queries.close()
    assert written == [1]


def _sealed(record: object) -> str:
    return sealed.seal(json.dumps(record))


def _with(vector: np.ndarray) -> str:
    encoded = base64.b64encode(vector.tobytes()).decode()
    return _sealed({"model": "m", "queries": {"a": encoded}})


@pytest.mark.deep_after(5)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_with(UNIT[0])[:-20] + _with(UNIT[0])[-19:], "checksum"),
        ("", "checksum"),
        (sealed.seal("{"), "another form"),
        (sealed.seal("[" * 100_000), "another form"),
        (_sealed([]), "another form"),
        (_sealed({"model": "m", "queries": ["a"]}), "another form"),
        (_sealed({"model": "other", "queries": {}}), "of the model 'other', not 'm'"),
        (_sealed({"model": "m", "queries": {"a": "?"}}), "decoded"),
        (_sealed({"model": "m", "queries": {"a": None}}), "decoded"),
        (_sealed({"model": "m", "queries": {"x" * 2001: ""}}), "2,001 characters"),
        (_with(UNIT[0, :4]), "cannot have made"),
        (_with(2 * UNIT[0]), "cannot have made"),
        (_with(np.nan * UNIT[0]), "cannot have made"),
    ],
    ids=range(13),
)
def test_a_file_that_is_damaged_or_foreign_is_not_used(
    endpoint: Endpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, reason: str
) -> None:
    """A damaged or foreign file is ignored with a logged reason, and the next write replaces it."""
    (tmp_path / FILE).write_text(text)
    (tmp_path / FILE).chmod(0o600)
    embedder, queries = _started(tmp_path, endpoint)
    assert embedder.entries() == {}
    assert reason in caplog.text
    embedder.embed("b")
    queries.close()
    assert list(kept.read(tmp_path / FILE, "m", DIMENSION)) == ["b"]


def _writable(path: Path) -> None:
    path.write_text(_with(UNIT[0]))
    path.chmod(0o620)


def _link(path: Path) -> None:
    path.with_name("elsewhere").write_text(_with(UNIT[0]))
    path.symlink_to("elsewhere")


def _directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [_writable, _link, _directory])
def test_a_file_that_others_could_have_written_is_not_used(
    endpoint: Endpoint,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Path], None],
) -> None:
    """A file that others can write, a link and a directory are ignored with a logged reason."""
    caplog.set_level(logging.WARNING)
    make(tmp_path / FILE)
    embedder, queries = _started(tmp_path, endpoint)
    assert embedder.entries() == {}
    assert "are not used" in caplog.text
    embedder.embed("b")
    queries.close()
    assert ("could not be kept" in caplog.text) == (make is _directory)


def test_a_reader_takes_queries_and_writes_none(endpoint: Endpoint, tmp_path: Path) -> None:
    """A reader loads the queries of the file and does not change the file."""
    kept.write(tmp_path / FILE, "m", {"a": UNIT[0]})
    before = (tmp_path / FILE).read_bytes()
    embedder, queries = _started(tmp_path, endpoint, read_only=True)
    assert list(embedder.entries()) == ["a"]
    assert all(thread.name != "kept-queries" for thread in threading.enumerate())
    embedder.embed("b")
    queries.close()
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("keep", [True, False])
def test_the_engine_keeps_queries_if_it_is_told_so(
    endpoint: Endpoint, tmp_path: Path, keep: bool
) -> None:
    """With `keep_queries`, a query is not embedded again after a restart."""
    settings = EngineSettings(tmp_path, endpoint.settings(keep_queries=keep))
    for _ in range(2):
        with closing(Engine(settings)) as engine:
            assert engine.embedding.query_embedder is not None
            engine.embedding.query_embedder.embed("tea")
    asked = [request["input"] for request in endpoint.requests]
    assert asked.count(["tea"]) == (1 if keep else 2)
    assert (tmp_path / FILE).exists() == keep


def test_no_query_is_cached_with_a_cache_of_none(endpoint: Endpoint, tmp_path: Path) -> None:
    """With a cache of size 0 each query is embedded."""
    settings = EngineSettings(tmp_path, endpoint.settings(query_cache=0))
    with closing(Engine(settings)) as engine:
        assert engine.embedding.query_embedder is not None
        for _ in range(2):
            engine.embedding.query_embedder.embed("tea")
    assert [request["input"] for request in endpoint.requests].count(["tea"]) == 2


def test_callers_of_different_names_share_no_query(endpoint: Endpoint, tmp_path: Path) -> None:
    """Each caller's first query is embedded anew, also after a restart with kept queries."""
    settings = EngineSettings(tmp_path, endpoint.settings(keep_queries=True))
    ana = Caller("k1", "default", "ana", ())
    same = Caller("k2", "default", "ana", ())  # another key of the same user
    other = Caller("k3", "default", "", ())

    async def ask(engine: Engine, caller: Caller) -> None:
        CALLER.set(caller)
        vectors = QueryVectors(engine, Threads(1))
        assert await vectors.embed("tea", _Unhurried()) is not None

    for _ in range(2):
        with closing(Engine(settings)) as engine:
            for caller in (ana, same, other, LOCAL, ana, LOCAL):
                asyncio.run(ask(engine, caller))
    asked = [request["input"] for request in endpoint.requests]
    assert asked.count(["tea"]) == 3  # ana, the third key, and the caller without a key


class _Unhurried:
    is_admitted = True

    def left(self) -> None:
        """Return None: there is no deadline."""
