"""The methods of all clients, one for each RPC: written once, typed for each kind of client."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import FunctionType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    overload,
)

import grpc

from vikingd.client import memory_requests, replies, requests
from vikingd.client.channel import Stubs
from vikingd.client.contexts import Context
from vikingd.client.errors import sendable
from vikingd.pb import admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

if TYPE_CHECKING:
    Rpc: TypeAlias = Callable[[Stubs], grpc.UnaryUnaryMultiCallable["Request", "Reply"]]

P = ParamSpec("P")
Request = TypeVar("Request")
Reply = TypeVar("Reply")
Result = TypeVar("Result")

_AGAIN = "Sent again when the daemon is unavailable."
_ONCE = "Not sent again by itself when the daemon is unavailable."


class If(NamedTuple):
    """The condition for sending a request again, in words and as a predicate."""

    words: str
    holds: Callable[[Any], bool]


def _again(retried: bool | If) -> str:
    if isinstance(retried, If):
        return f"Sent again, {retried.words}, when the daemon is unavailable."
    return _AGAIN if retried else _ONCE


class _Described(ABC, Generic[P]):
    """A descriptor that becomes a method of the class through which it is reached."""

    def __init__(
        self,
        build: Callable[P, Any],
        rpc: Callable[[Stubs], Any],
        convert: Callable[[Any], Any],
        retried: bool | If,
    ) -> None:
        self.build = sendable()(build)
        self.rpc = rpc
        self.convert = convert
        self.retried = retried
        self.name = ""
        self._functions: dict[type[Methods], FunctionType] = {}

    def __set_name__(self, _: type[Methods], name: str) -> None:
        self.name = name

    def is_repeatable(self, request: Any) -> bool:
        """Return whether this request of a `retried` method may be sent again."""
        return self.retried.holds(request) if isinstance(self.retried, If) else True

    def conversion(self, owner: type[Methods]) -> Callable[[Any], Any]:
        """Return the function that converts a reply for a class of clients."""
        return self.convert if owner._converts else _as_it_is

    def _of(self, client: Methods | None, owner: type[Methods]) -> Any:
        if not hasattr(owner, "_converts"):
            return self  # a base of the clients, which has no connection
        function = self._functions.get(owner)
        if function is None:
            function = self._functions[owner] = self._made_for(owner)
        return function if client is None else MethodType(function, client)

    @abstractmethod
    def _made_for(self, owner: type[Methods]) -> FunctionType:
        """Return the function that is the method of a class."""

    def _documented(self, function: FunctionType, owner: type[Methods], returns: str) -> None:
        """Set name, documentation and signature of a function, from those of `build`."""
        signature = inspect.signature(self.build)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        function.__name__ = self.name
        function.__qualname__ = f"{owner.__qualname__}.{self.name}"
        function.__module__ = owner.__module__
        function.__doc__ = f"{inspect.getdoc(self.build)}\n\n{_again(self.retried)}"
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[itself, *signature.parameters.values()], return_annotation=returns
        )


def _as_it_is(message: Result) -> Result:
    return message


class Method(_Described[P], Generic[P, Request, Reply, Result]):
    """A method that sends a request and returns what the reply says.

    Args:
        build: makes the request.
        rpc: where it goes.
        convert: what clients that have no messages make of the reply.
        retried: whether it is sent again when the daemon is unavailable, or for which requests. It
            may be done already then, so this holds for what can be done twice without harm.
    """

    def __init__(
        self,
        build: Callable[P, Request],
        rpc: Rpc[Request, Reply],
        convert: Callable[[Reply], Result],
        *,
        retried: bool | If,
    ) -> None:
        super().__init__(build, rpc, convert, retried)

    @overload
    def __get__(self, client: None, owner: type[Methods]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: BlockingResults, owner: type[Methods]) -> Callable[P, Result]: ...
    @overload
    def __get__(
        self, client: AwaitedResults, owner: type[Methods]
    ) -> Callable[P, Coroutine[Any, Any, Result]]: ...
    @overload
    def __get__(self, client: BlockingMessages, owner: type[Methods]) -> Callable[P, Reply]: ...
    @overload
    def __get__(
        self, client: AwaitedMessages, owner: type[Methods]
    ) -> Callable[P, Coroutine[Any, Any, Reply]]: ...
    def __get__(self, client: Methods | None, owner: type[Methods]) -> Any:
        return self._of(client, owner)

    def _made_for(self, owner: type[Methods]) -> FunctionType:
        signature = inspect.signature(self.convert)
        [reply] = signature.parameters.values()
        function = owner._call(self)
        returns = signature.return_annotation if owner._converts else reply.annotation
        self._documented(function, owner, returns)
        return function


class Pages(_Described[P], Generic[P, Request, Reply]):
    """A method that yields the contexts of a listing, page by page."""

    def __init__(self, build: Callable[P, Request], rpc: Rpc[Request, Reply]) -> None:
        super().__init__(build, rpc, replies.context, retried=True)

    @overload
    def __get__(self, client: None, owner: type[Methods]) -> Callable[..., Any]: ...
    @overload
    def __get__(
        self, client: BlockingResults, owner: type[Methods]
    ) -> Callable[P, Iterator[Context]]: ...
    @overload
    def __get__(
        self, client: AwaitedResults, owner: type[Methods]
    ) -> Callable[P, AsyncIterator[Context]]: ...
    @overload
    def __get__(
        self, client: BlockingMessages, owner: type[Methods]
    ) -> Callable[P, Iterator[contexts_pb2.Context]]: ...
    @overload
    def __get__(
        self, client: AwaitedMessages, owner: type[Methods]
    ) -> Callable[P, AsyncIterator[contexts_pb2.Context]]: ...
    def __get__(self, client: Methods | None, owner: type[Methods]) -> Any:
        return self._of(client, owner)

    def _made_for(self, owner: type[Methods]) -> FunctionType:
        function = owner._pages(self)
        iterator = "AsyncIterator" if inspect.isasyncgenfunction(function) else "Iterator"
        context = "Context" if owner._converts else "contexts_pb2.Context"
        self._documented(function, owner, f"{iterator}[{context}]")
        return function


class Stream(_Described[P], Generic[P, Request, Reply, Result]):
    """A method that yields the parts of a reply that comes as a stream."""

    def __init__(
        self,
        build: Callable[P, Request],
        rpc: Callable[[Stubs], grpc.UnaryStreamMultiCallable[Request, Reply]],
        convert: Callable[[Reply], Result],
    ) -> None:
        super().__init__(build, rpc, convert, retried=False)

    @overload
    def __get__(self, client: None, owner: type[Methods]) -> Callable[..., Any]: ...
    @overload
    def __get__(
        self, client: BlockingResults, owner: type[Methods]
    ) -> Callable[P, Iterator[Result]]: ...
    @overload
    def __get__(
        self, client: AwaitedResults, owner: type[Methods]
    ) -> Callable[P, AsyncIterator[Result]]: ...
    @overload
    def __get__(
        self, client: BlockingMessages, owner: type[Methods]
    ) -> Callable[P, Iterator[Reply]]: ...
    @overload
    def __get__(
        self, client: AwaitedMessages, owner: type[Methods]
    ) -> Callable[P, AsyncIterator[Reply]]: ...
    def __get__(self, client: Methods | None, owner: type[Methods]) -> Any:
        return self._of(client, owner)

    def _made_for(self, owner: type[Methods]) -> FunctionType:
        function = owner._stream(self)
        signature = inspect.signature(self.convert)
        [reply] = signature.parameters.values()
        iterator = "AsyncIterator" if inspect.isasyncgenfunction(function) else "Iterator"
        part = signature.return_annotation if owner._converts else reply.annotation
        self._documented(function, owner, f"{iterator}[{part}]")
        return function


_NAMED = If("with a request_id", lambda request: bool(request.request_id))


class Methods(ABC):
    """The methods of a client, one for each RPC."""

    _converts: ClassVar[bool]

    @classmethod
    @abstractmethod
    def _call(cls, method: Method[..., Any, Any, Any]) -> FunctionType:
        """Return the function that sends a request of one kind."""

    @classmethod
    @abstractmethod
    def _pages(cls, method: Pages[..., Any, Any]) -> FunctionType:
        """Return the generator that reads a listing."""

    @classmethod
    @abstractmethod
    def _stream(cls, method: Stream[..., Any, Any, Any]) -> FunctionType:
        """Return the generator that reads a stream."""

    find = Method(requests.find, lambda to: to.retrieval.Find, replies.find, retried=True)
    batch_find = Method(
        requests.batch_find, lambda to: to.retrieval.BatchFind, replies.batch_find, retried=True
    )
    search = Method(requests.search, lambda to: to.retrieval.Search, replies.search, retried=True)
    retrieve = Method(
        requests.retrieve, lambda to: to.retrieval.Retrieve, replies.retrieve, retried=True
    )
    build_context = Method(
        requests.build_context,
        lambda to: to.retrieval.BuildContext,
        replies.build_context,
        retried=True,
    )
    # At worst, accesses are counted twice.
    recall = Method(
        memory_requests.recall, lambda to: to.memories.Recall, replies.recall, retried=True
    )
    # Without a name, a memory that is said again is reinforced.
    remember = Method(
        memory_requests.remember,
        lambda to: to.memories.Remember,
        replies.remember,
        retried=_NAMED,
    )
    reinforce = Method(
        memory_requests.reinforce,
        lambda to: to.memories.Reinforce,
        replies.reinforce,
        retried=_NAMED,
    )
    # What is gone already is NOT_FOUND: here, in move and unlink.
    forget = Method(
        memory_requests.forget, lambda to: to.memories.Forget, replies.forget, retried=False
    )
    # What was written already has another revision than is expected.
    put = Method(
        requests.put,
        lambda to: to.contexts.Put,
        replies.put,
        retried=If(
            "without an expected_revision",
            lambda request: not any(c.HasField("expected_revision") for c in request.contexts),
        ),
    )
    delete = Method(
        requests.delete,
        lambda to: to.contexts.Delete,
        replies.delete,
        retried=If("with allow_missing", lambda request: bool(request.allow_missing)),
    )
    move = Method(requests.move, lambda to: to.contexts.Move, replies.move, retried=False)
    get = Method(requests.get, lambda to: to.contexts.Get, replies.get, retried=True)
    list = Pages(requests.list_, lambda to: to.contexts.List)
    tree = Pages(requests.tree, lambda to: to.contexts.Tree)
    link = Method(requests.link, lambda to: to.contexts.Link, replies.link, retried=True)
    unlink = Method(requests.unlink, lambda to: to.contexts.Unlink, replies.link, retried=False)
    stats = Method(requests.stats, lambda to: to.admin.Stats, replies.stats, retried=True)
    verify = Method(requests.verify, lambda to: to.admin.Verify, replies.verify, retried=True)
    # Heavy work is not started again.
    optimize = Method(
        requests.optimize, lambda to: to.admin.Optimize, replies.optimize, retried=False
    )
    reembed = Method(requests.reembed, lambda to: to.admin.Reembed, replies.reembed, retried=False)
    backup = Stream(requests.backup, lambda to: to.admin.Backup, replies.backup)


class BlockingResults(Methods):
    """A client whose methods return results."""


class AwaitedResults(Methods):
    """A client whose methods are awaited and return results."""


class BlockingMessages(Methods):
    """A client whose methods return messages."""


class AwaitedMessages(Methods):
    """A client whose methods are awaited and return messages."""


def _retried() -> Iterator[str]:
    for file in (retrieval_pb2, contexts_pb2, memories_pb2, admin_pb2):
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                name = re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()
                if vars(Methods)[name].retried:
                    yield f"{service.full_name}/{method.name}"


RETRIED = tuple(_retried())
"""The RPCs of which requests may be sent again, as package.Service/Method."""
