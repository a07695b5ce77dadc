"""The service Admin: statistics, checks and maintenance of the daemon."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Generator
from contextlib import closing, suppress

from vikingd import __version__
from vikingd.domain.errors import Overloaded, Stopping
from vikingd.engine import Engine
from vikingd.lanes.call_pools import CallContext, CallDeadline, FutureBridge, Threads
from vikingd.pb import admin_pb2
from vikingd.telemetry.metrics import Metrics
from vikingd.wire.messages import common_messages, decode

_AFTER_A_BACKUP = 10.0  # seconds until a refused backup may be repeated


class AdminService:
    """The handlers of the service Admin, which run on threads of their own."""

    def __init__(self, engine: Engine, threads: Threads, metrics: Metrics) -> None:
        self._engine = engine
        self._threads = threads
        self._metrics = metrics
        self._writes = FutureBridge()
        self._backing_up = False

    async def Stats(
        self, _: admin_pb2.StatsRequest, context: CallContext
    ) -> admin_pb2.StatsResponse:
        """Return the daemon's figures."""
        deadline = CallDeadline(context)
        is_operator = deadline.caller.is_operator
        return await self._threads.admin.run(
            deadline,
            lambda: common_messages.stats_response(
                self._engine.stats(),
                self._metrics,
                __version__,
                self._engine.settings.tenant,
                for_operator=is_operator,
            ),
        )

    async def Verify(
        self, _: admin_pb2.VerifyRequest, context: CallContext
    ) -> admin_pb2.VerifyResponse:
        """Compare index and store."""
        report = await self._threads.admin.run(CallDeadline(context), self._engine.verify)
        return admin_pb2.VerifyResponse(**common_messages.fields_of(report))

    async def Optimize(
        self, request: admin_pb2.OptimizeRequest, context: CallContext
    ) -> admin_pb2.OptimizeResponse:
        """Compact the index and the store."""
        done = await self._threads.admin.run(
            CallDeadline(context),
            self._engine.optimize,
            remove_empty_directories=request.remove_empty_directories,
        )
        return admin_pb2.OptimizeResponse(**common_messages.fields_of(done))

    async def Reembed(
        self, request: admin_pb2.ReembedRequest, context: CallContext
    ) -> admin_pb2.ReembedResponse:
        """Drop vectors so that their texts are embedded again.

        It takes several commits, and other writers may write between them.
        """
        deadline = CallDeadline(context)
        uri = decode.target_uri(request.target_uri, "target_uri")
        texts, last, more = 0, "", True
        while more:
            deadline.left()
            done = await self._writes.result(self._engine.reembed(uri, last))
            texts, last, more = texts + done.count, done.last, bool(done.last)
        return admin_pb2.ReembedResponse(texts=texts, revision=done.revision)

    async def Describe(
        self, request: admin_pb2.DescribeRequest, context: CallContext
    ) -> admin_pb2.DescribeResponse:
        """Queue the contexts of a subtree, whose abstracts and overviews a model will write."""
        deadline = CallDeadline(context)
        uri = decode.target_uri(request.target_uri, "target_uri")
        again, dry_run = request.again, request.dry_run
        contexts, tokens = await self._threads.admin.run(
            deadline, self._engine.describe, uri, again=again, dry_run=dry_run
        )
        return admin_pb2.DescribeResponse(contexts=contexts, tokens=tokens)

    async def Backup(
        self, _: admin_pb2.BackupRequest, context: CallContext
    ) -> AsyncIterator[admin_pb2.BackupResponse]:
        """Copy the store and send the copy."""
        if self._backing_up:
            raise Overloaded("another backup is in progress", retry_after=_AFTER_A_BACKUP)
        self._backing_up = True
        deadline, is_over = CallDeadline(context), threading.Event()
        pool = self._threads.backup
        pieces = _pieces(self._engine, deadline, is_over)
        try:
            while (piece := await pool.run(deadline, next, pieces, None)) is not None:
                yield piece
        finally:
            is_over.set()
            # The caller may be gone, so nothing may wait here.
            with suppress(RuntimeError):  # the daemon stops
                pool.submit(pieces.close).add_done_callback(self._backed_up)

    def _backed_up(self, _: object) -> None:
        self._backing_up = False


def _pieces(
    engine: Engine, deadline: CallDeadline, is_over: threading.Event
) -> Generator[admin_pb2.BackupResponse]:
    def check() -> None:
        deadline.left()
        if is_over.is_set():
            raise Stopping("the caller is gone")

    with closing(engine.store.backup(check)) as backup:
        for data in backup.chunks():
            yield admin_pb2.BackupResponse(size=backup.size, revision=backup.revision, data=data)
