"""The connections of the clients: connect, send, read page by page."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from types import FunctionType
from typing import Any, Self, cast

import grpc

from vikingd.client.channel import DEFAULT_ADDRESS, DEFAULT_TIMEOUT, Option, Stubs, options
from vikingd.client.errors import from_rpc_error, sendable
from vikingd.client.methods import RETRIED, Method, Methods, Pages, Stream

_LONGEST = 1e9  # seconds: gRPC counts in nanoseconds, of which far longer times have too many


class _Connected(Methods):
    # gRPC decides by the method whether a call is sent again. Requests that must not be, of a
    # method that is, go by a channel of their own.
    _stubs: Stubs
    _stubs_once: Stubs

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        timeout: float | None = DEFAULT_TIMEOUT,
        *,
        retries: bool = True,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self.retries = retries
        with sendable():
            self._connect(options(RETRIED if retries else None), options(() if retries else None))

    def with_timeout(self, timeout: float | None) -> Self:
        """Return the same connection with another deadline for each call."""
        other = copy.copy(self)
        other.timeout = timeout
        return other

    @property
    def _deadline(self) -> float | None:
        """Return the timeout for gRPC; None for one that gRPC cannot count."""
        return None if self.timeout is None or self.timeout > _LONGEST else self.timeout

    @abstractmethod
    def _connect(self, options: Sequence[Option], once: Sequence[Option]) -> None:
        """Opens the channels."""

    def _stubs_for(self, method: Method[..., Any, Any, Any], request: Any) -> Stubs:
        return self._stubs if method.is_repeatable(request) else self._stubs_once


class Connection(_Connected):
    """The synchronous connection, with blocking calls."""

    def _connect(self, options: Sequence[Option], once: Sequence[Option]) -> None:
        self._channel = grpc.insecure_channel(self.address, options)
        self._channel_once = grpc.insecure_channel(self.address, once)
        self._stubs, self._stubs_once = Stubs(self._channel), Stubs(self._channel_once)

    def close(self) -> None:
        """Ends the connection; calls under way fail."""
        self._channel.close()
        self._channel_once.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, rpc: grpc.UnaryUnaryMultiCallable[Any, Any], request: Any) -> Any:
        try:
            return rpc(request, timeout=self._deadline)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None

    @classmethod
    def _call(cls, method: Method[..., Any, Any, Any]) -> FunctionType:
        build, rpc, convert = method.build, method.rpc, method.conversion(cls)

        def call(self: Connection, /, *args: Any, **kwargs: Any) -> Any:
            request = build(*args, **kwargs)
            return convert(self._send(rpc(self._stubs_for(method, request)), request))

        return cast("FunctionType", call)

    @classmethod
    def _pages(cls, method: Pages[..., Any, Any]) -> FunctionType:
        build, rpc, convert = method.build, method.rpc, method.conversion(cls)

        def pages(self: Connection, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
            request = build(*args, **kwargs)
            while True:
                page = self._send(rpc(self._stubs), request)
                yield from map(convert, page.contexts)
                request.page_token = page.next_page_token
                if not request.page_token:
                    return

        return cast("FunctionType", pages)

    @classmethod
    def _stream(cls, method: Stream[..., Any, Any, Any]) -> FunctionType:
        build, rpc, convert = method.build, method.rpc, method.conversion(cls)

        def stream(self: Connection, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
            call = rpc(self._stubs)(build(*args, **kwargs), timeout=self._deadline)
            try:
                yield from map(convert, call)
            except grpc.RpcError as error:
                raise from_rpc_error(error) from None
            finally:
                call.cancel()

        return cast("FunctionType", stream)


class AsyncConnection(_Connected):
    """The asynchronous connection, with awaited calls."""

    def _connect(self, options: Sequence[Option], once: Sequence[Option]) -> None:
        self._channel = grpc.aio.insecure_channel(self.address, options)
        self._channel_once = grpc.aio.insecure_channel(self.address, once)
        self._stubs, self._stubs_once = Stubs(self._channel), Stubs(self._channel_once)

    async def close(self) -> None:
        """Ends the connection; calls under way fail."""
        await self._channel.close(None)
        await self._channel_once.close(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, rpc: Any, request: Any) -> Any:
        try:
            return await rpc(request, timeout=self._deadline)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None

    @classmethod
    def _call(cls, method: Method[..., Any, Any, Any]) -> FunctionType:
        build, rpc, convert = method.build, method.rpc, method.conversion(cls)

        async def call(self: AsyncConnection, /, *args: Any, **kwargs: Any) -> Any:
            request = build(*args, **kwargs)
            return convert(await self._send(rpc(self._stubs_for(method, request)), request))

        return cast("FunctionType", call)

    @classmethod
    def _pages(cls, method: Pages[..., Any, Any]) -> FunctionType:
        build, rpc, convert = method.build, method.rpc, method.conversion(cls)

        async def pages(self: AsyncConnection, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            request = build(*args, **kwargs)
            while True:
                page = await self._send(rpc(self._stubs), request)
                for context in page.contexts:
                    yield convert(context)
                request.page_token = page.next_page_token
                if not request.page_token:
                    return

        return cast("FunctionType", pages)

    @classmethod
    def _stream(cls, method: Stream[..., Any, Any, Any]) -> FunctionType:
        build, rpc, convert = method.build, method.rpc, method.conversion(cls)

        async def stream(self: AsyncConnection, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            call: Any = rpc(self._stubs)(build(*args, **kwargs), timeout=self._deadline)
            try:
                async for part in call:
                    yield convert(part)
            except grpc.RpcError as error:
                raise from_rpc_error(error) from None
            finally:
                call.cancel()

        return cast("FunctionType", stream)
