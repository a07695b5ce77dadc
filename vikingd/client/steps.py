"""Work of several calls, written once for the synchronous and the asynchronous client.

A function of such work is a generator. It yields calls, gets their results, and returns its own.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Call(NamedTuple):
    """A call of a client: the name of the method, and its arguments."""

    method: str
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = {}  # noqa: RUF012 - nothing changes it


Steps: TypeAlias = Generator[Call, Any, T]


def run(client: Any, steps: Steps[T]) -> T:
    """Make the calls of a generator, one after the other, and return its result."""
    try:
        call = next(steps)
        while True:
            try:
                result = getattr(client, call.method)(*call.args, **call.named)
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def arun(client: Any, steps: Steps[T]) -> T:
    """Do the same with an asynchronous client. A cancellation closes the generator."""
    try:
        call = next(steps)
        while True:
            try:
                result = await getattr(client, call.method)(*call.args, **call.named)
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()
