"""Random flips in the file of a store without an index: each answer is as before, or it is told."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.store.store_helpers import ONE, TWO
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import NotFound, VikingError
from vikingd.domain.uri import ROOT
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store.sqlite.sqlite_schema import DATABASE

ROUNDS = int(os.environ.get("TEST_FLIPS", "100"))
NONE = EmbedSettings(provider="none")


def drafts() -> list[Draft]:
    """Return 200 contexts of several types."""
    return [
        draft
        for i in range(50)
        for draft in (
            Draft(f"viking://user/memories/{i}.md", content=f"- tea {i}\n- 雨 {i}\n- wind {i}\n"),
            Draft(f"viking://resources/{i % 5}/{i}.md", content=f"# {i}\n\n" + "tea " * 50 * i),
            Draft(
                f"viking://agent/skills/{i}/SKILL.md", title=f"S {i}", content="do\n", vector=ONE
            ),
            Draft(f"viking://resources/d{i}", is_directory=True, abstract=f"D {i}", vector=TWO),
        )
    ]


def read(engine: Engine, uris: list[str]) -> dict[tuple[str, str], Any]:
    """Return all that an engine has."""
    found: dict[tuple[str, str], Any] = {}
    for uri in uris:
        try:
            found["get", uri] = engine.store.get(uri)
        except NotFound:
            found["get", uri] = None
        found["index", uri] = engine.snapshot.find(uri) is None
    found |= {("tree", one.uri): one for one in engine.store.tree(ROOT, 0, "", 1000)}
    found["memories", ""] = engine.store.memories_below("viking://user/memories")
    found |= {("scan", one.uri): one for one in engine.store.scan()}
    return found


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [
        ("a bit", 2),
        pytest.param("a bit", ROUNDS, marks=pytest.mark.deep),
        pytest.param("eight bytes", ROUNDS, marks=pytest.mark.deep),
    ],
)
def test_a_flip_changes_no_answer_without_a_word(tmp_path: Path, kind: str, rounds: int) -> None:
    """A start, all reads, Verify and writes give equal answers, or errors of the domain."""
    live, damaged = tmp_path / "live", tmp_path / "damaged"
    with closing(Engine(EngineSettings(live, NONE))) as engine:
        engine.writable_store.put([prepare(draft) for draft in drafts()]).result()
        engine.writable_store.link("viking://resources/0/0.md", ROOT, "top").result()
        ids = [one.entry.id for one in engine.store.memories_below("viking://user")]
        engine.writable_store.reinforce(ids[:9], 2).result()
        engine.writable_store.move("viking://resources/3", "viking://resources/moved").result()
        uris = [one.uri for one in engine.store.tree(ROOT, 0, "", 1000)]
        expected = read(engine, uris)
    shutil.rmtree(live / "index", ignore_errors=True)
    data, rng = (live / DATABASE).read_bytes(), random.Random(7)
    told_of = 0
    for round_ in range(rounds):
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(live, damaged)
        changed, at = bytearray(data), rng.randrange(len(data) - 8)
        if kind == "a bit":
            changed[at] ^= 1 << rng.randrange(8)
        else:
            changed[at : at + 8] = rng.randbytes(8)
        (damaged / DATABASE).write_bytes(changed)
        told: list[str] = []
        found: dict[tuple[str, str], Any] = {}

        def noted(call: Callable[[], Any], told: list[str] = told) -> None:
            try:
                call()
            except VikingError as error:
                told.append(str(error))

        def used(told: list[str] = told, found: dict[tuple[str, str], Any] = found) -> None:
            with closing(Engine(EngineSettings(damaged, NONE))) as engine:
                noted(lambda: found.update(read(engine, uris)))
                noted(lambda: told.extend(engine.verify().problems))
                put = prepare(Draft("viking://resources/new.md", content="new"))
                noted(lambda: engine.writable_store.put([put]).result())
                noted(lambda: engine.store.backup(lambda: None).close())

        noted(used)
        assert told or found == expected, f"round {round_}, byte {at}"
        told_of += bool(told)
    assert rounds < ROUNDS or 0 < told_of < rounds
