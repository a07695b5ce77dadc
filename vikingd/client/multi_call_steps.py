"""Work that needs several calls, written once for the synchronous and the asynchronous client.

Such work is a generator. It yields each call, receives its result, and returns its own result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Call(NamedTuple):
    """A call of a client: the name of the method, and its arguments.

    Attributes:
        method, args, named: the name and the arguments.
        most: the number of items to take from a method that lists items; 0 for other methods.
    """

    method: str
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = {}  # noqa: RUF012 - nothing changes it
    most: int = 0


Steps: TypeAlias = Generator[Call, Any, T]


def run(client: Any, steps: Steps[T]) -> T:
    """Make the calls of a generator, one after the other, and return its result."""
    try:
        call = next(steps)
        while True:
            try:
                result = getattr(client, call.method)(*call.args, **call.named)
                if call.most:
                    result = list(islice(result, call.most))
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def arun(client: Any, steps: Steps[T]) -> T:
    """Do the same as `run` with an asynchronous client. A cancellation closes the generator."""
    try:
        call = next(steps)
        while True:
            try:
                made = getattr(client, call.method)(*call.args, **call.named)
                result = await (_first(made, call.most) if call.most else made)
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def _first(items: AsyncIterator[T], most: int) -> list[T]:
    taken: list[T] = []
    async for item in items:
        taken.append(item)
        if len(taken) == most:
            break
    return taken
