"""Tracing: the spans of a daemon, as a collector on loopback receives them."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.access.attack_helpers import HIDDEN, SHARED, fort, get
from tests.commands import serve
from tests.metrics_helpers import ROOT, running
from tests.patience import eventually
from tests.wire.wire_helpers import floats as vector
from vikingd import __version__
from vikingd.client import Draft
from vikingd.pb import contexts_pb2, contexts_pb2_grpc, retrieval_pb2, retrieval_pb2_grpc
from vikingd.system.install_command import install_command
from vikingd.telemetry.tracing import Tracing

SERVICE = "viking.retrieval.v1"
PARENT = "00f067aa0ba902b7"
_numbers = itertools.count(1)


class Collector:
    """A collector of OTLP over HTTP at `url`."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        requests = self.requests

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self, trace: str) -> list[Span]:
        """Return the spans of a trace, in the order in which they ended."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if span.trace_id.hex() == trace
        ]

    def call(self, trace: str) -> tuple[Span, list[Span]]:
        """Return the span of the one call in a trace, and the spans below it."""
        eventually(lambda: any(s.kind == Span.SPAN_KIND_SERVER for s in self.spans(trace)))
        *stages, call = self.spans(trace)
        assert call.kind == Span.SPAN_KIND_SERVER
        return call, stages

    def resource(self) -> dict[str, str]:
        """Return the attributes of the daemon."""
        attributes = self.requests[0].resource_spans[0].resource.attributes
        return {a.key: a.value.string_value for a in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Yield a collector, and close its port afterwards."""
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


def tracing_to(url: str, **more: str) -> dict[str, str]:
    """Return the environment of a daemon that exports spans to a URL."""
    own = {k: "" for k in os.environ if k.startswith("OTEL_")}
    return (
        own
        | {
            "VIKINGD_TRACING": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "no_proxy": "127.0.0.1",
        }
        | more
    )


@contextmanager
def closed() -> Iterator[int]:
    """Yield a port on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    yield port


@contextmanager
def silent() -> Iterator[int]:
    """Yield a port that accepts requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """Yield the collector to which the daemon of `channel` exports."""
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def channel(
    collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[grpc.Channel]:
    """Yield a channel to a daemon with three files, a fast export and no reachable embedder."""
    store = tmp_path_factory.mktemp("tracing") / "store"
    with closed() as port:
        environment = tracing_to(
            collector.url,
            OTEL_BSP_SCHEDULE_DELAY="20",
            VIKINGD_EMBEDDING__OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1",
            VIKINGD_EMBEDDING__OPENAI_MODEL="absent",
            VIKINGD_EMBEDDING__DIMENSION="2",
            VIKINGD_EMBEDDING__RETRIES="0",
        )
    with running(store, "--provider", "openai", **environment) as daemon:
        daemon.client.put(
            [Draft(f"{ROOT}/{n}.md", content=f"harbour {n}", vector=vector(1, n)) for n in range(3)]
        )
        with grpc.insecure_channel(daemon.address) as made:
            yield made


def called(sampled: bool = True) -> tuple[str, Any]:
    """Return the id of a new trace, and the metadata of a call in it."""
    trace = f"{next(_numbers):032x}"
    return trace, (("traceparent", f"00-{trace}-{PARENT}-{sampled:02d}"),)


def attributes(span: Span) -> dict[str, Any]:
    """Return the attributes as Python values."""
    return {a.key: getattr(a.value, str(a.value.WhichOneof("value"))) for a in span.attributes}


def as_grpc(method: str, code: grpc.StatusCode) -> dict[str, Any]:
    """Return the attributes that the RPC conventions require of a span."""
    service, rpc = method.split("/")
    return {
        "rpc.system": "grpc",
        "rpc.service": service,
        "rpc.method": rpc,
        "rpc.grpc.status_code": code.value[0],
    }


FIND = retrieval_pb2.FindRequest(query="harbour", vector=vector(1, 0))
RETRIEVE = retrieval_pb2.RetrieveRequest(query="harbour", vector=vector(1, 0))
CONTEXT = retrieval_pb2.BuildContextRequest(find=FIND)


@pytest.mark.parametrize(
    ("rpc", "request_", "stages"),
    [
        ("Find", FIND, ["embed", "plan", "score", "reply"]),
        ("Retrieve", RETRIEVE, ["embed", "plan", "vector", "keyword", "fuse", "reply"]),
        ("BuildContext", CONTEXT, ["embed", "plan", "score", "reply", "build"]),
    ],
)
def test_a_call_is_a_span_of_the_caller_s_trace_with_its_stages_below(
    collector: Collector, channel: grpc.Channel, rpc: str, request_: Any, stages: list[str]
) -> None:
    """A span has the standard's name, kind, parent and attributes, and its timed stages."""
    trace, metadata = called()
    ask = getattr(retrieval_pb2_grpc.RetrievalStub(channel), rpc)
    before = time.time_ns()
    reply = ask(request_, metadata=metadata, timeout=20)
    span, below = collector.call(trace)
    assert span.name == f"{SERVICE}.Retrieval/{rpc}"
    assert span.parent_span_id.hex() == PARENT
    assert attributes(span) == as_grpc(span.name, grpc.StatusCode.OK)
    assert span.status.code == Status.STATUS_CODE_UNSET
    assert before < span.start_time_unix_nano < span.end_time_unix_nano < time.time_ns()
    assert [stage.name for stage in below] == stages
    assert {stage.parent_span_id for stage in below} == {span.span_id}
    edges = [span.start_time_unix_nano]
    for stage in sorted(below, key=lambda s: s.start_time_unix_nano):  # sequential in this test
        edges += [stage.start_time_unix_nano, stage.end_time_unix_nano]
    edges.append(span.end_time_unix_nano)
    assert edges == sorted(edges)
    seconds = [s.end_time_unix_nano - s.start_time_unix_nano for s in below]
    assert seconds == pytest.approx([t.duration.ToNanoseconds() for t in reply.timings], abs=2000)


def test_a_batch_has_the_stages_of_each_of_its_queries(
    collector: Collector, channel: grpc.Channel
) -> None:
    """A batch has one stage for all vectors, and the other stages once for each query."""
    trace, metadata = called()
    retrieval_pb2_grpc.RetrievalStub(channel).BatchFind(
        retrieval_pb2.BatchFindRequest(requests=[FIND, FIND]), metadata=metadata, timeout=20
    )
    _, below = collector.call(trace)
    assert [stage.name for stage in below] == ["embed", *["plan", "score", "reply"] * 2]


def test_only_a_fault_of_the_server_is_an_error_of_the_span(
    collector: Collector, channel: grpc.Channel
) -> None:
    """Each span has the code, and only a server fault is an error with the message of the reply."""
    retrieve = retrieval_pb2_grpc.RetrievalStub(channel).Retrieve
    for request, code, is_error in (
        (retrieval_pb2.RetrieveRequest(), grpc.StatusCode.INVALID_ARGUMENT, False),
        (retrieval_pb2.RetrieveRequest(query="tea"), grpc.StatusCode.UNAVAILABLE, True),
    ):
        trace, metadata = called()
        with pytest.raises(grpc.RpcError) as caught:
            retrieve(request, metadata=metadata, timeout=20)
        assert caught.value.code() is code
        span, below = collector.call(trace)
        assert span.parent_span_id.hex() == PARENT
        assert attributes(span) == as_grpc(f"{SERVICE}.Retrieval/Retrieve", code)
        assert (span.status.code == Status.STATUS_CODE_ERROR) is is_error
        assert span.status.message == (caught.value.details() if is_error else "")
        assert (below, list(span.events)) == ([], [])


def test_a_call_that_is_given_up_is_a_span_too(collector: Collector, channel: grpc.Channel) -> None:
    """A cancelled call has the code CANCELLED, and is no error of the server."""
    trace, metadata = called()
    request = contexts_pb2.GetRequest(uri=ROOT, min_revision=1 << 40)
    tree = contexts_pb2_grpc.ContextsStub(channel)
    call = tree.Get.future(request, metadata=metadata)
    tree.Get(contexts_pb2.GetRequest(uri="viking://"), timeout=20)  # the first call waits by now
    call.cancel()
    span, _ = collector.call(trace)
    assert attributes(span)["rpc.grpc.status_code"] == grpc.StatusCode.CANCELLED.value[0]
    assert span.status.code == Status.STATUS_CODE_UNSET


def test_what_is_not_asked_for_is_no_span(collector: Collector, channel: grpc.Channel) -> None:
    """Health checks and calls that are not sampled make no span."""
    checked, metadata = called()
    health_pb2_grpc.HealthStub(channel).Check(
        health_pb2.HealthCheckRequest(), metadata=metadata, timeout=20
    )
    unsampled, metadata_of_unsampled = called(sampled=False)
    stub = retrieval_pb2_grpc.RetrievalStub(channel)
    stub.Find(FIND, metadata=metadata_of_unsampled, timeout=20)
    last, metadata_of_last = called()
    stub.Find(FIND, metadata=metadata_of_last, timeout=20)
    collector.call(last)
    assert collector.spans(checked) == collector.spans(unsampled) == []


@pytest.mark.deep
def test_what_waits_is_exported_at_the_end_under_the_daemon_s_name(tmp_path: Path) -> None:
    """A stop exports all waiting spans at once, with the daemon's name and version."""
    with collecting() as collector:
        environment = tracing_to(collector.url, OTEL_BSP_SCHEDULE_DELAY="600000")
        with running(tmp_path / "store", "--provider", "none", **environment) as daemon:
            for _ in range(3):
                daemon.client.find("harbour")
            assert not collector.requests
        spans = [s for r in collector.requests for s in r.resource_spans[0].scope_spans[0].spans]
        calls = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
        assert len(calls) == 3
        assert len(spans) == 15
        assert [span.parent_span_id for span in calls] == [b""] * 3  # the caller has no trace
        assert len({span.trace_id for span in spans}) == 3
        said = collector.resource()
        assert (said["service.name"], said["service.version"]) == ("vikingd", __version__)


@pytest.mark.deep
def test_the_environment_names_the_service(tmp_path: Path) -> None:
    """OTEL_SERVICE_NAME wins over the daemon's own name."""
    with collecting() as collector:
        environment = tracing_to(collector.url, OTEL_SERVICE_NAME="memory")
        with running(tmp_path / "store", "--provider", "none", **environment) as daemon:
            daemon.client.find("harbour")
        assert collector.resource()["service.name"] == "memory"


@pytest.mark.parametrize("port", [closed, silent])
def test_a_dead_collector_holds_up_no_call(
    port: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans beyond the export buffer are dropped, and calls and the end do not wait."""

    class Context:
        def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
            return ()

    async def call(request: int, _: object) -> int:
        return request

    with port() as number:
        for name, value in tracing_to(f"http://127.0.0.1:{number}").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
        monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "32")
        tracing = Tracing()
        spanned = tracing.traced("/package.Service/Call", call)

        async def calls() -> list[int]:
            return [await spanned(i, Context()) for i in range(200)]

        assert asyncio.run(calls()) == list(range(200))
        started = time.monotonic()
        tracing.close(0.2)
        assert time.monotonic() - started < 8  # an attempt at an export takes 10 s


@pytest.mark.deep
@pytest.mark.parametrize("port", [closed, silent])
def test_a_dead_collector_is_of_no_consequence(port: Callable[[], Any], tmp_path: Path) -> None:
    """Finds beyond the export buffer are answered while the collector is dead or silent."""
    with port() as number:
        environment = tracing_to(
            f"http://127.0.0.1:{number}",
            OTEL_BSP_SCHEDULE_DELAY="20",
            OTEL_BSP_MAX_QUEUE_SIZE="64",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="32",
        )
        with running(tmp_path / "store", "--provider", "none", **environment) as daemon:
            for _ in range(100):
                assert daemon.client.find("harbour").total == 0


@contextmanager
def without_the_packages(store: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a daemon whose Python cannot import OpenTelemetry."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None; "
        "import vikingd.daemon.server as s; s.main()"
    )
    own = {k: v for k, v in os.environ.items() if not k.startswith(("VIKINGD_", "OTEL_"))}
    daemon = subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--path",
            str(store),
            "--provider",
            "none",
            "--config",
            os.devnull,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=own | environment,
    )
    try:
        yield daemon
    finally:
        daemon.kill()
        daemon.communicate()


@pytest.mark.deep
def test_it_is_off_by_default_and_needs_no_packages_then(tmp_path: Path) -> None:
    """The daemon starts without OpenTelemetry if tracing is off."""
    with without_the_packages(tmp_path / "store") as daemon:
        assert daemon.stdout is not None
        assert "serving on" in daemon.stdout.readline()
        daemon.terminate()
        assert daemon.wait(30) == 0


@pytest.mark.deep
def test_without_the_packages_the_start_is_refused_with_the_install_line(tmp_path: Path) -> None:
    """The daemon ends with code 2 and the install command, and makes no store."""
    with without_the_packages(tmp_path / "store", VIKINGD_TRACING="1") as daemon:
        assert daemon.stderr is not None
        assert daemon.wait(60) == 2
        err = daemon.stderr.read()
    assert err == (
        "vikingd: tracing: opentelemetry is not installed; install it with: "
        f"{install_command('otel')}\n"
    )
    assert not (tmp_path / "store").exists()


@pytest.mark.deep
def test_an_exporter_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The daemon ends with code 2 and one line that names the missing exporter."""
    done = subprocess.run(
        serve(tmp_path / "store", "--provider", "none"),
        env={**os.environ, "VIKINGD_TRACING": "1", "OTEL_TRACES_EXPORTER": "pigeon"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "vikingd: tracing: no exporter pigeon is installed; otlp and console come with "
        f"{install_command('otel')} (from OTEL_* in the environment)\n"
    )


def test_spans_hold_no_secret_no_text_and_no_name(tmp_path: Path) -> None:
    """The collector learns methods, statuses and times of keyed calls, refused ones included."""
    with collecting() as collector:
        environment = tracing_to(collector.url, OTEL_BSP_SCHEDULE_DELAY="20")
        with fort(tmp_path, **environment) as target:
            put = contexts_pb2.PutRequest(
                contexts=[contexts_pb2.ContextInput(uri=SHARED, content="of oolong")]
            )
            find = retrieval_pb2.FindRequest(query="oolong", target_uri="viking://users/bob")
            target.keys["wrong"] = target.keys["ana"][:-4] + "0000"
            codes = [
                target.tries(name, service, method, request)[0]
                for name in ("ana", "wrong")
                for service, method, request in (
                    ("contexts", "Get", get(SHARED)),
                    ("contexts", "Get", get(HIDDEN)),
                    ("contexts", "Put", put),
                    ("retrieval", "Find", find),
                )
            ]
            refused = ["UNAUTHENTICATED"] * 4
            assert codes == ["OK", "NOT_FOUND", "PERMISSION_DENIED", "NOT_FOUND", *refused]
        exported = b"".join(request.SerializeToString() for request in collector.requests)
        assert exported.count(b"Contexts/Get") >= 2
        secrets = [*target.keys.values(), *(key[3:11] for key in target.keys.values())]
        for text in (*secrets, "oolong", "viking://", "acme", "bob", str(tmp_path)):
            assert text.encode() not in exported
