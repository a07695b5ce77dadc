"""The methods of the service Retrieval; their results are in `results`.

Each function builds a request. The daemon checks the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vikingd.client.argument_checks import wrong_type
from vikingd.client.conversation import Conversation, session_message, session_of
from vikingd.client.method_declarations import method
from vikingd.client.results import (
    BuiltContext,
    ContextItem,
    FindResult,
    Hit,
    MatchedContext,
    RetrievedItem,
    RetrieveResult,
    SearchResult,
    context_items,
)
from vikingd.client.value_conversion import (
    Many,
    count_of,
    each,
    many_of,
    one_of,
    set_fusion,
    struct,
    vector_bytes,
)
from vikingd.domain.contexts import ContextType
from vikingd.domain.find_query import Levels, Method, Preference
from vikingd.domain.long_queries import fitted
from vikingd.domain.prompt_options import CitationStyle, ContextOrder
from vikingd.domain.retrieve_query import Boost, Include, Mode, Rrf, WeightedSum
from vikingd.domain.search_query import SearchMode
from vikingd.pb import retrieval_pb2

if TYPE_CHECKING:
    from vikingd.client.value_conversion import Vector

_SENT_MESSAGES = 20  # the planner reads the last five; a long session must fit into a request


@method(retrieval_pb2.FindResponse, FindResult, retried=True)
def find(
    query: str = "",
    *,
    vector: Vector | None = None,
    target_uri: str = "",
    context_types: Many[ContextType] = (),
    levels: Levels | str = Levels.FILES,
    limit: int | None = None,
    top_k: int | None = None,
    score_threshold: float | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float | None = None,
    trace: bool = False,
    min_revision: int = 0,
    method: Method | str = Method.AUTO,
    max_directories: int = 0,
    mode: SearchMode | str = SearchMode.QUICK,
    prefer: Preference | str = Preference.NONE,
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
        mode: with SearchMode.THINKING a reranker decides the order, and `method` and `prefer` are
            not allowed.
        prefer: "code" or "docs": files of other kinds score lower.
    """
    return retrieval_pb2.FindRequest(
        query=fitted(query),
        vector=b"" if vector is None else vector_bytes(vector),
        target_uri=target_uri,
        context_types=many_of(ContextType, context_types, "context_types"),
        levels=one_of(Levels, levels, "levels"),
        limit=count_of(limit, top_k),
        score_threshold=score_threshold,
        where=None if where is None else struct(where, "where"),
        alpha=alpha,
        trace=trace,
        min_revision=min_revision,
        method=one_of(Method, method, "method"),
        max_directories=max_directories,
        mode=one_of(SearchMode, mode, "mode"),
        prefer=one_of(Preference, prefer, "prefer"),
    )


@method(retrieval_pb2.BatchFindResponse, tuple[FindResult, ...], part="responses", retried=True)
def batch_find(requests: Iterable[retrieval_pb2.FindRequest]) -> retrieval_pb2.BatchFindRequest:
    """Find contexts for many queries in one call; `find_request` makes each query.

    Raises:
        TypeError: a query is no such request.
    """
    given: list[Any] = [requests] if isinstance(requests, str | Mapping) else list(requests)
    for i, one in enumerate(given):
        if not isinstance(one, retrieval_pb2.FindRequest):
            example = 'find_request("how hot for oolong?")'
            raise wrong_type(f"requests[{i}]", one, f"what find_request returns: {example}")
    return retrieval_pb2.BatchFindRequest(requests=given)


@method(retrieval_pb2.SearchResponse, SearchResult, retried=True)
def search(
    query: str,
    *,
    session: Conversation | None = None,
    target_uri: str = "",
    context_types: Many[ContextType] = (),
    levels: Levels | str = Levels.FILES,
    limit: int | None = None,
    top_k: int | None = None,
    score_threshold: float | None = None,
    where: Mapping[str, Any] | None = None,
    alpha: float | None = None,
    mode: SearchMode | str = SearchMode.THINKING,
    trace: bool = False,
    min_revision: int = 0,
) -> retrieval_pb2.SearchRequest:
    """Search for a task and the conversation before it: plan queries and answer all of them.

    Args:
        query: the task.
        session: the conversation before the task, a Session or messages as dicts with role and
            content; None: search for the query unchanged.
        target_uri: search below this directory only; "": the whole tree.
        context_types: return these types only; planned queries for other types are skipped.
        levels: return files, directories or both.
        limit: return at most this many results in all; None: 10.
        top_k: the same as `limit`; give one of them.
        score_threshold: return only results that score more than this, in [0, 1].
        where: a filter over metadata, such as {"year": {"$gte": 2024}}.
        alpha: weight of a context's own score against its parent's; None: computed per query.
        mode: with SearchMode.THINKING a reranker decides the order, if the daemon has one; with
            SearchMode.QUICK the scores by meaning and words do.
        trace: return the trace of each query.
        min_revision: answer from this revision or a later one.
    """
    before = None if session is None else session_of(session)
    return retrieval_pb2.SearchRequest(
        query=fitted(query),
        session=None
        if before is None
        else session_message(before, before.messages[-_SENT_MESSAGES:]),
        target_uri=target_uri,
        context_types=many_of(ContextType, context_types, "context_types"),
        levels=one_of(Levels, levels, "levels"),
        limit=count_of(limit, top_k),
        score_threshold=score_threshold,
        where=None if where is None else struct(where, "where"),
        alpha=alpha,
        mode=one_of(SearchMode, mode, "mode"),
        trace=trace,
        min_revision=min_revision,
    )


@method(retrieval_pb2.RetrieveResponse, RetrieveResult, retried=True)
def retrieve(
    query: str = "",
    *,
    vector: Vector | None = None,
    target_uri: str = "",
    context_types: Many[ContextType] = (),
    where: Mapping[str, Any] | None = None,
    top_k: int | None = None,
    limit: int | None = None,
    score_threshold: float | None = None,
    mode: Mode | str = Mode.HYBRID,
    fusion: Rrf | WeightedSum | None = None,
    include: Many[Include] = (),
    group_by_context: bool = False,
    diversity: float = 0.0,
    boosts: Boost | Iterable[Boost] = (),
    optional_clauses: str | Iterable[str] = (),
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
        query=fitted(query),
        vector=b"" if vector is None else vector_bytes(vector),
        target_uri=target_uri,
        context_types=many_of(ContextType, context_types, "context_types"),
        where=None if where is None else struct(where, "where"),
        top_k=count_of(limit, top_k),
        score_threshold=score_threshold,
        mode=one_of(Mode, mode, "mode"),
        include=many_of(Include, include, "include"),
        group_by_context=group_by_context,
        diversity=diversity,
        boosts=[
            retrieval_pb2.Boost(
                uri_prefix=boost.uri_prefix,
                where=None if boost.where is None else struct(boost.where, "where"),
                factor=boost.factor,
            )
            for boost in each(
                boosts, Boost, "boosts", 'Boosts, such as Boost(2, uri_prefix="viking://resources")'
            )
        ],
        optional_clauses=each(optional_clauses, str, "optional_clauses", "keys of where"),
        degrade=degrade,
        trace=trace,
        min_revision=min_revision,
        page_token=page_token,
    )
    set_fusion(request, fusion)
    return request


@method(retrieval_pb2.BuildContextResponse, BuiltContext, retried=True)
def build_context(
    query: str = "",
    *,
    items: Hit | Iterable[Hit] | None = None,
    uris: str | Iterable[str] | None = None,
    find: retrieval_pb2.FindRequest | None = None,
    retrieve: retrieval_pb2.RetrieveRequest | None = None,
    max_tokens: int = 0,
    reserve_tokens: int | None = None,
    tokenizer: str = "",
    citation: CitationStyle | str = CitationStyle.NUMBERED,
    separator: str | None = None,
    order: ContextOrder | str = ContextOrder.SCORE,
    full_text_only: bool = False,
    no_touch: bool = False,
    floor: float | None = None,
) -> retrieval_pb2.BuildContextRequest:
    """Build the text for a prompt from results, within a budget of tokens.

    Args:
        query: the question of a find over the whole tree, with 30 results. Give this or one of the
            next four.
        items: results of an earlier call, such as a FindResult, or ContextItems.
        uris: the URIs of whole contexts, best first.
        find: a request from `find_request`; without a limit it has 30 results, in THINKING 10.
        retrieve: a request from `retrieve_request`.
        max_tokens: the tokens of the model's window; 0: the daemon's default.
        reserve_tokens: the part of them that stays free; None: the daemon's default.
        tokenizer: a bundled tokenizer, or a name in the daemon's configuration; "":
            o200k_base, or approx where quicktok-v1 is not installed.
        citation: the style of the markers.
        separator: the text between two passages; None: an empty line.
        order: order by score or by place in the tree.
        full_text_only: do not replace passages that do not fit by abstracts or overviews.
        no_touch: do not count the memories in the text as accessed.
        floor: the least `confidence.in_scope` of a find or a retrieve, in [0, 1]; 0: any; None:
            the daemon's default, which leaves out what is NOTHING.
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
        uris=None
        if uris is None
        else retrieval_pb2.ContextUris(uris=each(uris, str, "uris", "URIs")),
        find=_find_request(query) if query else find,
        retrieve=retrieve,
        max_tokens=max_tokens,
        reserve_tokens=reserve_tokens,
        tokenizer=tokenizer,
        citation=one_of(CitationStyle, citation, "citation"),
        separator=separator,
        order=one_of(ContextOrder, order, "order"),
        full_text_only=full_text_only,
        no_touch=no_touch,
        floor=floor,
    )


_find_request = find  # `build_context` has a parameter with the name `find`


def _items(hits: Hit | Iterable[Hit]) -> retrieval_pb2.ContextItems:
    return retrieval_pb2.ContextItems(
        items=[
            retrieval_pb2.ContextItem(uri=uri, passage=passage, score=score)
            for hit in _each_hit(hits)
            for uri, passage, score in context_items(hit)
        ]
    )


def _each_hit(hits: Hit | Iterable[Hit]) -> Iterable[Hit]:
    # A ContextItem is a tuple, and so iterable itself.
    return [hits] if isinstance(hits, (ContextItem, MatchedContext, RetrievedItem)) else hits  # type: ignore[return-value]
