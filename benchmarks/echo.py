"""An echo server: the cost of a call with given sizes and no work.

`python -m benchmarks.echo` serves it on a free loopback port, with grpc.aio as the daemon does.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from benchmarks.daemon import Server, running

_SERVICE, _METHOD = "benchmarks.Echo", "Echo"
METHOD = f"/{_SERVICE}/{_METHOD}"
_REPLY_SIZE = struct.Struct("<I")


def request(request_size: int, reply_size: int) -> bytes:
    """Return a request of at least 4 bytes; the server replies with `reply_size` bytes."""
    return _REPLY_SIZE.pack(reply_size).ljust(request_size, b"\0")


@contextmanager
def serving() -> Iterator[Server]:
    """Run an echo server in its own process."""
    with running("-m", "benchmarks.echo") as server:
        yield server


async def _reply(message: bytes, _: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    return bytes(_REPLY_SIZE.unpack_from(message)[0])


async def _serve() -> None:
    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        _METHOD: grpc.unary_unary_rpc_method_handler(_reply)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"echo serving on 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve())
