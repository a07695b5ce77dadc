"""The methods of the clients. Each is declared once, by the function that makes its request.

The decorators here turn such a function into a Method, Pages or Stream, and a generator of several
calls into a Composed method. `with_functions` makes plain functions of them for each class of
clients, with the same arguments. `__get__` tells type checkers and editors what these return;
nothing calls it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

import grpc

from vikingd.client import replies
from vikingd.client.argument_checks import checked
from vikingd.client.client_errors import sendable
from vikingd.client.steps import Steps
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2
from vikingd.pb.access_pb2_grpc import AccessStub
from vikingd.pb.admin_pb2_grpc import AdminStub
from vikingd.pb.contexts_pb2_grpc import ContextsStub
from vikingd.pb.memories_pb2_grpc import MemoriesStub
from vikingd.pb.retrieval_pb2_grpc import RetrievalStub

P = ParamSpec("P")
Request = TypeVar("Request")
Reply = TypeVar("Reply")
Result = TypeVar("Result")

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


class If(NamedTuple):
    """The condition under which a request may be sent again, in words and as a predicate."""

    words: str
    holds: Callable[[Any], bool]


class BlockingResults:
    """A client whose methods return results."""


class AwaitedResults:
    """A client whose methods are awaited and return results."""


class BlockingMessages:
    """A client whose methods return messages."""


class Described(Generic[P, Result]):
    """A method as it is declared.

    Attributes:
        name: its name.
        result: the class of its result, or of what it yields.
        reply: the message that MessageClient returns or yields in its place.
        read: the function that makes the result from the message.
    """

    def __init__(self, function: Callable[P, Any], result: type[Result]) -> None:
        update_wrapper(cast("Any", self), function)
        self.name = function.__name__.rstrip("_")
        self.result = result
        self.reply: Any = result
        self.read: Callable[[Any], Any] = lambda result: result
        self._make = checked(function, self.name)

    def document(self, function: Any, owner: type, returned: Any) -> None:
        """Document a function of a class of clients, which returns a type, as this method."""
        signature = inspect.signature(self._make)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        function.__name__ = self.name
        function.__qualname__ = f"{owner.__qualname__}.{self.name}"
        function.__module__ = owner.__module__
        function.__doc__ = self._documentation()
        function.__signature__ = signature.replace(
            parameters=[itself, *signature.parameters.values()],
            return_annotation=re.sub(r"(\w+\.)+", "", inspect.formatannotation(returned)),
        )

    def _documentation(self) -> str:
        return str(inspect.getdoc(self._make))


class Composed(Described[P, Result]):
    """A method of several calls."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Steps[Result]:
        """Return the steps of a call."""
        steps: Steps[Result] = self._make(*args, **kwargs)
        return steps

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: BlockingResults, owner: Any) -> Callable[P, Result]: ...
        @overload
        def __get__(
            self, client: AwaitedResults, owner: Any
        ) -> Callable[P, Coroutine[Any, Any, Result]]: ...
        def __get__(self, client: Any, owner: Any) -> Any: ...


class OfRpc(Described[P, Result], Generic[P, Request, Reply, Result]):
    """A method of one RPC.

    Attributes:
        rpc: the descriptor of the RPC.
        items: the field of a page with the items of a listing; "": there are no pages.
        retried: True, or a condition: a request is sent again when the daemon is unavailable.
    """

    def __init__(
        self,
        build: Callable[P, Request],
        reply: type[Reply],
        result: type[Result],
        *,
        part: str = "",
        items: str = "",
        retried: bool | If,
    ) -> None:
        super().__init__(build, result)
        self._make = sendable()(self._make)
        self.reply = reply
        self.read = replies.reader(part, result) if part else replies.conversion(result)
        self.items = items
        self.rpc = _RPCS[self.name]
        self.retried = retried

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Request:
        """Return the request of a call."""
        request: Request = self._make(*args, **kwargs)
        return request

    def is_repeatable(self, request: Any) -> bool:
        """Return True if this request of a `retried` method may be sent again."""
        return self.retried.holds(request) if isinstance(self.retried, If) else True

    def _documentation(self) -> str:
        again = "Sent again when the daemon is unavailable."
        if isinstance(self.retried, If):
            again = f"Sent again, {self.retried.words}, when the daemon is unavailable."
        elif not self.retried:
            again = "Not sent again by itself when the daemon is unavailable."
        return f"{super()._documentation()}\n\n{again}"


class Method(OfRpc[P, Request, Reply, Result]):
    """A method that sends a request and returns its result."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
        @overload
        def __get__(self, client: BlockingResults, owner: Any) -> Callable[P, Result]: ...
        @overload
        def __get__(
            self, client: AwaitedResults, owner: Any
        ) -> Callable[P, Coroutine[Any, Any, Result]]: ...
        @overload
        def __get__(self, client: BlockingMessages, owner: Any) -> Callable[P, Reply]: ...
        def __get__(self, client: Any, owner: Any) -> Any: ...


class Stream(OfRpc[P, Request, Reply, Result]):
    """A method that yields the parts of a streamed reply."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
        @overload
        def __get__(self, client: BlockingResults, owner: Any) -> Callable[P, Iterator[Result]]: ...
        @overload
        def __get__(
            self, client: AwaitedResults, owner: Any
        ) -> Callable[P, AsyncIterator[Result]]: ...
        @overload
        def __get__(self, client: BlockingMessages, owner: Any) -> Callable[P, Iterator[Reply]]: ...
        def __get__(self, client: Any, owner: Any) -> Any: ...


class Pages(Stream[P, Request, Reply, Result]):
    """A method that yields the items of a listing, which comes in pages."""


def method(
    reply: type[Reply], result: type[Result], *, part: str = "", retried: bool | If
) -> Callable[[Callable[P, Request]], Method[P, Request, Reply, Result]]:
    """Make a Method of a function that builds a request.

    Args:
        reply: the reply of the RPC.
        result: the class of the result.
        part: the field of the reply with the result; "": the whole reply.
        retried: True, or a condition: send a request again when the daemon is unavailable. The
            daemon may have done the work already, so a repetition must do no harm.
    """
    return lambda build: Method(build, reply, result, part=part, retried=retried)


def pages(
    item: type[Reply], result: type[Result], items: str
) -> Callable[[Callable[P, Request]], Pages[P, Request, Reply, Result]]:
    """Make Pages of a function that builds the request of a listing.

    Args:
        item: the message of an item.
        result: the class of an item.
        items: the field of a page with its items.
    """
    return lambda build: Pages(build, item, result, items=items, retried=True)


def stream(
    part: type[Reply], result: type[Result]
) -> Callable[[Callable[P, Request]], Stream[P, Request, Reply, Result]]:
    """Make a Stream of a function that builds a request; `part` is the message of a part."""
    return lambda build: Stream(build, part, result, retried=False)


def composed(result: type[Result]) -> Callable[[Callable[P, Steps[Result]]], Composed[P, Result]]:
    """Make a Composed method of a generator function of steps."""
    return lambda function: Composed(function, result)
