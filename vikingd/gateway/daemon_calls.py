"""The calls to the daemon on behalf of HTTP requests, with the key of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import grpc
from starlette.requests import ClientDisconnect, Request

from vikingd.gateway import json_form
from vikingd.gateway.body_reading import LARGE, Bodies, too_large
from vikingd.gateway.callers import Caller, Callers
from vikingd.gateway.http_errors import CallFailed
from vikingd.gateway.rpcs import RPCS, Rpc
from vikingd.gateway.upstream import Upstream
from vikingd.pb.contexts_pb2 import ListRequest

Fields = Callable[[bytes], Any]
"""A function that parses the body of an HTTP request into the fields of an RPC request."""

INLINE = 16 << 10
"""The most bytes of a body that the event loop parses; that takes about 20 ms at worst."""

_CHECK = RPCS["list"], ListRequest(page_size=1).SerializeToString()
_CHECK_TIMEOUT = 10.0  # seconds; a wrong key waits up to two

Result = TypeVar("Result")


class Reply(NamedTuple):
    """A reply of the daemon.

    Attributes:
        message: the whole reply, a protobuf message.
        json: the body of the HTTP response: the reply, or one field of it.
    """

    message: Any
    json: bytes


class Calls:
    """Calls the daemon for HTTP requests.

    Args:
        upstream: the connection to the daemon.
        callers: finds the key of a request.
        most: the most bytes of a request to the daemon.
    """

    def __init__(self, upstream: Upstream, callers: Callers, most: int) -> None:
        self._upstream = upstream
        self._callers = callers
        self._most = most
        self._bodies = Bodies(most)
        # Large JSON texts are parsed and written on this thread, one after the other. So the event
        # loop goes on, and only one parsed text, which is larger than its JSON, is in memory.
        self._thread = ThreadPoolExecutor(1, "json")

    async def send(
        self,
        request: Request,
        rpc: Rpc,
        fields: dict[str, Any],
        timeout: float | None,
        shown: str = "",
    ) -> Reply:
        """Call a unary RPC with given fields.

        Args:
            request: the HTTP request. The call has its caller's key, and is cancelled if the client
                goes away.
            rpc: the RPC.
            fields: the fields of the RPC's request, in their JSON form.
            timeout: seconds until the deadline; None: no deadline.
            shown: the field of the reply that becomes the HTTP body; "": the whole reply.

        Raises:
            CallFailed: the daemon, or the connection to it, answers with an error.
            Fault: a field is invalid.
            ClientDisconnect: the client went away.
        """
        with self.caller(request) as caller:
            data = json_form.fill(rpc.request(), fields)
            return await self._sent(request, caller, rpc, data, timeout, shown)

    async def send_body(
        self, request: Request, rpc: Rpc, fields: Fields, timeout: float | None
    ) -> Reply:
        """Call a unary RPC with the body of an HTTP request.

        Args:
            request: the HTTP request, whose body is read here.
            rpc: the RPC.
            fields: parses the body into the fields of the RPC's request.
            timeout: seconds until the deadline; None: no deadline.

        Raises:
            CallFailed: the daemon, or the connection to it, answers with an error.
            Fault: the body or a field is invalid, too large or too slow.
            ClientDisconnect: the client went away.
        """
        async with self._received(request, rpc, fields) as (caller, data):
            return await self._sent(request, caller, rpc, data, timeout)

    async def stream_body(
        self, request: Request, rpc: Rpc, fields: Fields, timeout: float | None
    ) -> AsyncIterator[Any]:
        """Call a streaming RPC with the body of an HTTP request; yield its messages.

        Arguments and errors are those of `send_body`.
        """
        async with self._received(request, rpc, fields) as (caller, data):
            async for part in self._upstream.stream(rpc.path, data, caller.metadata, timeout):
                yield rpc.reply.FromString(part)

    async def check(self, caller: Caller) -> None:
        """Check a caller's key by a small call that every valid key may make.

        Raises:
            CallFailed: the key is not valid, or the daemon cannot be reached.
        """
        rpc, request = _CHECK
        await self._upstream.call(rpc.path, request, caller.metadata, _CHECK_TIMEOUT)

    @contextmanager
    def caller(self, request: Request) -> Iterator[Caller]:
        """Return a context manager that yields the caller of a request.

        If the daemon refuses the caller's key within the block, the caller's session ends.

        Raises:
            Fault: the request has no key where one is needed.
        """
        caller = self._callers.of(request.headers)
        try:
            yield caller
        except CallFailed as error:
            if error.code is grpc.StatusCode.UNAUTHENTICATED and caller.session:
                self._callers.sessions.end(caller.session)
                error.headers.update(self._callers.remove_cookie())
            raise

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[tuple[Caller, bytes]]:
        """Return a context manager that yields the caller and the body of a request.

        A large body is read only after the daemon has accepted the caller's key.

        Raises:
            CallFailed: the daemon refuses the key.
            Fault: the body is too large or too slow, or too many large ones are read.
        """
        with self.caller(request) as caller:
            async with self._bodies.read(request, partial(self.check, caller)) as body:
                yield caller, body

    @asynccontextmanager
    async def _received(
        self, request: Request, rpc: Rpc, fields: Fields
    ) -> AsyncIterator[tuple[Caller, bytes]]:
        """Yield the caller of a request, and its body converted to the RPC's request as bytes."""

        def read(body: bytes) -> bytes:
            return json_form.fill(rpc.request(), fields(body))

        async with self.body(request) as (caller, body):
            data = await self._threaded(read, body, INLINE)
            if len(data) > self._most:
                raise too_large(self._most)
            yield caller, data

    async def _sent(
        self,
        request: Request,
        caller: Caller,
        rpc: Rpc,
        data: bytes,
        timeout: float | None,
        shown: str = "",
    ) -> Reply:
        def write(reply: bytes) -> Reply:
            message = rpc.reply.FromString(reply)
            part = getattr(message, shown) if shown else message
            return Reply(message, json_form.written(part))

        call = self._upstream.call(rpc.path, data, caller.metadata, timeout)
        reply = await while_connected(request, call)
        return await self._threaded(write, reply, LARGE)

    async def _threaded(
        self, function: Callable[[bytes], Result], data: bytes, most: int
    ) -> Result:
        """Return `function(data)`, called on a thread if `data` has more than `most` bytes."""
        if len(data) <= most:
            return function(data)
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, data)


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine and return its result; cancel it if the client goes away.

    The body of the request must have been read.

    Raises:
        ClientDisconnect: the client went away.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
