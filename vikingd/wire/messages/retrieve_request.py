"""The conversion of Retrieve requests to the domain."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

from vikingd.config_sections import Retrieval as Defaults
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.retrieve_query import (
    MAX_BOOST,
    MAX_TOP_K,
    RRF_K,
    Boost,
    Include,
    Mode,
    RetrieveQuery,
    Rrf,
    WeightedSum,
)
from vikingd.pb import memories_pb2, retrieval_pb2
from vikingd.wire.messages import decode

_TEXT = frozenset((Include.TEXT,))


def query_of(
    request: retrieval_pb2.RetrieveRequest, dimension: int | None, defaults: Defaults
) -> RetrieveQuery:
    """Convert a Retrieve request; the vector of the request, if any, is scaled to unit length.

    Raises:
        InvalidField: a field is invalid; the error names it as in the proto.
    """
    mode = decode.member(request.mode, Mode.HYBRID, "mode", "a mode")
    where = decode.json_object(request.where, "where") if request.HasField("where") else None
    text = decode.query_text(request.query)
    listing = not text and not request.vector and mode is Mode.KEYWORD and bool(where)
    if not text and not listing:
        if not request.vector:
            raise InvalidField("query", "is empty and there is no vector; one of them is needed")
        if mode is Mode.KEYWORD:
            raise InvalidField("query", "is empty; MODE_KEYWORD needs words, or `where` alone")
    top_k = request.top_k or defaults.top_k
    decode.check_most(top_k, MAX_TOP_K, "top_k")
    if request.page_token and not listing:
        raise InvalidField("page_token", "is of a listing only: MODE_KEYWORD with `where` alone")
    target = decode.target_uri(request.target_uri, "target_uri")
    return RetrieveQuery(
        text=text,
        target_uri=target,
        context_types=decode.context_types(request.context_types),
        where=where,
        top_k=top_k,
        score_threshold=_threshold(request, defaults),
        mode=mode,
        fusion=fusion_of(request),
        include=_include(request.include) if request.include else _TEXT,
        group_by_context=request.group_by_context,
        diversity=decode.fraction(request.diversity, "diversity"),
        boosts=_boosts(request.boosts),
        optional_clauses=_optional(request.optional_clauses, where or {}),
        degrade=request.degrade,
        trace=request.trace,
        min_revision=request.min_revision,
        after=_after(request.page_token, target),
        listing=listing,
        vector=(
            decode.unit_vector(request.vector, dimension, "vector") if request.vector else None
        ),
    )


def _threshold(request: retrieval_pb2.RetrieveRequest, defaults: Defaults) -> float | None:
    if not request.HasField("score_threshold"):
        return defaults.score_threshold or None
    if not math.isfinite(request.score_threshold):
        raise InvalidField("score_threshold", f"is {request.score_threshold}, not a finite number")
    return request.score_threshold


def fusion_of(
    request: retrieval_pb2.RetrieveRequest | memories_pb2.RecallRequest,
) -> Rrf | WeightedSum:
    """Return how a request combines vectors and words; by default by rank."""
    if request.HasField("weighted"):
        weighted = request.weighted
        return WeightedSum(*_weights(weighted.vector_weight, weighted.keyword_weight, "weighted"))
    rrf = request.rrf
    vector = rrf.vector_weight if rrf.HasField("vector_weight") else 1.0
    keyword = rrf.keyword_weight if rrf.HasField("keyword_weight") else 1.0
    return Rrf(rrf.k or RRF_K, *_weights(vector, keyword, "rrf"))


def _weights(vector: float, keyword: float, field: str) -> tuple[float, float]:
    """Check and return the two weights of a fusion; `field` is its name in the request, for errors.

    Raises:
        InvalidField: a weight is not in [0, MAX_BOOST], or both are 0.
    """
    for side, weight in (("vector", vector), ("keyword", keyword)):
        if not 0 <= weight <= MAX_BOOST:  # so NaN is refused too
            raise InvalidField(f"{field}.{side}_weight", f"is {weight}, not in [0, {MAX_BOOST:g}]")
    if vector + keyword == 0:
        raise InvalidField(field, "has no weight above 0")
    return vector, keyword


def _include(numbers: Sequence[int]) -> frozenset[Include]:
    for i, number in enumerate(numbers):
        if number not in tuple(Include):
            raise InvalidField(f"include[{i}]", f"{number} is nothing that an item can bring")
    return frozenset(map(Include, numbers))


def _boosts(boosts: Sequence[retrieval_pb2.Boost]) -> tuple[Boost, ...]:
    return tuple(_boost(boost, f"boosts[{i}]") for i, boost in enumerate(boosts))


def _boost(boost: retrieval_pb2.Boost, field: str) -> Boost:
    if bool(boost.uri_prefix) == boost.HasField("where"):
        raise InvalidField(field, "needs uri_prefix or where, and not both")
    if not 0 < boost.factor <= MAX_BOOST:
        raise InvalidField(f"{field}.factor", f"is {boost.factor}, not above 0 and at most 100")
    if boost.uri_prefix:
        return Boost(boost.factor, uris.parse(boost.uri_prefix, f"{field}.uri_prefix"))
    return Boost(boost.factor, where=decode.json_object(boost.where, f"{field}.where"))


def _optional(keys: Sequence[str], where: Mapping[str, Any]) -> tuple[str, ...]:
    for i, key in enumerate(keys):
        if key not in where:
            raise InvalidField(f"optional_clauses[{i}]", f"{key!r} is no key at the top of where")
    return tuple(dict.fromkeys(keys))


def _after(token: str, target: str) -> str:
    try:
        after = base64.urlsafe_b64decode(token).decode()
    except ValueError:  # of base64 and of UTF-8
        after = ""
    if token and not (after and uris.is_within(after, target)):
        raise InvalidField("page_token", "is not one that an earlier page of this listing gave")
    return after
