"""Running the daemon."""

from __future__ import annotations

from vikingd import __version__
from vikingd.engine import Engine
from vikingd.metrics import Metrics
from vikingd.pb import admin_pb2, admin_pb2_grpc
from vikingd.wire import decode, encode
from vikingd.wire.calls import Arrivals, CallContext, Deadline, Threads, on


class Admin(admin_pb2_grpc.AdminServicer):
    """The service Admin: all of it on threads of its own."""

    def __init__(self, engine: Engine, threads: Threads, metrics: Metrics) -> None:
        self._engine = engine
        self._threads = threads
        self._metrics = metrics
        self._writes = Arrivals()

    async def Stats(
        self,
        request: admin_pb2.StatsRequest,  # noqa: ARG002  # it has no fields
        context: CallContext,
    ) -> admin_pb2.StatsResponse:
        """The daemon in numbers."""

        def read() -> admin_pb2.StatsResponse:
            return encode.stats_response(self._engine.stats(), self._metrics, __version__)

        return await on(self._threads.admin, Deadline(context), read)

    async def Verify(
        self,
        request: admin_pb2.VerifyRequest,  # noqa: ARG002  # it has no fields
        context: CallContext,
    ) -> admin_pb2.VerifyResponse:
        """Whether index and store agree."""
        report = await on(self._threads.admin, Deadline(context), self._engine.verify)
        return encode.verify_response(report)

    async def Optimize(
        self,
        request: admin_pb2.OptimizeRequest,  # noqa: ARG002  # it has no fields
        context: CallContext,
    ) -> admin_pb2.OptimizeResponse:
        """Compacts the index."""
        generation, base_revision = await on(
            self._threads.admin, Deadline(context), self._engine.optimize
        )
        return admin_pb2.OptimizeResponse(generation=generation, base_revision=base_revision)

    async def Reembed(
        self, request: admin_pb2.ReembedRequest, context: CallContext
    ) -> admin_pb2.ReembedResponse:
        """Embeds again, in parts, so that other writers have their turn between two."""
        deadline = Deadline(context)
        uri = decode.target_uri(request.target_uri, "target_uri")
        texts, last, more = 0, "", True
        while more:
            deadline.left()
            done = await self._writes.of(self._engine.reembed(uri, last))
            texts, last, more = texts + done.count, done.last, bool(done.last)
        return admin_pb2.ReembedResponse(texts=texts, revision=done.revision)
