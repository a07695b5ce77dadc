"""The methods of all clients, one for each RPC: defined once, with types for each client."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import PurePath
from types import MethodType
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

from vikingd.client import (
    access,
    admin_requests,
    context_requests,
    contexts,
    extracted,
    memory_requests,
    replies,
    results,
    retrieval_requests,
    status,
)
from vikingd.client.calls import checked
from vikingd.client.errors import sendable
from vikingd.domain.patterns import GlobEntry, GrepMatch
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2
from vikingd.pb.access_pb2_grpc import AccessStub
from vikingd.pb.admin_pb2_grpc import AdminStub
from vikingd.pb.contexts_pb2_grpc import ContextsStub
from vikingd.pb.memories_pb2_grpc import MemoriesStub
from vikingd.pb.retrieval_pb2_grpc import RetrievalStub

if TYPE_CHECKING:
    One: TypeAlias = grpc.UnaryUnaryMultiCallable["Request", "Reply"]
    Many: TypeAlias = grpc.UnaryStreamMultiCallable["Request", "Reply"]

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


class If(NamedTuple):
    """The condition under which a request may be sent again, in words and as a predicate."""

    words: str
    holds: Callable[[Any], bool]


def _again(retried: bool | If) -> str:
    if isinstance(retried, If):
        return f"Sent again, {retried.words}, when the daemon is unavailable."
    if retried:
        return "Sent again when the daemon is unavailable."
    return "Not sent again by itself when the daemon is unavailable."


class Described(Generic[P, Request, Reply, Result]):
    """A descriptor that becomes a method of the class through which it is reached.

    Args:
        build: the function that makes the request.
        rpc: the function that picks the RPC among the stubs.
        result: the class of the result in clients that return no messages.
        part: the field of the reply with the result; "": the whole reply.
        retried: True, or a condition: send a request again when the daemon is unavailable. The
            daemon may have done the work already, so a repetition must do no harm.
    """

    def __init__(
        self,
        build: Callable[P, Request],
        rpc: Callable[[Stubs], One[Request, Reply] | Many[Request, Reply]],
        result: type[Result],
        *,
        part: str = "",
        retried: bool | If,
    ) -> None:
        self._given = build
        self.rpc: Callable[[Stubs], Any] = rpc
        self.result = result
        self.retried = retried
        self._part = part
        self._functions: dict[type[Methods], Callable[..., Any]] = {}

    def __set_name__(self, _: type[Methods], name: str) -> None:
        self._name = name
        self.build = sendable()(checked(self._given, name))

    def is_repeatable(self, request: Any) -> bool:
        """Return True if this request of a `retried` method may be sent again."""
        return self.retried.holds(request) if isinstance(self.retried, If) else True

    def conversion(self, owner: type[Methods]) -> Callable[[Any], Any]:
        """Return the function that converts a reply for a class of clients."""
        if not owner._converts:
            return lambda message: message
        if self._part:
            return replies.reader(self._part, self.result)
        return replies.conversion(self.result)

    def _of(self, client: Methods | None, owner: type[Methods]) -> Any:
        if not hasattr(owner, "_converts"):
            return self  # a base class without a connection
        function = self._functions.get(owner)
        if function is None:
            function = owner._function(self)
            self._document(function, owner)
            self._functions[owner] = function
        return function if client is None else MethodType(function, client)

    def _message(self) -> Any:
        """Return the descriptor of the message that the method returns or yields."""
        return _RPCS[self._name].output_type

    def _document(self, function: Any, owner: type[Methods]) -> None:
        """Set name, documentation and signature of a function by those of `build`."""
        if owner._converts:
            returns = inspect.formatannotation(self.result).replace("vikingd.client.", "")
        else:
            message = self._message()
            returns = f"{PurePath(message.file.name).stem}_pb2.{message.name}"
        if isinstance(self, _Yielding):
            kind = "AsyncIterator" if issubclass(owner, AwaitedResults) else "Iterator"
            returns = f"{kind}[{returns}]"
        signature = inspect.signature(self.build)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        function.__name__ = self._name
        function.__qualname__ = f"{owner.__qualname__}.{self._name}"
        function.__module__ = owner.__module__
        function.__doc__ = f"{inspect.getdoc(self.build)}\n\n{_again(self.retried)}"
        function.__signature__ = signature.replace(
            parameters=[itself, *signature.parameters.values()], return_annotation=returns
        )


class Method(Described[P, Request, Reply, Result]):
    """A method that sends a request and returns its result."""

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
    def __get__(self, client: Methods | None, owner: type[Methods]) -> Any:
        return self._of(client, owner)


class _Yielding(Described[P, Request, Reply, Result]):
    """A method that yields results."""

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
    def __get__(self, client: Methods | None, owner: type[Methods]) -> Any:
        return self._of(client, owner)


class Pages(_Yielding[P, Request, Reply, Result]):
    """A method that yields the items of a listing, page by page.

    Args:
        message: the class of the items as messages.
        items: the field of the reply with the items.
    """

    def __init__(
        self,
        build: Callable[P, Request],
        rpc: Callable[[Stubs], One[Request, Any]],
        result: type[Result],
        message: type[Reply],
        items: str,
    ) -> None:
        super().__init__(build, rpc, result, retried=True)
        self._item: Any = message
        self.items = items

    def _message(self) -> Any:
        return self._item.DESCRIPTOR


class Stream(_Yielding[P, Request, Reply, Result]):
    """A method that yields the parts of a streamed reply."""


_NAMED = If("with a request_id", lambda request: bool(request.request_id))


class Methods(ABC):
    """The methods of a client, one for each RPC."""

    _converts: ClassVar[bool]

    @classmethod
    @abstractmethod
    def _function(cls, method: Described[..., Any, Any, Any]) -> Callable[..., Any]:
        """Return the function or generator for this class."""

    find = Method(
        retrieval_requests.find, lambda to: to.retrieval.Find, results.FindResult, retried=True
    )
    batch_find = Method(
        retrieval_requests.batch_find,
        lambda to: to.retrieval.BatchFind,
        tuple[results.FindResult, ...],
        part="responses",
        retried=True,
    )
    search = Method(
        retrieval_requests.search,
        lambda to: to.retrieval.Search,
        results.SearchResult,
        retried=True,
    )
    retrieve = Method(
        retrieval_requests.retrieve,
        lambda to: to.retrieval.Retrieve,
        results.RetrieveResult,
        retried=True,
    )
    build_context = Method(
        retrieval_requests.build_context,
        lambda to: to.retrieval.BuildContext,
        results.BuiltContext,
        retried=True,
    )
    # A repetition may count accesses twice.
    recall = Method(
        memory_requests.recall, lambda to: to.memories.Recall, results.RecallResult, retried=True
    )
    # Without a request_id, a repetition would reinforce the memory once more.
    remember = Method(
        memory_requests.remember,
        lambda to: to.memories.Remember,
        results.RememberResult,
        retried=_NAMED,
    )
    extract = Method(
        memory_requests.extract,
        lambda to: to.memories.Extract,
        extracted.ExtractResult,
        retried=_NAMED,
    )
    reinforce = Method(
        memory_requests.reinforce,
        lambda to: to.memories.Reinforce,
        results.ReinforceResult,
        retried=_NAMED,
    )
    # A repetition of forget, move or unlink would be NOT_FOUND.
    forget = Method(
        memory_requests.forget, lambda to: to.memories.Forget, results.ForgetResult, retried=False
    )
    # The first attempt changes the revision, so a repetition would not find the expected one.
    put = Method(
        context_requests.put,
        lambda to: to.contexts.Put,
        contexts.PutResult,
        retried=If(
            "without an expected_revision",
            lambda request: not any(c.HasField("expected_revision") for c in request.contexts),
        ),
    )
    delete = Method(
        context_requests.delete,
        lambda to: to.contexts.Delete,
        contexts.DeleteResult,
        retried=If("with allow_missing", lambda request: bool(request.allow_missing)),
    )
    move = Method(
        context_requests.move, lambda to: to.contexts.Move, contexts.MoveResult, retried=False
    )
    get = Method(
        context_requests.get,
        lambda to: to.contexts.Get,
        contexts.Context,
        part="context",
        retried=True,
    )
    list = Pages(
        context_requests.list_,
        lambda to: to.contexts.List,
        contexts.Context,
        contexts_pb2.Context,
        "contexts",
    )
    tree = Pages(
        context_requests.tree,
        lambda to: to.contexts.Tree,
        contexts.Context,
        contexts_pb2.Context,
        "contexts",
    )
    glob = Pages(
        context_requests.glob,
        lambda to: to.contexts.Glob,
        GlobEntry,
        contexts_pb2.GlobEntry,
        "entries",
    )
    grep = Pages(
        context_requests.grep,
        lambda to: to.contexts.Grep,
        GrepMatch,
        contexts_pb2.GrepMatch,
        "matches",
    )
    link = Method(
        context_requests.link, lambda to: to.contexts.Link, contexts.LinkResult, retried=True
    )
    unlink = Method(
        context_requests.unlink, lambda to: to.contexts.Unlink, contexts.LinkResult, retried=False
    )
    stats = Method(admin_requests.stats, lambda to: to.admin.Stats, status.Stats, retried=True)
    verify = Method(
        admin_requests.verify, lambda to: to.admin.Verify, status.VerifyReport, retried=True
    )
    # Heavy work is not repeated.
    optimize = Method(
        admin_requests.optimize, lambda to: to.admin.Optimize, status.OptimizeResult, retried=False
    )
    reembed = Method(
        admin_requests.reembed, lambda to: to.admin.Reembed, status.ReembedResult, retried=False
    )
    # A repetition would create a second key, or end the secret that the first reply has.
    create_key = Method(
        access.create_key, lambda to: to.access.CreateKey, access.CreatedKey, retried=False
    )
    list_keys = Method(
        access.list_keys, lambda to: to.access.ListKeys, access.KeyList, retried=True
    )
    revoke_key = Method(
        access.revoke_key, lambda to: to.access.RevokeKey, access.Key, part="key", retried=True
    )
    rotate_key = Method(
        access.rotate_key, lambda to: to.access.RotateKey, access.RotatedKey, retried=False
    )
    put_tenant = Method(
        access.put_tenant,
        lambda to: to.access.PutTenant,
        access.Tenant,
        part="tenant",
        retried=If("without create", lambda request: not request.create),
    )
    list_tenants = Method(
        access.list_tenants, lambda to: to.access.ListTenants, access.TenantList, retried=True
    )
    delete_tenant = Method(
        access.delete_tenant,
        lambda to: to.access.DeleteTenant,
        access.DeletedTenant,
        retried=False,
    )
    backup = Stream(
        admin_requests.backup, lambda to: to.admin.Backup, status.BackupPiece, retried=False
    )


class BlockingResults(Methods):
    """A client whose methods return results."""


class AwaitedResults(Methods):
    """A client whose methods are awaited and return results."""


class BlockingMessages(Methods):
    """A client whose methods return messages."""


RETRIED = tuple(
    {"service": rpc.containing_service.full_name, "method": rpc.name}
    for name, rpc in _RPCS.items()
    if vars(Methods)[name].retried
)
"""The RPCs with requests that may be sent again, as names of a gRPC service config."""
