"""The requests of the clients: one function for each RPC. The daemon checks the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from google.protobuf.field_mask_pb2 import FieldMask

from vikingd.client.errors import sendable
from vikingd.client.results import Hit, context_items
from vikingd.client.session import Session
from vikingd.client.values import (
    count_of,
    session_message,
    set_fusion,
    struct,
    timestamp,
    vector_bytes,
)
from vikingd.domain.contexts import ContextType, Draft, Entry
from vikingd.domain.find import Levels, Method
from vikingd.domain.patterns import NodeKind
from vikingd.domain.prompt import CitationStyle, ContextOrder
from vikingd.domain.retrieve import Boost, Include, Mode, Rrf, WeightedSum
from vikingd.domain.search import SearchMode, SearchSession
from vikingd.pb import admin_pb2, contexts_pb2, retrieval_pb2

if TYPE_CHECKING:
    from vikingd.client.values import Vector

_SENT_MESSAGES = 20  # the planner reads the last five; a long session must fit into a request


def context_input(draft: Draft) -> contexts_pb2.ContextInput:
    """Return a draft as a message for Put."""
    return contexts_pb2.ContextInput(
        uri=draft.uri,
        is_directory=draft.is_directory,
        abstract=draft.abstract,
        overview=draft.overview,
        content=draft.content,
        title=draft.title,
        metadata=struct(draft.metadata) if draft.metadata else None,
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
        time=None if draft.time is None else timestamp(draft.time),
        update_mask=(
            None if draft.update_mask is None else FieldMask(paths=sorted(draft.update_mask))
        ),
        expected_revision=draft.expected_revision,
    )


def _memory_state(entry: Entry) -> contexts_pb2.MemoryState:
    return contexts_pb2.MemoryState(
        reinforcement=entry.reinforcement,
        access_count=entry.access_count,
        time=None if entry.time is None else timestamp(entry.time),
        create_time=None if entry.created_at is None else timestamp(entry.created_at),
    )


@sendable()
def find(
    query: str = "",
    *,
    vector: Vector | None = None,
    target_uri: str = "",
    context_types: Iterable[ContextType] = (),
    levels: Levels = Levels.FILES,
    limit: int | None = None,
    top_k: int | None = None,
    score_threshold: float | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float | None = None,
    trace: bool = False,
    min_revision: int = 0,
    method: Method = Method.AUTO,
    max_directories: int = 0,
    mode: SearchMode = SearchMode.QUICK,
) -> retrieval_pb2.FindRequest:
    """Find the contexts that matter for a query.

    Args:
        query: the question; "": search by the vector alone.
        vector: the embedding of the query; None: the daemon embeds the query.
        target_uri: search below this directory only; "": the whole tree.
        context_types: return these types only; empty: all types.
        levels: return files, directories or both.
        limit: return at most this many results; None: 10.
        top_k: the same as `limit`; give one of them.
        score_threshold: return only results that score more than this, in [0, 1].
        where: a filter over metadata, such as {"year": {"$gte": 2024}}.
        alpha: weight of a context's own score against its parent's; None: computed per query.
        trace: return the trace of the search.
        min_revision: answer from this revision or a later one.
        method: the method of the search.
        max_directories: BEST_FIRST: open at most this many directories; 0: as many as needed.
        mode: with SearchMode.THINKING a reranker decides the order, and `method` is not allowed.
    """
    return retrieval_pb2.FindRequest(
        query=query,
        vector=b"" if vector is None else vector_bytes(vector),
        target_uri=target_uri,
        context_types=[contexts_pb2.ContextType.ValueType(kind) for kind in context_types],
        levels=retrieval_pb2.Levels.ValueType(levels),
        limit=count_of(limit, top_k),
        score_threshold=score_threshold,
        where=None if where is None else struct(where),
        alpha=alpha,
        trace=trace,
        min_revision=min_revision,
        method=retrieval_pb2.Method.ValueType(method),
        max_directories=max_directories,
        mode=retrieval_pb2.SearchMode.ValueType(mode),
    )


def batch_find(requests: Iterable[retrieval_pb2.FindRequest]) -> retrieval_pb2.BatchFindRequest:
    """Find contexts for many queries in one call; `find_request` makes each query."""
    return retrieval_pb2.BatchFindRequest(requests=requests)


def search(
    query: str,
    *,
    session: Session | SearchSession | None = None,
    target_uri: str = "",
    context_types: Iterable[ContextType] = (),
    levels: Levels = Levels.FILES,
    limit: int | None = None,
    top_k: int | None = None,
    score_threshold: float | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float | None = None,
    mode: SearchMode = SearchMode.THINKING,
    trace: bool = False,
    min_revision: int = 0,
) -> retrieval_pb2.SearchRequest:
    """Search for a task and the conversation before it: plan queries and answer all of them.

    Args:
        query: the task.
        session: the conversation before the task; None: search for the query unchanged.
        target_uri: search below this directory only; "": the whole tree.
        context_types: return these types only; planned queries for other types are skipped.
        levels: return files, directories or both.
        limit: return at most this many results in all; None: 10.
        top_k: the same as `limit`; give one of them.
        score_threshold: return only results that score more than this, in [0, 1].
        where: a filter over metadata, such as {"year": {"$gte": 2024}}.
        alpha: weight of a context's own score against its parent's; None: computed per query.
        mode: with SearchMode.THINKING a reranker decides the order.
        trace: return the trace of each query.
        min_revision: answer from this revision or a later one.
    """
    return retrieval_pb2.SearchRequest(
        query=query,
        session=None
        if session is None
        else session_message(session, session.messages[-_SENT_MESSAGES:]),
        target_uri=target_uri,
        context_types=[contexts_pb2.ContextType.ValueType(kind) for kind in context_types],
        levels=retrieval_pb2.Levels.ValueType(levels),
        limit=count_of(limit, top_k),
        score_threshold=score_threshold,
        where=None if where is None else struct(where),
        alpha=alpha,
        mode=retrieval_pb2.SearchMode.ValueType(mode),
        trace=trace,
        min_revision=min_revision,
    )


@sendable()
def retrieve(
    query: str = "",
    *,
    vector: Vector | None = None,
    target_uri: str = "",
    context_types: Iterable[ContextType] = (),
    where: Mapping[str, Any] | None = None,
    top_k: int | None = None,
    limit: int | None = None,
    score_threshold: float | None = None,
    mode: Mode = Mode.HYBRID,
    fusion: Rrf | WeightedSum | None = None,
    include: Iterable[Include] = (),
    group_by_context: bool = False,
    diversity: float = 0.0,
    boosts: Iterable[Boost] = (),
    optional_clauses: Iterable[str] = (),
    degrade: bool = False,
    trace: bool = False,
    min_revision: int = 0,
    page_token: str = "",
) -> retrieval_pb2.RetrieveRequest:
    """Retrieve passages by a strategy.

    Args:
        query: the question; "": search by the vector, or list by `where` with Mode.KEYWORD.
        vector: the embedding of the query; None: the daemon embeds the query.
        target_uri: search below this directory only; "": the whole tree.
        context_types: return these types only; empty: all types.
        where: a filter over metadata, such as {"year": {"$gte": 2024}}.
        top_k: return at most this many items; None: the daemon's default.
        limit: the same as `top_k`; give one of them.
        score_threshold: return only items that score more than this, on the scale of the mode.
        mode: search by meaning, by words or by both.
        fusion: the fusion of Mode.HYBRID; None: Rrf().
        include: the returned parts of items; empty: the text.
        group_by_context: return the best passage of each context only.
        diversity: share of maximal marginal relevance, in [0, 1].
        boosts: factors for the scores of some items.
        optional_clauses: keys of `where`; if nothing is found, search once more without them.
        degrade: answer by words alone if the embedder fails.
        trace: return the parts of each score.
        min_revision: answer from this revision or a later one.
        page_token: in a listing by `where` alone, `next_page_token` of the page before.
    """
    request = retrieval_pb2.RetrieveRequest(
        query=query,
        vector=b"" if vector is None else vector_bytes(vector),
        target_uri=target_uri,
        context_types=[contexts_pb2.ContextType.ValueType(kind) for kind in context_types],
        where=None if where is None else struct(where),
        top_k=count_of(limit, top_k),
        score_threshold=score_threshold,
        mode=retrieval_pb2.Mode.ValueType(mode),
        include=[retrieval_pb2.Include.ValueType(one) for one in include],
        group_by_context=group_by_context,
        diversity=diversity,
        boosts=[
            retrieval_pb2.Boost(
                uri_prefix=boost.uri_prefix,
                where=None if boost.where is None else struct(boost.where),
                factor=boost.factor,
            )
            for boost in boosts
        ],
        optional_clauses=optional_clauses,
        degrade=degrade,
        trace=trace,
        min_revision=min_revision,
        page_token=page_token,
    )
    set_fusion(request, fusion)
    return request


def build_context(
    query: str = "",
    *,
    items: Iterable[Hit] | None = None,
    uris: Iterable[str] | None = None,
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
    """Build the text for a prompt from results, within a budget of tokens.

    Args:
        query: the question of a find over the whole tree. Give this or one of the next four.
        items: results of an earlier call, such as a FindResult, or ContextItems.
        uris: the URIs of whole contexts, best first.
        find: a request from `find_request`.
        retrieve: a request from `retrieve_request`.
        max_tokens: the tokens of the model's window; 0: the daemon's default.
        reserve_tokens: the part of them that stays free; None: the daemon's default.
        tokenizer: a bundled tokenizer, or a name in the daemon's configuration; "":
            o200k_base.
        citation: the style of the markers.
        separator: the text between two passages; None: an empty line.
        order: order by score or by place in the tree.
        full_text_only: do not replace passages that do not fit by abstracts or overviews.
    """
    sources = {
        "query": query or None,
        "items": items,
        "uris": uris,
        "find": find,
        "retrieve": retrieve,
    }
    given = [name for name, source in sources.items() if source is not None]
    if len(given) > 1:
        raise ValueError(f"a context has one source, and {' and '.join(given)} are given")
    return retrieval_pb2.BuildContextRequest(
        items=None if items is None else _items(items),
        uris=None if uris is None else retrieval_pb2.ContextUris(uris=uris),
        find=_find_request(query) if query else find,
        retrieve=retrieve,
        max_tokens=max_tokens,
        reserve_tokens=reserve_tokens,
        tokenizer=tokenizer,
        citation=retrieval_pb2.CitationStyle.ValueType(citation),
        separator=separator,
        order=retrieval_pb2.ContextOrder.ValueType(order),
        full_text_only=full_text_only,
    )


_find_request = find  # `build_context` has a parameter with the name `find`


def _items(hits: Iterable[Hit]) -> retrieval_pb2.ContextItems:
    return retrieval_pb2.ContextItems(
        items=[
            retrieval_pb2.ContextItem(uri=uri, passage=passage, score=score)
            for hit in hits
            for uri, passage, score in context_items(hit)
        ]
    )


def put(
    contexts: Iterable[Draft | contexts_pb2.ContextInput], *, wait_for_vectors: bool = False
) -> contexts_pb2.PutRequest:
    """Write new or existing contexts, or some of their fields. A call writes all or nothing.

    Args:
        contexts: 1 to 1,000 contexts, each URI once; `update_mask` names the fields to write, and
            `expected_revision` is the revision that the context must have.
        wait_for_vectors: wait until the contexts are found by meaning too, not by text alone.
    """
    return contexts_pb2.PutRequest(
        contexts=[context_input(c) if isinstance(c, Draft) else c for c in contexts],
        wait_for_vectors=wait_for_vectors,
    )


def delete(
    *uris: str, allow_missing: bool = False, expected_revision: int | None = None
) -> contexts_pb2.DeleteRequest:
    """Remove contexts with all below them.

    Args:
        uris: the URIs of the contexts.
        allow_missing: a missing URI is no error.
        expected_revision: the revision that a single context must have; None: any revision.
    """
    return contexts_pb2.DeleteRequest(
        uris=uris, allow_missing=allow_missing, expected_revision=expected_revision
    )


def move(
    source: str, destination: str, *, expected_revision: int | None = None
) -> contexts_pb2.MoveRequest:
    """Move or rename a context with all below it.

    Args:
        source: the URI of the context.
        destination: the new URI.
        expected_revision: the revision that the source must have; None: any revision.
    """
    return contexts_pb2.MoveRequest(
        source_uri=source, destination_uri=destination, expected_revision=expected_revision
    )


def get(uri: str, *, min_revision: int = 0) -> contexts_pb2.GetRequest:
    """Read one whole context, with content, passages and relations."""
    return contexts_pb2.GetRequest(uri=uri, min_revision=min_revision)


def list_(uri: str = "", *, min_revision: int = 0) -> contexts_pb2.ListRequest:
    """List the direct children of a directory: files before directories, each by name."""
    return contexts_pb2.ListRequest(uri=uri, min_revision=min_revision)


def tree(uri: str = "", *, depth: int = 0, min_revision: int = 0) -> contexts_pb2.TreeRequest:
    """List a subtree by URI, the top first; `depth` levels below the top, 0: all."""
    return contexts_pb2.TreeRequest(uri=uri, depth=depth, min_revision=min_revision)


def glob(
    pattern: str,
    target_uri: str = "",
    *,
    kind: NodeKind | None = None,
    page_size: int = 0,
    min_revision: int = 0,
) -> contexts_pb2.GlobRequest:
    """Find contexts by a pattern over their paths, and yield them by URI.

    Args:
        pattern: the pattern for the path below `target_uri`, such as "**/*.md": `*`, `?`, `[a-z]`,
            `[!a-z]`, and `**` for any number of directories.
        target_uri: the directory; "": the whole tree.
        kind: yield this kind of nodes only; None: files and directories.
        page_size: entries that one call asks for; 0: the daemon's default.
        min_revision: answer from this revision or a later one.
    """
    return contexts_pb2.GlobRequest(
        pattern=pattern,
        target_uri=target_uri,
        kind=contexts_pb2.NodeKind.ValueType(kind or 0),
        page_size=page_size,
        min_revision=min_revision,
    )


def grep(
    pattern: str,
    target_uri: str = "",
    *,
    case_insensitive: bool = False,
    literal: bool = False,
    glob: str = "",
    context_types: Iterable[ContextType] = (),
    with_abstracts: bool = False,
    page_size: int = 0,
    min_revision: int = 0,
) -> contexts_pb2.GrepRequest:
    """Find the lines that match a regular expression, and yield them by URI and line.

    Args:
        pattern: a regular expression in the syntax of RE2, without lookaround and backreferences.
        target_uri: search this file, or the files below this directory; "": the whole tree.
        case_insensitive: ignore the case of letters.
        literal: the pattern is a text.
        glob: search only files whose path matches, as in `glob`; a pattern without a slash is for
            the name alone, such as "*.md". "": all files.
        context_types: search these types only; empty: all types.
        with_abstracts: search the abstracts of files and directories too.
        page_size: matches that one call asks for; 0: the daemon's default.
        min_revision: answer from this revision or a later one.
    """
    return contexts_pb2.GrepRequest(
        pattern=pattern,
        target_uri=target_uri,
        case_insensitive=case_insensitive,
        literal=literal,
        glob=glob,
        context_types=[contexts_pb2.ContextType.ValueType(kind) for kind in context_types],
        with_abstracts=with_abstracts,
        page_size=page_size,
        min_revision=min_revision,
    )


def link(uri: str, other: str, reason: str = "") -> contexts_pb2.LinkRequest:
    """Link two contexts; a second link of the same two replaces the reason."""
    return contexts_pb2.LinkRequest(uri=uri, other_uri=other, reason=reason)


def unlink(uri: str, other: str) -> contexts_pb2.UnlinkRequest:
    """Remove a link."""
    return contexts_pb2.UnlinkRequest(uri=uri, other_uri=other)


def stats() -> admin_pb2.StatsRequest:
    """Return the state of the daemon."""
    return admin_pb2.StatsRequest()


def verify() -> admin_pb2.VerifyRequest:
    """Compare the whole index with the store."""
    return admin_pb2.VerifyRequest()


def optimize() -> admin_pb2.OptimizeRequest:
    """Compact the index now."""
    return admin_pb2.OptimizeRequest()


def reembed(target_uri: str = "") -> admin_pb2.ReembedRequest:
    """Drop the vectors below `target_uri`, or all vectors; the present model makes new ones."""
    return admin_pb2.ReembedRequest(target_uri=target_uri)


def backup() -> admin_pb2.BackupRequest:
    """Copy the store while the daemon serves, and yield the bytes of the file in pieces.

    Each piece has the size of the whole file. With fewer bytes the copy is incomplete.
    """
    return admin_pb2.BackupRequest()
