"""Messages that several replies contain, and the replies of Get, Put, List, Tree and Stats."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.protobuf import duration_pb2, timestamp_pb2

from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.answers import Confidence, Degradation, ReplyBudget, Stage, seconds_of
from vikingd.domain.contexts import Context, ContextType
from vikingd.domain.store_changes import Committed
from vikingd.engine import DescriberState, EngineStats
from vikingd.ingest.abstracts import MAX_ABSTRACT
from vikingd.pb import admin_pb2, contexts_pb2, retrieval_pb2
from vikingd.store.reads import page_token
from vikingd.telemetry.metrics import Metrics
from vikingd.telemetry.process_figures import added
from vikingd.wire.status_errors import shown

_NOT_TOLD = "the embedder has a fault, which an operator sees"
_NOT_TOLD_OF_MODEL = "the describer has a fault, which an operator sees"

_TOLD = 10  # refused contexts in an error
PAGE_BYTES = 2 << 20  # half of what gRPC clients accept unless told otherwise
_DERIVED_BYTES = 4 * MAX_ABSTRACT


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with slots by name, as arguments of a message.

    The message has the same field names. This is slower than naming each field, so it is not used
    for results, of which a reply has many.
    """
    return {name: getattr(record, name) for name in record.__slots__}


def degraded(given: Iterable[Degradation]) -> list[retrieval_pb2.Degradation]:
    """Convert notes on failed or missing parts of an answer to messages."""
    return [retrieval_pb2.Degradation(**fields_of(one)) for one in given]


def confidence(value: Confidence | None) -> retrieval_pb2.Confidence | None:
    """Convert a confidence to a message; None stays None."""
    if value is None:
        return None
    return retrieval_pb2.Confidence(
        in_scope=value.in_scope,
        among_results=value.among_results,
        strength=value.strength,  # type: ignore[arg-type]  # same numbers
    )


def add_timings(to: Any, stages: Iterable[Stage]) -> None:
    """Append the duration of each stage to `to`, a repeated field of StageTiming."""
    for stage, seconds in seconds_of(stages).items():
        set_duration(to.add(stage=stage).duration, seconds)


def set_duration(duration: duration_pb2.Duration, seconds: float) -> None:
    """Set a Duration message to a number of seconds."""
    duration.seconds, duration.nanos = divmod(int(seconds * 1e9), 1_000_000_000)


def context(found: Context) -> contexts_pb2.Context:
    """Convert a context to a message; fields that were not read from the store are empty."""
    message = contexts_pb2.Context(
        uri=found.uri,
        context_type=uris.context_type(found.uri),  # type: ignore[arg-type]  # same numbers
        is_directory=found.is_directory,
        abstract=found.abstract,
        overview=found.overview,
        content=found.content,
        title=found.title,
        time=timestamp(found.time),
        create_time=timestamp(found.created_at),
        update_time=timestamp(found.updated_at),
        reinforcement=found.reinforcement,
        access_count=found.access_count,
        content_hash=found.content_hash,
        revision=found.revision,
        abstract_by=found.abstract_by,
        overview_by=found.overview_by,
    )
    if found.metadata:
        message.metadata.update(found.metadata)
    for passage in found.passages:
        added = message.passages.add(
            section=passage.section,
            start=passage.start,
            end=passage.end,
            continues=passage.continues and uris.context_type(found.uri) is ContextType.MEMORY,
        )
        if (entry := passage.entry) is not None:
            added.memory.CopyFrom(
                contexts_pb2.MemoryState(
                    id=entry.id,
                    reinforcement=entry.reinforcement,
                    access_count=entry.access_count,
                    time=timestamp(entry.time or 0),
                    create_time=timestamp(entry.created_at or 0),
                )
            )
    for relation in found.relations:
        message.relations.add(uri=relation.uri, abstract=relation.abstract, reason=relation.reason)
    return message


def put_response(done: Committed, revision: int) -> contexts_pb2.PutResponse:
    """Return the reply to a Put; its contexts can be read from `revision` on."""
    outcomes: Any = done.outcomes  # the same numbers
    reply = contexts_pb2.PutResponse(revision=revision, outcomes=outcomes)
    for one in done.refusals:
        field, message = shown(one.field), shown(one.message)
        reply.refusals.add(index=one.index, reason=one.reason, field=field, message=message)
    return reply


def refusals_text(done: Committed) -> str:
    """Return a text that lists the first refused contexts of a Put; "" if none was refused.

    The text is added to the message of an error: a call that fails has no reply to list them.
    """
    reasons = "; ".join(
        f"contexts[{one.index}]{'.' if one.field else ''}{one.field}: {one.message}"
        for one in done.refusals[:_TOLD]
    )
    return f"; {len(done.refusals):,} contexts were refused: {reasons}" if reasons else ""


class Page:
    """A page of List or Tree, of at most `limit` contexts and about PAGE_BYTES.

    The caller reads `limit` + 1 contexts from the store and adds all. When one does not fit, the
    token of the next page is set. A directory without an abstract reserves the bytes of the longest
    abstract that can be made; `describe` fills it in.
    """

    def __init__(self, limit: int) -> None:
        self.contexts: list[contexts_pb2.Context] = []
        self.next_page_token = ""
        self._left = limit
        self._budget = ReplyBudget(PAGE_BYTES)
        self._last = ""

    def add(self, one: Context) -> bool:
        """Add a context; return False if it does not fit, and set the token of the next page."""
        cancellation.check()
        message = context(one)
        is_bare = one.is_directory and not one.abstract
        fits = self._budget.take(message.ByteSize() + is_bare * _DERIVED_BYTES)
        if not self._left or (not fits and self.contexts):
            self.next_page_token = base64.urlsafe_b64encode(self._last.encode()).decode()
            return False
        self.contexts.append(message)
        self._left -= 1
        if not fits:
            self._budget.left = 0  # a context that is too large for a page gets one of its own
        self._last = page_token(one)
        return True

    def describe(self, abstracts_of: Callable[[Sequence[str]], Mapping[str, str]]) -> None:
        """Set the missing abstracts of directories to those that `abstracts_of(URIs)` returns."""
        bare = {one.uri: one for one in self.contexts if one.is_directory and not one.abstract}
        for uri, abstract in abstracts_of(list(bare)).items():
            bare[uri].abstract = abstract


def stats_response(
    stats: EngineStats, metrics: Metrics, version: str, tenant: str, *, for_operator: bool
) -> admin_pb2.StatsResponse:
    """Return the statistics of a tenant; this waits for the readers' figures.

    Only an operator sees values that concern other tenants or the machine: the directory, the
    queues, the speed of the embedder and the errors of the models' endpoints.
    """
    embedder, work, counts = stats.embedder, stats.embedder.work, stats.counts._asdict()
    readers = metrics.readers
    others = readers.figures() if readers is not None else ()
    own = {tenant: (embedder.query_cache_hits, embedder.query_cache_misses)}
    hits, misses = added((own, *(one.query_caches for one in others)))[tenant]
    response = admin_pb2.StatsResponse(
        version=version,
        start_time=timestamp(stats.started_at),
        revision=stats.revision,
        store_bytes=counts.pop("bytes"),
        **counts,
        store_path=stats.store_path if for_operator else "",
        reader=stats.reader,
        problem=stats.problem,
        embedder=admin_pb2.EmbedderStats(
            provider=embedder.provider,
            model=embedder.model,
            dimension=embedder.dimension,
            backlog=embedder.backlog.texts,
            embedded=work.embedded,
            last_error=embedder.last_error,
            retry_time=None if work.retry_at is None else timestamp(work.retry_at),
            query_cache_hits=hits,
            query_cache_misses=misses,
            backlog_characters=embedder.backlog.cost,
            characters_per_second=work.rate,
            stalled=work.stalled,
            reused=work.reused,
        ),
        describer=_describer(stats.describer),
        index=admin_pb2.IndexStats(**fields_of(stats.index)),
        processes=1 + (readers.count if readers is not None else 0),
        answering_processes=1 + len(others),
    )
    if for_operator:
        queues = added((metrics.queues(), *(one.queues for one in others)))
        for queue, (waiting, refused) in queues.items():
            response.queues.add(queue=queue, waiting=waiting, refused=refused)
        return response
    shown = response.embedder
    shown.ClearField("characters_per_second")
    shown.ClearField("retry_time")
    shown.stalled = shown.stalled and _NOT_TOLD
    shown.last_error = shown.last_error and _NOT_TOLD
    model = response.describer
    model.ClearField("retry_time")
    model.last_error = model.last_error and _NOT_TOLD_OF_MODEL
    return response


def _describer(state: DescriberState) -> admin_pb2.DescriberStats:
    fields = fields_of(state)
    retry_at = fields.pop("retry_at")
    message = admin_pb2.DescriberStats(**fields)
    if retry_at is not None:
        message.retry_time.CopyFrom(timestamp(retry_at))
    return message


def timestamp(microseconds: int) -> timestamp_pb2.Timestamp:
    """Convert microseconds since the epoch to a message."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=rest * 1000)
