"""Calls that a reader passes to its writer, and their callers as the writer sees them.

The readers that a writer has started answer what they can answer as well as the writer; all other
calls go to the writer, over a unix socket that only this user's processes reach. The address and
the certificate of the caller go with the call as metadata. The writer trusts these metadata on that
socket alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from vikingd.domain.errors import Unauthenticated, VikingError
from vikingd.engine import Engine
from vikingd.wire.admission import Admission
from vikingd.wire.rights_table import Rule

ANSWERED_BY_READERS = frozenset(
    (
        "Find",
        "BatchFind",
        "Search",
        "Retrieve",
        "BuildContext",
        "Recall",
        "Get",
        "List",
        "Tree",
        "Glob",
        "Grep",
    )
)
"""The RPCs that a reader answers itself, from a state with all commits before the call."""

_PEER, _CERTIFICATE = "vikingd-peer", "vikingd-certificate"
_OWN = (_PEER, _CERTIFICATE, "user-agent")  # metadata that are not passed on
_NAMES = ("x509_subject", "x509_subject_alternative_name")  # the whole chain would be too large
_PATIENCE = 0.05  # seconds that a call waits for commits until the writer answers it
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
)


class Refusal(NamedTuple):
    """The status of a call that the writer refused."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: Any


grpc.Status.register(Refusal)


class Relay:
    """Passes calls from a reader to its writer; its methods are for the event loop.

    Args:
        address: the writer's private unix socket.
        admission: finds the callers and tenants of calls.
    """

    def __init__(self, address: str, admission: Admission) -> None:
        self._channel = grpc.aio.insecure_channel(address, _OPTIONS)
        self._admission = admission
        self._methods: dict[str, Any] = {}

    async def is_own(self, rule: Rule, context: Any) -> bool:
        """Return True if this reader answers a call: it has all commits before the call.

        Return True, too, for a caller whom this reader refuses. Calls of a key or a tenant with
        limits are the writer's, which counts them.
        """
        if rule.name not in ANSWERED_BY_READERS:
            return False
        try:
            caller, is_limited = self._admission.caller(context)
        except Unauthenticated:
            return True
        except VikingError:
            return False
        if is_limited:
            return False
        with suppress(VikingError, OSError, TimeoutError):
            async with self._admission.tenants.use(rule.tenant_of(caller)) as tenant:
                return await _caught_up(tenant.engine)
        return False  # the writer knows the reason

    async def passed_on(self, method: str, data: bytes, context: Any) -> bytes | Refusal:
        """Let the writer answer a call; return its encoded reply or its refusal."""
        call = self._method(method, self._channel.unary_unary)(
            data, timeout=context.time_remaining(), metadata=_passed(context)
        )
        try:
            reply: bytes = await call
            if trailing := await call.trailing_metadata():
                context.set_trailing_metadata(tuple(trailing))
        except grpc.aio.AioRpcError as error:
            return refusal_of(error)
        return reply

    async def stream(self, method: str, data: bytes, context: Any) -> AsyncGenerator[bytes]:
        """Let the writer answer a call, and yield the messages of its stream.

        Raises:
            grpc.aio.AioRpcError: the writer refused the call, or ended the stream.
        """
        call = self._method(method, self._channel.unary_stream)(
            data, timeout=context.time_remaining(), metadata=_passed(context)
        )
        try:
            async for part in call:
                yield part
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the connection to the writer."""
        await self._channel.close()

    def _method(self, method: str, kind: Any) -> Any:
        found = self._methods.get(method)
        if found is None:
            found = self._methods[method] = kind(method)
        return found


class PassedOnHealth(health_pb2_grpc.HealthServicer):
    """The health service of a reader: its writer answers."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        """Return the state of a service."""
        data = request.SerializeToString()
        reply = await self._relay.passed_on("/grpc.health.v1.Health/Check", data, context)
        if isinstance(reply, Refusal):
            return await context.abort(*reply)  # type: ignore[no-any-return]
        return health_pb2.HealthCheckResponse.FromString(reply)

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> AsyncGenerator[health_pb2.HealthCheckResponse]:
        """Return the state of a service now and after each change."""
        data = request.SerializeToString()
        try:
            async for part in self._relay.stream("/grpc.health.v1.Health/Watch", data, context):
                yield health_pb2.HealthCheckResponse.FromString(part)
        except grpc.aio.AioRpcError as error:
            await context.abort(*refusal_of(error))


async def _caught_up(engine: Engine) -> bool:
    """Wait until a reader has all present commits; return False if that takes too long."""
    if engine.is_lost:
        return False
    missing = engine.missing_revision()
    if missing is None:
        return True
    loop, advanced = asyncio.get_running_loop(), asyncio.Event()
    with engine.listening(lambda: loop.call_soon_threadsafe(advanced.set)):
        async with asyncio.timeout(_PATIENCE):
            while engine.snapshot.revision < missing:
                await advanced.wait()
                advanced.clear()
    return True


def _passed(context: Any) -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata of a call for the writer, with the caller's address and names."""
    given = context.invocation_metadata() or ()
    kept = [(name, value) for name, value in given if name not in _OWN]
    kept.append((_PEER, context.peer()))
    certificate = context.auth_context() or {}
    named = {name: [one.hex() for one in certificate.get(name, ())] for name in _NAMES}
    if any(named.values()):
        kept.append((_CERTIFICATE, json.dumps(named)))
    return tuple(kept)


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    """Return the status with which the writer ended a call."""
    return Refusal(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))


class PassedOn:
    """The context of a call that a reader passed on: it has the address of the reader's caller."""

    def __init__(self, context: Any) -> None:
        self._context = context
        given = tuple(context.invocation_metadata() or ())
        self._metadata = tuple(one for one in given if one[0] not in _OWN)
        own = dict(one for one in given if one[0] in _OWN)
        self._peer = str(own.get(_PEER) or context.peer())
        self._certificate = json.loads(own.get(_CERTIFICATE) or "{}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def peer(self) -> str:
        """Return the address of the reader's caller, as gRPC writes it."""
        return self._peer

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return the metadata that the caller sent."""
        return self._metadata

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """Return the names in the caller's certificate, as gRPC does."""
        return {
            name: [bytes.fromhex(value) for value in values]
            for name, values in self._certificate.items()
        }
