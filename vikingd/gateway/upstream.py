"""The connection to the daemon. Requests and replies are bytes here."""

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
    """A channel to the daemon, for one event loop. It repeats no call.

    Args:
        address: the address of the daemon.
        credentials: the files of TLS. Each call brings the key of its caller.

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
        """Return the reply of a unary RPC; a cancellation cancels the call.

        Raises:
            CallFailed: the daemon, or the connection to it, answers with an error.
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
        """Yield the replies of a streaming RPC; the end of the iteration cancels the call.

        Raises:
            CallFailed: the daemon, or the connection to it, answers with an error.
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
        """Return whether the daemon serves."""
        request = HealthCheckRequest().SerializeToString()
        try:
            reply = await self.call(_HEALTH, request, (), _HEALTH_TIMEOUT)
        except CallFailed:
            return False
        status = HealthCheckResponse.FromString(reply).status
        return status == HealthCheckResponse.SERVING

    async def close(self) -> None:
        """End the connection; calls in flight fail."""
        await self._channel.close(None)
