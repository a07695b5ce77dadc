"""Caches and failures of models tell a caller nothing of others."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.access.audited import ADMIN, ANA, BOB, READ, WRITE, House, house
from tests.access.random_calls import SECRET_WORD
from tests.answer.thinking_helpers import told
from tests.metrics_helpers import running
from tests.models.embed_helpers import Endpoint
from tests.patience import eventually
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.models.http.circuit_breaker import FAILURES
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2
from vikingd.pb import retrieval_pb2 as pb

AREA = "viking://resources/a"
SHELF = f"{AREA}/shelf.md"
PAGES = [
    {"uri": AREA, "is_directory": True, "abstract": "The house"},
    {"uri": SHELF, "content": "Tea stands on the shelf.", "abstract": "Tea on the shelf"},
]


EMBEDDERS = pytest.mark.parametrize(
    "provider", ["openai", pytest.param("e5", marks=pytest.mark.deep)]
)


def embedding(provider: str, endpoint: Endpoint) -> dict[str, str]:
    """Return the environment of a daemon that embeds by an endpoint, or by a model."""
    if provider != "openai":
        return {}
    return {
        "VIKINGD_EMBEDDING__OPENAI_BASE_URL": endpoint.url,
        "VIKINGD_EMBEDDING__OPENAI_MODEL": "m",
        "VIKINGD_EMBEDDING__DIMENSION": "8",
        "VIKINGD_EMBEDDING__RETRIES": "0",
    }


@dataclass(frozen=True)
class Person:
    """A caller of the tests of caches."""

    made: House
    key: str

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of its calls."""
        return (("authorization", f"Bearer {self.key}"),)

    def find(self, query: str, **fields: Any) -> pb.FindResponse:
        """Find."""
        request = pb.FindRequest(query=query, trace=True, **fields)
        reply: pb.FindResponse = self.made.stubs.retrieval.Find(request, metadata=self.metadata)
        return reply


def persons(made: House) -> list[Person]:
    """Return Ana and Bob of a tenant, and Ana of another one, who all read the same texts."""
    found = []
    for tenant, users in (("acme", (ANA, BOB)), ("globex", (ANA,))):
        made.tenant(tenant)
        put = contexts_pb2.PutRequest(contexts=PAGES)
        made.stubs.contexts.Put(put, metadata=made.operator(tenant))
        for user in users:
            grants = {AREA: READ, f"viking://users/{user}": WRITE}
            found.append(Person(made, made.key(grants, user, tenant)))
    return found


def cached(made: House, tenant: str) -> tuple[int, int]:
    """Return (hits, misses) of the queries of a tenant."""
    stats = made.stubs.admin.Stats(admin_pb2.StatsRequest(), metadata=made.operator(tenant))
    return stats.embedder.query_cache_hits, stats.embedder.query_cache_misses


@EMBEDDERS
def test_vectors_of_queries_are_apart(tmp_path: Path, endpoint: Endpoint, provider: str) -> None:
    """Nobody gets the vector of another caller's query, in memory or from the file."""
    kept = {"VIKINGD_EMBEDDING__KEEP_QUERIES": "true"} | embedding(provider, endpoint)
    with house(tmp_path / "a", provider, **kept) as made:
        ana, bob, other = persons(made)
        for one, tenant, counted in (
            (ana, "acme", (0, 1)),
            (bob, "acme", (0, 2)),
            (other, "globex", (0, 1)),
            (ana, "acme", (1, 2)),
            (bob, "acme", (2, 2)),
            (other, "globex", (1, 1)),
        ):
            one.find("where is the tea")
            assert cached(made, tenant) == counted
    with running(tmp_path / "a", "--provider", provider, **kept) as daemon:
        again = House(daemon, made.secrets[0])
        carl = Person(again, again.key({AREA: READ}, "carl", "acme"))
        for one, tenant, counted in (
            (carl, "acme", (0, 1)),
            (replace(ana, made=again), "acme", (1, 1)),
            (carl, "acme", (2, 1)),
            (carl, "acme", (3, 1)),
        ):
            one.find("where is the tea")
            assert cached(again, tenant) == counted
        again.close()


def reranked(url: str) -> dict[str, str]:
    """Return the environment of a daemon with a reranker."""
    backend = {"kind": "http", "form": "vllm", "url": url, "model": "m", "timeout": 5}
    return {"VIKINGD_RERANK__BACKENDS": json.dumps([backend]), "NO_PROXY": "127.0.0.1"}


def test_scores_of_rerankers_are_apart(tmp_path: Path) -> None:
    """A trace counts as cached only what its own caller has asked before."""
    with (
        ScriptedServer(told({})) as server,
        house(tmp_path / "a", **reranked(server.url)) as made,
    ):
        people = persons(made)
        for expected in (0, 2):
            for one in people:
                reply = one.find("where is the tea", mode=pb.SEARCH_MODE_THINKING)
                assert reply.rerank.status == pb.RERANK_STATUS_DONE
                assert sum(each.cached for each in reply.rerank.rounds) == expected
                assert sum(each.documents for each in reply.rerank.rounds) == 2 - expected


def test_a_failure_of_a_reranker_tells_others_no_text(tmp_path: Path) -> None:
    """A server that quotes the query in its refusal tells it to the caller of the query alone."""

    def refuse(request: Request) -> Reply:
        return Reply({"error": f"too long: {request.json['query']}"}, status=400)

    with (
        ScriptedServer(refuse) as server,
        house(tmp_path / "a", **reranked(server.url)) as made,
    ):
        ana, bob, other = persons(made)
        for number in range(FAILURES):
            reply = ana.find(f"{SECRET_WORD} tea {number}", mode=pb.SEARCH_MODE_THINKING)
            assert f"{SECRET_WORD} tea {number}" in reply.rerank.reason
        for one in (bob, other):
            reply = one.find("where is the tea", mode=pb.SEARCH_MODE_THINKING)
            assert "failed 3 times in a row (answered 400); asked again" in reply.rerank.reason
            assert SECRET_WORD not in str(reply)


def test_a_failure_of_an_embedder_tells_others_no_text(tmp_path: Path, endpoint: Endpoint) -> None:
    """An endpoint that quotes a query tells it to the caller of the query alone."""

    def refuse(request: dict[str, Any], _: object) -> tuple[int, bytes] | None:
        asked = request["input"]
        return (500, json.dumps(asked).encode()) if SECRET_WORD in asked[0] else None

    endpoint.misbehave = refuse
    with house(tmp_path / "a", "openai", **embedding("openai", endpoint)) as made:
        ana, bob, _ = persons(made)
        (note,) = ana.find(f"{SECRET_WORD} tea").degraded
        assert f'answered 500: ["{SECRET_WORD} tea"]' in note.detail
        (note,) = bob.find("where is the tea").degraded
        assert "answered 500)" in note.detail
        assert SECRET_WORD not in note.detail


@EMBEDDERS
def test_equal_texts_of_users_do_not_share_a_vector(
    tmp_path: Path, endpoint: Endpoint, provider: str
) -> None:
    """The time of a write does not tell that another user has the same text."""
    with house(tmp_path / "a", provider, **embedding(provider, endpoint)) as made:
        ana, bob, _ = persons(made)

        def put(one: Person, user: str, name: str) -> int:
            uri = f"viking://users/{user}/resources/{name}.md"
            request = contexts_pb2.PutRequest(
                contexts=[{"uri": uri, "content": "The salary is 5000.", "title": "Salary"}],
                wait_for_vectors=True,
            )
            made.stubs.contexts.Put(request, metadata=one.metadata)
            eventually(lambda: stats().embedder.embedded == stats().vectors)  # counted a bit later
            return int(stats().embedder.reused)

        def stats() -> admin_pb2.StatsResponse:
            request, operator = admin_pb2.StatsRequest(), made.operator("acme")
            reply: admin_pb2.StatsResponse = made.stubs.admin.Stats(request, metadata=operator)
            return reply

        before = put(ana, ANA, "one")
        assert put(bob, BOB, "one") == before
        assert put(ana, ANA, "two") > before


def test_only_operators_name_subjects_of_certificates(tmp_path: Path) -> None:
    """A subject names a caller among those of all tenants: no tenant tells or takes another's."""
    with house(tmp_path / "a") as made:
        request = access_pb2.CreateKeyRequest(
            grants=[{"right": READ, "uri_prefix": AREA}], certificate_subject="CN=carl"
        )
        for tenant in ("acme", "globex"):
            made.tenant(tenant)
        made.stubs.access.CreateKey(request, metadata=made.operator("globex"))
        admin = Person(made, made.key({"viking://": ADMIN}, tenant="acme"))
        for subject in ("CN=carl", "CN=dora"):
            request.certificate_subject = subject
            with pytest.raises(grpc.RpcError) as refused:
                made.stubs.access.CreateKey(request, metadata=admin.metadata)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
