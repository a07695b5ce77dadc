"""What an agent remembers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from vikingd.answer.direct_recall import Known, nothing
from vikingd.answer.forget import chosen, forgetting
from vikingd.answer.recall import Recall
from vikingd.config import Settings
from vikingd.domain.degradation import Degradation, DegradationReason, Degraded
from vikingd.domain.errors import EmbedderFailed, InvalidField
from vikingd.domain.model import Committed, Stage
from vikingd.domain.query import RecallPath
from vikingd.engine import Engine
from vikingd.memory import same
from vikingd.memory.model import Memory
from vikingd.memory.remember import Bar, Remembering
from vikingd.pb import memories_pb2, memories_pb2_grpc
from vikingd.wire import weigh
from vikingd.wire.calls import (
    Arrivals,
    CallContext,
    Deadline,
    Threads,
    as_sent,
    on,
    revision_reached,
    work_on,
)
from vikingd.wire.embedding import embedder_failed, in_share, vector_or_note
from vikingd.wire.messages import memories as recall
from vikingd.wire.observer import Observer
from vikingd.wire.queues import Runner

_PART = 64  # files of memories that one transaction rewrites, so that others have their turn

_READER = Degradation(
    DegradationReason.READER, "accesses are not counted: this process is a reader"
)


class Memories(memories_pb2_grpc.MemoriesServicer):
    """The service Memories."""

    def __init__(
        self, engine: Engine, threads: Threads, observer: Observer, settings: Settings
    ) -> None:
        self._engine = engine
        self._threads = threads
        self._observer = observer
        self._defaults = settings.recall
        self._routes = settings.recall.table()
        self._most_bytes = settings.limits.max_reply_bytes * 7 // 8  # the rest is for what is small
        self._writes = Arrivals()

    async def Recall(
        self, request: memories_pb2.RecallRequest, context: CallContext
    ) -> memories_pb2.RecallResponse:
        """The memories that matter now."""
        deadline = Deadline(context)
        async with self._threads.queues.runner(deadline, heavy=weigh.recall(request)) as run:
            return await self._recalled(request, deadline, run)

    async def _recalled(
        self, request: memories_pb2.RecallRequest, deadline: Deadline, run: Runner
    ) -> memories_pb2.RecallResponse:
        engine, threads = self._engine, self._threads
        query, vector = await run.here(
            recall.recall_query, request, engine.dimension, self._defaults
        )
        await revision_reached(engine, query.min_revision, deadline)
        named = Known(engine, query, self._routes)
        named.most_bytes = self._most_bytes
        known = await work_on(named, run, named.answer)
        started = time.perf_counter()
        embed = Stage("embed", started, started)
        if not isinstance(known, str):
            result = known
        elif RecallPath.HYBRID in query.without:
            result = await run.away(nothing, engine, query, known)
        else:
            search = await run.here(Recall, engine, query, known)
            search.most_bytes = self._most_bytes
            degraded: Degraded = ()
            if vector is None and search.needs_vector:
                vector, degraded = await vector_or_note(engine, threads, query.text, deadline)
            embed = Stage("embed", started, time.perf_counter())
            result = await run.away(search.answer, vector, degraded)
        if result.path is RecallPath.HYBRID and result.memories and not query.no_touch:
            ids = [memory.entry.id for memory in result.memories]
            if not engine.count_accesses(ids):
                result = replace(result, degraded=(*result.degraded, _READER))
        stages = (embed, *result.stages)

        def reply() -> memories_pb2.RecallResponse:
            self._observer.took("Recall", stages)
            self._observer.answered(
                "Recall",
                result.path.name if result.path else "NONE",
                len(result.memories),
                result.memories[0].score if result.memories else 0.0,
                degraded=bool(result.degraded),
            )
            return as_sent(recall.recall_response(result, stages))

        return await run.away(reply)

    async def Remember(
        self, request: memories_pb2.RememberRequest, context: CallContext
    ) -> memories_pb2.RememberResponse:
        """Writes one memory, or reinforces it where it was said before."""
        deadline = Deadline(context)
        remembered = recall.remembering(request, self._engine, self._routes)
        self._engine.check_writable()
        degraded: Degraded = ()

        def reply(done: Committed) -> memories_pb2.RememberResponse | None:
            if remembered.outcome is None:
                return None
            return recall.remember_response(remembered, remembered.outcome, done.revision, degraded)

        once = recall.once(request, reply)
        while True:
            if not request.exact:
                degraded = await self._compare_by_meaning(remembered, deadline)
            deadline.left()
            try:
                done = await self._writes.of(
                    self._engine.rewrite({remembered.uri: remembered}, once)
                )
            except InvalidField as error:
                if error.field != "contexts[0].uri":
                    raise
                field = "uri" if request.uri else "memory_type"
                raise InvalidField(field, f"{remembered.uri} {error.description}") from None
            if done.reply:
                return memories_pb2.RememberResponse.FromString(done.reply)
            if (answer := reply(done)) is not None:
                return answer

    async def _compare_by_meaning(self, remembered: Remembering, deadline: Deadline) -> Degraded:
        """Embeds what is remembered, unless an entry has its wording; what is done without."""
        engine, threads = self._engine, self._threads
        bar = self._bar()
        if engine.query_embedder is None:
            return ()
        if bar is None:
            detail = (
                f"from which cosine on texts say the same is not known of the model {engine.model} "
                "(recall.same_meaning sets it): wordings alone were compared"
            )
            return (Degradation(DegradationReason.NOT_CALIBRATED, detail),)
        file = await on(threads.store, deadline, engine.store.memory_file, remembered.uri)
        text = await on(threads.preparing_small, deadline, remembered.indexed_text, file)
        if text is None:
            return ()
        try:
            vector = await in_share(threads, deadline, engine.embed_document, text)
        except EmbedderFailed as error:
            return (embedder_failed(error, "wordings alone were compared"),)
        if vector is not None:
            remembered.compare_by_meaning(text, vector, bar)
        return ()

    def _bar(self) -> Bar | None:
        """When two entries say the same, by the configuration or by the model."""
        if self._defaults.same_meaning:
            return Bar(self._defaults.same_meaning, with_words=False)
        calibrated = same.threshold(self._engine.model)
        return None if calibrated is None else Bar(calibrated)

    async def Reinforce(
        self, request: memories_pb2.ReinforceRequest, context: CallContext
    ) -> memories_pb2.ReinforceResponse:
        """Reinforces memories."""
        Deadline(context).left()
        ids, by = recall.reinforcement(request)
        once = recall.once(request, recall.reinforce_response)
        done = await self._writes.of(self._engine.reinforce(ids, by, once))
        if done.reply:
            return memories_pb2.ReinforceResponse.FromString(done.reply)
        return recall.reinforce_response(done)

    async def Forget(
        self, request: memories_pb2.ForgetRequest, context: CallContext
    ) -> memories_pb2.ForgetResponse:
        """Removes memories."""
        deadline = Deadline(context)
        query = recall.forget_query(request)
        if not request.dry_run:
            self._engine.check_writable()
        weights = recall.salience_of(self._defaults)
        heavy = self._threads.queues.heavy
        found = await heavy.run(deadline, chosen, self._engine, query, weights)
        if request.dry_run:
            return await heavy.run(deadline, self._forgotten, found, self._engine.snapshot.revision)
        forgotten = forgetting(query, found)
        for ids in [[m.entry.id for m in found]] if query.ids else _in_parts(found):
            deadline.left()
            done = await self._writes.of(
                self._engine.rewrite_holders(ids, forgotten, all_there=bool(query.ids))
            )
        gone = [memory for memory in found if memory.entry.id in forgotten.gone]
        return await heavy.run(deadline, self._forgotten, gone, done.revision)

    def _forgotten(self, gone: Sequence[Memory], revision: int) -> memories_pb2.ForgetResponse:
        return as_sent(recall.forget_response(gone, revision, self._most_bytes))


def _in_parts(found: Sequence[Memory]) -> list[list[int]]:
    """The ids of memories, by URI, in parts of `_PART` files; one part at least."""
    files = [[memory.entry.id for memory in of] for _, of in groupby(found, lambda m: m.uri)]
    return [
        [entry_id for ids in files[at : at + _PART] for entry_id in ids]
        for at in range(0, len(files) or 1, _PART)
    ]
