"""What both clients have in common: where the daemon is, and methods made of request functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

DEFAULT_ADDRESS = "127.0.0.1:7716"
DEFAULT_TIMEOUT = 30.0

OPTIONS = [
    # A reply is as large as what was asked for.
    ("grpc.max_receive_message_length", -1),
    # The daemon listens on loopback, where no proxy can reach it.
    ("grpc.enable_http_proxy", 0),
    # A daemon that comes back is found within a second, however long it was away.
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def documented_as(build: Callable[..., Any], method: Callable[..., Any]) -> None:
    """Gives `method` the name, the documentation and, after self, the parameters of `build`."""
    signature = inspect.signature(build)
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__name__ = build.__name__
    method.__doc__ = build.__doc__
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[self, *signature.parameters.values()],
        # Each RPC has a request and a response of its own, named alike.
        return_annotation=str(signature.return_annotation).replace("Request", "Response"),
    )
