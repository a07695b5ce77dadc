"""The tree: writing and reading it."""

from __future__ import annotations

from vikingd import uri as uris
from vikingd.engine import Engine
from vikingd.errors import InvalidField
from vikingd.ingest import prepare
from vikingd.model import Prepared
from vikingd.pb import contexts_pb2, contexts_pb2_grpc
from vikingd.wire import decode, encode
from vikingd.wire.calls import (
    Arrivals,
    CallContext,
    Deadline,
    Threads,
    on,
    revision_reached,
    vectors_there,
)
from vikingd.wire.limits import MAX_REASON_BYTES

INLINE_SIZE = 16 << 10
"""Of a put; what is no larger is gone through on the event loop."""


class Contexts(contexts_pb2_grpc.ContextsServicer):
    """The service Contexts: writes go to the engine's one writer, reads to threads."""

    def __init__(self, engine: Engine, threads: Threads) -> None:
        self._engine = engine
        self._threads = threads
        self._writes = Arrivals()

    async def Put(
        self, request: contexts_pb2.PutRequest, context: CallContext
    ) -> contexts_pb2.PutResponse:
        """Writes contexts, new or anew, all or nothing."""
        deadline = Deadline(context)
        dimension = self._engine.dimension
        if decode.put_size(request) <= INLINE_SIZE:
            prepared = prepared_contexts(request, dimension, deadline)
        else:
            prepared = await on(
                self._threads.preparing, deadline, prepared_contexts, request, dimension, deadline
            )
        if request.wait_for_vectors and self._engine.query_embedder is None:
            decode.check_vectors_given(prepared)
        deadline.left()
        done = await self._writes.of(self._engine.put(prepared))
        revision = done.revision
        if request.wait_for_vectors:
            embedded = await vectors_there(self._engine, self._threads, done.text_ids, deadline)
            revision = max(revision, embedded)
        return contexts_pb2.PutResponse(
            revision=revision, outcomes=encode.put_outcomes(done.outcomes)
        )

    async def Delete(
        self, request: contexts_pb2.DeleteRequest, context: CallContext
    ) -> contexts_pb2.DeleteResponse:
        """Removes contexts with all below them."""
        Deadline(context).left()
        done = await self._writes.of(self._engine.delete(decode.delete_uris(request)))
        return contexts_pb2.DeleteResponse(revision=done.revision, deleted=done.count)

    async def Move(
        self, request: contexts_pb2.MoveRequest, context: CallContext
    ) -> contexts_pb2.MoveResponse:
        """Moves or renames a context with all below it."""
        Deadline(context).left()
        source = uris.parse(request.source_uri, "source_uri")
        destination = uris.parse(request.destination_uri, "destination_uri")
        done = await self._writes.of(self._engine.move(source, destination))
        return contexts_pb2.MoveResponse(revision=done.revision, moved=done.count)

    async def Get(
        self, request: contexts_pb2.GetRequest, context: CallContext
    ) -> contexts_pb2.GetResponse:
        """Reads one context whole."""
        uri = uris.parse(request.uri)
        deadline = Deadline(context)
        await revision_reached(self._engine, request.min_revision, deadline)
        found = await on(self._threads.store, deadline, self._engine.store.get, uri)
        return contexts_pb2.GetResponse(context=encode.context(found))

    async def List(
        self, request: contexts_pb2.ListRequest, context: CallContext
    ) -> contexts_pb2.ListResponse:
        """Lists a directory."""
        uri = decode.target_uri(request.uri, "uri")
        limit, after = decode.page(request.page_size, request.page_token, uri)
        deadline = Deadline(context)
        await revision_reached(self._engine, request.min_revision, deadline)

        def read() -> contexts_pb2.ListResponse:
            found = self._engine.store.children(uri, after, limit + 1)
            contexts, token = encode.page(found, limit)
            return contexts_pb2.ListResponse(contexts=contexts, next_page_token=token)

        return await on(self._threads.store, deadline, read)

    async def Tree(
        self, request: contexts_pb2.TreeRequest, context: CallContext
    ) -> contexts_pb2.TreeResponse:
        """Lists a subtree."""
        uri = decode.target_uri(request.uri, "uri")
        limit, after = decode.page(request.page_size, request.page_token, uri)
        deadline = Deadline(context)
        await revision_reached(self._engine, request.min_revision, deadline)

        def read() -> contexts_pb2.TreeResponse:
            found = self._engine.store.tree(uri, request.depth, after, limit + 1)
            contexts, token = encode.page(found, limit)
            return contexts_pb2.TreeResponse(contexts=contexts, next_page_token=token)

        return await on(self._threads.store, deadline, read)

    async def Link(
        self, request: contexts_pb2.LinkRequest, context: CallContext
    ) -> contexts_pb2.LinkResponse:
        """Links two contexts."""
        Deadline(context).left()
        uri, other = uris.parse(request.uri), uris.parse(request.other_uri, "other_uri")
        if len(request.reason.encode()) > MAX_REASON_BYTES:
            raise InvalidField("reason", f"has more than {MAX_REASON_BYTES} bytes")
        done = await self._writes.of(self._engine.link(uri, other, request.reason))
        return contexts_pb2.LinkResponse(revision=done.revision)

    async def Unlink(
        self, request: contexts_pb2.UnlinkRequest, context: CallContext
    ) -> contexts_pb2.UnlinkResponse:
        """Takes a link back."""
        Deadline(context).left()
        uri, other = uris.parse(request.uri), uris.parse(request.other_uri, "other_uri")
        done = await self._writes.of(self._engine.unlink(uri, other))
        return contexts_pb2.UnlinkResponse(revision=done.revision)


def prepared_contexts(
    request: contexts_pb2.PutRequest, dimension: int | None, deadline: Deadline
) -> list[Prepared]:
    """The contexts of a batch, checked and cut into texts; takes CPU time for long contents.

    Raises:
        InvalidField: naming the field as in the proto.
        DeadlinePassed: while they were cut.
    """
    prepared = []
    for draft in decode.put_drafts(request, dimension):
        deadline.left()
        prepared.append(prepare.prepare(draft))
    return prepared
