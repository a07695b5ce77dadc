"""The wire: what requests must be, what replies and errors look like, and a daemon behind it."""

from __future__ import annotations

import inspect
import json
import math
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote

import grpc
import numpy as np
import pytest
from google.protobuf import any_pb2, struct_pb2
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from patience import eventually

from vikingd.domain import errors
from vikingd.domain.degradation import Degradation, DegradationReason
from vikingd.domain.errors import InvalidField, VikingError
from vikingd.domain.model import (
    Context,
    ContextType,
    FindQuery,
    FindResult,
    FindTrace,
    Levels,
    Match,
    MatchedPassage,
    Method,
    Relation,
    ScoreParts,
    Stage,
    StopReason,
    TracedDirectory,
    TracedMean,
    seconds_of,
)
from vikingd.ingest.prepare import prepare
from vikingd.pb import (
    contexts_pb2,
    contexts_pb2_grpc,
    memories_pb2,
    retrieval_pb2,
    retrieval_pb2_grpc,
)
from vikingd.wire.calls import Deadline
from vikingd.wire.errors import CODES, code_of, status_of
from vikingd.wire.intake import fault_in
from vikingd.wire.limits import guards
from vikingd.wire.messages import decode, encode
from vikingd.wire.preparing import INLINE_SIZE, SMALL_SIZE, Slices

FILE = "viking://resources/a.md"


def floats(*numbers: float) -> bytes:
    """A vector of the wire."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def to_struct(value: dict[str, object]) -> struct_pb2.Struct:
    """A Struct."""
    message = struct_pb2.Struct()
    message.update(value)
    return message


def test_find_request_with_nothing_set_has_the_defaults() -> None:
    """Zero means the default of each field, and no vector is made."""
    query, vector = decode.find_query(retrieval_pb2.FindRequest(query="x"), 3)
    assert query == FindQuery(text="x")
    assert vector is None


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
    query, vector = decode.find_query(request, 3)
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
    assert vector is not None
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, [0.6, 0.0, 0.8], rtol=1e-7)


def test_blank_query_with_a_vector_is_a_query_by_vector() -> None:
    """White space says nothing: the vector alone counts."""
    query, vector = decode.find_query(
        retrieval_pb2.FindRequest(query=" \n", vector=floats(1.0)), None
    )
    assert query.text == ""
    assert vector is not None


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
    """Each value that is not allowed is refused under its name in the proto, in a batch too."""
    request = retrieval_pb2.FindRequest(**({"query": "x"} | request_fields))  # type: ignore[arg-type]
    with pytest.raises(InvalidField) as caught:
        decode.find_query(request, 3)
    assert caught.value.field == field
    good = retrieval_pb2.FindRequest(query="x")
    with pytest.raises(InvalidField) as caught:
        decode.find_queries([good, good, request], 3)
    assert caught.value.field == f"requests[2].{field}"


def scanned(rpc: str, message: Message) -> None:
    """Holds a request against the limits as the daemon does before it parses one."""
    guards()[f"/viking.retrieval.v1.{rpc}"].check(message.SerializeToString())


def test_lists_that_say_the_same_too_often_are_refused_before_they_are_read() -> None:
    """A message has room for millions, which would keep all other callers waiting."""
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
    """Each alone is within the limit, and together they are not."""
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
    """The limit counts UTF-8 bytes, not characters."""
    for text in ("x" * 16_384, "é" * 8192, "界" * 5461 + "x"):
        assert decode.find_query(retrieval_pb2.FindRequest(query=text), None)[0].text == text
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
    """The message says how many numbers came and how many are needed."""
    with pytest.raises(InvalidField, match=r"has 2 numbers.* 3\b"):
        decode.unit_vector(floats(1.0, 2.0), 3, "vector")


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_vectors_of_any_length_become_unit_vectors(scale: float) -> None:
    """Squares neither overflow nor vanish."""
    vector = decode.unit_vector(floats(3 * scale, -4 * scale), None, "vector")
    np.testing.assert_allclose(vector, [0.6, -0.8], rtol=1e-6)


def put_fault(*contexts: contexts_pb2.ContextInput, dimension: int | None = 2) -> str:
    """The field under which a Put is refused."""
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
    """No passages means that the daemon cuts, not that there are none."""
    content = "\n\n".join(f"# H{i}\n\n" + "word " * 200 for i in range(3))
    context = contexts_pb2.ContextInput(uri=FILE, content=content)
    (draft,) = decode.put_drafts(contexts_pb2.PutRequest(contexts=[context]), None)
    assert draft.passages is None
    assert len(prepare(draft).texts) >= 3
    assert draft.time is None


def test_put_faults_name_context_and_field() -> None:
    """The field's path leads to the context and passage at fault."""
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
    """Of a million the number alone counts, whatever stands before them."""
    many = contexts_pb2.ContextInput(uri=FILE, content="x")
    many.passages.extend([contexts_pb2.Passage(start=0, end=1)] * 1_000_000)
    before = time.process_time()
    assert put_fault(contexts_pb2.ContextInput(uri=f"{FILE}0"), many) == "contexts[1].passages"
    assert time.process_time() - before < 0.5


def test_all_that_takes_time_in_a_put_counts_for_its_size() -> None:
    """By its size a put is gone through where all other callers wait, or on a thread."""
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
    """All other callers wait for it: the longest such text, whatever Markdown it is."""

    def request(units: int) -> contexts_pb2.PutRequest:
        context = contexts_pb2.ContextInput(uri="viking://resources/a.md", content=start)
        context.content += unit * units
        return contexts_pb2.PutRequest(contexts=[context])

    most = bisect_right(range(20_000), INLINE_SIZE, key=lambda n: decode.put_size(request(n))) - 1
    before = time.process_time()
    Slices(request(most), None, Mock()).do_slice()
    assert time.process_time() - before < 0.5


def test_an_ordinary_text_of_some_pages_does_not_queue_with_large_ones() -> None:
    """It is cut in less time than a slice of theirs takes."""
    text = "# A heading\n\n" + f"{'Some words of a paragraph. ' * 4}\n\n" * 60
    context = contexts_pb2.ContextInput(uri=FILE, content=text)
    assert len(text) > 6000
    assert decode.put_size(contexts_pb2.PutRequest(contexts=[context])) <= SMALL_SIZE


def test_no_more_of_a_batch_is_cut_once_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that others need does not go on for a caller whose deadline has passed."""
    contexts = [contexts_pb2.ContextInput(uri=f"{FILE}{i}", content="x") for i in range(9)]
    deadline = Mock(spec=Deadline)
    deadline.left.side_effect = [1.0, 1.0, errors.DeadlinePassed("too late")]
    cut = Mock(wraps=prepare)
    monkeypatch.setattr("vikingd.ingest.prepare.prepare", cut)
    with pytest.raises(errors.DeadlinePassed):
        Slices(contexts_pb2.PutRequest(contexts=contexts), None, deadline).do_slice()
    assert cut.call_count == 2


def test_vectors_of_a_batch_agree_where_the_store_has_none_yet() -> None:
    """The first vector sets the dimension for the rest of its batch."""
    one = contexts_pb2.ContextInput(uri=FILE, vector=floats(1.0, 0.0, 0.0))
    two = contexts_pb2.ContextInput(uri="viking://resources/b.md", vector=floats(1.0, 0.0))
    assert put_fault(one, two, dimension=None) == "contexts[1].vector"


def context(uri: str = FILE, **fields: object) -> Context:
    """A context as the store gives it."""
    defaults: dict[str, object] = {
        "is_directory": False,
        "abstract": "",
        "title": "",
        "metadata": {},
        "time": 1,
        "created_at": 2,
        "updated_at": 3,
        "reinforcement": 4,
        "access_count": 5,
        "content_hash": b"h" * 32,
        "revision": 6,
    }
    return Context(uri, **(defaults | fields))  # type: ignore[arg-type]


def page_of(found: list[Context], limit: int) -> tuple[list[contexts_pb2.Context], str]:
    """The page that begins with some contexts, and its token."""
    page = encode.Page(limit)
    all(page.add(one) for one in found)
    return page.contexts, page.next_page_token


def test_pages_hold_the_limit_and_lead_on() -> None:
    """A token comes just when there is more, and decodes to the last context of its page."""
    found = [context(f"viking://resources/d/{i}-界") for i in range(3)]
    contexts, token = page_of(found, 2)
    assert [c.uri for c in contexts] == [c.uri for c in found[:2]]
    assert token.isascii()
    assert decode.page(7, token, "viking://resources/d") == (7, f"f:{found[1].uri}")
    assert page_of(found, 3)[1] == ""
    assert page_of([], 3) == ([], "")


def test_pages_are_cut_where_a_message_would_be_too_large() -> None:
    """Half of the 4 MiB that gRPC clients take is enough for a page; one context always fits."""
    found = [context(f"viking://resources/d/{i}", abstract="x" * 1_500_000) for i in range(3)]
    contexts, token = page_of(found, 3)
    assert len(contexts) == 1
    assert decode.page(0, token, "viking://resources/d")[1] == f"f:{found[0].uri}"
    giant = context("viking://resources/d/giant", abstract="x" * 3_000_000)
    assert len(page_of([giant, *found], 3)[0]) == 1


@pytest.mark.parametrize(
    "token", ["x", "????", "é", "ZjphYmM=", "eDp2aWtpbmc6Ly9yZXNvdXJjZXMvZA==", "Zg=="]
)
def test_page_tokens_of_others_are_refused(token: str) -> None:
    """A token is good for the directory that it was given for, nothing else."""
    with pytest.raises(InvalidField) as caught:
        decode.page(1, token, "viking://resources/d")
    assert caught.value.field == "page_token"
    _, good = page_of([context("viking://resources/d/a"), context("viking://x")], 1)
    with pytest.raises(InvalidField):
        decode.page(1, good, "viking://resources/e")


def test_page_size_is_bounded() -> None:
    """0 means 1,000; more than 10,000 is refused."""
    assert decode.page(0, "", "viking://") == (1000, "")
    with pytest.raises(InvalidField) as caught:
        decode.page(10_001, "", "viking://")
    assert caught.value.field == "page_size"


def test_context_is_sent_whole() -> None:
    """Each field of a context arrives, with its type and its times to the microsecond."""
    message = encode.context(
        context(
            "viking://agent/skills/s.md",
            metadata={"n": 1, "l": ["x"]},
            overview="O",
            content="C",
            time=-1,
            relations=(Relation("viking://resources", "a", "r"),),
        )
    )
    assert message.context_type == contexts_pb2.CONTEXT_TYPE_SKILL
    assert message.time.ToMicroseconds() == -1
    assert message.create_time.ToMicroseconds() == 2
    assert (message.reinforcement, message.access_count, message.revision) == (4, 5, 6)
    assert (message.overview, message.content, message.content_hash) == ("O", "C", b"h" * 32)
    assert message.metadata == to_struct({"n": 1, "l": ["x"]})
    assert message.relations[0].reason == "r"


def match(uri: str, kind: ContextType, score: float = 0.5) -> Match:
    """A match with all its parts."""
    return Match(
        uri,
        kind,
        True,
        2,
        "abstract",
        score,
        (Relation("viking://resources/r", "ra", "why"),),
        (MatchedPassage(2, "A > B", "text", 3, 7, 0.25),),
        ScoreParts(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    )


def test_find_response_has_three_buckets_and_their_total() -> None:
    """Matches keep their order within their type; a directory above the roots has no place."""
    matches = (
        match("viking://user/memories/m", ContextType.MEMORY),
        match("viking://resources/b", ContextType.RESOURCE, 0.4),
        match("viking://projects/p", ContextType.UNSPECIFIED),
        match("viking://resources/a", ContextType.RESOURCE, 0.3),
        match("viking://agent/skills/s", ContextType.SKILL),
    )
    result = FindResult(
        matches,
        9,
        Method.EXACT,
        (Stage("plan", 0, 0.0005), Stage("score", 1, 2.25)),
        (Degradation(DegradationReason.EMBEDDER, "no embedder"),),
    )
    data, total, top_score = encode.find_response(result, Stage("embed", 0, 0.002))
    reply = retrieval_pb2.FindResponse.FromString(data)
    assert (total, top_score) == (4, 0.5)
    assert [m.uri for m in reply.resources] == ["viking://resources/b", "viking://resources/a"]
    assert (len(reply.memories), len(reply.skills), reply.total) == (1, 1, 4)
    assert reply.revision == 9
    assert [(one.reason, one.detail) for one in reply.degraded] == [(1, "no embedder")]
    assert [(t.stage, t.duration.ToMicroseconds()) for t in reply.timings] == [
        ("embed", 2000),
        ("plan", 500),
        ("score", 1_250_000),
    ]
    assert not reply.HasField("trace")
    found = reply.resources[0]
    assert (found.level, found.is_leaf, found.abstract, found.score) == (2, True, "abstract", 0.4)
    assert found.context_type == contexts_pb2.CONTEXT_TYPE_RESOURCE
    assert found.relations[0].reason == "why"
    passage = found.passages[0]
    assert (passage.section, passage.text, passage.start, passage.end, passage.score) == (
        "A > B",
        "text",
        3,
        7,
        0.25,
    )
    parts = [(field.name, value) for field, value in found.parts.ListFields()]
    assert parts == [
        ("dense", 0.1),
        ("lexical", 0.2),
        ("dense_weight", 0.3),
        ("node_score", 0.4),
        ("smoothed", 0.5),
        ("parent", 0.6),
        ("parent_weight", 0.7),
        ("final", 0.9),
        ("title", 0.8),
    ]


def test_a_stage_that_is_gone_through_again_is_told_once() -> None:
    """With all of its time, in the place of the first."""
    stages = (Stage("vector", 1, 2), Stage("fuse", 2, 2.25), Stage("vector", 3, 3.5))
    assert list(seconds_of(stages).items()) == [("vector", 1.5), ("fuse", 0.25)]


def test_trace_is_sent_whole() -> None:
    """Every field of the trace arrives under its name."""
    parts = ScoreParts(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    trace = FindTrace(
        Method.BEST_FIRST,
        1,
        2,
        3,
        4,
        5,
        ("term",),
        "latin",
        (TracedMean("han", 6, "viking://", True),),
        0.5,
        0.25,
        7,
        (TracedDirectory("viking://resources", parts, 1, True, 8),),
        9,
        10,
        StopReason.OUT_OF_REACH,
        True,
        1.5,
    )
    result = FindResult((), 1, Method.BEST_FIRST, (), (), trace)
    data, *_ = encode.find_response(result, Stage("embed", 0, 0))
    reply = retrieval_pb2.FindResponse.FromString(data)
    assert {field.name for field, _ in reply.trace.ListFields()} == set(
        reply.trace.DESCRIPTOR.fields_by_name
    )
    assert reply.trace.method == retrieval_pb2.METHOD_BEST_FIRST
    assert (reply.trace.scope_texts, reply.trace.rescored, reply.trace.rounds) == (3, 5, 10)
    assert reply.trace.means[0].with_prior
    assert reply.trace.directories[0].parts.final == 0.9


def details(error: Exception) -> tuple[Status, ErrorInfo, BadRequest | None]:
    """What the trailing metadata of a failed call holds."""
    status = status_of(error)
    ((key, value),) = status.trailing_metadata  # type: ignore[misc]
    assert key == "grpc-status-details-bin"
    rich = Status.FromString(value)
    info, bad = ErrorInfo(), BadRequest()
    packed: list[any_pb2.Any] = list(rich.details)
    assert packed[0].Unpack(info)
    return rich, info, bad if len(packed) > 1 and packed[1].Unpack(bad) else None


def test_every_error_of_the_domain_is_in_the_table() -> None:
    """No error that callers are meant to see comes out as INTERNAL."""
    kinds = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, VikingError) and kind is not VikingError
    }
    assert kinds == set(CODES)


def test_errors_carry_reason_domain_and_metadata() -> None:
    """ErrorInfo says for programs what the message says for people."""
    rich, info, bad = details(errors.NotFound(FILE))
    assert status_of(errors.NotFound(FILE)).code is grpc.StatusCode.NOT_FOUND
    assert rich.message == f"{FILE} does not exist"
    assert (info.reason, info.domain) == ("NOT_FOUND", "viking.retrieval.v1")
    assert info.metadata == {"uri": FILE}
    assert bad is None


def test_field_faults_carry_the_field() -> None:
    """BadRequest names the field and the fault without repeating the name."""
    _, info, bad = details(InvalidField("limit", "is too large"))
    assert info.reason == "INVALID_FIELD"
    assert bad is not None
    (violation,) = bad.field_violations
    assert (violation.field, violation.description) == ("limit", "is too large")


@pytest.mark.parametrize("character", ["x", "界", "\ud800"])
def test_however_long_a_value_is_the_error_that_repeats_it_arrives(character: str) -> None:
    """With its reason and field: what gRPC writes of it stays within 8 KiB."""
    value = character * 20_000
    error = InvalidField(f"where.{value}", f"{value} is no clause")
    rich, info, bad = details(error)
    assert info.reason == "INVALID_FIELD"
    assert bad is not None
    assert bad.field_violations[0].field.startswith("where.")
    written = len(quote(rich.message.encode())) + len(rich.SerializeToString()) * 4 / 3
    assert written < 7_500


def test_subclasses_count_as_their_base() -> None:
    """An error more special than the table is mapped as what it is a kind of."""

    class Unreachable(errors.EmbedderFailed):
        pass

    assert code_of(Unreachable("x")) is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("error", [ValueError("secret path"), VikingError("secret path")])
def test_bugs_tell_nothing_of_the_inside(error: Exception) -> None:
    """What is not in the table is INTERNAL, with a message that only points to the log."""
    rich, info, _ = details(error)
    assert status_of(error).code is grpc.StatusCode.INTERNAL
    assert "secret" not in str(rich)
    assert info.reason == "INTERNAL"


def test_text_that_is_not_utf8_is_found_by_its_path() -> None:
    """The first bad string of a message that does not parse is named as in the proto."""
    context = contexts_pb2.ContextInput(
        uri=FILE, content="good", passages=[contexts_pb2.Passage(section="@@")]
    )
    put = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(uri=FILE), context])
    data = put.SerializeToString().replace(b"@@", b"\xff\xfe")
    fault = fault_in(data, contexts_pb2.PutRequest.DESCRIPTOR)
    assert fault.field == "contexts[1].passages[0].section"
    find = retrieval_pb2.FindRequest(query="@@").SerializeToString().replace(b"@@", b"\xed\xa0")
    assert fault_in(find, retrieval_pb2.FindRequest.DESCRIPTOR).field == "query"


def test_a_fault_in_very_much_is_not_looked_for() -> None:
    """All other callers would wait meanwhile; that it is not UTF-8 is said all the same."""
    bad = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(uri="@@")])
    end = bad.SerializeToString().replace(b"@@", b"\xff\xfe")
    full = contexts_pb2.ContextInput(uri="viking://resources/a", content="x" * 4096)
    many = contexts_pb2.PutRequest(contexts=[full] * 999).SerializeToString()
    fault = fault_in(many + end, contexts_pb2.PutRequest.DESCRIPTOR)
    assert fault.field == "contexts[999].uri"
    fault = fault_in(b"\x0a\x00" * 1_000_000 + end, contexts_pb2.PutRequest.DESCRIPTOR)
    assert fault.field == "request"
    assert "UTF-8" in fault.description


def test_any_bytes_are_a_fault_of_the_request() -> None:
    """Looking for the fault survives whatever arrives."""
    rng = random.Random(7)
    for _ in range(500):
        fault = fault_in(rng.randbytes(rng.randrange(40)), contexts_pb2.PutRequest.DESCRIPTOR)
        assert fault.field


class Endpoint(BaseHTTPRequestHandler):
    """Speaks OpenAI's embeddings protocol; told to, it fails or keeps its callers waiting."""

    down = threading.Event()
    answering = threading.Event()

    def do_POST(self) -> None:
        """Answers each text with a vector that its characters decide."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answering.wait(20)
        rows = [
            {"object": "embedding", "index": i, "embedding": [1.0 + text.count(c) for c in "abcd"]}
            for i, text in enumerate(body["input"])
        ]
        reply = json.dumps({"object": "list", "data": rows, "model": body["model"]}).encode()
        self.send_response(503 if self.down.is_set() else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The base URL of an embeddings endpoint."""
    Endpoint.answering.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@contextmanager
def running(store: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A daemon and its address; it is ended by SIGTERM and must then have ended well."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
    daemon = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "vikingd.daemon.server",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--path",
            str(store),
            "--config",
            os.devnull,
        ],
        env=outside | settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert daemon.stdout is not None
        line = daemon.stdout.readline()
        assert re.fullmatch(r"vikingd \S+ serving on 127\.0\.0\.1:\d+\n", line)
        yield daemon, line.split()[-1]
        if daemon.poll() is None:
            daemon.terminate()
            assert daemon.wait(10) == 0
    finally:
        daemon.kill()
        daemon.communicate()


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> Iterator[grpc.Channel]:
    """A channel to a daemon whose embedder is the endpoint."""
    with (
        running(
            tmp_path_factory.mktemp("store"),
            VIKINGD_EMBEDDING__PROVIDER="openai",
            VIKINGD_EMBEDDING__OPENAI_BASE_URL=endpoint,
            VIKINGD_EMBEDDING__OPENAI_MODEL="counts",
            VIKINGD_EMBEDDING__DIMENSION="4",
            VIKINGD_EMBEDDING__RETRIES="0",
        ) as (_, address),
        grpc.insecure_channel(address) as opened,
    ):
        yield opened


def failure(
    call: Callable[..., object], request: object, timeout: float = 20
) -> tuple[grpc.StatusCode, str]:
    """(code, reason or field at fault) of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=timeout)
    rich = rpc_status.from_call(caught.value)
    info, bad = ErrorInfo(), BadRequest()
    for detail in rich.details if rich else ():
        if detail.Unpack(bad):
            return caught.value.code(), bad.field_violations[0].field
        detail.Unpack(info)
    return caught.value.code(), info.reason


def put(channel: grpc.Channel, *contexts: contexts_pb2.ContextInput) -> int:
    """Writes and says the revision."""
    request = contexts_pb2.PutRequest(contexts=contexts)
    return contexts_pb2_grpc.ContextsStub(channel).Put(request, timeout=20).revision


def test_tree_is_written_found_moved_and_gone(channel: grpc.Channel) -> None:
    """What one call acknowledges, the next one sees, through every call of the tree."""
    tree = contexts_pb2_grpc.ContextsStub(channel)
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    top = "viking://resources/flow"
    make = contexts_pb2.ContextInput
    put(
        channel,
        make(uri=f"{top}/a.md", content="zebras graze", vector=floats(1, 2, 3, 4)),
        make(uri=f"{top}/b.md", content="quaggas rest", metadata=to_struct({"n": 1})),
    )
    link = contexts_pb2.LinkRequest(uri=f"{top}/a.md", other_uri=f"{top}/b.md", reason="kin")
    revision = tree.Link(link).revision
    find = retrieval_pb2.FindRequest(query="zebras", target_uri=top, min_revision=revision)
    found = retrieval.Find(find).resources[0]
    assert (found.uri, found.relations[0].reason) == (f"{top}/a.md", "kin")
    got = tree.Get(contexts_pb2.GetRequest(uri=f"{top}/a.md")).context
    assert (got.content, got.relations[0].uri) == ("zebras graze", f"{top}/b.md")
    move = contexts_pb2.MoveRequest(source_uri=top, destination_uri=f"{top}-2/x")
    assert tree.Move(move).moved == 3
    find.target_uri = f"{top}-2"
    assert retrieval.Find(find).resources[0].uri == f"{top}-2/x/a.md"
    find.target_uri = top
    assert failure(retrieval.Find, find) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    assert tree.Delete(contexts_pb2.DeleteRequest(uris=[f"{top}-2"])).deleted == 4
    gone = contexts_pb2.GetRequest(uri=f"{top}-2/x/a.md")
    assert failure(tree.Get, gone) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")


def test_pages_together_are_the_whole_listing(channel: grpc.Channel) -> None:
    """Page by page, List and Tree give each context once, in their order."""
    tree = contexts_pb2_grpc.ContextsStub(channel)
    top = "viking://resources/pages"
    names = [f"{top}/{name}" for name in ("z", "é", "a", "d/x", "d/y", "c/x")]
    put(channel, *(contexts_pb2.ContextInput(uri=name) for name in names))
    listed, walked = (
        contexts_pb2.ListRequest(uri=top, page_size=2),
        contexts_pb2.TreeRequest(uri=top, page_size=2),
    )
    for request, call, expected in (
        (listed, tree.List, ["a", "z", "é", "c", "d"]),
        (walked, tree.Tree, ["", "a", "c", "c/x", "d", "d/x", "d/y", "z", "é"]),
    ):
        seen = []
        while True:
            reply = call(request)
            seen += [context.uri for context in reply.contexts]
            if not reply.next_page_token:
                break
            request.page_token = reply.next_page_token
        assert seen == [f"{top}/{name}".rstrip("/") for name in expected]


def test_bad_requests_change_nothing(channel: grpc.Channel) -> None:
    """Bytes that are no text, one bad context in a batch, too much: refused, nothing is written."""
    there = contexts_pb2.ContextInput(uri="viking://resources/bad/a.md")
    put(channel, there)
    tree = contexts_pb2_grpc.ContextsStub(channel)
    good = contexts_pb2.ContextInput(uri="viking://resources/bad/b.md", title="@@")
    bad = contexts_pb2.ContextInput(uri="viking://resources/bad/../c.md")
    request = contexts_pb2.PutRequest(contexts=[good, bad])
    refused = grpc.StatusCode.INVALID_ARGUMENT
    assert failure(tree.Put, request) == (refused, "contexts[1].uri")
    raw = channel.unary_unary("/viking.retrieval.v1.Contexts/Put")
    data = contexts_pb2.PutRequest(contexts=[good]).SerializeToString().replace(b"@@", b"\xff\xff")
    assert failure(raw, data) == (refused, "contexts[0].title")
    huge = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(content="x" * (33 << 20))])
    assert failure(tree.Put, huge)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert failure(tree.Get, contexts_pb2.GetRequest(uri=good.uri))[1] == "NOT_FOUND"
    again = tree.Put(contexts_pb2.PutRequest(contexts=[there]))
    assert again.outcomes == [contexts_pb2.PUT_OUTCOME_UNCHANGED]
    listed = tree.List(contexts_pb2.ListRequest(uri="viking://resources/bad")).contexts
    assert [context.uri for context in listed] == [there.uri]


def test_batch_answers_in_the_order_of_its_requests(channel: grpc.Channel) -> None:
    """Each answer of a batch is what the query alone gets."""
    top = "viking://resources/batch"
    words = ("aardvark", "bison", "cheetah")
    put(channel, *(contexts_pb2.ContextInput(uri=f"{top}/{w}.md", content=w) for w in words))
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    requests = [retrieval_pb2.FindRequest(query=word, target_uri=top) for word in words]
    batch = retrieval.BatchFind(retrieval_pb2.BatchFindRequest(requests=requests)).responses
    assert [reply.resources[0].uri for reply in batch] == [f"{top}/{w}.md" for w in words]


def test_a_fault_of_one_query_of_a_batch_names_it(channel: grpc.Channel) -> None:
    """Whether it is seen when the request is read or when the tree is."""
    put(channel, contexts_pb2.ContextInput(uri="viking://resources/batch2/a.md", content="x"))
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    good = retrieval_pb2.FindRequest(query="x")
    for bad, field in (
        (retrieval_pb2.FindRequest(query="x", limit=5000), "limit"),
        (
            retrieval_pb2.FindRequest(query="x", target_uri="viking://resources/batch2/a.md"),
            "target_uri",
        ),
    ):
        request = retrieval_pb2.BatchFindRequest(requests=[good, good, good, bad, good])
        with pytest.raises(grpc.RpcError) as refused:
            retrieval.BatchFind(request)
        assert refused.value.details().startswith(f"requests[3].{field}: ")  # type: ignore[attr-defined]


def test_reads_wait_for_the_revision_they_ask_for(channel: grpc.Channel) -> None:
    """A revision yet to come is waited for, and told as such when it doesn't come in time."""
    top = "viking://resources/wait"
    tree = contexts_pb2_grpc.ContextsStub(channel)
    revision = put(channel, contexts_pb2.ContextInput(uri=f"{top}/a.md", vector=floats(1, 1, 1, 1)))
    far = contexts_pb2.GetRequest(uri=top, min_revision=revision + 1000)
    late = grpc.StatusCode.DEADLINE_EXCEEDED
    assert failure(tree.Get, far, timeout=0.5) == (late, "REVISION_NOT_REACHED")
    others = [tree.Get.future(far) for _ in range(200)]
    time.sleep(0.3)
    near = tree.Get.future(contexts_pb2.GetRequest(uri=top, min_revision=revision + 1), timeout=20)
    put(channel, contexts_pb2.ContextInput(uri=f"{top}/b.md"))
    assert near.result().context.uri == top
    assert not any(call.done() for call in others)
    for call in others:
        call.cancel()


def test_failing_embedder_leaves_text_and_says_so(channel: grpc.Channel) -> None:
    """Slow or down, the embedder costs a query its vector, not its answer; health shows it."""
    uri = "viking://resources/embed/a.md"
    put(channel, contexts_pb2.ContextInput(uri=uri, content="narwhals"))
    retrieval = retrieval_pb2_grpc.RetrievalStub(channel)
    states = health_pb2_grpc.HealthStub(channel)

    def find(query: str) -> retrieval_pb2.FindResponse:
        target = "viking://resources/embed"
        request = retrieval_pb2.FindRequest(query=query, target_uri=target)
        return retrieval.Find(request, timeout=2)

    def embedder_is(status: int) -> bool:
        request = health_pb2.HealthCheckRequest(service="viking.embedder")
        return bool(states.Check(request).status == status)

    eventually(lambda: not find("narwhals").degraded)
    Endpoint.answering.clear()
    try:
        slow = find("narwhals slowly")
    finally:
        Endpoint.answering.set()
    assert slow.resources[0].uri == uri
    assert "did not answer in time" in slow.degraded[0].detail
    Endpoint.down.set()
    try:
        eventually(lambda: bool(find(f"narwhals {time.monotonic()}").degraded))
        down = find("narwhals down")
        ask = retrieval_pb2.RetrieveRequest(query=f"narwhals {time.monotonic()}")
        refused = failure(retrieval.Retrieve, ask)
        ask.degrade = True
        by_words = retrieval.Retrieve(ask, timeout=2)
        eventually(lambda: embedder_is(health_pb2.HealthCheckResponse.NOT_SERVING))
        whole = states.Check(health_pb2.HealthCheckRequest()).status
    finally:
        Endpoint.down.clear()
    assert down.resources[0].uri == uri
    assert refused == (grpc.StatusCode.UNAVAILABLE, "EMBEDDER_FAILED")
    assert by_words.items[0].uri == uri
    assert by_words.degraded[0].detail.endswith("answered by words alone")
    assert "the embedder failed" in down.degraded[0].detail
    assert whole == health_pb2.HealthCheckResponse.SERVING
    eventually(lambda: not find(f"narwhals {time.monotonic()}").degraded)


def test_health_and_reflection_know_the_services(channel: grpc.Channel) -> None:
    """Every service that reflection lists and we own is SERVING; one we don't know is NOT_FOUND."""
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    (reply,) = stub.ServerReflectionInfo(iter([request]))
    listed = {service.name for service in reply.list_services_response.service}
    ours = {f"viking.retrieval.v1.{name}" for name in ("Retrieval", "Contexts", "Admin")}
    assert ours < listed
    states = health_pb2_grpc.HealthStub(channel)
    for service in ("", *ours):
        status = states.Check(health_pb2.HealthCheckRequest(service=service)).status
        assert status == health_pb2.HealthCheckResponse.SERVING
    unknown = health_pb2.HealthCheckRequest(service="viking.unknown")
    assert failure(states.Check, unknown)[0] is grpc.StatusCode.NOT_FOUND


def test_daemon_holds_its_store_and_drains_at_the_end(tmp_path: Path) -> None:
    """A second daemon is refused in one line; SIGTERM lets calls end, then ends with code 0."""
    settings = {"VIKINGD_EMBEDDING__PROVIDER": "none"}
    with running(tmp_path, **settings) as (daemon, address):
        second = subprocess.run(
            [*daemon.args, "--provider", "none"],  # type: ignore[misc]
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 1
        assert "vikingd: " in second.stderr
        assert "Traceback" not in second.stderr
        with grpc.insecure_channel(address) as channel:
            tree = contexts_pb2_grpc.ContextsStub(channel)
            asked = contexts_pb2.GetRequest(uri="viking://", min_revision=1 << 40)
            call = tree.Get.future(asked, timeout=2)
            time.sleep(0.3)
            daemon.send_signal(signal.SIGTERM)
            assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert daemon.wait(10) == 0


def test_calls_that_wait_at_the_end_are_answered(tmp_path: Path) -> None:
    """SIGTERM cancels none of many at once; one that came too late is UNAVAILABLE."""
    with (
        running(tmp_path, VIKINGD_EMBEDDING__PROVIDER="none") as (daemon, address),
        grpc.insecure_channel(address) as channel,
    ):
        find = retrieval_pb2_grpc.RetrievalStub(channel).Find
        calls = [find.future(retrieval_pb2.FindRequest(query="tea")) for _ in range(200)]
        calls[0].result(20)
        daemon.send_signal(signal.SIGTERM)
        codes = {call.code() for call in calls}
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
        assert daemon.wait(10) == 0


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
