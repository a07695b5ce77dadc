"""The services, called over a channel."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from tests.commands import serve
from tests.daemons import start
from tests.patience import eventually
from tests.wire.wire_helpers import floats, to_struct
from vikingd.pb import (
    contexts_pb2,
    contexts_pb2_grpc,
    retrieval_pb2,
    retrieval_pb2_grpc,
)


class Endpoint(BaseHTTPRequestHandler):
    """An endpoint of OpenAI's embeddings protocol that can fail or keep its callers waiting."""

    down = threading.Event()
    answering = threading.Event()

    def do_POST(self) -> None:
        """Answer each text with a vector of its character counts."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answering.wait(20)
        rows = [
            {"object": "embedding", "index": i, "embedding": [1.0 + text.count(c) for c in "abcd"]}
            for i, text in enumerate(body["input"])
        ]
        reply = json.dumps({"object": "list", "data": rows, "model": body["model"]}).encode()
        self.send_response(503 if self.down.is_set() else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Yield the base URL of an embeddings endpoint."""
    Endpoint.answering.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@contextmanager
def running(store: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a daemon and its address, and check that SIGTERM ends it with code 0."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
    daemon = start(
        serve(store),
        env=outside | settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert daemon.stdout is not None
        line = daemon.stdout.readline()
        assert re.fullmatch(r"vikingd \S+ serving on 127\.0\.0\.1:\d+\n", line)
        yield daemon, line.split()[-1]
        if daemon.poll() is None:
            daemon.terminate()
            assert daemon.wait(10) == 0
    finally:
        daemon.kill()
        daemon.communicate()


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> Iterator[grpc.Channel]:
    """Yield a channel to a daemon whose embedder is the endpoint."""
    with (
        running(
            tmp_path_factory.mktemp("store"),
            VIKINGD_EMBEDDING__PROVIDER="openai",
            VIKINGD_EMBEDDING__OPENAI_BASE_URL=endpoint,
            VIKINGD_EMBEDDING__OPENAI_MODEL="counts",
            VIKINGD_EMBEDDING__DIMENSION="4",
            VIKINGD_EMBEDDING__RETRIES="0",
        ) as (_, address),
        grpc.insecure_channel(address) as opened,
    ):
        yield opened


def failure(
    call: Callable[..., object], request: object, timeout: float = 20
) -> tuple[grpc.StatusCode, str]:
    """Return (code, reason or wrong field) of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=timeout)
    rich = rpc_status.from_call(caught.value)
    info, bad = ErrorInfo(), BadRequest()
    for detail in rich.details if rich else ():
        if detail.Unpack(bad):
            return caught.value.code(), bad.field_violations[0].field
        detail.Unpack(info)
    return caught.value.code(), info.reason


def put(channel: grpc.Channel, *contexts: contexts_pb2.ContextInput) -> int:
    """Write contexts, and return the revision."""
    request = contexts_pb2.PutRequest(contexts=contexts)
    return contexts_pb2_grpc.ContextsStub(channel).Put(request, timeout=20).revision


def test_tree_is_written_found_moved_and_gone(channel: grpc.Channel) -> None:
    """Each call sees all acknowledged calls before it."""
    tree = contexts_pb2_grpc.ContextsStub(channel)
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    top = "viking://resources/flow"
    make = contexts_pb2.ContextInput
    put(
        channel,
        make(uri=f"{top}/a.md", content="zebras graze", vector=floats(1, 2, 3, 4)),
        make(uri=f"{top}/b.md", content="quaggas rest", metadata=to_struct({"n": 1})),
    )
    link = contexts_pb2.LinkRequest(uri=f"{top}/a.md", other_uri=f"{top}/b.md", reason="kin")
    revision = tree.Link(link).revision
    find = retrieval_pb2.FindRequest(query="zebras", target_uri=top, min_revision=revision)
    found = retrieval.Find(find).resources[0]
    assert (found.uri, found.relations[0].reason) == (f"{top}/a.md", "kin")
    got = tree.Get(contexts_pb2.GetRequest(uri=f"{top}/a.md")).context
    assert (got.content, got.relations[0].uri) == ("zebras graze", f"{top}/b.md")
    move = contexts_pb2.MoveRequest(source_uri=top, destination_uri=f"{top}-2/x")
    assert tree.Move(move).moved == 3
    find.target_uri = f"{top}-2"
    assert retrieval.Find(find).resources[0].uri == f"{top}-2/x/a.md"
    find.target_uri = top
    assert failure(retrieval.Find, find) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    assert tree.Delete(contexts_pb2.DeleteRequest(uris=[f"{top}-2"])).deleted == 4
    gone = contexts_pb2.GetRequest(uri=f"{top}-2/x/a.md")
    assert failure(tree.Get, gone) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")


def test_pages_together_are_the_whole_listing(channel: grpc.Channel) -> None:
    """The pages of List and Tree give each context once, in order."""
    tree = contexts_pb2_grpc.ContextsStub(channel)
    top = "viking://resources/pages"
    names = [f"{top}/{name}" for name in ("z", "é", "a", "d/x", "d/y", "c/x")]
    put(channel, *(contexts_pb2.ContextInput(uri=name) for name in names))
    listed, walked = (
        contexts_pb2.ListRequest(uri=top, page_size=2),
        contexts_pb2.TreeRequest(uri=top, page_size=2),
    )
    for request, call, expected in (
        (listed, tree.List, ["a", "z", "é", "c", "d"]),
        (walked, tree.Tree, ["", "a", "c", "c/x", "d", "d/x", "d/y", "z", "é"]),
    ):
        seen = []
        while True:
            reply = call(request)
            seen += [context.uri for context in reply.contexts]
            if not reply.next_page_token:
                break
            request.page_token = reply.next_page_token
        assert seen == [f"{top}/{name}".rstrip("/") for name in expected]


def test_bad_requests_change_nothing(channel: grpc.Channel) -> None:
    """Invalid UTF-8, a bad context of a batch and a too large request write nothing."""
    there = contexts_pb2.ContextInput(uri="viking://resources/bad/a.md")
    put(channel, there)
    tree = contexts_pb2_grpc.ContextsStub(channel)
    good = contexts_pb2.ContextInput(uri="viking://resources/bad/b.md", title="@@")
    bad = contexts_pb2.ContextInput(uri="viking://resources/bad/../c.md")
    request = contexts_pb2.PutRequest(contexts=[good, bad])
    refused = grpc.StatusCode.INVALID_ARGUMENT
    assert failure(tree.Put, request) == (refused, "contexts[1].uri")
    raw = channel.unary_unary("/viking.retrieval.v1.Contexts/Put")
    data = contexts_pb2.PutRequest(contexts=[good]).SerializeToString().replace(b"@@", b"\xff\xff")
    assert failure(raw, data) == (refused, "contexts[0].title")
    huge = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(content="x" * (33 << 20))])
    assert failure(tree.Put, huge)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert failure(tree.Get, contexts_pb2.GetRequest(uri=good.uri))[1] == "NOT_FOUND"
    again = tree.Put(contexts_pb2.PutRequest(contexts=[there]))
    assert again.outcomes == [contexts_pb2.PUT_OUTCOME_UNCHANGED]
    listed = tree.List(contexts_pb2.ListRequest(uri="viking://resources/bad")).contexts
    assert [context.uri for context in listed] == [there.uri]


def test_batch_answers_in_the_order_of_its_requests(channel: grpc.Channel) -> None:
    """The answers of a batch come in the order of its queries; each is that of a single find."""
    top = "viking://resources/batch"
    words = ("aardvark", "bison", "cheetah")
    contexts = [contexts_pb2.ContextInput(uri=f"{top}/{w}.md", content=w) for w in words]
    request = contexts_pb2.PutRequest(contexts=contexts, wait_for_vectors=True)
    contexts_pb2_grpc.ContextsStub(channel).Put(request, timeout=20)
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    requests = [retrieval_pb2.FindRequest(query=word, target_uri=top) for word in words]
    batch = retrieval.BatchFind(retrieval_pb2.BatchFindRequest(requests=requests)).responses
    assert [reply.resources[0].uri for reply in batch] == [f"{top}/{w}.md" for w in words]
    for request, reply in zip(requests, batch, strict=True):
        single = retrieval.Find(request)
        single.ClearField("timings")
        reply.ClearField("timings")
        assert reply == single


def test_a_fault_of_one_query_of_a_batch_names_it(channel: grpc.Channel) -> None:
    """The error of a batch names the query with the fault."""
    put(channel, contexts_pb2.ContextInput(uri="viking://resources/batch2/a.md", content="x"))
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    good = retrieval_pb2.FindRequest(query="x")
    for bad, field in (
        (retrieval_pb2.FindRequest(query="x", limit=5000), "limit"),
        (
            retrieval_pb2.FindRequest(query="x", target_uri="viking://resources/batch2/a.md"),
            "target_uri",
        ),
    ):
        request = retrieval_pb2.BatchFindRequest(requests=[good, good, good, bad, good])
        with pytest.raises(grpc.RpcError) as refused:
            retrieval.BatchFind(request)
        assert refused.value.details().startswith(f"requests[3].{field}: ")  # type: ignore[attr-defined]


def test_reads_wait_for_the_revision_they_ask_for(channel: grpc.Channel) -> None:
    """A read waits for its revision, or fails with REVISION_NOT_REACHED at its deadline."""
    top = "viking://resources/wait"
    tree = contexts_pb2_grpc.ContextsStub(channel)
    revision = put(channel, contexts_pb2.ContextInput(uri=f"{top}/a.md", vector=floats(1, 1, 1, 1)))
    far = contexts_pb2.GetRequest(uri=top, min_revision=revision + 1000)
    late = (grpc.StatusCode.DEADLINE_EXCEEDED, "REVISION_NOT_REACHED")
    # On a busy machine gRPC's own deadline may come first.
    eventually(lambda: failure(tree.Get, far, timeout=1) == late)
    others = [tree.Get.future(far) for _ in range(200)]
    tree.Get(contexts_pb2.GetRequest(uri=top), timeout=20)  # the other calls wait by now
    near = tree.Get.future(contexts_pb2.GetRequest(uri=top, min_revision=revision + 1), timeout=20)
    put(channel, contexts_pb2.ContextInput(uri=f"{top}/b.md"))
    assert near.result().context.uri == top
    assert not any(call.done() for call in others)
    for call in others:
        call.cancel()


def test_failing_embedder_leaves_text_and_says_so(channel: grpc.Channel) -> None:
    """A query is answered by words while the embedder is slow or down, as health shows."""
    uri = "viking://resources/embed/a.md"
    put(channel, contexts_pb2.ContextInput(uri=uri, content="narwhals"))
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    states = health_pb2_grpc.HealthStub(channel)

    def find(query: str) -> retrieval_pb2.FindResponse:
        target = "viking://resources/embed"
        request = retrieval_pb2.FindRequest(query=query, target_uri=target)
        return retrieval.Find(request, timeout=2)

    def embedder_is(status: int) -> bool:
        request = health_pb2.HealthCheckRequest(service="viking.embedder")
        return bool(states.Check(request).status == status)

    eventually(lambda: not find("narwhals").degraded)
    Endpoint.answering.clear()
    try:
        slow = find("narwhals slowly")
    finally:
        Endpoint.answering.set()
    assert slow.resources[0].uri == uri
    assert "did not answer in time" in slow.degraded[0].detail
    Endpoint.down.set()
    try:
        eventually(lambda: bool(find(f"narwhals {time.monotonic()}").degraded))
        down = find("narwhals down")
        ask = retrieval_pb2.RetrieveRequest(query=f"narwhals {time.monotonic()}")
        refused = failure(retrieval.Retrieve, ask)
        ask.degrade = True
        by_words = retrieval.Retrieve(ask, timeout=2)
        eventually(lambda: embedder_is(health_pb2.HealthCheckResponse.NOT_SERVING))
        whole = states.Check(health_pb2.HealthCheckRequest()).status
    finally:
        Endpoint.down.clear()
    assert down.resources[0].uri == uri
    assert refused == (grpc.StatusCode.UNAVAILABLE, "EMBEDDER_FAILED")
    assert by_words.items[0].uri == uri
    assert by_words.degraded[0].detail.endswith("answered by words alone")
    assert "the embedder failed" in down.degraded[0].detail
    assert whole == health_pb2.HealthCheckResponse.SERVING
    eventually(lambda: not find(f"narwhals {time.monotonic()}").degraded)


def test_health_and_reflection_know_the_services(channel: grpc.Channel) -> None:
    """All services are listed and SERVING, and an unknown service is NOT_FOUND."""
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    (reply,) = stub.ServerReflectionInfo(iter([request]))
    listed = {service.name for service in reply.list_services_response.service}
    ours = {f"viking.retrieval.v1.{name}" for name in ("Retrieval", "Contexts", "Admin")}
    assert ours < listed
    states = health_pb2_grpc.HealthStub(channel)
    for service in ("", *ours):
        status = states.Check(health_pb2.HealthCheckRequest(service=service)).status
        assert status == health_pb2.HealthCheckResponse.SERVING
    unknown = health_pb2.HealthCheckRequest(service="viking.unknown")
    assert failure(states.Check, unknown)[0] is grpc.StatusCode.NOT_FOUND


def test_daemon_holds_its_store_and_drains_at_the_end(tmp_path: Path) -> None:
    """A second daemon is refused, and SIGTERM lets running calls end before the exit."""
    settings = {"VIKINGD_EMBEDDING__PROVIDER": "none"}
    with running(tmp_path, **settings) as (daemon, address):
        command = [*serve(tmp_path), "--provider", "none"]
        second = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _, said = second.communicate(timeout=60)
        assert second.returncode == 1
        assert "vikingd: " in said
        assert "Traceback" not in said
        with grpc.insecure_channel(address) as channel:
            tree = contexts_pb2_grpc.ContextsStub(channel)
            asked = contexts_pb2.GetRequest(uri="viking://", min_revision=1 << 40)
            call = tree.Get.future(asked, timeout=2)
            tree.Get(contexts_pb2.GetRequest(uri="viking://"), timeout=20)  # the first waits by now
            daemon.send_signal(signal.SIGTERM)
            assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert daemon.wait(10) == 0


def test_calls_that_wait_at_the_end_are_answered(tmp_path: Path) -> None:
    """After SIGTERM each of many calls is answered or UNAVAILABLE, and none is cancelled."""
    with (
        running(tmp_path, VIKINGD_EMBEDDING__PROVIDER="none") as (daemon, address),
        grpc.insecure_channel(address) as channel,
    ):
        find = retrieval_pb2_grpc.RetrievalStub(channel).Find
        calls = [find.future(retrieval_pb2.FindRequest(query="tea")) for _ in range(200)]
        calls[0].result(20)
        daemon.send_signal(signal.SIGTERM)
        codes = {call.code() for call in calls}
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
        assert daemon.wait(10) == 0
