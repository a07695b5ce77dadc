"""Attacks over the wire, by callers without a key and by users."""

from __future__ import annotations

import base64
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.access.attack_helpers import HIDDEN, SHARED, Fort, bearer, fort, get, outcome
from vikingd.pb import (
    access_pb2,
    contexts_pb2,
    memories_pb2,
    retrieval_pb2,
)

MISSING = HIDDEN.replace("escape", "absent")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    """Yield a daemon with two tenants."""
    with fort(tmp_path_factory.mktemp("attacked")) as made:
        yield made


# Headers and names


SMUGGLED: dict[str, Callable[[str, str], Any]] = {
    "two keys": lambda ana, bob: (*bearer(ana), *bearer(bob)),
    "one key twice": lambda ana, _: bearer(ana) * 2,
    "keys with a comma": lambda ana, bob: bearer(f"{ana}, Bearer {bob}"),
    "another scheme": lambda ana, _: (("authorization", f"Basic {ana}"),),
    "no scheme": lambda ana, _: (("authorization", ana),),
    "empty": lambda *_: (("authorization", ""),),
    "scheme alone": lambda *_: (("authorization", "Bearer "),),
    "binary": lambda ana, _: (("authorization-bin", f"Bearer {ana}".encode()),),
    "of a proxy": lambda ana, _: (("proxy-authorization", f"Bearer {ana}"),),
    "upper case": lambda ana, _: bearer(ana.upper()),
    "long": lambda ana, _: bearer(ana + "0" * 5000),
    "another tenant": lambda ana, _: bearer(ana, "globex"),
    "another tenant with a space": lambda ana, _: bearer(ana, " globex"),
    "two tenants": lambda ana, _: (*bearer(ana, "acme"), ("vikingd-tenant", "globex")),
    "no key but a tenant": lambda *_: (("vikingd-tenant", "acme"),),
}


@pytest.mark.deep_after(8)  # those after ten wrong keys wait
@pytest.mark.parametrize("kind", SMUGGLED)
def test_smuggled_headers_are_refused(target: Fort, kind: str) -> None:
    """No second reading of a header gives a caller, and the error has no part of a secret."""
    metadata = SMUGGLED[kind](target.keys["ana"], target.keys["bob"])
    code, message = outcome(target.stubs.contexts.Get, get(), metadata)
    assert code == "UNAUTHENTICATED"
    assert target.keys["ana"][12:20] not in message


def test_headers_that_vikingd_does_not_know_name_nobody(target: Fort) -> None:
    """The tenant stays that of the key, whatever similar names say."""
    for name, value in (("vikingd-tenant-bin", b"globex"), ("vikingd_tenant", "globex")):
        metadata = (*target.metadata("ana"), (name, value))
        code, text = outcome(target.stubs.contexts.Get, get(), metadata)
        assert code == "OK"
        assert "(acme)" in text


def test_huge_headers_are_refused(target: Fort) -> None:
    """Metadata above gRPC's bound never reaches the daemon, which goes on."""
    code, _ = outcome(target.stubs.contexts.Get, get(), bearer("x" * 100_000))
    assert code == "RESOURCE_EXHAUSTED"
    assert target.tries("ana", "contexts", "Get", get())[0] == "OK"


NO_TENANTS = (".", "..", "/", "../acme", "acme/", "globex/../acme", "acme\\x00", "%61cme", "Acme")
NO_TENANTS += ("-a", "~", ".deleted-acme")


@pytest.mark.parametrize("name", NO_TENANTS)
def test_names_of_tenants_lead_nowhere(target: Fort, name: str) -> None:
    """A name that is no name of a tenant is refused to an operator, and makes no file."""
    before = sorted(target.store.rglob("*"))
    operator = bearer(target.keys["operator"], name)
    assert outcome(target.stubs.contexts.Get, get(), operator)[0] == "INVALID_ARGUMENT"
    create = access_pb2.PutTenantRequest(name=name, create=True)
    assert target.tries("operator", "access", "PutTenant", create)[0] == "INVALID_ARGUMENT"
    assert sorted(target.store.rglob("*")) == before


def test_unusual_names_of_tenants_in_requests(target: Fort) -> None:
    """Names with NUL and letters of other scripts, which headers cannot have, are refused too."""
    for name in (
        "acme\0",
        "acme ",
        "a b",
        "a" * 64,
        "\0",
        "ácme",
        "\u0430cme",
        "acme\n",
        "acme\u2044x",
    ):
        create = access_pb2.PutTenantRequest(name=name, create=True)
        assert target.tries("operator", "access", "PutTenant", create)[0] == "INVALID_ARGUMENT"
        delete = access_pb2.DeleteTenantRequest(name=name)
        assert target.tries("operator", "access", "DeleteTenant", delete)[0] == "NOT_FOUND"


# What exists


def _calls(uri: str) -> list[tuple[str, str, Any]]:
    """Return calls that name a URI."""
    directory, path = uri.rpartition("/")[0], uri.removeprefix("viking://")
    find = retrieval_pb2.FindRequest(query="oolong", target_uri=directory)
    return [
        ("contexts", "Get", get(uri)),
        ("contexts", "Get", get(f"{uri}/")),
        ("contexts", "Get", contexts_pb2.GetRequest(uri=uri, min_revision=1 << 40)),
        ("contexts", "List", contexts_pb2.ListRequest(uri=directory)),
        ("contexts", "Tree", contexts_pb2.TreeRequest(uri=directory)),
        ("contexts", "Glob", contexts_pb2.GlobRequest(pattern="*", target_uri=directory)),
        ("contexts", "Glob", contexts_pb2.GlobRequest(pattern="*", target_uri=uri)),
        ("contexts", "Glob", contexts_pb2.GlobRequest(pattern=path)),
        ("contexts", "Grep", contexts_pb2.GrepRequest(pattern=".", target_uri=directory)),
        ("contexts", "Grep", contexts_pb2.GrepRequest(pattern=".", target_uri=uri)),
        ("contexts", "Grep", contexts_pb2.GrepRequest(pattern=".", glob=path)),
        ("contexts", "Delete", contexts_pb2.DeleteRequest(uris=[uri])),
        ("contexts", "Delete", contexts_pb2.DeleteRequest(uris=[uri], allow_missing=True)),
        ("contexts", "Move", contexts_pb2.MoveRequest(source_uri=uri, destination_uri=SHARED)),
        (
            "contexts",
            "Link",
            contexts_pb2.LinkRequest(uri="viking://users/ana/memories/tea.md", other_uri=uri),
        ),
        (
            "contexts",
            "Put",
            contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(uri=uri, content="x")]),
        ),
        ("retrieval", "Find", find),
        ("retrieval", "BatchFind", retrieval_pb2.BatchFindRequest(requests=[{"query": "a"}, find])),
        ("retrieval", "Search", retrieval_pb2.SearchRequest(query="tea", target_uri=directory)),
        ("retrieval", "Retrieve", retrieval_pb2.RetrieveRequest(query="a", target_uri=directory)),
        ("retrieval", "BuildContext", retrieval_pb2.BuildContextRequest(uris={"uris": [uri]})),
        ("memories", "Remember", memories_pb2.RememberRequest(text="a", uri=uri)),
    ]


def test_hidden_and_missing_contexts_are_answered_alike(target: Fort) -> None:
    """Each call gets the same status and the same text, but for the URI that it named."""
    bux = "viking://users/bux/memories/plans/escape.md"
    for other in (MISSING, bux):
        for hidden, missing in zip(_calls(HIDDEN), _calls(other), strict=True):
            code, message = target.tries("ana", *hidden)
            expected, text = target.tries("ana", *missing)
            text = text.replace(other, HIDDEN).replace("users/bux", "users/bob")
            if code == "OK":  # timings differ
                message, text = message.partition("timings")[0], text.partition("timings")[0]
            assert (code, message) == (expected, text), hidden[1]


@pytest.mark.deep
def test_hidden_and_missing_contexts_take_the_same_time(target: Fort) -> None:
    """The medians of many calls by turns tell nothing."""
    put = contexts_pb2.PutRequest(
        contexts=[
            contexts_pb2.ContextInput(
                uri=f"viking://users/bob/resources/{i}.md", content=f"{i} oolong " * 50
            )
            for i in range(1000)
        ]
    )
    target.stubs.contexts.Put(put, metadata=target.metadata("bob"))
    hidden, missing = "viking://users/bob/resources", "viking://users/bux/resources"
    pairs: list[tuple[str, str, Callable[[str], Any]]] = [
        ("contexts", "Get", lambda uri: get(f"{uri}/7.md")),
        ("contexts", "List", lambda uri: contexts_pb2.ListRequest(uri=uri)),
        ("contexts", "Glob", lambda uri: contexts_pb2.GlobRequest(pattern="*", target_uri=uri)),
        ("contexts", "Grep", lambda uri: contexts_pb2.GrepRequest(pattern="0", target_uri=uri)),
        ("retrieval", "Find", lambda uri: retrieval_pb2.FindRequest(query="a", target_uri=uri)),
    ]
    for service, method, request in pairs:
        seconds: dict[str, list[float]] = {hidden: [], missing: []}
        for _ in range(200):
            for uri in random.sample([hidden, missing], 2):
                began = time.perf_counter()
                assert target.tries("ana", service, method, request(uri))[0] == "NOT_FOUND"
                seconds[uri].append(time.perf_counter() - began)
        one, two = (statistics.median(each) for each in seconds.values())
        assert abs(one - two) < 0.5 * max(one, two), method


@pytest.mark.deep
def test_keys_with_a_known_id_and_others_are_refused_alike(target: Fort) -> None:
    """A wrong secret of a known key, and the key of an unknown id, have the same answer."""
    wrong = target.keys["ana"][:12] + "0" * 64
    answers = {
        outcome(target.stubs.contexts.Get, get(), bearer(key))
        for key in (wrong, "vk_00000000_" + "0" * 64)
    }
    assert answers == {("UNAUTHENTICATED", "the key is not valid")}


def test_page_tokens_tell_nothing(target: Fort) -> None:
    """Forged tokens with hidden and missing URIs, and those of other listings, show no URI."""
    urls = [HIDDEN, MISSING, "viking://users/bob", "viking://users/bux", "viking://users/a"]
    of_lines = ("0:1:", "2:3:", "3:0:")
    kinds: list[tuple[str, Any, str, tuple[str, ...], dict[str, str]]] = [
        ("List", contexts_pb2.ListRequest, "uri", ("d:", "f:"), {}),
        ("Tree", contexts_pb2.TreeRequest, "uri", ("d:", "f:"), {}),
        ("Glob", contexts_pb2.GlobRequest, "target_uri", ("d:", "f:"), {"pattern": "**"}),
        ("Grep", contexts_pb2.GrepRequest, "target_uri", of_lines, {"pattern": "."}),
    ]
    for uri in ("viking://", "viking://users", "viking://users/ana"):
        for method, kind, field, prefixes, more in kinds:
            answers = {}
            for last in urls:
                for prefix in prefixes:
                    token = base64.urlsafe_b64encode((prefix + last).encode()).decode()
                    request = kind(**{field: uri, "page_token": token, **more})
                    answers[prefix, last] = target.tries("ana", "contexts", method, request)
                    assert "bob" not in answers[prefix, last][1]
            for prefix in prefixes:
                assert answers[prefix, HIDDEN] == answers[prefix, MISSING]
                assert answers[prefix, urls[2]] == answers[prefix, urls[3]]


def test_a_token_of_another_tenant_and_user_is_only_a_place(target: Fort) -> None:
    """A token of bob, or of gus of the other tenant, shows ana what she may read after it."""
    for name in ("bob", "gus"):
        request = contexts_pb2.TreeRequest(uri="viking://", page_size=1)
        first = target.stubs.contexts.Tree(request, metadata=target.metadata(name))
        request = contexts_pb2.TreeRequest(uri="viking://", page_token=first.next_page_token)
        code, text = target.tries("ana", "contexts", "Tree", request)
        assert code == "OK"
        assert "bob" not in text
        assert "gus" not in text
        assert "(globex)" not in text


def test_boosts_and_filters_on_hidden_contexts_change_nothing(target: Fort) -> None:
    """Prefixes and filters that hit hidden contexts alone answer as if these were missing."""

    def ask(**more: Any) -> tuple[str, str]:
        request = retrieval_pb2.RetrieveRequest(query="oolong lantern", top_k=50, **more)
        code, text = target.tries("ana", "retrieval", "Retrieve", request)
        assert "bob" not in text
        return code, text.partition("timings")[0]

    plain = ask()
    assert plain[0] == "OK"
    assert ask(boosts=[{"uri_prefix": "viking://users/bob", "factor": 9}]) == plain
    assert ask(boosts=[{"uri_prefix": "viking://users/bux", "factor": 9}]) == plain


def test_health_and_reflection_tell_no_names(target: Fort) -> None:
    """Without a key a caller learns the API and whether the daemon serves, no more."""
    with grpc.insecure_channel(target.daemon.address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        assert outcome(check, health_pb2.HealthCheckRequest())[0] == "OK"
        for service in ("acme", "viking.acme", "nobody"):
            answer = outcome(check, health_pb2.HealthCheckRequest(service=service))
            assert answer == ("NOT_FOUND", "")
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        told = str(list(stub.ServerReflectionInfo(iter([asked]))))
    assert "viking.retrieval.v1.Access" in told
    assert "acme" not in told


@pytest.mark.deep
@pytest.mark.parametrize(("count", "size", "most"), [(25, 64, 60), (100, 400, 100)])
def test_a_request_without_a_key_is_not_received(
    target: Fort, count: int, size: int, most: int
) -> None:
    """Many large requests without a valid key, and compressed ones of MiB, take no memory."""
    body = random.randbytes((4 << 20) - 1000)
    with _growth(target.daemon.process.pid) as grown:
        for metadata in (None, bearer("vk_00000000_" + "0" * 64)):
            with grpc.insecure_channel(target.daemon.address) as channel:
                for method in ("Contexts/Put", "Admin/Backup"):
                    call = channel.unary_unary(f"/viking.retrieval.v1.{method}")
                    calls = [call.future(body, metadata=metadata, timeout=60) for _ in range(count)]
                    assert {each.code().name for each in calls} == {"UNAUTHENTICATED"}
        with grpc.insecure_channel(
            target.daemon.address,
            compression=grpc.Compression.Gzip,
            options=[("grpc.max_send_message_length", -1)],
        ) as channel:
            call = channel.unary_unary("/viking.retrieval.v1.Contexts/Get")
            key = target.metadata("ana")
            assert outcome(call, bytes(size << 20))[0] == "UNAUTHENTICATED"
            assert outcome(call, bytes(size << 20), key)[0] == "RESOURCE_EXHAUSTED"
    assert max(grown) < most  # MiB; the requests have 16 times `count`


@contextmanager
def _growth(pid: int) -> Iterator[list[int]]:
    """Yield a list that gets the MiB which a process has grown by, in steps of 2 ms.

    Pages of files do not count: those of a young daemon come with its first calls.
    """

    def anonymous() -> int:
        text = Path(f"/proc/{pid}/status").read_text()
        return int(text.partition("RssAnon:")[2].split()[0]) >> 10

    def watch() -> None:
        while not done.wait(0.002):
            grown.append(anonymous() - before)

    before, grown, done = anonymous(), [0], threading.Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield grown
        finally:
            done.set()
            watching.result()
