"""The service Memories: what an agent remembers."""

from __future__ import annotations

from vikingd.answer.query_planning import QueryVectors
from vikingd.config import Settings
from vikingd.domain.answers import Stage
from vikingd.domain.store_changes import Committed
from vikingd.engine import Engine
from vikingd.lanes import call_cost
from vikingd.lanes.call_pools import CallContext, CallDeadline, FutureBridge, Threads, reply_bytes
from vikingd.memory.memory_types import RecallResult
from vikingd.memory_calls.extract_calls import ExtractResult
from vikingd.memory_calls.forget import Forgetter
from vikingd.memory_calls.memory_extractor import MemoryExtractor
from vikingd.memory_calls.recaller import Recaller
from vikingd.memory_calls.rememberer import Rememberer
from vikingd.models.extract.extractor import Extractor
from vikingd.pb import memories_pb2
from vikingd.telemetry.metrics import Metrics
from vikingd.wire.messages import extract_messages as wire_extract
from vikingd.wire.messages import memory_messages as messages

_SHORT = 65_536
"""The most characters of a text that is checked on the event loop."""


class MemoriesService:
    """The handlers of Memories."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        metrics: Metrics,
        settings: Settings,
        extractor: Extractor,
    ) -> None:
        self._engine = engine
        self._threads = threads
        self._queues = threads.queues
        self._metrics = metrics
        self._defaults = defaults = settings.recall
        self._routes = defaults.table()
        self._most_bytes = most_bytes = reply_bytes(settings.limits.max_reply_bytes)
        self._writes = FutureBridge()
        vectors = QueryVectors(engine, threads)
        self._recaller = Recaller(engine, vectors, self._routes, most_bytes)
        self._rememberer = Rememberer(engine, threads)
        self._extractor = MemoryExtractor(
            engine,
            threads,
            self._routes,
            self._rememberer,
            extractor,
            episodes=defaults.episodes,
        )
        self._forgetter = Forgetter(engine, messages.salience_of(defaults))

    async def Recall(self, request: memories_pb2.RecallRequest, context: CallContext) -> bytes:
        """Return the memories that matter now."""
        deadline = CallDeadline(context)
        async with self._queues.runner(deadline, heavy=call_cost.recall(request)) as run:
            query, vector = await run.here(
                messages.recall_query,
                request,
                self._engine.store.dimension,
                self._defaults,
                deadline.caller,
            )
            result, embed = await self._recaller.answer(query, vector, run)
            return await run.away(self._recall_reply, result, embed)

    async def Remember(
        self, request: memories_pb2.RememberRequest, context: CallContext
    ) -> memories_pb2.RememberResponse:
        """Write a memory, or reinforce a stored memory that says the same."""
        deadline = CallDeadline(context)
        given = (request, self._engine, self._routes, deadline.caller)
        if len(request.text) > _SHORT:
            remembered = await self._threads.prepare(deadline, messages.remembering, *given)
        else:
            remembered = messages.remembering(*given)
        self._engine.check_writable()

        def reply(done: Committed) -> memories_pb2.RememberResponse | None:
            if remembered.outcome is None:
                return None
            return messages.remember_response(remembered.outcome, done.revision)

        once = messages.once(request, reply, deadline.caller)
        return await self._rememberer.answer(
            remembered,
            once,
            deadline,
            reply,
            memories_pb2.RememberResponse.FromString,
            names_file=bool(request.uri),
        )

    async def Extract(
        self, request: memories_pb2.ExtractRequest, context: CallContext
    ) -> memories_pb2.ExtractResponse:
        """Take memories from a conversation."""
        deadline = CallDeadline(context)
        async with self._queues.runner(deadline, heavy=True) as run:
            query = await run.here(wire_extract.query_of, request, deadline.caller)
        self._extractor.check(query)
        self._engine.check_writable()

        def reply(result: ExtractResult, revision: int) -> memories_pb2.ExtractResponse:
            return wire_extract.response_of(result, revision, dry_run=query.dry_run)

        return await self._extractor.answer(
            query,
            lambda kept: messages.once(request, kept, deadline.caller),
            deadline,
            reply,
            memories_pb2.ExtractResponse.FromString,
        )

    async def Reinforce(
        self, request: memories_pb2.ReinforceRequest, context: CallContext
    ) -> memories_pb2.ReinforceResponse:
        """Raise the reinforcement of memories, and count one access of each used memory."""
        deadline = CallDeadline(context)
        deadline.left()
        caller = deadline.caller
        ids, by, used = messages.reinforcement(request)
        once = messages.once(request, messages.reinforce_response, caller)
        done = await self._writes.result(
            self._engine.writable_store.reinforce(ids, by, once, caller, used)
        )
        if done.reply:
            return memories_pb2.ReinforceResponse.FromString(done.reply)
        return messages.reinforce_response(done)

    async def Forget(self, request: memories_pb2.ForgetRequest, context: CallContext) -> bytes:
        """Remove memories by their ids or by criteria."""
        deadline = CallDeadline(context)
        run = self._queues.heavy_pieces(deadline)
        query = messages.forget_query(request, deadline.caller)
        choice, revision = await self._forgetter.answer(query, run, dry_run=request.dry_run)
        return await run.away(
            lambda: messages.forget_response(choice, revision, self._most_bytes).SerializeToString()
        )

    def _recall_reply(self, result: RecallResult, embed: Stage) -> bytes:
        stages = (embed, *result.stages)
        self._metrics.record_stages("Recall", stages)
        self._metrics.answered(
            "Recall",
            result.path.name if result.path else "NONE",
            len(result.memories),
            result.memories[0].score if result.memories else 0.0,
            degraded=bool(result.degraded),
        )
        return messages.recall_response(result, stages).SerializeToString()
