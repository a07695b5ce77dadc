"""The errors of the gateway: their form, their codes, and that bad input is never a 500."""

from __future__ import annotations

import json
import re
import socket
import string
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.gateway.gateway_helpers import JSON, NOTE, Gateway, fields, gateway_of, reason, response
from tests.metrics_helpers import Daemon, free_address, running
from tests.patience import eventually
from tests.tiers import examples
from vikingd.client import Draft
from vikingd.client.messages import MessageClient
from vikingd.gateway.http_errors import HTTP
from vikingd.gateway.json_form import MOST_VALUES
from vikingd.gateway.rpcs import RPCS

DEEP = "[" * 50_000 + "]" * 50_000


def post(gateway: Gateway, body: bytes | str, path: str = "/v1/find") -> httpx.Response:
    """Send a body as JSON."""
    return gateway.http.post(path, content=body, headers=JSON)


def test_each_code_of_grpc_has_a_status() -> None:
    """The table has each code but OK, and no bad input is among the faults of the server."""
    assert set(HTTP) == set(grpc.StatusCode) - {grpc.StatusCode.OK}
    faults = {code.name for code, status in HTTP.items() if status == 500}
    assert faults == {"INTERNAL", "UNKNOWN", "DATA_LOSS"}


def test_errors_of_the_daemon_keep_their_details(gateway: Gateway, client: MessageClient) -> None:
    """An error has the code, the message and the details of gRPC's error."""
    reply = gateway.post("get", {"uri": "viking://resources/none"})
    assert (reply.status_code, reason(reply)) == (404, "NOT_FOUND")
    assert reply.json()["code"] == 5
    assert reply.json()["details"][0]["metadata"] == {"uri": "viking://resources/none"}
    reply = gateway.post("put", {"contexts": [{"uri": "viking://x/../y"}]})
    assert (reply.status_code, fields(reply)) == (400, ["contexts[0].uri"])
    client.put([Draft(NOTE, content="x")])
    move = {"sourceUri": NOTE, "destinationUri": NOTE + "2"}
    client.put([Draft(NOTE + "2", content="x")])
    assert gateway.post("move", move).status_code == 409
    assert reason(gateway.post("move", move)) == "ALREADY_EXISTS"
    reembed = gateway.post("reembed", {})
    assert (reembed.status_code, reason(reembed)) == (400, "INVALID_FIELD")


LIBRARIES = re.compile(
    r"invalid literal|Couldn't|Failed to parse|int\(\)|bytes-like|has no len|Enum"
)
"""Words of Python and of protobuf."""


@pytest.mark.parametrize(
    ("name", "field", "said"),
    [
        (
            "find?query=a&limit=abc",
            "limit",
            'must be a whole number from 0 to 4,294,967,295, not "abc"',
        ),
        ("find?query=a&limit=", "limit", "must be a whole number"),
        ("find?query=a&limit=-1", "limit", "must be a whole number"),
        ("find?query=a&alpha=x", "alpha", 'must be a number, not "x"'),
        ("find?query=a&trace=1", "trace", "must be true or false"),
        ("find?query=a&contextTypes=x", "context_types[0]", "must be one of CONTEXT_TYPE_"),
        ("tree?uri=viking://&depth=x", "depth", "must be a whole number"),
        ("tree?uri=viking://&timeout=x", "timeout", "is not a number of seconds"),
    ],
)
def test_a_bad_parameter_names_its_fault(
    gateway: Gateway, name: str, field: str, said: str
) -> None:
    """A parameter of a URL with a wrong value is 400, and the error says what it must be."""
    reply = gateway.get(f"/v1/{name}")
    assert (reply.status_code, fields(reply)) == (400, [field]), reply.text
    assert said in reply.json()["message"]
    assert not LIBRARIES.search(reply.text), reply.text


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ("{", "body", "not valid JSON"),
        ("[1]", "body", "must be an object"),
        ('"a"', "body", "must be an object"),
        ("null", "body", "must be an object"),
        ('{"query": "a", "query": "b"}', "body", "there twice"),
        ('{"where": {"a": {"b": 1, "b": 2}}}', "body", "there twice"),
        ('{"alpha": NaN}', "body", "NaN"),
        ('{"alpha": -Infinity}', "body", "Infinity"),
        ('{"alpha": 1e999}', "alpha", ""),
        (f'{{"where": {{"a": {DEEP}}}}}', "body", "nested too deeply"),
        (f'{{"where": {{"a": {DEEP[49_800:50_200]}}}}}', "where", ""),
        (DEEP, "body", "nested too deeply"),
        (b'{"query": "\xff"}', "body", "UTF-8"),
        ('{"query": "\\ud800"}', "body", ""),
        (
            '{"limit": "many"}',
            "limit",
            'must be a whole number from 0 to 4,294,967,295, not "many"',
        ),
        ('{"limit": -1}', "limit", "must be a whole number from 0 to 4,294,967,295, not -1"),
        ('{"limit": 1.5}', "limit", "must be a whole number from 0"),
        ('{"limit": true}', "limit", "must be a whole number from 0"),
        ('{"limit": 99999999999}', "limit", "must be a whole number from 0"),
        ('{"trace": "yes"}', "trace", 'must be true or false, not "yes"'),
        ('{"alpha": "half"}', "alpha", 'must be a number, not "half"'),
        ('{"query": 5}', "query", "must be text, not 5"),
        ('{"vector": 5}', "vector", "must be text in base64, not 5"),
        ('{"contextTypes": {"a": 1}}', "contextTypes", "must be a list, not"),
        ('{"limit": ' + "9" * 5000 + "}", "body", ""),
        ('{"limit": [1]}', "limit", "must be a whole number from 0"),
        ('{"levels": "ALL"}', "levels", "must be one of LEVELS_"),
        ('{"vector": "%%"}', "vector", ""),
        ('{"query": {"a": 1}}', "query", ""),
        ('{"contextTypes": [1, null]}', "contextTypes[1]", ""),
        ('{"contextTypes": 1}', "contextTypes", "must be a list, not 1"),
        ('{"querry": "a"}', "querry", "query, vector, targetUri"),
        ('{"where": 3}', "where", "must be an object, not 3"),
        ('{"[a.b]": 1}', "[a.b]", "is not a field"),
        ('{"targetUri": "a", "target_uri": "b"}', "target_uri", "two names"),
    ],
)
def test_a_bad_body_names_its_fault(
    gateway: Gateway, body: str | bytes, field: str, said: str
) -> None:
    """A malformed request is 400, and the error names the field."""
    reply = post(gateway, body)
    assert (reply.status_code, reason(reply)) == (400, "INVALID_FIELD"), reply.text
    assert fields(reply) == [field]
    assert said in reply.json()["message"]
    assert not LIBRARIES.search(reply.text), reply.text
    assert len(reply.text) < 4096


@pytest.mark.parametrize(
    ("rpc", "request_", "field"),
    [
        ("batch_find", {"requests": [{}, {"querry": "a"}]}, "requests[1].querry"),
        ("batch_find", {"requests": [{"where": []}]}, "requests[0].where"),
        ("build_context", {"find": {"limit": "x"}}, "find.limit"),
        ("build_context", {"find": {}, "retrieve": {}}, "body"),
        (
            "put",
            {"contexts": [{}, {"passages": [{}, {"vector": "a%"}]}]},
            "contexts[1].passages[1].vector",
        ),
        ("put", {"contexts": [{"title": "a"}, 3]}, "contexts[1]"),
        ("put", {"contexts": [{"updateMask": 5}]}, "contexts[0].updateMask"),
        ("create_key", {"expireTime": "tomorrow"}, "expireTime"),
        ("create_key", {"limits": {"contexts": -1}}, "limits.contexts"),
        ("rotate_key", {"grace": "1 day"}, "grace"),
        ("search", {"session": {"messages": [{"rolle": ""}]}}, "session.messages[0].rolle"),
    ],
)
def test_a_nested_fault_is_named_by_its_path(
    gateway: Gateway, rpc: str, request_: Any, field: str
) -> None:
    """The path of a field leads through lists and messages."""
    reply = gateway.post(rpc, request_)
    assert (reply.status_code, fields(reply)) == (400, [field]), reply.text


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("q=a&limitt=1", "limitt"),
        ("q=a&where=b", "where"),
        ("q=a&q=b", "q"),
        ("q=a&query=b", "query"),
        ("q=a&limit=x", "limit"),
        ("q=a&trace=1", "trace"),
        ("q=%ff", "query"),
        ("q=a&timeout=", "timeout"),
        ("q=a&timeout=x", "timeout"),
        ("q=a&timeout=nan", "timeout"),
        ("q=a&timeout=-1", "timeout"),
        ("q=a&timeout=0", "timeout"),
        ("q=a&timeout=86401", "timeout"),
        ("q=a&timeout=1e3", "timeout"),
        ("q=a&timeout=1&timeout=1", "timeout"),
        ("&".join(f"a{i}=" for i in range(101)), "query"),
    ],
)
def test_a_bad_parameter_is_named(gateway: Gateway, query: str, field: str) -> None:
    """Parameters are checked as strictly as bodies."""
    reply = gateway.get(f"/v1/find?{query}")
    assert (reply.status_code, fields(reply)) == (400, [field]), reply.text


def test_parameters_of_a_post_are_checked(gateway: Gateway) -> None:
    """A POST has one parameter, the timeout."""
    assert post(gateway, '{"query": "a"}', "/v1/find?timeout=2.5").status_code == 200
    reply = post(gateway, '{"query": "a"}', "/v1/find?limit=1")
    assert (reply.status_code, fields(reply)) == (400, ["limit"])


def test_unknown_paths_and_methods_are_told(gateway: Gateway) -> None:
    """An unknown path is 404, another method 405 with those that are allowed."""
    for method, path in (
        ("GET", "/v1"),
        ("GET", "/v1/nothing/more"),
        ("POST", "/v1/nothing"),
        ("POST", "/nothing"),
        ("GET", "/v1/contextsx"),
        ("PUT", "/page"),
        ("GET", "//v1/find"),
    ):
        reply = gateway.http.request(method, path, headers=JSON)
        assert (reply.status_code, reason(reply)) == (404, "NO_SUCH_PATH"), (method, path)
    for method, path, allowed in (
        ("PUT", "/v1/find", {"GET", "HEAD", "POST"}),
        ("GET", "/v1/put", {"POST"}),
        ("GET", "/mcp", {"POST"}),
        ("POST", "/v1/contexts/resources/a", {"GET", "HEAD", "PUT", "DELETE"}),
        ("PUT", "/session", {"GET", "HEAD", "POST", "DELETE"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("OPTIONS", "/v1/docs", {"GET", "HEAD"}),
    ):
        reply = gateway.http.request(method, path, headers=JSON)
        assert (reply.status_code, reason(reply)) == (405, "METHOD_NOT_ALLOWED"), (method, path)
        assert set(reply.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "text/plain; application/json"},
    ],
)
def test_a_body_must_be_json(gateway: Gateway, headers: dict[str, str]) -> None:
    """A body that a foreign page may send without asking is refused."""
    for path in ("/v1/find", "/v1/backup", "/session", "/mcp"):
        reply = gateway.http.post(path, content=b"{}", headers=headers)
        assert (reply.status_code, reason(reply)) == (415, "UNSUPPORTED_MEDIA_TYPE"), path
    reply = gateway.http.post("/v1/find", content=b'{"query": "a"}', headers=JSON)
    assert reply.status_code == 200
    wide = {"content-type": "Application/JSON; Charset=UTF-8"}
    assert gateway.http.post("/v1/find", content=b'{"query": "a"}', headers=wide).status_code == 200


def test_a_context_is_json_or_text(gateway: Gateway) -> None:
    """PUT refuses other types, text that is not UTF-8, and what the path says already."""
    path = "/v1/contexts/resources/a.md"
    for kind in ("", "text/html", "application/octet-stream"):
        reply = gateway.http.put(path, content=b"x", headers={"content-type": kind})
        assert reply.status_code == 415
    reply = gateway.http.put(path, content=b"\xff", headers={"content-type": "text/plain"})
    assert (reply.status_code, fields(reply)) == (400, ["body"])
    reply = gateway.http.put(path, json={"uri": "viking://resources/b.md"})
    assert (reply.status_code, fields(reply)) == (400, ["uri"])
    reply = gateway.http.put(path, json={"expectedRevision": 1}, headers={"if-match": '"1"'})
    assert (reply.status_code, fields(reply)) == (400, ["expectedRevision"])
    reply = gateway.http.put(path, json=["a"])
    assert reply.status_code == 400
    reply = gateway.http.put(path, json={"contentt": "a"})
    assert (reply.status_code, fields(reply)) == (400, ["contexts[0].contentt"])
    assert gateway.get("/v1/contexts/%ff").status_code == 400
    assert gateway.get(path).status_code == 404  # nothing of this has written it


def test_a_large_body_is_refused_unread(daemon: str, tmp_path: Path) -> None:
    """A body beyond the limit is 413: by its declared length at once, otherwise when it passes."""
    small = tmp_path / "small.toml"
    small.write_text("[limits]\nmax_message_bytes = 100_000\n")
    with gateway_of(daemon, tmp_path, "--config", str(small)) as gateway:
        head = f"POST /v1/find HTTP/1.1\nhost: {gateway.host}\ncontent-type: application/json\n"
        status, body = gateway.raw(f"{head}content-length: 100001")
        assert (status, json.loads(body)["code"]) == (413, 3)
        chunk = b"3e8\r\n" + b" " * 1000 + b"\r\n"
        status, body = gateway.raw(f"{head}transfer-encoding: chunked", 101 * chunk)
        assert status == 413
        assert "limits.max_message_bytes" in json.loads(body)["message"]
        assert post(gateway, '{"query": "a"}'.ljust(100_000)).status_code == 200
        # Numbers are longer as protobuf than as JSON.
        many = {"where": {"$or": [{"a": {"$in": [0] * 20_000}}]}}
        assert len(json.dumps(many, separators=(",", ":"))) < 100_000
        assert gateway.post("find", many).status_code == 413


def test_the_limit_of_the_daemon_is_told(tmp_path: Path) -> None:
    """A body that only the daemon finds too large is 413, too."""
    small = tmp_path / "small.toml"
    small.write_text("[limits]\nmax_message_bytes = 100_000\n")
    with (
        running(tmp_path / "store", "--provider", "none", "--config", str(small)) as daemon,
        gateway_of(daemon.address, tmp_path) as gateway,
    ):
        put = {"contexts": [{"uri": NOTE, "content": "x" * 200_000}]}
        assert gateway.post("put", put).status_code == 413


@pytest.mark.deep
def test_large_bodies_are_bounded_together(daemon: str, tmp_path: Path) -> None:
    """Beyond the limit for all large bodies a request waits no longer, but small ones pass."""
    changed = "from vikingd.gateway import body_reading\nbody_reading.MOST_HELD = 300_000"
    with gateway_of(daemon, tmp_path, changed=changed) as gateway:
        head = f"POST /v1/find HTTP/1.1\nhost: {gateway.host}\ncontent-type: application/json\n"
        begun = f"{head}content-length: 200000\nexpect: 100-continue\n\n".replace("\n", "\r\n")
        with gateway.connect() as first:
            first.sendall(begun.encode())
            assert first.recv(1000).startswith(b"HTTP/1.1 100")  # the body is counted from now on
            large = json.dumps({"query": "a"}).ljust(200_000)
            refused = post(gateway, large)
            assert (refused.status_code, reason(refused)) == (429, "OVERLOADED")
            assert refused.headers["retry-after"] == "1"
            assert post(gateway, '{"query": "a"}').status_code == 200
            first.sendall(large.encode())
            assert response(first)[0] == 200
        assert post(gateway, large).status_code == 200


@pytest.mark.deep
def test_a_body_of_very_many_values_is_refused_soon(gateway: Gateway) -> None:
    """Small values are costly; a request has a limit of their number, and holds up no other."""
    many = b'{"requests": [' + b",".join([b"{}"] * (MOST_VALUES - 2)) + b"]}"
    too_many = b'{"requests": [' + b",".join([b"{}"] * (1 << 20)) + b"]}"
    started = time.perf_counter()
    reply = post(gateway, too_many, "/v1/batch_find")
    refused = time.perf_counter() - started
    assert (reply.status_code, f"{MOST_VALUES:,} values" in reply.text) == (413, True)
    with ThreadPoolExecutor(1) as pool:
        started = time.perf_counter()
        heavy = pool.submit(post, gateway, many, "/v1/batch_find")
        longest = 0.0
        while not heavy.done():
            before = time.perf_counter()
            assert gateway.get("/session").status_code == 200
            longest = max(longest, time.perf_counter() - before)
    taken = time.perf_counter() - started
    assert reason(heavy.result()) == "INVALID_FIELD"
    assert refused < taken
    assert longest < taken / 3


def test_a_slow_body_is_ended(daemon: str, tmp_path: Path) -> None:
    """A body that does not arrive in time is 408."""
    changed = "from vikingd.gateway import body_reading\nbody_reading.SECONDS = 0.3"
    with gateway_of(daemon, tmp_path, changed=changed) as gateway:
        head = f"POST /v1/find HTTP/1.1\nhost: {gateway.host}\ncontent-type: application/json\n"
        status, body = gateway.raw(f"{head}content-length: 10", b"{")
        assert (status, json.loads(body)["details"][0]["reason"]) == (408, "BODY_TOO_SLOW")


def test_deadlines_are_those_of_the_caller(gateway: Gateway, client: MessageClient) -> None:
    """?timeout= is the deadline of the call."""
    client.put([Draft(NOTE, content="x")])
    later = client.stats().revision + 1000
    for reply in (
        post(gateway, json.dumps({"uri": NOTE, "minRevision": later}), "/v1/get?timeout=0.2"),
        gateway.get(f"/v1/tree?minRevision={later}&timeout=0.2"),
        gateway.get(f"/v1/contexts/resources/notes/tea.md?min_revision={later}&timeout=0.2"),
    ):
        assert reply.status_code == 504
        assert reason(reply) in ("REVISION_NOT_REACHED", "TIMED_OUT")


def test_a_client_that_goes_away_cancels_its_call(tmp_path: Path) -> None:
    """The daemon learns from a reset connection that nobody waits for the answer any more."""
    with (
        running(tmp_path / "store", "--provider", "none") as daemon,
        gateway_of(daemon.address, tmp_path) as gateway,
    ):
        waiting = f"GET /v1/tree?minRevision=1000000 HTTP/1.1\r\nhost: {gateway.host}\r\n\r\n"

        def is_cancelled() -> bool:
            with gateway.connect() as connection:
                connection.sendall(waiting.encode())
                time.sleep(0.3)  # a call that has not begun by then is not seen: try again
                # Without a reset it looks like a client that has sent all, and waits for the reply.
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return "method=Tree code=CANCELLED" in daemon.stderr

        eventually(is_cancelled)
        assert gateway.get("/v1/find?q=a").status_code == 200
        assert "Traceback" not in gateway.log


@pytest.mark.deep
def test_a_client_that_leaves_a_backup_cancels_it(tmp_path: Path) -> None:
    """A backup ends with its client, and another one can run."""
    with (
        running(tmp_path / "store", "--provider", "none") as daemon,
        gateway_of(daemon.address, tmp_path) as gateway,
    ):
        for letter in string.ascii_lowercase:  # more than all buffers of the way hold
            text = letter * 1_900_000
            daemon.client.put([Draft(f"viking://resources/{letter}.md", content=text)])
        head = f"POST /v1/backup HTTP/1.1\r\nhost: {gateway.host}\r\n"
        with gateway.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            rest = "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
            connection.sendall(f"{head}{rest}".encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        eventually(lambda: "method=Backup code=CANCELLED" in daemon.stderr)
        eventually(lambda: gateway.http.post("/v1/backup", json={}).status_code == 200)


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_a_daemon_that_is_away_is_told_and_found_again(tmp_path: Path, times: int) -> None:
    """Without a daemon a call is 503 and /healthz too; the gateway finds the daemon again."""
    address = free_address()
    started = Daemon(tmp_path / "store", tmp_path / "a.log", "--provider", "none")
    started.stop()
    with gateway_of(address, tmp_path) as gateway:
        reply = gateway.get("/v1/find?q=a")
        assert (reply.status_code, reason(reply)) == (503, "UNREACHABLE")
        assert address not in reply.text
        health = gateway.get("/healthz")
        assert (health.status_code, health.json()) == (503, {"status": "NOT_SERVING"})
        for _ in range(times):
            listen = ("--listen", address, "--provider", "none")
            daemon = Daemon(tmp_path / "store", tmp_path / "b.log", *listen)
            try:
                eventually(lambda: gateway.get("/v1/find?q=a").status_code == 200)
                assert gateway.get("/healthz").status_code == 200
            finally:
                assert daemon.stop() == 0
            assert gateway.get("/v1/find?q=a").status_code == 503
        assert 'event="request failed"' in gateway.log


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["viking://resources", "9" * 30, "2026-03-04T05:06:07Z", "1s", "AAAA"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@st.composite
def _requests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return an RPC, and an object with some of its fields and any values.

    With the first key, which is left out, a daemon needs one for each call.
    """
    rpc = RPCS[draw(st.sampled_from(sorted(set(RPCS) - {"backup", "create_key"})))]
    names = [field.json_name for field in rpc.descriptor.input_type.fields] + ["other"]
    return rpc.name, draw(st.dictionaries(st.sampled_from(names), _VALUES, max_size=4))


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_requests())
def test_no_request_is_a_fault_of_the_gateway(
    gateway: Gateway, request_: tuple[str, dict[str, Any]]
) -> None:
    """Any JSON for any RPC is answered by 200, or by an error in its form that is no 500."""
    name, body = request_
    reply = post(gateway, json.dumps(body), f"/v1/{name}?timeout=2")
    assert reply.status_code == 200 or reason(reply)
    assert reply.status_code != 500, (name, body, reply.text)
