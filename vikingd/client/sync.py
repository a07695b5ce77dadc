"""The synchronous client."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc

from vikingd.client import requests
from vikingd.client.channel import DEFAULT_ADDRESS, DEFAULT_TIMEOUT, OPTIONS, documented_as
from vikingd.client.errors import from_rpc_error
from vikingd.pb.admin_pb2_grpc import AdminStub
from vikingd.pb.contexts_pb2 import Context, ListRequest, TreeRequest
from vikingd.pb.contexts_pb2_grpc import ContextsStub
from vikingd.pb.memories_pb2_grpc import MemoriesStub
from vikingd.pb.retrieval_pb2_grpc import RetrievalStub

P = ParamSpec("P")
Request = TypeVar("Request")
Reply = TypeVar("Reply")


def _method(
    build: Callable[P, Request],
    rpc: Callable[[Client], grpc.UnaryUnaryMultiCallable[Request, Reply]],
) -> Callable[Concatenate[Client, P], Reply]:
    """The method that builds a request, sends it and waits for the reply."""

    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Reply:
        return self._send(rpc(self), build(*args, **kwargs))

    documented_as(build, call)
    return call


class Client:
    """A connection to a daemon; usable from any thread, and as a context manager.

    It connects with the first call. Every method returns the reply's protobuf message and raises
    ClientError.

    Attributes:
        timeout: deadline of each call in seconds; None for none.
    """

    def __init__(
        self, address: str = DEFAULT_ADDRESS, timeout: float | None = DEFAULT_TIMEOUT
    ) -> None:
        self.timeout = timeout
        self._channel = grpc.insecure_channel(address, OPTIONS)
        self._retrieval = RetrievalStub(self._channel)
        self._contexts = ContextsStub(self._channel)
        self._memories = MemoriesStub(self._channel)
        self._admin = AdminStub(self._channel)

    find = _method(requests.find, lambda client: client._retrieval.Find)
    batch_find = _method(requests.batch_find, lambda client: client._retrieval.BatchFind)
    retrieve = _method(requests.retrieve, lambda client: client._retrieval.Retrieve)
    build_context = _method(requests.build_context, lambda client: client._retrieval.BuildContext)
    recall = _method(requests.recall, lambda client: client._memories.Recall)
    remember = _method(requests.remember, lambda client: client._memories.Remember)
    reinforce = _method(requests.reinforce, lambda client: client._memories.Reinforce)
    forget = _method(requests.forget, lambda client: client._memories.Forget)
    put = _method(requests.put, lambda client: client._contexts.Put)
    delete = _method(requests.delete, lambda client: client._contexts.Delete)
    move = _method(requests.move, lambda client: client._contexts.Move)
    get = _method(requests.get, lambda client: client._contexts.Get)
    link = _method(requests.link, lambda client: client._contexts.Link)
    unlink = _method(requests.unlink, lambda client: client._contexts.Unlink)
    stats = _method(requests.stats, lambda client: client._admin.Stats)
    verify = _method(requests.verify, lambda client: client._admin.Verify)
    optimize = _method(requests.optimize, lambda client: client._admin.Optimize)
    reembed = _method(requests.reembed, lambda client: client._admin.Reembed)

    def list(self, uri: str = "", *, min_revision: int = 0) -> Iterator[Context]:
        """The direct children of a directory: files before directories, each by name."""
        return self._pages(self._contexts.List, ListRequest(uri=uri, min_revision=min_revision))

    def tree(self, uri: str = "", *, depth: int = 0, min_revision: int = 0) -> Iterator[Context]:
        """A subtree by URI, its top first; `depth` levels below the top, 0 for all."""
        request = TreeRequest(uri=uri, depth=depth, min_revision=min_revision)
        return self._pages(self._contexts.Tree, request)

    def with_timeout(self, timeout: float | None) -> Self:
        """The same connection with another deadline for each call."""
        other = copy.copy(self)
        other.timeout = timeout
        return other

    def close(self) -> None:
        """Ends the connection; calls under way fail."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, rpc: grpc.UnaryUnaryMultiCallable[Request, Reply], request: Request) -> Reply:
        try:
            return rpc(request, timeout=self.timeout)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None

    def _pages(
        self, rpc: grpc.UnaryUnaryMultiCallable[Any, Any], request: ListRequest | TreeRequest
    ) -> Iterator[Context]:
        while True:
            page = self._send(rpc, request)
            yield from page.contexts
            request.page_token = page.next_page_token
            if not request.page_token:
                return
