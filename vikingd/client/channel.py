"""How the clients reach a daemon: where it is, how long they wait, what is sent once more."""

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

_RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}


def options(retried: Iterable[str]) -> Sequence[Option]:
    """The options of a channel on which these RPCs, such as package.Service/Find, are retried."""
    names = [dict(zip(("service", "method"), rpc.split("/"), strict=True)) for rpc in retried]
    config = {"methodConfig": [{"name": names, "retryPolicy": _RETRY_POLICY}]} if names else {}
    return *_OPTIONS, ("grpc.service_config", json.dumps(config))


class Stubs:
    """The stubs of all services on one channel.

    On a channel of asyncio what they have the type of returns awaitables.
    """

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        self.retrieval: RetrievalStub = RetrievalStub(channel)
        self.contexts: ContextsStub = ContextsStub(channel)
        self.memories: MemoriesStub = MemoriesStub(channel)
        self.admin: AdminStub = AdminStub(channel)
