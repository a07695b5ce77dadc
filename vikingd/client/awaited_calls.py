"""Waits for calls of an asyncio channel; a call is cancelled if its caller is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

import grpc

T = TypeVar("T")


async def reply_of(call: Any) -> Any:
    """Return the reply of a call; a cancellation of the caller cancels the call.

    Raises:
        CancelledError: that of the caller.
        grpc.aio.UsageError: the channel was closed before the reply arrived.
        grpc.RpcError: the call failed.
    """

    async def reply() -> Any:
        return await call

    return await _awaited(call, reply())


async def parts_of(call: Any) -> AsyncGenerator[Any, None]:
    """Yield the messages of a streamed reply; the end of the iteration cancels the call.

    The errors are those of `reply_of`.
    """
    try:
        while (part := await _awaited(call, call.read())) is not grpc.aio.EOF:
            yield part
    finally:
        call.cancel()


async def _awaited(call: Any, result: Coroutine[Any, Any, T]) -> T:
    """Await a result of a call in a task of its own, and return it.

    A caller that awaits grpc.aio itself gets a CancelledError that grpc.aio makes, without the
    message of the cancellation. anyio recognizes the cancellations of its scopes by that message,
    so the error would escape from the scope.
    """
    task = asyncio.ensure_future(result)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        call.cancel()
        task.add_done_callback(_retrieve)
        raise
    if task.cancelled():
        raise grpc.aio.UsageError("the channel was closed during the call")
    return task.result()


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Read the exception of a task without a waiter, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
