"""The service Contexts: writes and reads of the tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from google.protobuf.message import Message

from vikingd.answer.derived_texts import described, directory_abstracts
from vikingd.browse.line_search import find_lines
from vikingd.browse.path_search import find_paths
from vikingd.domain import uri as uris
from vikingd.domain.answers import ReplyBudget
from vikingd.domain.errors import DeadlinePassed, InvalidField
from vikingd.domain.rights import Right
from vikingd.engine import Engine
from vikingd.lanes import call_cost
from vikingd.lanes.call_pools import (
    CallContext,
    CallDeadline,
    FutureBridge,
    Threads,
    wait_for_revision,
    wait_for_vectors,
)
from vikingd.pb import contexts_pb2
from vikingd.wire.messages import common_messages, decode
from vikingd.wire.messages import pattern_messages as patterns
from vikingd.wire.messages.put_request import check_vectors_given
from vikingd.wire.put_preparation import Preparing


class ContextsService:
    """The handlers of the service Contexts. The engine's only writer writes; pool threads read."""

    def __init__(self, engine: Engine, threads: Threads, preparing: Preparing) -> None:
        self._engine = engine
        self._threads = threads
        self._preparing = preparing
        self._writes = FutureBridge()

    async def Put(
        self, request: contexts_pb2.PutRequest, context: CallContext
    ) -> contexts_pb2.PutResponse:
        """Write contexts: all or none; with `partial_success` all that are valid."""
        deadline = CallDeadline(context)
        prepared = await self._preparing.contexts(request, self._engine.store.dimension, deadline)
        if request.wait_for_vectors and self._engine.embedding.query_embedder is None:
            check_vectors_given(prepared)
        deadline.left()
        store = self._engine.writable_store
        done = await self._writes.result(store.put(prepared, partial=request.partial_success))
        revision = done.revision
        if request.wait_for_vectors:
            try:
                embedded = await wait_for_vectors(
                    self._engine, self._threads, done.text_ids, deadline
                )
            except DeadlinePassed as late:
                raise DeadlinePassed(f"{late}{common_messages.refusals_text(done)}") from None
            revision = max(revision, embedded)
        return common_messages.put_response(done, revision)

    async def Delete(
        self, request: contexts_pb2.DeleteRequest, context: CallContext
    ) -> contexts_pb2.DeleteResponse:
        """Remove contexts with all below them."""
        CallDeadline(context).left()
        uris, expected = decode.delete_uris(request), decode.expected_revision(request)
        done = await self._writes.result(
            self._engine.writable_store.delete(uris, expected, allow_missing=request.allow_missing)
        )
        return contexts_pb2.DeleteResponse(revision=done.revision, deleted=done.count)

    async def Move(
        self, request: contexts_pb2.MoveRequest, context: CallContext
    ) -> contexts_pb2.MoveResponse:
        """Move or rename a context with all below it."""
        CallDeadline(context).left()
        source = uris.parse(request.source_uri, "source_uri")
        destination = uris.parse_new(request.destination_uri, "destination_uri")
        expected = decode.expected_revision(request)
        done = await self._writes.result(
            self._engine.writable_store.move(source, destination, expected)
        )
        return contexts_pb2.MoveResponse(revision=done.revision, moved=done.count)

    async def Get(self, request: contexts_pb2.GetRequest, context: CallContext) -> bytes:
        """Return one whole context."""
        uri = uris.parse(request.uri)
        deadline = CallDeadline(context)
        caller = deadline.caller
        await wait_for_revision(self._engine, request.min_revision, deadline)

        def read() -> bytes:
            found = self._engine.store.get(uri)
            shown = tuple(one for one in found.relations if caller.may(Right.READ, one.uri))
            found = described(self._engine.store, replace(found, relations=shown))
            return contexts_pb2.GetResponse(
                context=common_messages.context(found)
            ).SerializeToString()

        return await self._threads.read(deadline, read)

    async def List(self, request: contexts_pb2.ListRequest, context: CallContext) -> bytes:
        """Return a page of a directory."""
        children = self._engine.store.children
        return await self._page(request, contexts_pb2.ListResponse, children, context)

    async def Tree(self, request: contexts_pb2.TreeRequest, context: CallContext) -> bytes:
        """Return a page of a subtree."""
        tree = partial(self._engine.store.tree, depth=request.depth)
        return await self._page(request, contexts_pb2.TreeResponse, tree, context)

    async def _page(
        self,
        request: contexts_pb2.ListRequest | contexts_pb2.TreeRequest,
        response: type[contexts_pb2.ListResponse | contexts_pb2.TreeResponse],
        read: Callable[..., object],
        context: CallContext,
    ) -> bytes:
        """Return a serialized page of List or Tree.

        `read` reads the store and passes each context to its argument `fits`.
        """
        uri = decode.target_uri(request.uri, "uri")
        limit, after = decode.page(request.page_size, request.page_token, uri)
        deadline = CallDeadline(context)
        parts = deadline.caller.parts(uri)
        await wait_for_revision(self._engine, request.min_revision, deadline)

        def fill() -> bytes:
            page = common_messages.Page(limit)
            read(uri=uri, after=after, limit=limit + 1, fits=page.add, parts=parts)
            page.describe(partial(directory_abstracts, self._engine.store))
            reply = response(contexts=page.contexts, next_page_token=page.next_page_token)
            return reply.SerializeToString()

        async with self._threads.queues.runner(deadline, heavy=limit > call_cost.PAGE) as run:
            return await run.away(fill)

    async def Glob(self, request: contexts_pb2.GlobRequest, context: CallContext) -> bytes:
        """Return a page of the contexts whose path matches a pattern."""
        query = patterns.glob_query(request)

        def fill(parts: tuple[str, ...]) -> contexts_pb2.GlobResponse:
            page = find_paths(
                self._engine.store, query, parts, ReplyBudget(common_messages.PAGE_BYTES)
            )
            return patterns.glob_response(page)

        return await self._walk(query.target_uri, request.min_revision, fill, context)

    async def Grep(self, request: contexts_pb2.GrepRequest, context: CallContext) -> bytes:
        """Return a page of the lines that match a regular expression."""
        query = patterns.grep_query(request)

        def fill(parts: tuple[str, ...]) -> contexts_pb2.GrepResponse:
            page = find_lines(
                self._engine.store, query, parts, ReplyBudget(common_messages.PAGE_BYTES)
            )
            return patterns.grep_response(page)

        return await self._walk(query.target_uri, request.min_revision, fill, context)

    async def _walk(
        self,
        uri: str,
        min_revision: int,
        fill: Callable[[tuple[str, ...]], Message],
        context: CallContext,
    ) -> bytes:
        """Return a serialized page of Glob or Grep.

        `fill` makes the page; its argument is the parts of `uri` that the caller may read.
        """
        deadline = CallDeadline(context)
        parts = deadline.caller.parts(uri)
        await wait_for_revision(self._engine, min_revision, deadline)
        async with self._threads.queues.runner(deadline, heavy=True) as run:
            return await run.away(lambda: fill(parts).SerializeToString())

    async def Link(
        self, request: contexts_pb2.LinkRequest, context: CallContext
    ) -> contexts_pb2.LinkResponse:
        """Link two contexts."""
        CallDeadline(context).left()
        uri, other = uris.parse(request.uri), uris.parse(request.other_uri, "other_uri")
        if "\0" in request.reason:
            raise InvalidField("reason", "has a NUL character")
        done = await self._writes.result(
            self._engine.writable_store.link(uri, other, request.reason)
        )
        return contexts_pb2.LinkResponse(revision=done.revision)

    async def Unlink(
        self, request: contexts_pb2.UnlinkRequest, context: CallContext
    ) -> contexts_pb2.UnlinkResponse:
        """Remove a link."""
        CallDeadline(context).left()
        uri, other = uris.parse(request.uri), uris.parse(request.other_uri, "other_uri")
        done = await self._writes.result(self._engine.writable_store.unlink(uri, other))
        return contexts_pb2.UnlinkResponse(revision=done.revision)
