"""The requests of both clients: one function for each RPC. The daemon checks the values."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from google.protobuf import struct_pb2, timestamp_pb2

from vikingd.model import DEFAULT_LIMIT, ContextType, Draft, Entry, Levels, Method
from vikingd.pb import admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2
from vikingd.query import (
    Boost,
    CitationStyle,
    ContextOrder,
    Include,
    Mode,
    RecallPath,
    Rrf,
    WeightedSum,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Vector: TypeAlias = Buffer | Sequence[float]


def vector_bytes(vector: Vector) -> bytes:
    """A vector in the form of the wire, little-endian float32.

    Takes bytes that are so already, a buffer of floats or doubles (array.array, memoryview,
    numpy) or a sequence of floats.

    Raises:
        TypeError: for a buffer of anything else or of more than one dimension.
    """
    if isinstance(vector, (bytes, bytearray)):
        return bytes(vector)
    try:
        view = memoryview(cast("Buffer", vector))
    except TypeError:
        packed = array("f", cast("Sequence[float]", vector))
    else:
        if view.ndim != 1 or view.format not in ("f", "<f", "d", "<d"):
            raise TypeError(f"a vector is one row of floats, not {view.ndim}-d {view.format!r}")
        packed = array("f", array(view.format[-1], view.tobytes()))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def context_input(draft: Draft) -> contexts_pb2.ContextInput:
    """A draft as Put takes it."""
    return contexts_pb2.ContextInput(
        uri=draft.uri,
        is_directory=draft.is_directory,
        abstract=draft.abstract,
        overview=draft.overview,
        content=draft.content,
        title=draft.title,
        metadata=_struct(draft.metadata) if draft.metadata else None,
        passages=[
            contexts_pb2.Passage(
                section=p.section,
                start=p.start,
                end=p.end,
                vector=p.vector,
                memory=None if p.entry is None else _memory_state(p.entry),
            )
            for p in draft.passages or ()
        ],
        vector=draft.vector,
        time=None if draft.time is None else _timestamp(draft.time),
    )


def _memory_state(entry: Entry) -> contexts_pb2.MemoryState:
    return contexts_pb2.MemoryState(
        reinforcement=entry.reinforcement,
        access_count=entry.access_count,
        time=None if entry.time is None else _timestamp(entry.time),
        created_at=None if entry.created_at is None else _timestamp(entry.created_at),
    )


def find(
    query: str = "",
    *,
    vector: Vector | None = None,
    target: str = "",
    context_types: Iterable[ContextType] = (),
    levels: Levels = Levels.FILES,
    limit: int = DEFAULT_LIMIT,
    score_threshold: float | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float | None = None,
    trace: bool = False,
    min_revision: int = 0,
    method: Method = Method.AUTO,
    max_directories: int = 0,
) -> retrieval_pb2.FindRequest:
    """The contexts that matter for a query.

    Args:
        query: the question; "" when the vector alone counts.
        vector: its embedding; None lets the daemon embed the query.
        target: search in this directory only; "" is the whole tree.
        context_types: return these only; none given means all.
        levels: return files, directories or both.
        limit: at most so many results.
        score_threshold: return only what scores more than this, in [0, 1].
        where: filter over metadata, such as {"year": {"$gte": 2024}}.
        alpha: weight of a context's own score against its parent's; None finds it per query.
        trace: explain the answer.
        min_revision: answer from this revision or a later one.
        method: how to search.
        max_directories: how many directories a best-first search may open; 0 leaves it open.
    """
    return retrieval_pb2.FindRequest(
        query=query,
        vector=b"" if vector is None else vector_bytes(vector),
        target_uri=target,
        context_types=[contexts_pb2.ContextType.ValueType(kind) for kind in context_types],
        levels=retrieval_pb2.Levels.ValueType(levels),
        limit=limit,
        score_threshold=score_threshold,
        where=None if where is None else _struct(where),
        alpha=alpha,
        trace=trace,
        min_revision=min_revision,
        method=retrieval_pb2.Method.ValueType(method),
        max_directories=max_directories,
    )


def batch_find(requests: Iterable[retrieval_pb2.FindRequest]) -> retrieval_pb2.BatchFindRequest:
    """Many queries in one call, each made by `find_request`; all answered from one revision."""
    return retrieval_pb2.BatchFindRequest(requests=requests)


def retrieve(
    query: str = "",
    *,
    vector: Vector | None = None,
    target: str = "",
    context_types: Iterable[ContextType] = (),
    where: Mapping[str, Any] | None = None,
    top_k: int = 0,
    score_threshold: float | None = None,
    mode: Mode = Mode.HYBRID,
    fusion: Rrf | WeightedSum | None = None,
    include: Iterable[Include] = (),
    group_by_context: bool = False,
    diversity: float = 0.0,
    boosts: Iterable[Boost] = (),
    optional_clauses: Iterable[str] = (),
    degrade: bool = False,
    debug: bool = False,
    min_revision: int = 0,
    page_token: str = "",
) -> retrieval_pb2.RetrieveRequest:
    """The passages that a strategy finds.

    Args:
        query: the question; "" when the vector alone counts, or `where` alone with Mode.KEYWORD.
        vector: its embedding; None lets the daemon embed the query.
        target: search in this directory only; "" is the whole tree.
        context_types: return these only; none given means all.
        where: filter over metadata, such as {"year": {"$gte": 2024}}.
        top_k: at most so many items; 0 leaves it to the daemon's configuration.
        score_threshold: return only what scores more, on the scale of the mode.
        mode: which side of the index answers.
        fusion: how Mode.HYBRID fuses; None is Rrf().
        include: what items bring along; none given means the text.
        group_by_context: return the best passage of each context only.
        diversity: share of maximal marginal relevance, in [0, 1].
        boosts: multiply the scores of some items.
        optional_clauses: keys of `where` to search without, once, when nothing is found.
        degrade: answer by words alone when the embedder fails.
        debug: say how each score came about.
        min_revision: answer from this revision or a later one.
        page_token: of a listing by `where` alone, `next_page_token` of the page before.
    """
    request = retrieval_pb2.RetrieveRequest(
        query=query,
        vector=b"" if vector is None else vector_bytes(vector),
        target_uri=target,
        context_types=[contexts_pb2.ContextType.ValueType(kind) for kind in context_types],
        where=None if where is None else _struct(where),
        top_k=top_k,
        score_threshold=score_threshold,
        mode=retrieval_pb2.Mode.ValueType(mode),
        include=[retrieval_pb2.Include.ValueType(one) for one in include],
        group_by_context=group_by_context,
        diversity=diversity,
        boosts=[
            retrieval_pb2.Boost(
                uri_prefix=boost.uri_prefix,
                where=None if boost.where is None else _struct(boost.where),
                factor=boost.factor,
            )
            for boost in boosts
        ],
        optional_clauses=optional_clauses,
        degrade=degrade,
        debug=debug,
        min_revision=min_revision,
        page_token=page_token,
    )
    _set_fusion(request, fusion)
    return request


def build_context(
    query: str = "",
    *,
    items: Iterable[tuple[str, int, float]] = (),
    uris: Iterable[str] = (),
    find: retrieval_pb2.FindRequest | None = None,
    retrieve: retrieval_pb2.RetrieveRequest | None = None,
    max_tokens: int = 0,
    reserve_tokens: int | None = None,
    tokenizer: str = "",
    citation: CitationStyle = CitationStyle.NUMBERED,
    separator: str | None = None,
    order: ContextOrder = ContextOrder.SCORE,
    full_text_only: bool = False,
) -> retrieval_pb2.BuildContextRequest:
    """The text for a prompt, of what was found, within a budget of tokens.

    Args:
        query: the question, for a find over the whole tree; or one of the next four.
        items: (uri, passage, score) as an earlier call returned them; passage 0 is the whole.
        uris: whole contexts, best first.
        find: made by `find_request`.
        retrieve: made by `retrieve_request`.
        max_tokens: of the model's window; 0 leaves it to the daemon's configuration.
        reserve_tokens: kept free of it; None leaves it to the daemon's configuration.
        tokenizer: who counts; "" is o200k_base.
        citation: what names the sources.
        separator: between passages; None is an empty line.
        order: by score or by place in the tree.
        full_text_only: no abstracts and overviews in the place of what does not fit.
    """
    if query and find is None:
        find = _find_request(query)
    return retrieval_pb2.BuildContextRequest(
        items=[
            retrieval_pb2.ContextItem(uri=uri, passage=passage, score=score)
            for uri, passage, score in items
        ],
        uris=uris,
        find=find,
        retrieve=retrieve,
        max_tokens=max_tokens,
        reserve_tokens=reserve_tokens,
        tokenizer=tokenizer,
        citation=retrieval_pb2.CitationStyle.ValueType(citation),
        separator=separator,
        order=retrieval_pb2.ContextOrder.ValueType(order),
        full_text_only=full_text_only,
    )


_find_request = find  # which `build_context` has a parameter of the name of


def put(
    contexts: Iterable[Draft | contexts_pb2.ContextInput], *, wait_for_vectors: bool = False
) -> contexts_pb2.PutRequest:
    """Writes contexts, new or anew, all or nothing.

    Args:
        contexts: 1 to 1,000, each URI once.
        wait_for_vectors: return only when they are found by meaning too, not by their text alone.
    """
    return contexts_pb2.PutRequest(
        contexts=[context_input(c) if isinstance(c, Draft) else c for c in contexts],
        wait_for_vectors=wait_for_vectors,
    )


def delete(*uris: str) -> contexts_pb2.DeleteRequest:
    """Removes contexts with all below them."""
    return contexts_pb2.DeleteRequest(uris=uris)


def move(source: str, destination: str) -> contexts_pb2.MoveRequest:
    """Moves or renames a context with all below it."""
    return contexts_pb2.MoveRequest(source_uri=source, destination_uri=destination)


def get(uri: str, *, min_revision: int = 0) -> contexts_pb2.GetRequest:
    """Reads one context whole: content, passages and relations too."""
    return contexts_pb2.GetRequest(uri=uri, min_revision=min_revision)


def link(uri: str, other: str, reason: str = "") -> contexts_pb2.LinkRequest:
    """Says that two contexts belong together; linking again replaces the reason."""
    return contexts_pb2.LinkRequest(uri=uri, other_uri=other, reason=reason)


def unlink(uri: str, other: str) -> contexts_pb2.UnlinkRequest:
    """Takes a link back."""
    return contexts_pb2.UnlinkRequest(uri=uri, other_uri=other)


def stats() -> admin_pb2.StatsRequest:
    """The daemon in numbers."""
    return admin_pb2.StatsRequest()


def verify() -> admin_pb2.VerifyRequest:
    """Compares the index with the store, all of it."""
    return admin_pb2.VerifyRequest()


def optimize() -> admin_pb2.OptimizeRequest:
    """Compacts the index now."""
    return admin_pb2.OptimizeRequest()


def reembed(target: str = "") -> admin_pb2.ReembedRequest:
    """Drops the vectors below `target`, or all, so that the present model makes them anew."""
    return admin_pb2.ReembedRequest(target_uri=target)


def recall(
    query: str,
    *,
    vector: Vector | None = None,
    project: str = "",
    with_global: bool = False,
    max_tokens: int | None = None,
    tokenizer: str = "",
    top_k: int = 0,
    without: Iterable[RecallPath] = (),
    fusion: Rrf | WeightedSum | None = None,
    profile: str = "",
    weights: tuple[float, float, float, float] | None = None,
    half_life_days: float | None = None,
    now: datetime | None = None,
    time_zone: str = "",
    skip_oversize: bool = False,
    no_touch: bool = False,
    min_revision: int = 0,
) -> memories_pb2.RecallRequest:
    """The memories that matter now, within a budget of tokens.

    Args:
        query: the question.
        vector: its embedding; None lets the daemon embed the query.
        project: the memories of this project; "" is those of no project.
        with_global: beside a project's, those of no project too.
        max_tokens: the budget; None leaves it to the daemon's configuration.
        tokenizer: who counts; "" is o200k_base.
        top_k: at most so many memories; 0 leaves it to the daemon's configuration.
        without: paths not to take.
        fusion: how meaning and words are fused; None is WeightedSum(0.5, 0.5).
        profile: weights by name, "salience" or "relevance"; "" is the daemon's configuration.
        weights: of meaning, reinforcement, recency and access, in place of a profile; sum 1.
        half_life_days: after which recency has halved; None leaves it to the configuration.
        now: what ages and words such as "yesterday" are counted from; None is the clock.
        time_zone: the caller's, such as "Europe/Berlin"; "" is UTC.
        skip_oversize: go on to smaller memories where one does not fit.
        no_touch: do not count what is returned as accessed.
        min_revision: answer from this revision or a later one.
    """
    request = memories_pb2.RecallRequest(
        query=query,
        vector=b"" if vector is None else vector_bytes(vector),
        scope=_scope(project, with_global),
        max_tokens=max_tokens,
        tokenizer=tokenizer,
        top_k=top_k,
        without=[memories_pb2.RecallPath.ValueType(path) for path in without],
        profile=profile,
        half_life_days=half_life_days,
        now=_moment(now),
        time_zone=time_zone,
        skip_oversize=skip_oversize,
        no_touch=no_touch,
        min_revision=min_revision,
    )
    if weights is not None:
        own = request.weights
        own.semantic, own.reinforcement, own.recency, own.access = weights
    _set_fusion(request, fusion)
    return request


def remember(
    text: str,
    memory_type: str = "",
    *,
    section: str = "",
    project: str = "",
    uri: str = "",
    time: datetime | None = None,
    time_zone: str = "",
    exact: bool = False,
) -> memories_pb2.RememberRequest:
    """Writes one memory, or reinforces it where it was said before.

    Args:
        text: what to remember, at most a passage.
        memory_type: "preferences", "tasks", "journal", ... or any name; not needed with `uri`.
        section: the heading below which it stands; "" is none.
        project: whose memory it is; "" is no project's.
        uri: the file, in place of project and type.
        time: when it was said; None is now.
        time_zone: the caller's, which decides the day of a journal; "" is UTC.
        exact: compare wordings only, not their meaning.
    """
    return memories_pb2.RememberRequest(
        text=text,
        memory_type=memory_type,
        section=section,
        scope=_scope(project, with_global=False),
        uri=uri,
        time=_moment(time),
        time_zone=time_zone,
        exact=exact,
    )


def reinforce(*ids: int, by: int = 1) -> memories_pb2.ReinforceRequest:
    """Says that memories proved true or useful, by their ids."""
    return memories_pb2.ReinforceRequest(ids=ids, by=by)


def forget(
    *ids: int,
    project: str = "",
    with_global: bool = False,
    older_than: datetime | None = None,
    below_salience: float | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
) -> memories_pb2.ForgetRequest:
    """Removes memories: by their ids, or all in a scope to which every criterion applies.

    Args:
        ids: of the memories.
        project: whose memories the criteria look at; "" is those of no project.
        with_global: beside a project's, those of no project too.
        older_than: those last said before.
        below_salience: those that matter less than this without a query, in (0, 1].
        dry_run: only say what would go.
        now: what ages are counted from; None is the clock.
    """
    return memories_pb2.ForgetRequest(
        ids=ids,
        scope=None if ids else _scope(project, with_global),
        older_than=_moment(older_than),
        below_salience=below_salience,
        dry_run=dry_run,
        now=_moment(now),
    )


def _scope(project: str, with_global: bool) -> memories_pb2.MemoryScope:
    return memories_pb2.MemoryScope(project=project, **{"global": with_global or not project})


def _moment(time: datetime | None) -> timestamp_pb2.Timestamp | None:
    """A time; one without a zone is that of this machine's."""
    return None if time is None else _timestamp(round(time.timestamp() * 1_000_000))


def _set_fusion(
    request: retrieval_pb2.RetrieveRequest | memories_pb2.RecallRequest,
    fusion: Rrf | WeightedSum | None,
) -> None:
    if isinstance(fusion, WeightedSum):
        request.weighted.vector_weight = fusion.vector_weight
        request.weighted.keyword_weight = fusion.keyword_weight
    elif fusion is not None:
        request.rrf.k = fusion.k
        request.rrf.vector_weight = fusion.vector_weight
        request.rrf.keyword_weight = fusion.keyword_weight


def _struct(value: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(dict(value))
    return struct


def _timestamp(micros: int) -> timestamp_pb2.Timestamp:
    seconds, rest = divmod(micros, 1_000_000)
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=rest * 1000)
