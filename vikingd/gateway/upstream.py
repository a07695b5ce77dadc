"""The gRPC connection to the daemon, which carries requests and replies as bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from vikingd.client.awaited_calls import parts_of, reply_of
from vikingd.client.credentials import Credentials
from vikingd.gateway.http_errors import CallFailed

Metadata = Sequence[tuple[str, str]]

_HEALTH = "/grpc.health.v1.Health/Check"
_HEALTH_TIMEOUT = 5.0  # seconds

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # the request decides the size of its reply
    ("grpc.enable_http_proxy", 0),
    # When the daemon is back, a call finds it within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Upstream:
    """A gRPC channel to the daemon, for one event loop. It never repeats a call.

    Args:
        address: the address of the daemon.
        credentials: the files for TLS. The key of the caller comes with each call.

    Raises:
        ValueError: the address or a file cannot be used.
    """

    def __init__(self, address: str, credentials: Credentials) -> None:
        target, named, secure = credentials.target(address)
        options = (*_OPTIONS, *named)
        if secure is None:
            self._channel = grpc.aio.insecure_channel(target, options)
        else:
            self._channel = grpc.aio.secure_channel(target, secure, options)
        self._unary: dict[str, Any] = {}

    async def call(
        self, path: str, request: bytes, metadata: Metadata, timeout: float | None
    ) -> bytes:
        """Call a unary RPC; return its reply as bytes. Cancelling this cancels the call.

        Raises:
            CallFailed: the call failed in the daemon or in the connection to it.
        """
        send = self._unary.get(path)
        if send is None:
            send = self._unary[path] = self._channel.unary_unary(path)
        try:
            reply: bytes = await reply_of(send(request, metadata=metadata, timeout=timeout))
        except grpc.aio.AioRpcError as error:
            raise CallFailed.of_rpc(error) from None
        return reply

    async def stream(
        self, path: str, request: bytes, metadata: Metadata, timeout: float | None
    ) -> AsyncIterator[bytes]:
        """Call a streaming RPC; yield its replies. The end of the iteration cancels the call.

        Raises:
            CallFailed: the call failed in the daemon or in the connection to it.
        """
        begin: Any = self._channel.unary_stream(path)
        try:
            parts = parts_of(begin(request, metadata=metadata, timeout=timeout))
            async with aclosing(parts):
                async for part in parts:
                    yield part
        except grpc.aio.AioRpcError as error:
            raise CallFailed.of_rpc(error) from None

    async def is_serving(self) -> bool:
        """Return True if the daemon answers calls."""
        request = HealthCheckRequest().SerializeToString()
        try:
            reply = await self.call(_HEALTH, request, (), _HEALTH_TIMEOUT)
        except CallFailed:
            return False
        status = HealthCheckResponse.FromString(reply).status
        return status == HealthCheckResponse.SERVING

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        await self._channel.close(None)
