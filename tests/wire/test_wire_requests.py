"""The decoding of requests into queries and drafts, and errors that name the field."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from unittest.mock import Mock

import numpy as np
import pytest
from google.protobuf.message import Message

from tests.wire.wire_helpers import FILE, floats, to_struct
from vikingd.domain import errors
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.find import FindQuery, Levels, Method
from vikingd.ingest.prepare import prepare
from vikingd.pb import (
    contexts_pb2,
    memories_pb2,
    retrieval_pb2,
)
from vikingd.wire.call_pools import Deadline
from vikingd.wire.messages import decode
from vikingd.wire.preparing import INLINE_SIZE, SMALL_SIZE, do_slice
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


def put_fault(*contexts: contexts_pb2.ContextInput, dimension: int | None = 2) -> str:
    """Return the field under which a Put is refused."""
    with pytest.raises(InvalidField) as caught:
        list(decode.put_drafts(contexts_pb2.PutRequest(contexts=contexts), dimension))
    return caught.value.field


def test_put_takes_contexts_over_whole() -> None:
    """Every field reaches the draft; vectors come out normalised, times in microseconds."""
    context = contexts_pb2.ContextInput(
        uri=FILE + "/",
        abstract="A",
        overview="O",
        content="one two",
        title="T",
        metadata=to_struct({"n": 1}),
        passages=[
            contexts_pb2.Passage(section="S", start=0, end=3, vector=floats(0.0, 5.0)),
            contexts_pb2.Passage(start=4, end=7),
        ],
        vector=floats(3.0, 4.0),
    )
    context.time.FromMicroseconds(-1_500_000)
    (draft,) = decode.put_drafts(contexts_pb2.PutRequest(contexts=[context]), 2)
    assert (draft.uri, draft.is_directory) == (FILE, False)
    assert (draft.abstract, draft.overview, draft.title) == ("A", "O", "T")
    assert draft.metadata == {"n": 1}
    assert isinstance(draft.metadata["n"], int)
    assert draft.time == -1_500_000
    assert [text.vector for text in prepare(draft).texts] == [
        floats(np.float32(0.6), np.float32(0.8)),
        floats(0.0, 1.0),
        b"",
    ]


def test_put_without_passages_has_the_content_cut() -> None:
    """The daemon cuts the content of a context without passages."""
    content = "\n\n".join(f"# H{i}\n\n" + "word " * 200 for i in range(3))
    context = contexts_pb2.ContextInput(uri=FILE, content=content)
    (draft,) = decode.put_drafts(contexts_pb2.PutRequest(contexts=[context]), None)
    assert draft.passages is None
    assert len(prepare(draft).texts) >= 3
    assert draft.time is None


def test_put_faults_name_context_and_field() -> None:
    """The field's path leads to the context and the passage with the fault."""
    good = contexts_pb2.ContextInput(uri=FILE)
    other = "viking://resources/b.md"
    make = contexts_pb2.ContextInput
    passage = contexts_pb2.Passage(start=0, end=1, vector=floats(NAN, 1.0))
    bad_time = make(uri=other)
    bad_time.time.nanos = -1
    assert put_fault() == "contexts"
    assert put_fault(good, make()) == "contexts[1].uri"
    assert put_fault(good, make(uri=FILE + "/")) == "contexts[1].uri"
    assert put_fault(good, make(uri=other, vector=floats(1.0))) == "contexts[1].vector"
    assert put_fault(good, make(uri=other, vector=b"abc")) == "contexts[1].vector"
    assert put_fault(good, make(uri=other, content="xy", passages=[passage])) == (
        "contexts[1].passages[0].vector"
    )
    assert put_fault(good, make(uri=other, metadata=to_struct({"a": NAN}))) == (
        "contexts[1].metadata.a"
    )
    assert put_fault(good, bad_time) == "contexts[1].time"
    assert put_fault(good, make(uri=other, abstract="x" * 8193)) == "contexts[1].abstract"


def test_passages_beyond_the_limit_are_not_looked_at() -> None:
    """A million passages are refused by their number in little time."""
    many = contexts_pb2.ContextInput(uri=FILE, content="x")
    many.passages.extend([contexts_pb2.Passage(start=0, end=1)] * 1_000_000)
    before = time.process_time()
    assert put_fault(contexts_pb2.ContextInput(uri=f"{FILE}0"), many) == "contexts[1].passages"
    assert time.process_time() - before < 0.5


def test_all_that_takes_time_in_a_put_counts_for_its_size() -> None:
    """The size of a put counts contexts, metadata, passages and lines, because each takes time."""
    small = contexts_pb2.ContextInput(uri=FILE, content="x" * 10)
    large = contexts_pb2.ContextInput(uri=FILE, metadata=to_struct({"n": list(range(1000))}))
    cut = contexts_pb2.ContextInput(uri=FILE, passages=[contexts_pb2.Passage()] * 1000)
    lines = contexts_pb2.ContextInput(uri=FILE, content="x\n" * 100)
    rows = contexts_pb2.ContextInput(uri=FILE, content="|\n" * 100)

    def size(*contexts: contexts_pb2.ContextInput) -> int:
        return decode.put_size(contexts_pb2.PutRequest(contexts=contexts))

    assert size(small, small) == 2 * size(small) > 20
    assert size(large) > 10_000
    assert size(cut) >= 1000
    assert size(rows) > 5 * size(lines) > 10_000


@pytest.mark.parametrize(
    ("start", "unit"),
    [
        ("", "#\n#\n##\n"),
        ("", "# a\nb\n"),
        ("", "- a\n+ b\n"),
        ("", "- a\n  - b\n    - c\n"),
        ("", "> a\n\n"),
        ("> " * 50 + "a\n", "b\n"),
        ("a|" * 100 + "\n" + "-|" * 100 + "\n", "a\n"),
        ("", "中。"),
        ("", "a "),
        ("", "["),
    ],
)
def test_a_put_that_is_not_left_to_a_thread_takes_little_time(start: str, unit: str) -> None:
    """The longest text below INLINE_SIZE is cut in less than 0.5 seconds, in any Markdown form."""

    def request(units: int) -> contexts_pb2.PutRequest:
        context = contexts_pb2.ContextInput(uri="viking://resources/a.md", content=start)
        context.content += unit * units
        return contexts_pb2.PutRequest(contexts=[context])

    most = bisect_right(range(20_000), INLINE_SIZE, key=lambda n: decode.put_size(request(n))) - 1
    before = time.process_time()
    do_slice(decode.put_drafts(request(most), None), Mock(), [])
    assert time.process_time() - before < 0.5


def test_an_ordinary_text_of_some_pages_does_not_queue_with_large_ones() -> None:
    """An ordinary text of some pages counts as small, so that it does not wait for large ones."""
    text = "# A heading\n\n" + f"{'Some words of a paragraph. ' * 4}\n\n" * 60
    context = contexts_pb2.ContextInput(uri=FILE, content=text)
    assert len(text) > 6000
    assert decode.put_size(contexts_pb2.PutRequest(contexts=[context])) <= SMALL_SIZE


def test_no_more_of_a_batch_is_cut_once_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch is cut no further after the deadline of its call."""
    contexts = [contexts_pb2.ContextInput(uri=f"{FILE}{i}", content="x") for i in range(9)]
    deadline = Mock(spec=Deadline)
    deadline.left.side_effect = [1.0, 1.0, errors.DeadlinePassed("too late")]
    cut = Mock(wraps=prepare)
    monkeypatch.setattr("vikingd.ingest.prepare.prepare", cut)
    drafts = decode.put_drafts(contexts_pb2.PutRequest(contexts=contexts), None)
    with pytest.raises(errors.DeadlinePassed):
        do_slice(drafts, deadline, [])
    assert cut.call_count == 2


def test_vectors_of_a_batch_agree_where_the_store_has_none_yet() -> None:
    """The first vector sets the dimension for the rest of its batch."""
    one = contexts_pb2.ContextInput(uri=FILE, vector=floats(1.0, 0.0, 0.0))
    two = contexts_pb2.ContextInput(uri="viking://resources/b.md", vector=floats(1.0, 0.0))
    assert put_fault(one, two, dimension=None) == "contexts[1].vector"


def test_each_vector_of_a_batch_stays_where_it_was_given() -> None:
    """Vectors of passages and of contexts come out at unit length, each in its own place."""
    axes = np.eye(4, dtype="<f4") * 3
    passages = [
        contexts_pb2.Passage(start=i, end=i + 1, vector=axes[i].tobytes()) for i in range(2)
    ]
    top = "viking://resources/x"
    request = contexts_pb2.PutRequest(
        contexts=[
            contexts_pb2.ContextInput(
                uri=f"{top}/a", content="ab", passages=passages, vector=axes[2].tobytes()
            ),
            contexts_pb2.ContextInput(uri=top, is_directory=True, vector=axes[3].tobytes()),
        ]
    )
    one, two = decode.put_drafts(request, None)
    found = [*(p.vector for p in one.passages or ()), one.vector, two.vector]
    assert found == [(axis / 3).tobytes() for axis in axes]
    request.contexts[1].vector = bytes(16)
    with pytest.raises(InvalidField) as refused:
        list(decode.put_drafts(request, None))
    assert refused.value.field == "contexts[1].vector"
