"""The channel of the clients: address, timeout and retries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import grpc

from vikingd.pb.admin_pb2_grpc import AdminStub
from vikingd.pb.contexts_pb2_grpc import ContextsStub
from vikingd.pb.memories_pb2_grpc import MemoriesStub
from vikingd.pb.retrieval_pb2_grpc import RetrievalStub

DEFAULT_ADDRESS = "127.0.0.1:7716"
DEFAULT_TIMEOUT = 30.0

Option: TypeAlias = tuple[str, Any]

_OPTIONS: tuple[Option, ...] = (
    # A reply is as large as what was asked for.
    ("grpc.max_receive_message_length", -1),
    # The daemon listens on loopback, where no proxy can reach it.
    ("grpc.enable_http_proxy", 0),
    # A daemon that comes back is found by the next attempt of a call, and within a second, however
    # long it was away.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

_BACKOFF = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
}
# A call that a full queue refuses was not begun; the daemon says when to repeat it, or not to.
_NOT_BEGUN = ["RESOURCE_EXHAUSTED"]


def options(retried: Iterable[str] | None) -> Sequence[Option]:
    """Return the options of a channel.

    Args:
        retried: RPCs, such as package.Service/Find, that are repeated when the daemon is
            unavailable. All RPCs are repeated when the daemon refuses to start them. None: no
            call is repeated.
    """
    configs = []
    if retried is not None:
        names = [dict(zip(("service", "method"), rpc.split("/"), strict=True)) for rpc in retried]
        configs.append(_retries([{}], _NOT_BEGUN))
        if names:
            configs.append(_retries(names, ["UNAVAILABLE", *_NOT_BEGUN]))
    return *_OPTIONS, ("grpc.service_config", json.dumps({"methodConfig": configs}))


def _retries(names: list[dict[str, str]], codes: list[str]) -> dict[str, Any]:
    return {"name": names, "retryPolicy": {**_BACKOFF, "retryableStatusCodes": codes}}


class Stubs:
    """The stubs of all services on one channel.

    On a channel of asyncio what they have the type of returns awaitables.
    """

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        self.retrieval: RetrievalStub = RetrievalStub(channel)
        self.contexts: ContextsStub = ContextsStub(channel)
        self.memories: MemoriesStub = MemoriesStub(channel)
        self.admin: AdminStub = AdminStub(channel)
