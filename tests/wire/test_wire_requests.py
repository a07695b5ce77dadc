"""The decoding of requests into queries, and errors that name the field."""

from __future__ import annotations

import math

import numpy as np
import pytest
from google.protobuf.message import Message

from tests.wire.wire_helpers import floats, to_struct
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.find_query import FindQuery, Levels, Method
from vikingd.pb import (
    memories_pb2,
    retrieval_pb2,
)
from vikingd.wire.messages import decode
from vikingd.wire.request_limits import guards


def test_find_request_with_nothing_set_has_the_defaults() -> None:
    """Zero means the default of each field, and a missing vector stays None."""
    query = decode.find_query(retrieval_pb2.FindRequest(query="x"), 3)
    assert query == FindQuery(text="x")
    assert query.vector is None


def test_find_request_is_taken_over_whole() -> None:
    """Every field reaches the query; zeros of optional fields count, integers stay integers."""
    request = retrieval_pb2.FindRequest(
        query="x",
        vector=floats(3.0, 0.0, 4.0),
        target_uri="viking://resources/docs/",
        context_types=[2, 3],
        levels=retrieval_pb2.LEVELS_BOTH,
        limit=1000,
        score_threshold=0.0,
        where=to_struct({"n": 3, "x": 0.5, "big": 2.0**40, "l": [1, None, True], "o": {"s": "t"}}),
        alpha=0.0,
        trace=True,
        min_revision=1 << 40,
        method=retrieval_pb2.METHOD_EXACT,
        max_directories=65_536,
    )
    query = decode.find_query(request, 3)
    assert query == FindQuery(
        text="x",
        target_uri="viking://resources/docs",
        context_types=frozenset((ContextType.RESOURCE, ContextType.SKILL)),
        levels=Levels.BOTH,
        limit=1000,
        score_threshold=0.0,
        where={"n": 3, "x": 0.5, "big": 2**40, "l": [1, None, True], "o": {"s": "t"}},
        alpha=0.0,
        trace=True,
        min_revision=1 << 40,
        method=Method.EXACT,
        max_directories=65_536,
    )
    assert query.where is not None
    assert isinstance(query.where["n"], int)
    assert query.vector is not None
    assert query.vector.dtype == np.float32
    np.testing.assert_allclose(query.vector, [0.6, 0.0, 0.8], rtol=1e-7)


def test_blank_query_with_a_vector_is_a_query_by_vector() -> None:
    """A blank query with a vector becomes a query by the vector alone."""
    query = decode.find_query(retrieval_pb2.FindRequest(query=" \n", vector=floats(1.0)), None)
    assert query.text == ""
    assert query.vector is not None


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("field", "request_fields"),
    [
        ("query", {"query": ""}),
        ("query", {"query": " \t\n\u3000"}),
        ("query", {"query": "a\0b"}),
        ("query", {"query": "界" * 5462}),
        ("vector", {"vector": floats(1.0, 2.0, 3.0)[:-1]}),
        ("vector", {"vector": floats(1.0, 2.0)}),
        ("vector", {"vector": floats(1.0, NAN, 3.0)}),
        ("vector", {"vector": floats(1.0, INF, 3.0)}),
        ("vector", {"vector": floats(0.0, -0.0, 0.0)}),
        ("target_uri", {"target_uri": "file:///etc"}),
        ("target_uri", {"target_uri": "viking://resources/../x"}),
        ("target_uri", {"target_uri": "viking://resources//x"}),
        ("target_uri", {"target_uri": "viking://resources/a\x07b"}),
        ("target_uri", {"target_uri": "viking://resources/" + "x" * 1010}),
        ("target_uri", {"target_uri": "viking://" + "/".join("x" * 65)}),
        ("context_types[1]", {"context_types": [1, 0]}),
        ("context_types[0]", {"context_types": [4]}),
        ("levels", {"levels": 4}),
        ("method", {"method": 4}),
        ("limit", {"limit": 1001}),
        ("score_threshold", {"score_threshold": NAN}),
        ("score_threshold", {"score_threshold": -0.1}),
        ("score_threshold", {"score_threshold": 1.1}),
        ("alpha", {"alpha": NAN}),
        ("alpha", {"alpha": INF}),
        ("alpha", {"alpha": -1e-9}),
        ("max_directories", {"max_directories": 65_537}),
        ("where.a.b[1]", {"where": to_struct({"a": {"b": [1, NAN]}})}),
        ("where.a", {"where": to_struct({"a": -INF})}),
    ],
)
def test_bad_find_requests_name_the_field(field: str, request_fields: dict[str, object]) -> None:
    """A value that is not allowed is refused under its name in the proto, also in a batch."""
    request = retrieval_pb2.FindRequest(**({"query": "x"} | request_fields))  # type: ignore[arg-type]
    with pytest.raises(InvalidField) as caught:
        decode.find_query(request, 3)
    assert caught.value.field == field
    good = retrieval_pb2.FindRequest(query="x")
    with pytest.raises(InvalidField) as caught:
        decode.find_queries([good, good, request], 3)
    assert caught.value.field == f"requests[2].{field}"


def scanned(rpc: str, message: Message) -> None:
    """Check a request against the limits as the daemon does before it parses one."""
    guards()[f"/viking.retrieval.v1.{rpc}"].check(message.SerializeToString())


def test_lists_that_say_the_same_too_often_are_refused_before_they_are_read() -> None:
    """A list beyond its limit is refused by the scan, before the message is parsed."""
    request = retrieval_pb2.RetrieveRequest(query="x", where=to_struct({"a": 1}))
    request.include[:] = [retrieval_pb2.INCLUDE_TEXT] * 100
    request.optional_clauses[:] = ["a"] * 256
    request.context_types[:] = [1] * 100
    scanned("Retrieval/Retrieve", request)
    for field in ("include", "optional_clauses", "context_types"):
        longer = retrieval_pb2.RetrieveRequest()
        longer.CopyFrom(request)
        getattr(longer, field).append(getattr(request, field)[0])
        with pytest.raises(InvalidField, match=f"^{field}: has "):
            scanned("Retrieval/Retrieve", longer)
    paths = memories_pb2.RecallRequest(query="x", without=[memories_pb2.RECALL_PATH_FAST] * 101)
    with pytest.raises(InvalidField, match=r"^without: has more than 100 entries"):
        scanned("Memories/Recall", paths)


def test_filters_of_a_request_are_bounded_together() -> None:
    """Filters that are each within the limit are refused together."""
    half = to_struct({"a": {"$in": ["x" * 1000] * 135}})
    assert 128 << 10 < half.ByteSize() < 160 << 10
    find = retrieval_pb2.FindRequest(query="x", where=half)
    scanned("Retrieval/Find", find)
    with pytest.raises(InvalidField, match=r"^requests: has more than 262,144 bytes of filters"):
        scanned("Retrieval/BatchFind", retrieval_pb2.BatchFindRequest(requests=[find, find]))
    boosted = retrieval_pb2.RetrieveRequest(query="x", where=half)
    scanned("Retrieval/Retrieve", boosted)
    boosted.boosts.add(factor=2, where=half)
    with pytest.raises(InvalidField, match=r"^boosts: has more than 262,144 bytes of filters"):
        scanned("Retrieval/Retrieve", boosted)


def test_query_may_have_16_kib_and_no_byte_more() -> None:
    """The limit of a query is 16,384 bytes of UTF-8."""
    for text in ("x" * 16_384, "é" * 8192, "界" * 5461 + "x"):
        assert decode.find_query(retrieval_pb2.FindRequest(query=text), None).text == text
        with pytest.raises(InvalidField):
            decode.find_query(retrieval_pb2.FindRequest(query=text + "x"), None)


def test_batch_has_1_to_256_queries() -> None:
    """An empty batch and one too large are refused as `requests`."""
    request = retrieval_pb2.FindRequest(query="x")
    assert len(decode.find_queries([request] * 256, None)) == 256
    with pytest.raises(InvalidField, match=r"^requests: is empty"):
        decode.find_queries([], None)
    with pytest.raises(InvalidField, match=r"^requests: has more than 256"):
        scanned("Retrieval/BatchFind", retrieval_pb2.BatchFindRequest(requests=[request] * 257))


def test_wrong_dimension_is_told_with_both_numbers() -> None:
    """The error of a wrong dimension has the given number and the right one."""
    with pytest.raises(InvalidField, match=r"has 2 numbers.* 3\b"):
        decode.unit_vector(floats(1.0, 2.0), 3, "vector")


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_vectors_of_any_length_become_unit_vectors(scale: float) -> None:
    """A very short or very long vector becomes a unit vector without underflow or overflow."""
    vector = decode.unit_vector(floats(3 * scale, -4 * scale), None, "vector")
    np.testing.assert_allclose(vector, [0.6, -0.8], rtol=1e-6)
