"""The items of a context, made from the results of a find or a retrieval."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from vikingd.client.results import MatchedContext, RetrievedItem


class ContextItem(NamedTuple):
    """A passage, or a whole context with passage 0; its score gives its rank among the others."""

    uri: str
    passage: int = 0
    score: float = 0.0


Hit: TypeAlias = ContextItem | MatchedContext | RetrievedItem | tuple[str, int, float]


def context_items(hit: Hit) -> tuple[ContextItem, ...]:
    """Return the items of one result.

    The passages of a matched context have its score. Each further one ranks lower, by the ratio of
    its own score to that of the best one. A match without passages stands for the whole context.
    """
    if isinstance(hit, RetrievedItem):
        return (ContextItem(hit.uri, hit.passage, hit.score),)
    if not isinstance(hit, MatchedContext):
        return (ContextItem(*hit),)
    if not hit.passages:
        return (ContextItem(hit.uri, 0, hit.score),)
    best = hit.passages[0].score
    return tuple(
        ContextItem(hit.uri, passage.ordinal, hit.score * passage.score / best)
        for passage in hit.passages
    )
