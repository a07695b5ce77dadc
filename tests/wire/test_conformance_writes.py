"""The numbered promises about writes, crashes and moves."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import grpc
import pytest

from tests.commands import serve
from tests.daemons import start
from tests.nodes.reader_helpers import serving as on_store
from tests.wire.conformance_helpers import (
    ALL,
    METHODS,
    NOW,
    SEARCH,
    TOP,
    answer,
    matches,
    memories,
    micros,
    refused,
    scores,
    tree,
)
from tests.wire.wire_helpers import floats as vector
from vikingd.client import (
    Draft,
    Levels,
    Method,
    Mode,
)
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Entry
from vikingd.store import Store

pytestmark = pytest.mark.stores


def test_22_a_crash_changes_no_answer(tmp_path: Path) -> None:
    """Queries have the same answers before and after a kill -9."""
    queries = ("harbour", "ship tea", "no such word")
    with on_store(tmp_path) as daemon:
        tree(daemon.client)
        daemon.client.delete(f"{TOP}/d")
        before = [answer(daemon.client, query, vector=vector(1, 1, 0)) for query in queries]
        daemon.kill()
    with on_store(tmp_path) as daemon:
        after = [answer(daemon.client, query, vector=vector(1, 1, 0)) for query in queries]
    assert after == before


def test_23_the_same_query_has_the_same_answer(client: MessageClient) -> None:
    """Equal queries from concurrent threads have identical replies except for the timings."""
    tree(client)
    same = [f"{TOP}/same/{name}.md" for name in "hcebadgf"]
    client.put([Draft(uri, abstract="harbour", vector=vector(1, 1, 0)) for uri in same])
    for one, other in pairwise(same):
        client.link(one, other)
    for method in METHODS:

        def ask(_: int, method: Method = method) -> bytes:
            return answer(client, "harbour ship", vector=vector(1, 1, 0), method=method)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(ask, range(24)))) == 1


def test_24_what_was_deleted_is_never_returned(client: MessageClient) -> None:
    """Deleted contexts, passages and overwritten texts are not found, from the next call on."""
    kept = f"{TOP}/keep.md"
    for i in range(5):
        gone = f"{TOP}/d{i}/gone.md"
        client.put(
            [
                Draft(gone, content=f"# A\n\nharbour {i}\n\n# B\n\nship {i}\n"),
                Draft(kept, content=f"harbour\n\nold{i}\n"),
            ]
        )
        client.link(gone, kept)
        assert gone in scores(client.find("ship"))
        client.delete(f"{TOP}/d{i}")
        client.put([Draft(kept, content="harbour")])
        for method in METHODS:
            for query in ("harbour", "ship", f"old{i}"):
                reply = client.find(query, method=method, levels=Levels.BOTH, limit=ALL)
                assert {match.uri for match in matches(reply) if match.is_leaf} <= {kept}
                assert not any(match.relations for match in matches(reply))
        assert client.find(f"old{i}").total == 0
        items = client.retrieve(f"harbour ship old{i}", mode=Mode.KEYWORD).items
        assert {(item.uri, item.text) for item in items} == {(kept, "harbour")}
        assert "ship" not in client.build_context("harbour ship").text


@pytest.mark.deep_after(1)
def test_25_what_was_acknowledged_is_found_by_the_next_request(
    client: MessageClient, daemon: str
) -> None:
    """An acknowledged write, change or move is visible to the next request on any connection."""
    words = ("anchor", "buoy", "canal", "delta", "estuary", "fjord", "gulf", "haven")
    with MessageClient(daemon) as other:
        for i, (new, changed) in enumerate(zip(words[::2], words[1::2], strict=True)):
            uri, moved = f"{TOP}/{i}.md", f"{TOP}/d/{i}.md"
            client.put([Draft(uri, content=f"{new} harbour")])
            assert list(scores(other.find(new))) == [uri]
            client.put([Draft(uri, content=f"{changed} harbour")])
            assert list(scores(other.find(changed))) == [uri]
            assert other.find(new).total == 0
            client.move(uri, moved)
            assert list(scores(other.find(changed))) == [moved]


@pytest.mark.deep_after(1)
def test_26_a_moved_subtree_keeps_what_is_known_of_it(client: MessageClient) -> None:
    """A moved subtree keeps its scores, counters and relations under its new URIs only."""
    old, new = "viking://user/memories/old", "viking://user/memories/new"
    counted = [Entry(reinforcement=3, access_count=5, time=micros(NOW))]
    notes = memories("harbour at night", counted)
    client.put(
        [
            Draft(f"{old}/sub/notes.md", content=notes.content, passages=notes.passages),
            Draft(f"{old}/tea.md", content="tea in the harbour"),
            Draft(f"{TOP}/ship.md", content="ship"),
        ]
    )
    client.link(f"{old}/tea.md", f"{TOP}/ship.md", "out")
    client.link(f"{old}/tea.md", f"{old}/sub/notes.md", "in")

    def seen(top: str) -> tuple[object, ...]:
        reply = client.find("harbour", limit=ALL, levels=Levels.BOTH)
        (memory,) = client.recall("night", now=NOW, no_touch=True, without=SEARCH).results
        linked = {
            match.uri: [(r.uri, r.reason) for r in match.relations] for match in matches(reply)
        }
        counters = (memory.id, memory.reinforcement, memory.access_count, memory.score)
        told = str((scores(reply), linked, memory.uri)).replace(top, "TOP")
        return told, counters

    before = seen(old)
    assert "('TOP/sub/notes.md', 'in')" in str(before)
    client.move(old, new)
    assert seen(new) == before
    assert old not in str(seen(new))
    assert refused(client.get, old)[0] is grpc.StatusCode.NOT_FOUND
    assert refused(client.find, "harbour", target_uri=old)[0] is grpc.StatusCode.NOT_FOUND
    assert not any(context.uri.startswith(old) for context in client.tree())
    assert [r.uri for r in client.get(f"{TOP}/ship.md").context.relations] == [f"{new}/tea.md"]


def test_27_another_model_or_dimension_is_refused_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start with another model or dimension is refused, and the error proposes --reembed."""
    monkeypatch.setenv("VIKINGD_EMBEDDING__OPENAI_MODEL", "letters")
    monkeypatch.setenv("VIKINGD_EMBEDDING__OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("VIKINGD_EMBEDDING__DIMENSION", "3")

    def told(model: str, dimension: int) -> str:
        store = tmp_path / str(dimension)
        Store(store, model=model, dimension=dimension).close()
        command = serve(store, "--provider", "openai")
        process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 1
        return str(said)

    stores = ("another", "openai/letters"), (3, 7)
    for model, dimension in zip(*stores, strict=True):
        message = told(model, dimension)
        assert f"{model} ({dimension} dimensions)" in message
        assert "--reembed" in message
