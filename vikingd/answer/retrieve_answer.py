"""The answer to a plan of a retrieval: the best texts of its scopes, or a page of a listing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, repeat
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

import numpy as np
from viking_kernels.arrays import F32

from vikingd.answer.confidence import confidence_of, confidence_to_show, features_of_texts
from vikingd.answer.equal_texts import preferences
from vikingd.answer.filtered_files import Listed, list_files
from vikingd.answer.hybrid_ranking import (
    DEEPER,
    MOST_DEPTH,
    ranked_by_both,
    ranked_by_meaning,
    ranked_by_words,
)
from vikingd.answer.ranked_lists import Places, RankedList, diverse, fused, places_in
from vikingd.answer.texts_by_row import key_of, name_of, vector_of
from vikingd.domain import cancellation
from vikingd.domain.answers import NO_CONFIDENCE, Confidence, Degraded, Stage
from vikingd.domain.retrieve_query import ItemTrace, Mode, Outcome, RetrieveQuery, Rrf
from vikingd.index.snapshot import Snapshot
from vikingd.plan.retrieve_plan import RetrievePlan, TextScope

_MMR_POOL = 4  # times top_k: the candidates of diversity
_EQUALS = 10  # hits behind the wanted ones that are compared with them


class TextHit(NamedTuple):
    """A text that may become an item of the reply."""

    score: float
    row: int
    at: int
    """The index of the text in the ranked list of the answer."""

    boost: float
    scope: TextScope
    copies: tuple[int, ...] = ()
    """Other files with the same text, the preferred ones first."""


class _Pool(NamedTuple):
    """The candidate hits of one scope, and the lists that they come from."""

    hits: list[TextHit]
    found: RankedList
    """The ranked list of the answer."""

    sides: dict[str, RankedList]
    """The ranked lists that were fused into the list of the answer, by name."""


class Ranked(NamedTuple):
    """A ranked list and the time that it took."""

    found: RankedList
    stage: Stage


# Not frozen: a frozen one takes four times as long to make.
@dataclass(slots=True)
class RetrieveHits:
    """Texts by falling score, ties by URI and passage, or a page of a listing.

    Attributes:
        hits: the texts; empty for a listing.
        listed: the page of a listing; else None.
        relaxed: the optional clauses that were left out.
        traces: makes the trace of a hit; None without a trace.
        confidence: None for a listing.
    """

    query: RetrieveQuery
    snapshot: Snapshot
    hits: Sequence[TextHit]
    outcome: Outcome
    stages: tuple[Stage, ...]
    degraded: Degraded = ()
    listed: Listed | None = None
    relaxed: tuple[str, ...] = ()
    traces: Callable[[TextHit], ItemTrace] | None = None
    confidence: Confidence | None = NO_CONFIDENCE

    @property
    def top_score(self) -> float:
        """The best score; 0 without hits."""
        if self.listed is not None:
            return 1.0 if self.listed.files else 0.0
        return self.hits[0].score if self.hits else 0.0


def retrieve(
    plan: RetrievePlan,
    vector: F32 | None,
    degraded: Degraded = (),
    ready: Mapping[str, Ranked] | None = None,
) -> RetrieveHits:
    """Run a plan; return its texts, or a page of a listing.

    If nothing is found, the plan is run again without the query's optional clauses.

    Args:
        plan: the plan of the retrieval.
        vector: [dim] the query's embedding, of any length; None: words alone count.
        degraded: notes for the reply.
        ready: ranked lists that were computed before, by name ("vector", "keyword"); only for a
            plan with one scope, `plan.two_sides`.
    """
    for scope in plan.scopes:
        _ = scope.boosts  # raises if one is malformed
    is_listing = plan.query.listing
    found = _listing(plan) if is_listing else _search(plan, vector, ready or {}, degraded)
    dropped = plan.query.optional_clauses
    if found.outcome is Outcome.FOUND or not dropped:
        return found
    return replace(retrieve(plan.relaxed(), vector, degraded), relaxed=dropped)


def rank_words(scope: TextScope) -> Ranked:
    """Rank the texts of a scope by words; return the list and its time."""
    return _timed("keyword", lambda: ranked_by_words(scope, scope.depth))


def rank_meaning(scope: TextScope, vector: F32) -> Ranked:
    """Rank the texts of a scope by meaning; return the list and its time."""
    return _timed("vector", lambda: ranked_by_meaning(scope, vector, scope.depth))


def _search(
    plan: RetrievePlan, vector: F32 | None, ready: Mapping[str, Ranked], degraded: Degraded
) -> RetrieveHits:
    query = plan.query
    stages = [Stage("plan", plan.started, plan.compiled), *(one.stage for one in ready.values())]
    known = {name: one.found for name, one in ready.items()}
    pools = {scope: _pool(scope, vector, known, stages) for scope in plan.scopes}
    hits = _chosen(query, _merged(query, plan.snapshot, list(pools.values())))
    outcome = Outcome.FOUND
    if not hits:
        found = any(len(pool.found.rows) for pool in pools.values())
        outcome = Outcome.BELOW_THRESHOLD if found else Outcome.NO_MATCH
    features = (
        features_of_texts(scope, vector, pool.found, pool.sides) for scope, pool in pools.items()
    )
    return RetrieveHits(
        query,
        plan.snapshot,
        hits,
        outcome,
        tuple(stages),
        degraded,
        traces=_traces(pools) if query.trace else None,
        confidence=confidence_to_show(confidence_of(features, plan.model), len(hits)),
    )


def _listing(plan: RetrievePlan) -> RetrieveHits:
    """Return a page of all files that the filters allow, by URI."""
    query, started = plan.query, perf_counter()
    page = list_files(plan.scopes, query.after, query.top_k)
    outcome = Outcome.FOUND if page.files else Outcome.NO_MATCH
    stages = (
        Stage("plan", plan.started, plan.compiled),
        Stage("score", started, perf_counter()),
    )
    return RetrieveHits(query, plan.snapshot, (), outcome, stages, listed=page, confidence=None)


# Ranking


def _pool(
    scope: TextScope, vector: F32 | None, ready: Mapping[str, RankedList], stages: list[Stage]
) -> _Pool:
    """Return the candidate hits of a scope: at least `query.top_k`, if there are so many.

    The search is repeated with longer lists until no further text can be among the best `top_k`.

    Args:
        scope: the scope.
        vector: the query's vector; None: words alone count.
        ready: ranked lists that were computed before, by name.
        stages: the timed steps of the answer, to which each search is added.
    """
    depth = scope.depth
    while True:
        found, sides = _ranked(scope, vector, depth, ready, stages)
        hits = _hits(scope, found)
        if not found.is_full or depth >= MOST_DEPTH or _is_settled(scope, found, hits):
            return _Pool(hits, found, sides)
        depth = min(depth * DEEPER, MOST_DEPTH)
        ready = {}


def _is_settled(scope: TextScope, found: RankedList, hits: Sequence[TextHit]) -> bool:
    """Return True if a longer list than `found` could not change the hits."""
    query = scope.query
    most = found.scores.item(-1) * scope.most_boost
    if query.score_threshold is not None and most <= query.score_threshold:
        return True
    if len(hits) < query.top_k:
        return False
    return not scope.boosts or most < min(hit.score for hit in _chosen(query, hits))


def _ranked(
    scope: TextScope,
    vector: F32 | None,
    depth: int,
    ready: Mapping[str, RankedList],
    stages: list[Stage],
) -> tuple[RankedList, dict[str, RankedList]]:
    """Return the ranked list that the reply shows, and the lists by name that it was made of.

    Lists in `ready` are not computed again. The time of each computed list is added to `stages`.
    """

    def side(name: str, look: Callable[[], RankedList]) -> RankedList:
        return ready.get(name) or timed(name, look)

    def timed(stage: str, look: Callable[[], RankedList]) -> RankedList:
        ranked = _timed(stage, look)
        stages.append(ranked.stage)
        return ranked.found

    query = scope.query
    fusion = query.fusion
    if vector is None or not scope.by_meaning:
        words = side("keyword", lambda: ranked_by_words(scope, depth))
        return words, {"keyword": words}
    weights = (fusion.vector_weight, fusion.keyword_weight)
    if not scope.has_two_sides and query.mode is Mode.HYBRID:
        return timed("score", lambda: ranked_by_both(scope, vector, weights, depth)), {}
    meaning = side("vector", lambda: ranked_by_meaning(scope, vector, depth))
    if not isinstance(fusion, Rrf) or query.mode is Mode.VECTOR:
        return meaning, {"vector": meaning}
    words = side("keyword", lambda: ranked_by_words(scope, depth))
    both = timed("fuse", lambda: fused((meaning, words), weights, float(fusion.k)))
    return both, {"vector": meaning, "keyword": words}


def _timed(stage: str, look: Callable[[], RankedList]) -> Ranked:
    started = perf_counter()
    found = look()
    return Ranked(found, Stage(stage, started, perf_counter()))


# Choosing


def _hits(scope: TextScope, found: RankedList) -> list[TextHit]:
    """Return the hits of a list above the threshold, in order, each text once."""
    rows, scores = found.rows.tolist(), found.scores.tolist()
    listed: Iterable[TextHit] = map(TextHit, scores, rows, count(), repeat(1.0), repeat(scope))
    if scope.boosts:
        listed = sorted(map(_boosted, listed), key=_score_of, reverse=True)
    return _distinct(scope.query, scope.snapshot, listed)


def _boosted(hit: TextHit) -> TextHit:
    snapshot = hit.scope.snapshot
    uri, _ = name_of(snapshot, hit.row)
    boost = hit.scope.boost_of(uri, snapshot.tree.texts.file.item(hit.row))
    return hit._replace(score=hit.score * boost, boost=boost)


def _merged(query: RetrieveQuery, snapshot: Snapshot, pools: Sequence[_Pool]) -> list[TextHit]:
    """Merge the hits of all scopes by score, each text once."""
    if len(pools) == 1:
        return pools[0].hits
    hits = [hit for pool in pools for hit in pool.hits]
    hits.sort(key=_score_of, reverse=True)
    return _distinct(query, snapshot, hits)


def _distinct(query: RetrieveQuery, snapshot: Snapshot, listed: Iterable[TextHit]) -> list[TextHit]:
    """Return the hits above the threshold, each text once, ties by URI and passage.

    `listed` has the hits by falling score. If several files have a text, the file that
    `equal_texts` prefers is shown, with the place and score of the best one. To find it, some hits
    after the last place are read, too.
    """
    threshold = query.score_threshold
    wanted = query.top_k * (_MMR_POOL if query.diversity else 1)
    kept: list[TextHit] = []
    places: dict[bytes, int] = {}
    equal: dict[int, list[TextHit]] = {}
    files: set[int] = set()
    left = _EQUALS
    for hit in _in_order(snapshot, listed):
        cancellation.check()
        if threshold is not None and hit.score <= threshold:
            break
        key = key_of(snapshot, hit.row)
        if key in places:
            equal.setdefault(places[key], []).append(hit)
        elif len(kept) < wanted:
            file = snapshot.tree.texts.file.item(hit.row)
            if not (query.group_by_context and file in files):
                places[key] = len(kept)
                files.add(file)
                kept.append(hit)
        if len(kept) == wanted:
            left -= 1
            if left < 0:
                break
    return _preferred(query, snapshot, kept, equal, files) if equal else kept


def _preferred(
    query: RetrieveQuery,
    snapshot: Snapshot,
    kept: list[TextHit],
    equal: Mapping[int, list[TextHit]],
    files: set[int],
) -> list[TextHit]:
    """Of hits with equal texts show the one of the preferred file; return the hits in order.

    The shown hit has the best score of the equal ones. The other files become its `copies`.

    Args:
        query: the query.
        snapshot: the index that the rows belong to.
        kept: the best hit of each text.
        equal: other hits of the same text, by the index of the text in `kept`.
        files: the files of `kept`; with `group_by_context` no file is shown twice. Files that are
            shown instead are added.
    """
    file_of = snapshot.tree.texts.file.item
    with_text = {
        place: {file for hit in (kept[place], *hits) for file in (file_of(hit.row), *hit.copies)}
        for place, hits in equal.items()
    }
    order = preferences(snapshot, set().union(*with_text.values()))
    for place, hits in equal.items():
        free = [hit for hit in hits if not (query.group_by_context and file_of(hit.row) in files)]
        first = min((kept[place], *free), key=lambda hit: order[file_of(hit.row)])
        shown = file_of(first.row)
        files.add(shown)
        copies = tuple(sorted(with_text[place] - {shown}, key=order.__getitem__))
        kept[place] = first._replace(score=kept[place].score, copies=copies)
    return list(_in_order(snapshot, kept))


def _in_order(snapshot: Snapshot, listed: Iterable[TextHit]) -> Iterator[TextHit]:
    """Yield hits by falling score, ties by URI and passage."""
    tied: list[TextHit] = []
    for hit in listed:
        if tied and hit.score != tied[0].score:
            yield from _by_name(snapshot, tied)
            tied = []
        tied.append(hit)
    yield from _by_name(snapshot, tied)


def _by_name(snapshot: Snapshot, hits: list[TextHit]) -> list[TextHit]:
    """Return hits by URI and passage."""
    return sorted(hits, key=lambda hit: name_of(snapshot, hit.row)) if len(hits) > 1 else hits


def _chosen(query: RetrieveQuery, hits: Sequence[TextHit]) -> Sequence[TextHit]:
    """Return the hits to show: the first ones, or a diverse choice if the query wants one.

    The choice compares the vectors, each less its centroid.
    """
    if not query.diversity or not hits:
        return hits
    snapshot = hits[0].scope.snapshot
    vectors = np.zeros((len(hits), snapshot.dimension), np.float32)
    for i, hit in enumerate(hits):
        vector = vector_of(snapshot, hit.scope.scope, hit.row)
        if vector is not None:
            script = snapshot.tree.texts.script[hit.row]
            vectors[i] = vector - hit.scope.coded.raw[script]
    scores = np.array([hit.score for hit in hits])
    return [hits[i] for i in diverse(scores, vectors, query.diversity, query.top_k)]


_score_of = attrgetter("score")


# Traces


def _traces(pools: Mapping[TextScope, _Pool]) -> Callable[[TextHit], ItemTrace]:
    """Return a function that makes the trace of a hit."""
    places: dict[TextScope, tuple[Places, Places]] = {
        scope: (places_in(pool.sides.get("vector")), places_in(pool.sides.get("keyword")))
        for scope, pool in pools.items()
    }

    def trace_of(hit: TextHit) -> ItemTrace:
        found, (vector, keyword) = pools[hit.scope].found, places[hit.scope]
        vector_rank, dense = vector.get(hit.row, (None, 0.0))
        keyword_rank, lexical = keyword.get(hit.row, (None, 0.0))
        if found.parts is not None:
            dense, lexical = found.parts[hit.at].tolist()
        fused_score = found.scores.item(hit.at)
        return ItemTrace(vector_rank, keyword_rank, dense, lexical, fused_score, hit.boost)

    return trace_of
