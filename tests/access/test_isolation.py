"""Two tenants with the same URIs, and two users of one tenant, never meet.

Two daemons get the same calls of one caller. In the second one others call in between. The caller
must be told the same bytes by both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import numpy as np
import pytest

from tests.access.audited import ADMIN, ANA, BOB, READ, WRITE, House, house
from tests.access.random_calls import CHANCE, CLOCK, OF_CLOSING, SECRET_WORD, Told, Walker
from tests.answer.parts_helpers import (
    AREAS,
    DIMENSION,
    REQUESTS,
    Asker,
    Store,
    Writer,
    fill,
    reader,
)
from tests.store.store_helpers import file
from vikingd.answer import scored_scope
from vikingd.domain.contexts import Passage
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2
from vikingd.pb import retrieval_pb2 as pb

SHARED = ("viking://resources/a", "viking://agent/skills/s")
REST = ("viking://resources/b", "viking://user/memories/x", "viking://projects/p/memories")


def walk(caller: Walker, calls: int, between: Callable[[], object]) -> list[Told]:
    """Make the calls of a caller, with others between them; return what it is told."""
    while len(caller.told) < calls:
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
    assert len(answered) >= (15 if len(alone) > 200 else 6), answered
    assert len({told.code for told in alone}) >= (4 if len(alone) > 200 else 2)


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
        mine = [line for line in lines if own in line and "code=OK" in line]
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
            assert all(len(caller.told) > 10 for caller in self._callers)

    def _run(self, caller: Walker) -> None:
        try:
            while not self._is_over.is_set():
                caller.step()
        except BaseException as error:
            self._failed.append(error)


@pytest.mark.parametrize(
    ("most_open", "calls"),
    [(100, 20), *(pytest.param(most, 300, marks=pytest.mark.deep) for most in (100, 2))],
)
def test_tenants_never_meet(tmp_path: Path, most_open: int, calls: int) -> None:
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
                lambda: walk(of_tenant(alone, "acme", seed, hidden), calls, lambda: None),
                lambda: walk(of_tenant(beside, "acme", seed, hidden), calls, between),
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


def put_three(made: House, top: str) -> None:
    """Write three files."""
    contexts: Any = [{"uri": f"{top}/{i}.md", "content": f"{SECRET_WORD} {i}"} for i in range(3)]
    request = contexts_pb2.PutRequest(contexts=contexts)
    made.stubs.contexts.Put(request, metadata=made.operator())


def furnished(made: House) -> None:
    """Write what users share."""
    for top in SHARED:
        put_three(made, top)
    key = made.key(dict.fromkeys(SHARED, WRITE))
    writer = Walker(made.stubs, key, 7, 1, SHARED, SHARED)
    while len(writer.told) < 40:
        writer.step()


@pytest.mark.parametrize("calls", [20, pytest.param(300, marks=pytest.mark.deep)])
def test_users_never_meet(tmp_path: Path, calls: int) -> None:
    """A user is told the same without other users and beside them."""
    seed = 4242
    with house(tmp_path / "a") as alone, house(tmp_path / "b") as beside:
        for each in (alone, beside):
            furnished(each)
        put_three(beside, f"viking://users/{BOB}/resources/r")
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
                lambda: walk(of_user(alone, ANA, seed), calls, lambda: None),
                lambda: walk(of_user(beside, ANA, seed), calls, between),
            )
        check_equal(*told, seed)
        check_silent(beside, (f"user={ANA}", BOB), (f"user={BOB}", ANA))


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


def test_a_compaction_does_not_change_the_confidence_of_results_that_tie(tmp_path: Path) -> None:
    """Two first results of a fusion by rank, in two scripts, count in either order."""
    store, vector = Store(tmp_path), np.eye(DIMENSION, dtype="<f4")
    near, nearest = (vector[0] + 0.5 * vector[1]).tobytes(), vector[0].tobytes()
    for name, content, given in (
        ("z", "harbour harbour pilot\n", near),
        ("m", "灯塔灯塔灯塔 harbour\n", nearest),
        ("b", "lantern oil\n", vector[2].tobytes()),
    ):
        uri = f"viking://users/{ANA}/resources/{name}.md"
        passage = Passage("", 0, len(content), given)
        store.change([file(uri, content, passages=(passage,))])
    request = pb.RetrieveRequest(
        query="harbour pilot", target_uri=f"viking://users/{ANA}", vector=nearest
    )
    ana = reader(f"viking://users/{ANA}")
    before = store.ask(ana, "Retrieve", request)
    assert before.items[0].score == before.items[1].score
    store.engine.optimize()
    assert store.ask(ana, "Retrieve", request).confidence == before.confidence
    store.close()


@pytest.mark.deep
@pytest.mark.parametrize(("batches", "rounds"), [(4, 1), (30, 100)])
def test_no_score_of_another_store_stays_in_scratch(
    tmp_path: Path, batches: int, rounds: int
) -> None:
    """Queries of a large and a small store by turns, on the same arrays, answer as alone."""
    stores = [Store(tmp_path / name) for name in ("large", "small")]
    small = stores[1]
    writer = Writer(5)
    for number, store in enumerate(stores):
        fill(store, number, 0)
        for _ in range(0 if store is small else batches):
            store.change(writer.written(AREAS, 40))
        store.engine.optimize()  # no compaction while the test runs: THINKING orders ties by row
    asker, everything = Asker(9, writer.uris[:40]), reader("viking://")
    requests = [(rpc, asker.request(rpc)) for rpc in [*REQUESTS] * rounds]

    def answers(store: Store) -> list[Any]:
        return [store.ask(everything, *request) for request in requests]

    spare, alone = scored_scope._spare, []
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
