"""The connections of the clients: connect, send, read page by page."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from vikingd.client.argument_checks import checked, seconds, unknown_method
from vikingd.client.awaited_calls import parts_of, reply_of
from vikingd.client.client_errors import (
    ClientError,
    HistoryLost,
    Unreachable,
    from_rpc_error,
    sendable,
)
from vikingd.client.connection_defaults import (
    ADDRESS_VARIABLE,
    DEFAULT_ADDRESS,
    DEFAULT_TIMEOUT,
)
from vikingd.client.credentials import Credentials, check_address, is_several
from vikingd.client.endless_listings import ListingCheck
from vikingd.client.method_declarations import Method, Stubs
from vikingd.client.multi_call_steps import arun, run
from vikingd.client.rpc_methods import RETRIED, Methods
from vikingd.client.session_points import KEY, SeenPoints
from vikingd.client.unreachable_daemon import error_text, with_fault_of_host
from vikingd.domain.daemon_addresses import UNIX, USER

if TYPE_CHECKING:
    from vikingd.client.users_daemon import UsersDaemon

C = TypeVar("C", bound="type[_Connected]")

_OPTIONS = (
    # The request decides the size of its reply.
    ("grpc.max_receive_message_length", -1),
    # A proxy of the environment is for the web; it does not reach loopback.
    ("grpc.enable_http_proxy", 0),
    # When the daemon is back, the next attempt of a call finds it within a second, even after a
    # long absence.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

_LONGEST = 1e9  # seconds; gRPC counts in nanoseconds, and much longer times overflow

# A full queue refuses a call before its work begins. The daemon says if and when to repeat it.
_NOT_BEGUN = ["RESOURCE_EXHAUSTED"]


def _options(retried: Sequence[dict[str, str]] | None, policy: str) -> Sequence[tuple[str, Any]]:
    """Return the options of a channel.

    Args:
        policy: how gRPC distributes calls over several addresses.
        retried: the RPCs that are repeated when the daemon is unavailable. All RPCs are repeated
            when the daemon refuses to start them. None: no call is repeated.
    """
    configs = []
    if retried is not None:
        configs.append(_retries([{}], _NOT_BEGUN))
    if retried:
        configs.append(_retries(retried, ["UNAVAILABLE", *_NOT_BEGUN]))
    service = {"methodConfig": configs, "loadBalancingConfig": [{policy: {}}]}
    return *_OPTIONS, ("grpc.service_config", json.dumps(service))


def _retries(names: Sequence[dict[str, str]], codes: list[str]) -> dict[str, Any]:
    policy = {
        "maxAttempts": 4,
        "initialBackoff": "0.1s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": codes,
    }
    return {"name": names, "retryPolicy": policy}


def with_functions(kind: C) -> C:
    """Give a class of clients a plain function for each declared Method, and return the class."""
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        if isinstance(method, Method):
            read, returned = method.read, method.result
            if not kind._reads:
                read, returned = lambda message: message, method.reply
            function = kind._functions(method, read)[method.kind]
            if method.kind in ("pages", "stream"):
                returned = kind._iterator[returned]
            method.document(function, kind, returned)
            setattr(kind, name, function)
    return kind


def _users_daemon() -> UsersDaemon:
    from vikingd.client.users_daemon import UsersDaemon  # it loads ctypes, which takes 10 ms

    return UsersDaemon()


class _Connected(Methods):
    _reads: ClassVar[bool] = True  # methods return results, not messages
    _iterator: ClassVar[Any]
    _functions: ClassVar[Any]
    _plain: ClassVar[Callable[..., Any]]
    _secure: ClassVar[Callable[..., Any]]

    @partial(checked, name="Client")
    def __init__(
        self,
        address: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        *,
        retries: bool = True,
        key: str | None = None,
        tenant: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        private_key: str | os.PathLike[str] | None = None,
        trust_network: bool = False,
        consistent: bool = True,
    ) -> None:
        if address is None:
            address = os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        check_address(address)
        self.address = address
        # The user's daemon is reached at its socket, and started by the first call.
        self._user = _users_daemon() if address == USER else None
        self._at = f"{UNIX}{self._user.socket}" if self._user else address
        self.timeout = seconds(timeout)
        self.retries = retries
        self._credentials = Credentials.found(
            key=key,
            tenant=tenant,
            ca=ca,
            certificate=certificate,
            private_key=private_key,
            trust_network=trust_network,
            address=address,
        )
        self._metadata = self._credentials.metadata()
        self.consistent = consistent
        self._seen = SeenPoints()
        self._commits: set[Any] = set()  # futures or tasks
        target, named, channel = self._credentials.target(self._at)
        policy = "round_robin" if is_several(target) else "pick_first"

        def opened(retried: Sequence[dict[str, str]]) -> Any:
            options = (*_options(retried if retries else None, policy), *named)
            with sendable():
                if channel is None:
                    return self._plain(target, options)
                return self._secure(target, channel, options)

        self._channel = opened(RETRIED)
        # gRPC repeats calls by their method. Some requests of a repeated method must not be
        # repeated; they use the second channel.
        self._channel_once = opened(())
        self._stubs, self._stubs_once = Stubs(self._channel), Stubs(self._channel_once)

    def with_timeout(self, timeout: float | None) -> Self:
        """Return a client with another deadline for each call and the same connection.

        Args:
            timeout: in seconds; None: there is none.

        Raises:
            TypeError, ValueError: it is no number of seconds.
        """
        other = copy.copy(self)
        other.timeout = seconds(timeout)
        return other

    @property
    def tenant(self) -> str:
        """The tenant that an operator works in; "" if none is named."""
        return self._credentials.tenant

    def with_key(self, key: str, tenant: str = "") -> Self:
        """Return a client with another key, the same connection and a new session; close ends both.

        Args:
            key: sent with each call; "": none.
            tenant: the tenant that the key of an operator works in.

        Raises:
            ValueError: a value cannot be sent, or the key would cross the network in plain text.
        """
        other = copy.copy(self)
        other._credentials = self._credentials.with_key(self._at, key, tenant)
        other._metadata = other._credentials.metadata()
        other._seen = SeenPoints()  # the key may be of another tenant
        return other

    @property
    def _deadline(self) -> float | None:
        """Return the timeout for gRPC in seconds.

        None if there is none, or it is too long for gRPC.
        """
        return None if self.timeout is None or self.timeout > _LONGEST else self.timeout

    def _begin(self, rpc: Any, request: Any, sent: str | None = None) -> Any:
        metadata = self._metadata
        if sent is not None:
            metadata = (*(metadata or ()), (KEY, sent))
        return rpc(request, timeout=self._deadline, metadata=metadata)

    def _error_to_raise(self, error: Exception, sent: str | None) -> Exception:
        """Return the error to raise for a failed call; HistoryLost resets the session's points.

        Args:
            error: the error of the call.
            sent: the points that the call sent, see `session_points`; None: it sent none.
        """
        found = self._client_error(error)
        if sent is not None and isinstance(found, HistoryLost):
            self._seen.lost(sent, found.metadata.get("point", ""))
        return found

    if not TYPE_CHECKING:  # a checker must still see that a method does not exist

        def __getattr__(self, name: str) -> Any:
            known = [one for one in dir(type(self)) if not one.startswith("_")]
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise unknown_method(type(self).__name__, name, known)

    def _client_error(self, error: Exception) -> Exception:
        """Return the error to raise for a failed call.

        If the daemon is unreachable, connect to its hosts to find the reason; this may block.
        """
        if isinstance(error, grpc.RpcError):
            found = from_rpc_error(error)
            if isinstance(found, Unreachable):
                found.message = with_fault_of_host(found.message, self._at, self._credentials)
                found.args = (f"{found.code.name}: {error_text(found.message, self.address)}",)
            return found
        if "closed" in str(error).lower():
            return ValueError(
                "the client is closed; make a new one, and call it before close() or inside `with`"
            )
        return error

    def _needs_start(self) -> bool:
        """Return True if the client must check, before a call, that the user's daemon runs."""
        return self._user is not None and not self._user.is_fresh

    def _start_daemon(self) -> None:
        """Start the user's daemon if it does not run; do nothing for other daemons."""
        if self._user is not None:
            self._user.reach()

    def _recovers(self, error: ClientError, attempt: int, method: Any, request: Any) -> bool:
        """Start the user's daemon again after a failed call; return True to repeat the call.

        For other daemons do nothing, and return False.
        """
        if self._user is None or method is None:
            return False
        may_repeat = self.retries and method.may_repeat(request)
        return self._user.recovers(error, attempt, is_repeatable=may_repeat)

    def _replied(self) -> None:
        if self._user is not None:
            self._user.answered()

    def _stub(self, method: Any, request: Any) -> Any:
        stubs = self._stubs if method.is_repeatable(request) else self._stubs_once
        return stubs.of(method.rpc)


class Connection(_Connected):
    """The synchronous connection, with blocking calls."""

    _iterator = Iterator
    _plain = staticmethod(grpc.insecure_channel)
    _secure = staticmethod(grpc.secure_channel)

    def close(self) -> None:
        """End the connection; calls in flight fail."""
        self._channel.close()
        self._channel_once.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def health(self, service: str = "") -> str:
        """Return the state of a service: SERVING, NOT_SERVING or SERVICE_UNKNOWN. It needs no key.

        Args:
            service: "" for the daemon, "viking.embedder" for the embedder.

        Raises:
            ClientError: the daemon cannot be reached.
        """
        try:
            stub: Any = HealthStub(self._channel)
            reply = self._send(stub.Check, HealthCheckRequest(service=service))
        except ClientError as error:
            if error.code is grpc.StatusCode.NOT_FOUND:
                return "SERVICE_UNKNOWN"
            raise
        return str(HealthCheckResponse.ServingStatus.Name(reply.status))

    def _send(self, rpc: Any, request: Any, method: Any = None) -> Any:
        """Send a request and return the reply; without a method the request is a health check."""
        if method is not None and self._needs_start():
            self._start_daemon()
        attempt = 0
        while True:
            try:
                reply = self._send_once(rpc, request)
            except ClientError as error:
                attempt += 1
                if not self._recovers(error, attempt, method, request):
                    raise
            else:
                self._replied()
                return reply

    def _send_once(self, rpc: Any, request: Any) -> Any:
        sent = self._seen.text if self.consistent else None
        try:
            if sent is None:
                return self._begin(rpc, request)
            reply, call = self._begin(rpc.with_call, request, sent)
        except (grpc.RpcError, ValueError) as error:
            raise self._error_to_raise(error, sent) from None
        self._seen.replied(sent, call.trailing_metadata())
        return reply

    @staticmethod  # the functions of a method for this class of clients, by its kind
    def _functions(method: Any, read: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        def call(self: Self, /, *args: Any, **kwargs: Any) -> Any:
            request = method(*args, **kwargs)
            return read(self._send(self._stub(method, request), request, method))

        def steps(self: Self, /, *args: Any, **kwargs: Any) -> Any:
            return run(self, method(*args, **kwargs))

        def pages(self: Self, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
            request = method(*args, **kwargs)
            stub = self._stub(method, request)
            # The first page is read here, so that an error comes from the line of the call.
            return rest(self, stub, request, self._send(stub, request, method))

        def rest(self: Self, stub: Any, request: Any, page: Any) -> Iterator[Any]:
            progress = ListingCheck()
            while True:
                progress.check(getattr(page, method.part), page.next_page_token)
                yield from map(read, getattr(page, method.part))
                request.page_token = page.next_page_token
                if not request.page_token:
                    return
                page = self._send(stub, request, method)

        def stream(self: Self, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
            request = method(*args, **kwargs)
            if self._needs_start():
                self._start_daemon()
            try:
                return parts(self._begin(self._stub(method, request), request))
            except ValueError as error:
                raise self._client_error(error) from None

        def parts(received: Any) -> Iterator[Any]:
            try:
                yield from map(read, received)
            except grpc.RpcError as error:
                raise from_rpc_error(error) from None
            finally:
                received.cancel()

        return {"call": call, "pages": pages, "stream": stream, "steps": steps}


class AsyncConnection(_Connected):
    """The asynchronous connection, with awaited calls."""

    _iterator = AsyncIterator
    _plain = staticmethod(grpc.aio.insecure_channel)
    _secure = staticmethod(grpc.aio.secure_channel)

    async def close(self) -> None:
        """End the connection; calls in flight fail."""
        await self._channel.close(None)
        await self._channel_once.close(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, rpc: Any, request: Any, method: Any = None) -> Any:
        """Send a request as `Connection._send` does; the daemon is started on another thread."""
        if method is not None and self._needs_start():
            await asyncio.to_thread(self._start_daemon)
        attempt = 0
        while True:
            try:
                reply = await self._send_once(rpc, request)
            except ClientError as error:
                attempt += 1
                if self._user is None or not await asyncio.to_thread(
                    self._recovers, error, attempt, method, request
                ):
                    raise
            else:
                self._replied()
                return reply

    async def _send_once(self, rpc: Any, request: Any) -> Any:
        sent = self._seen.text if self.consistent else None
        try:
            call = self._begin(rpc, request, sent)
            reply = await reply_of(call)
            if sent is not None:
                self._seen.replied(sent, await call.trailing_metadata())
            return reply
        except (grpc.RpcError, grpc.aio.UsageError) as error:
            raise await self._error_to_raise_async(error, sent) from None

    def _begin(self, rpc: Any, request: Any, sent: str | None = None) -> Any:
        if asyncio.get_running_loop() is not self._channel._loop:
            raise RuntimeError(
                f"this {type(self).__name__} belongs to another event loop, the one in which it "
                "was made: make one in each event loop, inside the coroutine that uses it, or "
                "take Client, which any thread may use"
            )
        return super()._begin(rpc, request, sent)

    async def _error_to_raise_async(self, error: Exception, sent: str | None = None) -> Exception:
        """Do the same as `_error_to_raise`; connect to the hosts on another thread."""
        if isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE:
            return await asyncio.to_thread(self._error_to_raise, error, sent)
        return self._error_to_raise(error, sent)

    @staticmethod
    def _functions(method: Any, read: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        async def call(self: Self, /, *args: Any, **kwargs: Any) -> Any:
            request = method(*args, **kwargs)
            return read(await self._send(self._stub(method, request), request, method))

        async def steps(self: Self, /, *args: Any, **kwargs: Any) -> Any:
            return await arun(self, method(*args, **kwargs))

        def pages(self: Self, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            # A wrong argument is an error of this call; the daemon is asked by the first `anext`.
            return all_pages(self, method(*args, **kwargs))

        async def all_pages(self: Self, request: Any) -> AsyncIterator[Any]:
            progress = ListingCheck()
            stub = self._stub(method, request)
            while True:
                page = await self._send(stub, request, method)
                progress.check(getattr(page, method.part), page.next_page_token)
                for item in getattr(page, method.part):
                    yield read(item)
                request.page_token = page.next_page_token
                if not request.page_token:
                    return

        def stream(self: Self, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            return parts(self, method(*args, **kwargs))

        async def parts(self: Self, request: Any) -> AsyncIterator[Any]:
            if self._needs_start():
                await asyncio.to_thread(self._start_daemon)
            try:
                received = parts_of(self._begin(self._stub(method, request), request))
                async with aclosing(received):
                    async for part in received:
                        yield read(part)
            except (grpc.RpcError, grpc.aio.UsageError) as error:
                raise await self._error_to_raise_async(error) from None

        return {"call": call, "pages": pages, "stream": stream, "steps": steps}
