"""Retries of the clients against scripted servers, and the errors that remain."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import pytest

from vikingd import client as vikingd_client
from vikingd.client import (
    AsyncClient,
    Client,
    ClientError,
    Draft,
    EmbedderTimedOut,
    InvalidField,
    Session,
    TimedOut,
    Unreachable,
    client_errors,
)
from vikingd.client.method_declarations import Method
from vikingd.client.rpc_methods import Methods
from vikingd.domain import errors as domain_errors
from vikingd.domain.errors import Stopping, VikingError
from vikingd.wire.status_errors import status_of

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "batch_find": ([],),
    "put": ([],),
    "get": ("u",),
    "move": ("u", "v"),
    "glob": ("*",),
    "grep": ("p",),
    "link": ("u", "v"),
    "unlink": ("u", "v"),
    "find": ("q",),
    "search": ("q",),
    "recall": ("q",),
    "remember": ("t",),
    "extract": (Session(),),
    "revoke_key": ("i",),
    "rotate_key": ("i",),
    "put_tenant": ("t",),
    "delete_tenant": ("t",),
}

ONCE = {"forget", "delete", "move", "unlink", "optimize", "reembed", "describe"}
ONCE |= {"create_key", "rotate_key", "delete_tenant"}
"""Methods that the client does not retry with the arguments in ARGUMENTS."""

NAMES = {
    name
    for name, one in vars(Methods).items()
    if isinstance(one, Method) and one.kind in ("call", "pages")
}

Fault = Callable[[int, Any], None]


class Scripted(grpc.GenericRpcHandler):
    """A server that answers every RPC with an empty message, after a call of `fault`.

    Attributes:
        fault: called with the number of the call of this RPC, from 1, and its context.
        calls: the number of calls by RPC.
        requests: the requests as bytes.
    """

    def __init__(self, fault: Fault = lambda *_: None) -> None:
        self.fault = fault
        self.calls: Counter[str] = Counter()
        self.requests: list[bytes] = []

    def service(self, details: Any) -> Any:
        """Return the handler of an RPC."""
        name = details.method.rpartition("/")[2]

        def answer(request: bytes, context: Any) -> bytes:
            self.calls[name] += 1
            self.requests.append(request)
            self.fault(self.calls[name], context)
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def serving(handler: Scripted, address: str = "127.0.0.1:0") -> Iterator[str]:
    """Serve a handler and yield its address; cancel all calls at the end."""
    server = grpc.server(ThreadPoolExecutor(32), [handler])
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def unavailable(times: int) -> Fault:
    """Return a fault that makes the first calls of each RPC UNAVAILABLE."""

    def fail(number: int, context: Any) -> None:
        if number <= times:
            context.abort_with_status(status_of(Stopping("the store is closed")))

    return fail


async def call_all(address: str, *, retries: bool) -> set[str]:
    """Call every method, and return the names of those that succeeded."""
    async with AsyncClient(address, retries=retries) as client:

        async def call(name: str) -> str:
            answer = getattr(client, name)(*ARGUMENTS.get(name, ()))
            try:
                if inspect.isasyncgen(answer):
                    assert [one async for one in answer] == []
                else:
                    await answer
            except client_errors.Stopping:
                return ""
            return name

        return set(await asyncio.gather(*map(call, NAMES))) - {""}


def test_what_can_be_done_twice_is_sent_again() -> None:
    """The client retries only methods that may run twice."""
    handler = Scripted(unavailable(1))
    with serving(handler) as address:
        assert asyncio.run(call_all(address, retries=True)) == NAMES - ONCE
    sent = {re.sub(r"(?<!^)(?=[A-Z])", "_", rpc).lower(): n for rpc, n in handler.calls.items()}
    assert sent == {name: 1 if name in ONCE else 2 for name in NAMES}


@pytest.mark.parametrize(
    ("rpc", "call", "again"),
    [
        ("Delete", lambda client: client.delete("u", allow_missing=True), True),
        ("Delete", lambda client: client.delete("u"), False),
        ("Put", lambda client: client.put([Draft("u", update_mask=["title"])]), True),
        ("Put", lambda client: client.put([Draft("u", expected_revision=0)]), False),
        ("Remember", lambda client: client.remember("t"), True),
        ("Remember", lambda client: client.remember("t", request_id=""), False),
        ("Reinforce", lambda client: client.reinforce(1, request_id="name"), True),
        ("Reinforce", lambda client: client.reinforce(1, request_id=""), False),
    ],
)
def test_a_request_decides_whether_it_is_sent_again(
    rpc: str, call: Callable[[Client], Any], again: bool
) -> None:
    """The client retries a call unchanged if its request makes a second run harmless."""
    handler = Scripted(unavailable(1))
    with serving(handler) as address, Client(address) as client:
        if again:
            call(client)
            assert len(set(handler.requests)) == 1
        else:
            with pytest.raises(client_errors.Stopping):
                call(client)
    assert handler.calls[rpc] == (2 if again else 1)


def test_each_call_has_a_name_of_its_own() -> None:
    """Each call of Remember and Reinforce has its own request id."""
    handler = Scripted()
    with serving(handler) as address, Client(address) as client:
        for _ in range(2):
            client.remember("t")
            client.reinforce(1)
    assert len(set(handler.requests)) == 4


def test_without_retries_nothing_is_sent_again() -> None:
    """A client with retries=False sends each call once."""
    handler = Scripted(unavailable(1))
    with serving(handler) as address:
        assert asyncio.run(call_all(address, retries=False)) == set()
    assert set(handler.calls.values()) == {1}


def test_documentation_says_what_is_sent_again() -> None:
    """The documentation of each method says if the client retries the method."""
    for name in NAMES:
        first, _, last = getattr(Client, name).__doc__.partition("\n\n")
        assert first
        assert last.endswith("when the daemon is unavailable.")
        assert ("Not sent again" in last) == (name in ONCE - {"delete"})


@pytest.mark.parametrize(("times", "answered"), [(2, True), (3, True), (4, False)])
def test_a_call_is_sent_four_times_at_most(times: int, answered: bool) -> None:
    """The client sends a call at most four times and then raises the last error."""
    handler = Scripted(unavailable(times))
    with serving(handler) as address, Client(address) as client:
        if answered:
            assert client.find("x").total == 0
        else:
            with pytest.raises(client_errors.Stopping, match="is closed"):
                client.find("x")
    assert handler.calls["Find"] == min(times + 1, 4)


def test_a_refused_call_is_sent_again_when_the_daemon_says() -> None:
    """The client retries every method that an overloaded daemon refuses."""

    def refuse(number: int, context: Any) -> None:
        if number == 1:
            context.abort_with_status(
                status_of(domain_errors.Overloaded("the queue is full", 0.05))
            )

    handler = Scripted(refuse)
    with serving(handler) as address:
        assert asyncio.run(call_all(address, retries=True)) == NAMES
    assert set(handler.calls.values()) == {2}


def test_a_full_queue_says_when_to_repeat() -> None:
    """An Overloaded error has the retry delay of the daemon, and a Stopping error has none."""
    assert raised(domain_errors.Overloaded("the queue is full", 0.25)).retry_after == 0.25
    assert raised(domain_errors.Stopping("now")).retry_after is None


def test_a_full_disk_is_not_asked_again() -> None:
    """The client does not retry DiskFull, although its code is the code of Overloaded."""

    def refuse(_: int, context: Any) -> None:
        context.abort_with_status(status_of(domain_errors.DiskFull("no room")))

    handler = Scripted(refuse)
    with (
        serving(handler) as address,
        Client(address) as client,
        pytest.raises(client_errors.DiskFull, match="no room"),
    ):
        client.find("x")
    assert handler.calls["Find"] == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (domain_errors.EmbedderFailed("away"), grpc.StatusCode.UNAVAILABLE),
        (domain_errors.EmbedderRefused("a wrong key"), grpc.StatusCode.FAILED_PRECONDITION),
        (domain_errors.StoreFailed("a broken disk"), grpc.StatusCode.FAILED_PRECONDITION),
        (domain_errors.DiskFull("no room"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (domain_errors.StoreDamaged("a broken page"), grpc.StatusCode.DATA_LOSS),
        (domain_errors.RevisionDiffers("viking://a", 1, 2), grpc.StatusCode.ABORTED),
        (domain_errors.Overloaded("full", 1), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_unavailable_is_what_a_repetition_may_mend(
    error: VikingError, code: grpc.StatusCode
) -> None:
    """Permanent errors such as a wrong key or a broken disk do not have the code UNAVAILABLE."""
    assert raised(error).code is code


def test_other_errors_are_not_sent_again() -> None:
    """The client does not retry an INVALID_ARGUMENT error."""

    def refuse(_: int, context: Any) -> None:
        context.abort_with_status(status_of(domain_errors.InvalidField("limit", "is too large")))

    handler = Scripted(refuse)
    with serving(handler) as address, Client(address) as client:
        with pytest.raises(InvalidField) as caught:
            client.find("x")
        assert [violation.field for violation in caught.value.field_violations] == ["limit"]
    assert handler.calls["Find"] == 1


def test_a_call_survives_a_server_that_ends_and_comes_back() -> None:
    """A call in flight at a server that stops is retried at the next server of the same address."""
    entered, cancelled = threading.Event(), threading.Event()

    def hang(_: int, context: Any) -> None:
        context.add_callback(cancelled.set)
        entered.set()
        cancelled.wait()

    back = Scripted()
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        with serving(Scripted(hang)) as address:
            client = stack.enter_context(Client(address))
            waiting = pool.submit(client.find, "x")
            entered.wait()
        stack.enter_context(serving(back, address))
        assert waiting.result().total == 0
    assert back.calls["Find"] == 1


def test_a_server_that_starts_meanwhile_is_found() -> None:
    """A retry reconnects and finds a server that starts after the first attempt."""
    with serving(Scripted()) as address:
        pass
    refused = threading.Event()

    def see(state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            refused.set()

    with Client(address) as client, ThreadPoolExecutor(1) as pool:
        client._channel.subscribe(see)
        waiting = pool.submit(client.find, "x")
        refused.wait()
        with serving(Scripted(), address):
            assert waiting.result().total == 0


def test_the_deadline_counts_all_attempts() -> None:
    """The deadline of a call includes all its retries."""
    handler = Scripted(unavailable(99))
    with (
        serving(handler) as address,
        Client(address, timeout=0.3) as client,
        pytest.raises(TimedOut),
    ):
        client.find("x")
    assert 1 <= handler.calls["Find"] < 4


def test_every_reason_has_a_class_of_its_name() -> None:
    """Every error of the domain has an exported client error of the same name."""
    kinds = [VikingError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    ours = [kind for kind in kinds if kind.__module__ == domain_errors.__name__]
    ours.remove(domain_errors.NotReadable)  # callers must not tell it from NotFound
    assert len(ours) > 10
    for kind in ours:
        name = "Internal" if kind is VikingError else kind.__name__
        found = client_errors._BY_REASON[kind.reason]
        assert found.__name__ == name
        assert issubclass(found, ClientError)
        assert name in vikingd_client.__all__


def raised(error: Exception | None, code: grpc.StatusCode | None = None) -> ClientError:
    """Return the error that a client raises for an answer."""

    def fail(_: int, context: Any) -> None:
        if code is not None:
            context.abort(code, "so it is")
        context.abort_with_status(status_of(error or Exception()))

    with serving(Scripted(fail)) as address, Client(address, retries=False) as client:
        with pytest.raises(ClientError) as caught:
            client.stats()
        return caught.value


def test_errors_are_told_apart_by_class() -> None:
    """The class of a client error follows its reason, else its code, else it is ClientError."""
    late = raised(domain_errors.EmbedderTimedOut("after 5 s", provider="openai"))
    assert type(late) is EmbedderTimedOut
    assert isinstance(late, client_errors.EmbedderFailed)
    assert (late.reason, late.metadata) == ("EMBEDDER_TIMED_OUT", {"provider": "openai"})
    assert type(raised(KeyError("a bug"))) is client_errors.Internal
    assert type(raised(None, grpc.StatusCode.UNAVAILABLE)) is Unreachable
    assert type(raised(None, grpc.StatusCode.DEADLINE_EXCEEDED)) is TimedOut
    assert type(raised(None, grpc.StatusCode.UNIMPLEMENTED)) is ClientError

    class Newer(domain_errors.Stopping):
        reason = "NEWER"

    newer = raised(Newer("of a later version"))
    assert type(newer) is ClientError
    assert (newer.reason, newer.code) == ("NEWER", grpc.StatusCode.UNAVAILABLE)
