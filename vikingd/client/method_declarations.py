"""The declaration of the clients' methods, each by the function that makes its request.

The decorators here make a Method of such a function. `with_functions` gives each class of clients a
plain function for each Method, with the same arguments. `__get__` is only for type checkers and
editors: it states the types of these functions, and nothing calls it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    Never,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

import grpc
from google.protobuf.descriptor import FieldDescriptor

from vikingd.client import replies
from vikingd.client.argument_checks import checked
from vikingd.client.client_errors import Unsendable, sendable
from vikingd.client.multi_call_steps import Steps
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2
from vikingd.pb.access_pb2_grpc import AccessStub
from vikingd.pb.admin_pb2_grpc import AdminStub
from vikingd.pb.contexts_pb2_grpc import ContextsStub
from vikingd.pb.memories_pb2_grpc import MemoriesStub
from vikingd.pb.retrieval_pb2_grpc import RetrievalStub

P = ParamSpec("P")
Reply = TypeVar("Reply")
Result = TypeVar("Result")

Made = TypeVar("Made")  # a request, or steps
Returned = TypeVar("Returned")  # by Client
Awaited = TypeVar("Awaited")  # by AsyncClient, or an iterator
Message = TypeVar("Message")  # by MessageClient

_RPCS = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", rpc.name).lower(): rpc
    for file in (retrieval_pb2, contexts_pb2, memories_pb2, admin_pb2, access_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for rpc in service.methods
}
"""The RPCs by the names of their methods."""


class Stubs:
    """The stubs of all services on one channel.

    On an asyncio channel the stubs return awaitables, contrary to their declared types.
    """

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        self.retrieval: RetrievalStub = RetrievalStub(channel)
        self.contexts: ContextsStub = ContextsStub(channel)
        self.memories: MemoriesStub = MemoriesStub(channel)
        self.admin: AdminStub = AdminStub(channel)
        self.access: AccessStub = AccessStub(channel)

    def of(self, rpc: Any) -> Any:
        """Return the stub of an RPC."""
        return getattr(getattr(self, rpc.containing_service.name.lower()), rpc.name)


def _largest(rpc: Any) -> dict[str, int]:
    """Return the largest value of each unsigned integer field of a request, by name."""
    bits = {FieldDescriptor.TYPE_UINT32: 32, FieldDescriptor.TYPE_UINT64: 64}
    found = {
        field.name: (1 << bits[field.type]) - 1
        for field in rpc.input_type.fields
        if field.type in bits
    }
    count = found.get("limit") or found.get("top_k")  # two names of one argument
    return found | ({"limit": count, "top_k": count} if count else {})


class RetryCondition(NamedTuple):
    """A condition under which a request may be sent again: `words` for people, and a predicate."""

    words: str
    holds: Callable[[Any], bool]


class BlockingResults:
    """A client whose methods return results."""


class AwaitedResults:
    """A client whose methods are awaited and return results."""


class BlockingMessages:
    """A client whose methods return messages."""


class Method(Generic[P, Made, Returned, Awaited, Message]):
    """A method as it is declared; a call of it makes a request, or the steps of several calls.

    Attributes:
        name: the name of the method.
        kind: "call" for a reply, "pages" for the items of a listing, "stream" for the parts of a
            streamed reply, "steps" for several calls.
        rpc: the descriptor of its RPC; None for several calls.
        reply: the message that MessageClient returns or yields.
        result: the class that the other clients return or yield.
        read: the function that makes the result from the message.
        part: the field of a reply with the result, or of a page with its items; "": all of it.
        retried: True, or a condition: a request is sent again when the daemon is unavailable.
    """

    def __init__(
        self,
        function: Callable[P, Made],
        kind: Literal["call", "pages", "stream", "steps"],
        reply: Any,
        result: Any,
        *,
        part: str = "",
        retried: bool | RetryCondition = False,
    ) -> None:
        update_wrapper(cast("Any", self), function)
        self.name = function.__name__.rstrip("_")
        self.kind = kind
        self.rpc: Any = _RPCS.get(self.name)
        self.reply = reply
        self.result = result
        is_part = kind == "call" and part
        self.read = replies.reader(part, result) if is_part else replies.conversion(result)
        self.part = part
        self.retried = retried
        checks = checked(function, self.name, _largest(self.rpc) if self.rpc else {})
        self._make = checks if kind == "steps" else sendable()(checks)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Made:
        """Check the arguments, and return the request that the declaring function makes of them."""
        try:
            return self._make(*args, **kwargs)
        except Unsendable as error:
            raise self._named(error, args, kwargs) from error.__cause__

    def _named(self, error: Unsendable, args: Any, kwargs: Any) -> Unsendable:
        """Return the error with the name of the argument whose text is not valid Unicode."""
        wrong = getattr(error.__cause__, "object", None)
        given = inspect.signature(self._make).bind(*args, **kwargs).arguments.items()
        names = [name for name, value in given if isinstance(value, str) and value == wrong]
        return Unsendable(f"{names[0]}: {error}") if names else error

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
        @overload
        def __get__(self, client: BlockingResults, owner: Any) -> Callable[P, Returned]: ...
        @overload
        def __get__(self, client: AwaitedResults, owner: Any) -> Callable[P, Awaited]: ...
        @overload
        def __get__(self, client: BlockingMessages, owner: Any) -> Callable[P, Message]: ...
        def __get__(self, client: Any, owner: Any) -> Any: ...

    def is_repeatable(self, request: Any) -> bool:
        """Return True if the declaration allows to send this request again."""
        return self.retried.holds(request) if isinstance(self.retried, RetryCondition) else True

    def may_repeat(self, request: Any) -> bool:
        """Return True if a request may be sent again even if the daemon may have done its work."""
        return bool(self.retried) and self.is_repeatable(request)

    def document(self, function: Any, owner: type, returned: Any) -> None:
        """Give a function of a client class the name, docstring and signature of this method."""
        signature = inspect.signature(self._make)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        function.__name__ = self.name
        function.__qualname__ = f"{owner.__qualname__}.{self.name}"
        function.__module__ = owner.__module__
        function.__doc__ = f"{inspect.getdoc(self._make)}{self._again()}"
        function.__signature__ = signature.replace(
            parameters=[itself, *signature.parameters.values()],
            return_annotation=re.sub(r"(\w+\.)+", "", inspect.formatannotation(returned)),
        )

    def _again(self) -> str:
        if self.kind == "steps":
            return ""
        if isinstance(self.retried, RetryCondition):
            return f"\n\nSent again, {self.retried.words}, when the daemon is unavailable."
        itself = "Sent again" if self.retried else "Not sent again by itself"
        return f"\n\n{itself} when the daemon is unavailable."


def method(
    reply: type[Reply], result: type[Result], *, part: str = "", retried: bool | RetryCondition
) -> Callable[[Callable[P, Made]], Method[P, Made, Result, Coroutine[Any, Any, Result], Reply]]:
    """Return a decorator for a function that builds a request: it makes a Method of the function.

    Args:
        reply: the reply of the RPC.
        result: the class of the result.
        part: the field of the reply with the result; "": the whole reply.
        retried: True, or a condition: send a request again when the daemon is unavailable. The
            daemon may have done the work already, so a repetition must do no harm.
    """
    return lambda build: Method(build, "call", reply, result, part=part, retried=retried)


def pages(
    item: type[Reply], result: type[Result], items: str
) -> Callable[
    [Callable[P, Made]], Method[P, Made, Iterator[Result], AsyncIterator[Result], Iterator[Reply]]
]:
    """Return a decorator as `method` does, for a function that builds the request of a listing.

    Args:
        item: the message of an item.
        result: the class of an item.
        items: the field of a page with its items.
    """
    return lambda build: Method(build, "pages", item, result, part=items, retried=True)


def stream(
    part: type[Reply], result: type[Result]
) -> Callable[
    [Callable[P, Made]], Method[P, Made, Iterator[Result], AsyncIterator[Result], Iterator[Reply]]
]:
    """Return a decorator as `method` does, for a request whose reply is a stream of messages."""
    return lambda build: Method(build, "stream", part, result)


def composed(
    result: type[Result],
) -> Callable[
    [Callable[P, Steps[Result]]],
    Method[P, Steps[Result], Result, Coroutine[Any, Any, Result], Never],
]:
    """Return a decorator as `method` does, for a generator function that makes several calls."""
    return lambda function: Method(function, "steps", None, result)
