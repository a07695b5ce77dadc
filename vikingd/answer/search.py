"""Search: the finds of a plan, and their results in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType
from vikingd.domain.find import FindQuery, FindResult, Match, Rerank, RerankStatus
from vikingd.domain.search import QueryPlan, SearchQuery, TypedQuery
from vikingd.index.snapshot import Snapshot


def planned_for(plan: QueryPlan, query: SearchQuery) -> QueryPlan:
    """The plan without what is looked for in types that the request leaves out.

    Where nothing else is left, the query is searched in the types of the request as it stands.
    """
    types = query.find.context_types
    kept = tuple(
        q for q in plan.queries if not types or not q.context_type or q.context_type in types
    )
    notes = tuple(
        f"{q.query!r} is planned for {q.context_type.name}, which the request leaves out"
        for q in plan.queries
        if q not in kept
    )
    if plan.queries and not kept:
        kept = (TypedQuery(query.text, ContextType.UNSPECIFIED, priority=1),)
    return replace(plan, queries=kept, notes=plan.notes + notes)


def find_of(planned: TypedQuery, query: SearchQuery, snapshot: Snapshot) -> FindQuery:
    """One query of the plan as a find: below the root of its type where there is just one."""
    find = replace(query.find, text=planned.query)
    if not planned.context_type:
        return find
    roots = uris.TYPED_ROOTS.get(planned.context_type, ())
    if find.target_uri == uris.ROOT and len(roots) == 1 and (snapshot.find(roots[0]) or -1) >= 0:
        find = replace(find, target_uri=roots[0])
    return replace(find, context_types=frozenset((planned.context_type,)))


def merged(found: Sequence[FindResult], limit: int) -> tuple[Match, ...]:
    """The best of all, each URI once with its best score, by falling score, ties by URI.

    Each answer has room for the same share of `limit`; what it does not need is for the best of
    the others.
    """
    best: dict[str, Match] = {}
    for match in (match for result in found for match in result.matches):
        known = best.get(match.uri)
        if known is None or match.score > known.score:
            best[match.uri] = match
    kept: dict[str, Match] = {}
    for result in found:
        for match in result.matches[: limit // len(found)]:
            kept[match.uri] = best[match.uri]
    for match in sorted(best.values(), key=_order):
        if len(kept) == limit:
            break
        kept[match.uri] = match
    return tuple(sorted(kept.values(), key=_order))


def rerank_of(found: Sequence[FindResult]) -> Rerank:
    """What the reranker did for all queries together; it is the same for each."""
    if found and found[0].rerank is not None:
        return replace(found[0].rerank, rounds=())
    return Rerank(RerankStatus.OFF, "the mode is QUICK" if found else "nothing was searched")


def _order(match: Match) -> tuple[float, str]:
    return -match.score, match.uri
