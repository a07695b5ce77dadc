"""The numbered promises about the embedder, the reranker and the planner."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from tests.answer.intent_helpers import planning
from tests.answer.thinking_helpers import FAULTS, broken, told
from tests.nodes.reader_helpers import serving as on_store
from tests.patience import eventually
from tests.scripted import Reply, Request, ScriptedServer
from tests.wire.conformance_helpers import METHODS, TOP, matches, refused, scores, tree
from tests.wire.wire_helpers import floats as vector
from vikingd.client import (
    Draft,
    Levels,
    Method,
    Mode,
    SearchMode,
    SearchSession,
)
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.pb.retrieval_pb2 import (
    RERANK_STATUS_DONE,
    RERANK_STATUS_FAILED,
    FindResponse,
)


@dataclass
class Embedded:
    """A daemon whose embedder delays texts with the word "slow"."""

    client: MessageClient = field(init=False)
    asked: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Request) -> Reply:
        """Return a vector of three numbers for each text, from its letters."""
        assert request.path.endswith("/embeddings")
        texts = request.json["input"]
        self.asked += texts
        if any("slow" in text for text in texts):
            assert self.go_on.wait(20)
        rows = [
            {"object": "embedding", "index": i, "embedding": [1.0 + text.count(c) for c in "abc"]}
            for i, text in enumerate(texts)
        ]
        return Reply({"object": "list", "model": request.json["model"], "data": rows})


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """Yield a daemon with one context that has a vector."""
    made = Embedded()
    with (
        ScriptedServer(made.answer) as endpoint,
        on_store(
            tmp_path_factory.mktemp("store"),
            "--provider",
            "openai",
            VIKINGD_EMBEDDING__OPENAI_BASE_URL=f"{endpoint.url}/v1",
            VIKINGD_EMBEDDING__OPENAI_MODEL="letters",
            VIKINGD_EMBEDDING__DIMENSION="3",
        ) as daemon,
    ):
        made.client = daemon.client
        made.client.put(
            [Draft(f"{TOP}/a.md", abstract="cab", vector=vector(1, 1, 1), metadata={"n": 1})]
        )
        yield made
        made.go_on.set()


def test_01_an_empty_query_without_a_vector_is_an_error(embedded: Embedded) -> None:
    """An empty query is refused without an embedding; KEYWORD with `where` alone is allowed."""
    client, before = embedded.client, list(embedded.asked)
    for text in ("", " \n\u3000"):
        for call in (client.find, client.retrieve, client.recall, client.build_context):
            assert refused(call, text)[0] is grpc.StatusCode.INVALID_ARGUMENT, call
        for mode in (Mode.VECTOR, Mode.HYBRID):
            fault = refused(client.retrieve, text, mode=mode, where={"n": 1})
            assert fault == (grpc.StatusCode.INVALID_ARGUMENT, "query")
    listed = client.retrieve(mode=Mode.KEYWORD, where={"n": 1})
    assert [item.uri for item in listed.items] == [f"{TOP}/a.md"]
    assert embedded.asked == before


def test_05_a_quick_find_embeds_its_query_once(embedded: Embedded) -> None:
    """A find embeds its query once; a find with a vector embeds nothing."""
    client = embedded.client
    for i, method in enumerate((Method.AUTO, *METHODS)):
        before = list(embedded.asked)
        assert client.find(f"cab number {i}", method=method, levels=Levels.BOTH).total
        (asked,) = embedded.asked[len(before) :]
        assert asked.endswith(f"cab number {i}")
    before = list(embedded.asked)
    assert client.find("cab", vector=vector(1, 0, 0)).total
    assert embedded.asked == before


def test_10_a_slow_model_call_delays_no_other_request(embedded: Embedded) -> None:
    """Some slow model calls delay no call; many delay only calls that need the model."""
    client = embedded.client
    with ThreadPoolExecutor(16) as pool:
        slow = [pool.submit(client.find, f"slow cab {i}") for i in range(3)]
        eventually(lambda: sum("slow" in text for text in embedded.asked) == 3)
        assert not client.find("another cab").degraded
        slow += [pool.submit(client.find, f"slow cab {i}") for i in range(3, 16)]
        eventually(lambda: sum("slow" in text for text in embedded.asked) > 3)
        assert client.find("cab", vector=vector(1, 0, 0)).total == 1
        assert client.retrieve("cab", mode=Mode.KEYWORD).items
        client.put([Draft(f"{TOP}/b.md", abstract="z", vector=vector(0, 0, 1))])
        assert client.get(f"{TOP}/b.md").context.abstract == "z"
        client.delete(f"{TOP}/b.md")
        assert not any(call.done() for call in slow)
        embedded.go_on.set()
        assert all(call.result(20).total == 1 for call in slow)


@dataclass
class Models:
    """A daemon with a scripted planner and a scripted reranker."""

    client: MessageClient
    planner: ScriptedServer
    reranker: ScriptedServer

    def think(self, query: str, **fields: Any) -> tuple[FindResponse, list[list[str]]]:
        """Return the reply and the documents of each reranker call; each query must be new."""
        self.reranker.requests.clear()
        reply = self.client.find(query, mode=SearchMode.THINKING, trace=True, **fields)
        return reply, [request.json["documents"] for request in self.reranker.requests]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """Yield models whose daemon holds the tree."""
    backend = {"kind": "http", "form": "vllm", "model": "r"}
    with (
        ScriptedServer(planning()) as planner,
        ScriptedServer(told({})) as reranker,
        on_store(
            tmp_path_factory.mktemp("store"),
            VIKINGD_PLANNER__BASE_URL=f"{planner.url}/v1",
            VIKINGD_PLANNER__MODEL="m",
            VIKINGD_RERANK__BACKENDS=json.dumps([backend | {"url": reranker.url}]),
        ) as daemon,
        MessageClient(daemon.address) as client,
    ):
        tree(client)
        client.put([Draft(f"{TOP}/a/blank.md", vector=vector(1, 0, 0))])
        yield Models(client, planner, reranker)


def test_07_the_reranker_sees_start_points_then_the_children_of_each_round(models: Models) -> None:
    """In THINKING the reranker sees the start points first, then each round's children."""
    reply, (starts, *rounds) = models.think("which ship", levels=Levels.BOTH, limit=100)
    abstract = {match.abstract: match.uri for match in matches(reply)}
    opened = {one.uri: one.round for one in reply.trace.directories}
    assert {abstract.get(text, TOP) for text in starts} <= opened.keys()
    assert 1 <= len(rounds) <= 3
    for number, texts in enumerate(rounds, 1):
        assert all(opened[uris.parent(abstract[text])] == number for text in texts)


@pytest.mark.parametrize("call", [0, 1])
@pytest.mark.parametrize("fault", ["nothing", "an error", "one too few"])
def test_08_a_reranker_that_fails_leaves_all_to_meaning_and_words(
    models: Models, fault: str, call: int
) -> None:
    """After a reranker failure in any round, the reply has the plain scores and the failure."""
    models.reranker.answer = told({})
    assert models.think(f"well {fault} {call}")[0].rerank.status == RERANK_STATUS_DONE
    models.reranker.answer = broken(call, FAULTS[fault])
    query = f"harbour {fault} {call}"
    reply, calls = models.think(query)
    assert len(calls) == call + 1
    assert reply.rerank.status == RERANK_STATUS_FAILED
    assert reply.degraded
    assert scores(reply) == scores(models.client.find(query))


def test_09_empty_abstracts_are_not_sent(models: Models) -> None:
    """Empty abstracts are not sent to the reranker and keep their vector score."""
    models.reranker.answer = told({}, 0.9)
    reply, calls = models.think("sea", vector=vector(1, 0, 0), alpha=1.0, limit=100)
    assert all(text for call in calls for text in call)
    blank = f"{TOP}/a/blank.md"
    plain = models.client.find("sea", vector=vector(1, 0, 0), alpha=1.0, limit=100)
    assert scores(reply)[blank] == pytest.approx(scores(plain)[blank], abs=1e-3)
    assert {score for uri, score in scores(reply).items() if uri != blank} == {0.9}


def test_21_no_session_and_no_queries(models: Models) -> None:
    """A search without a session uses the raw query; a plan without queries gives no results."""
    models.planner.requests.clear()
    raw = models.client.search("harbour tea", mode=SearchMode.QUICK, limit=20)
    assert not models.planner.requests
    assert [query.query for query in raw.query_plan.queries] == ["harbour tea"]
    assert scores(raw) == scores(models.client.find("harbour tea", limit=20))
    models.planner.answer = planning(reason="a greeting")
    none = models.client.search("hello to all of you", session=SearchSession("We met."))
    assert none.total == 0
    assert none.query_plan.reason == "a greeting"
