"""Replies and errors on the wire, made from results and errors of the domain."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from viking_kernels.arrays import decode_file, is_file

from tests.wire.wire_helpers import FILE, to_struct
from vikingd.answer.find_hits import FindHits, Hit
from vikingd.domain import errors
from vikingd.domain.answers import UNBOUNDED, Degradation, DegradationReason, Stage, seconds_of
from vikingd.domain.contexts import Context, Draft, Relation
from vikingd.domain.errors import InvalidField, VikingError
from vikingd.domain.find_query import (
    FindTrace,
    Method,
    ScoreParts,
    StopReason,
    TracedDirectory,
    TracedMean,
)
from vikingd.engine import Engine, EngineSettings
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.pb import (
    contexts_pb2,
    retrieval_pb2,
)
from vikingd.wire.messages import common_messages, decode
from vikingd.wire.messages.encoded_results import EncodedResults
from vikingd.wire.messages.find_reply import find_reply, find_trace
from vikingd.wire.request_intake import fault_in
from vikingd.wire.status_errors import CODES, code_of, status_of


def context(uri: str = FILE, **fields: object) -> Context:
    """Return a context as the store returns it."""
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
    """Return the first page of some contexts, and its token."""
    page = common_messages.Page(limit)
    all(page.add(one) for one in found)
    return page.contexts, page.next_page_token


def test_pages_hold_the_limit_and_lead_on() -> None:
    """A page has a token if and only if more follows, and the token has its last context."""
    found = [context(f"viking://resources/d/{i}-界") for i in range(3)]
    contexts, token = page_of(found, 2)
    assert [c.uri for c in contexts] == [c.uri for c in found[:2]]
    assert token.isascii()
    assert decode.page(7, token, "viking://resources/d") == (7, f"f:{found[1].uri}")
    assert page_of(found, 3)[1] == ""
    assert page_of([], 3) == ([], "")


def test_pages_are_cut_where_a_message_would_be_too_large() -> None:
    """A page ends at half of gRPC's 4 MiB, but has at least one context."""
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
    """A page token is valid only for its own directory."""
    with pytest.raises(InvalidField) as caught:
        decode.page(1, token, "viking://resources/d")
    assert caught.value.field == "page_token"
    _, good = page_of([context("viking://resources/d/a"), context("viking://x")], 1)
    with pytest.raises(InvalidField):
        decode.page(1, good, "viking://resources/e")


def test_page_size_is_bounded() -> None:
    """A page size of 0 means 1,000, and more than 10,000 is refused."""
    assert decode.page(0, "", "viking://") == (1000, "")
    with pytest.raises(InvalidField) as caught:
        decode.page(10_001, "", "viking://")
    assert caught.value.field == "page_size"


def test_context_is_sent_whole() -> None:
    """Each field of a context arrives, with its type and its times to the microsecond."""
    message = common_messages.context(
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


PARTS = ScoreParts(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, -0.1, 0.01, 0.05, 0.02, 0.03, -0.04, 0.9)
RELATED = (Relation("viking://resources/r", "ra", "why"),)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Yield an engine with a file of each type, and with a directory above the typed roots."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    uris = ("user/memories/m.md", "resources/b.md", "resources/a.md", "agent/skills/s.md")
    drafts = [Draft(f"viking://{uri}", abstract="abstract", content="A text") for uri in uris]
    drafts.append(Draft("viking://projects/p", is_directory=True, abstract="abstract"))
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()
    yield engine
    engine.close()


def test_find_response_has_three_buckets_and_their_total(engine: Engine) -> None:
    """Hits keep their order within their type; a directory above the roots is left out."""
    snapshot = engine.snapshot
    nodes = [
        (snapshot.root(f"viking://{uri}") or 0, score)
        for uri, score in (
            ("user/memories/m.md", 0.5),
            ("resources/b.md", 0.4),
            ("projects/p", 0.5),
            ("resources/a.md", 0.3),
            ("agent/skills/s.md", 0.5),
        )
    ]
    hits = [
        Hit(score, row, 2, [(_text_of(snapshot, row), 0.25)] if is_file(row) else (), PARTS)
        for row, score in nodes
    ]
    found = FindHits(
        snapshot,
        hits,
        {row: RELATED for row, _ in nodes},
        Method.EXACT,
        (Stage("plan", 0, 0.0005), Stage("score", 1, 2.25)),
        (Degradation(DegradationReason.EMBEDDER, "no embedder"),),
    )
    done = find_reply(found, Stage("embed", 0, 0.002), EncodedResults(), UNBOUNDED)
    reply = retrieval_pb2.FindResponse.FromString(done.data)
    assert (done.total, done.top_score, done.is_cut, done.is_degraded) == (4, 0.5, False, True)
    assert [m.uri for m in reply.resources] == [
        "viking://resources/b.md",
        "viking://resources/a.md",
    ]
    assert (len(reply.memories), len(reply.skills), reply.total) == (1, 1, 4)
    assert reply.revision == snapshot.revision
    assert [(one.reason, one.detail) for one in reply.degraded] == [(1, "no embedder")]
    timings = [(t.stage, t.duration.ToMicroseconds()) for t in reply.timings]
    assert timings[:3] == [("embed", 2000), ("plan", 500), ("score", 1_250_000)]
    assert timings[3][0] == "reply"
    assert not reply.HasField("trace")
    one = reply.resources[0]
    assert (one.level, one.is_leaf, one.abstract, one.score) == (2, True, "abstract", 0.4)
    assert one.context_type == contexts_pb2.CONTEXT_TYPE_RESOURCE
    assert one.relations[0].reason == "why"
    passage = one.passages[0]
    assert (passage.text, passage.start, passage.end, passage.score) == ("A text", 0, 6, 0.25)
    parts = [(field.name, value) for field, value in one.parts.ListFields()]
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
        ("feedback", -0.1),
        ("cover", 0.01),
        ("reply", 0.02),
        ("date", 0.03),
        ("kind", -0.04),
        ("agreement", 0.05),
    ]


def _text_of(snapshot: Snapshot, node: int) -> int:
    """Return the row of the first passage of a file."""
    files, ordinals = snapshot.tree.texts.file.tolist(), snapshot.text_ordinal.tolist()
    return next(
        row for row, file in enumerate(files) if file == decode_file(node) and ordinals[row] == 1
    )


def test_a_stage_that_is_gone_through_again_is_told_once() -> None:
    """A repeated stage is listed once, in its first place and with all of its time."""
    stages = (Stage("vector", 1, 2), Stage("fuse", 2, 2.25), Stage("vector", 3, 3.5))
    assert list(seconds_of(stages).items()) == [("vector", 1.5), ("fuse", 0.25)]


def test_trace_is_sent_whole() -> None:
    """Every field of the trace arrives under its name."""
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
        (TracedDirectory("viking://resources", PARTS, 1, True, 8),),
        9,
        10,
        StopReason.OUT_OF_REACH,
        True,
        1.5,
        0.4,
        20.0,
        ("2026-11-24",),
        "Who is Ada?",
    )
    sent = retrieval_pb2.FindTrace.FromString(find_trace(trace).SerializeToString())
    names = {field.name for field, _ in sent.ListFields()}
    assert names == set(sent.DESCRIPTOR.fields_by_name)
    assert sent.method == retrieval_pb2.METHOD_BEST_FIRST
    assert (sent.scope_texts, sent.rescored, sent.rounds) == (3, 5, 10)
    assert (sent.other_script_cap, sent.files_per_directory) == (0.4, 20.0)
    assert sent.means[0].with_prior
    assert sent.directories[0].parts.final == 0.9


def details(error: Exception) -> tuple[Status, ErrorInfo, BadRequest | None]:
    """Return the error details in the trailing metadata of a failed call."""
    status = status_of(error)
    (key, value), *_ = status.trailing_metadata
    assert key == "grpc-status-details-bin"
    rich = Status.FromString(value)
    info, bad = ErrorInfo(), BadRequest()
    packed: list[any_pb2.Any] = list(rich.details)
    assert packed[0].Unpack(info)
    return rich, info, bad if len(packed) > 1 and packed[1].Unpack(bad) else None


def test_every_error_of_the_domain_is_in_the_table() -> None:
    """The table has a status for each error of the domain."""
    kinds = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, VikingError) and kind is not VikingError
    }
    assert kinds == set(CODES)


STATUSES = {
    "InvalidField": "INVALID_ARGUMENT",
    "NotFound": "NOT_FOUND",
    "NotReadable": "NOT_FOUND",
    "AlreadyExists": "ALREADY_EXISTS",
    "Unauthenticated": "UNAUTHENTICATED",
    "PermissionDenied": "PERMISSION_DENIED",
    "QuotaExceeded": "RESOURCE_EXHAUSTED",
    "RevisionNotReached": "DEADLINE_EXCEEDED",
    "HistoryLost": "DATA_LOSS",
    "StoreAway": "UNAVAILABLE",
    "DeadlinePassed": "DEADLINE_EXCEEDED",
    "Overloaded": "RESOURCE_EXHAUSTED",
    "TooLarge": "FAILED_PRECONDITION",
    "RevisionDiffers": "ABORTED",
    "Stopping": "UNAVAILABLE",
    "EmbedderFailed": "UNAVAILABLE",
    "EmbedderRefused": "FAILED_PRECONDITION",
    "EmbedderTimedOut": "UNAVAILABLE",
    "StoreMismatch": "FAILED_PRECONDITION",
    "StoreInUse": "FAILED_PRECONDITION",
    "ReadOnly": "FAILED_PRECONDITION",
    "StoreFailed": "FAILED_PRECONDITION",
    "DiskFull": "RESOURCE_EXHAUSTED",
    "StoreDamaged": "DATA_LOSS",
    "Corrupt": "DATA_LOSS",
}
ARGUMENTS: dict[type[VikingError], tuple[Any, ...]] = {
    errors.InvalidField: ("limit", "is too large"),
    errors.Overloaded: ("full", 1.0),
    errors.HistoryLost: (7, 2, "a point"),
    errors.QuotaExceeded: ("a limit", None),
    errors.RevisionDiffers: (FILE, 1, 2),
}


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_each_error_is_sent_with_its_status(kind: type[VikingError]) -> None:
    """Each error is sent with the status by which callers decide about a repetition."""
    error = kind(*ARGUMENTS.get(kind, ("a message",)))
    rich, info, _ = details(error)
    code = getattr(grpc.StatusCode, STATUSES[kind.__name__])
    assert (status_of(error).code, rich.code, info.reason) == (code, code.value[0], kind.reason)


def test_errors_carry_reason_domain_and_metadata() -> None:
    """ErrorInfo has the reason, the domain and the metadata of an error."""
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
    """An error with a very long value keeps its reason and field within gRPC's 8 KiB."""
    value = character * 20_000
    error = InvalidField(f"where.{value}", f"{value} is no clause")
    rich, info, bad = details(error)
    assert info.reason == "INVALID_FIELD"
    assert bad is not None
    assert bad.field_violations[0].field.startswith("where.")
    written = len(quote(rich.message.encode())) + len(rich.SerializeToString()) * 4 / 3
    assert written < 7_500


def test_subclasses_count_as_their_base() -> None:
    """An error without an entry in the table has the code of its base class."""

    class Unreachable(errors.EmbedderFailed):
        pass

    assert code_of(Unreachable("x")) is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("error", [ValueError("secret path"), VikingError("secret path")])
def test_bugs_tell_nothing_of_the_inside(error: Exception) -> None:
    """An unknown error is INTERNAL, and its reply has no text of the error."""
    rich, info, _ = details(error)
    assert status_of(error).code is grpc.StatusCode.INTERNAL
    assert "secret" not in str(rich)
    assert info.reason == "INTERNAL"


def test_text_that_is_not_utf8_is_found_by_its_path() -> None:
    """The first string that is not UTF-8 is named by its path in the proto."""
    context = contexts_pb2.ContextInput(
        uri=FILE, content="good", passages=[contexts_pb2.Passage(section="@@")]
    )
    put = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(uri=FILE), context])
    data = put.SerializeToString().replace(b"@@", b"\xff\xfe")
    fault = fault_in(data, contexts_pb2.PutRequest.DESCRIPTOR)
    assert fault.field == "contexts[1].passages[0].section"
    find = retrieval_pb2.FindRequest(query="@@").SerializeToString().replace(b"@@", b"\xed\xa0")
    assert fault_in(find, retrieval_pb2.FindRequest.DESCRIPTOR).field == "query"


@pytest.mark.parametrize(
    ("size", "empty"), [(16, 100_001), pytest.param(4096, 1_000_000, marks=pytest.mark.deep)]
)
def test_a_fault_in_very_much_is_not_looked_for(size: int, empty: int) -> None:
    """The search for a fault ends early in a large message, and the error still mentions UTF-8."""
    bad = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(uri="@@")])
    end = bad.SerializeToString().replace(b"@@", b"\xff\xfe")
    full = contexts_pb2.ContextInput(uri="viking://resources/a", content="x" * size)
    many = contexts_pb2.PutRequest(contexts=[full] * 999).SerializeToString()
    fault = fault_in(many + end, contexts_pb2.PutRequest.DESCRIPTOR)
    assert fault.field == "contexts[999].uri"
    fault = fault_in(b"\x0a\x00" * empty + end, contexts_pb2.PutRequest.DESCRIPTOR)
    assert fault.field == "request"
    assert "UTF-8" in fault.description


def test_any_bytes_are_a_fault_of_the_request() -> None:
    """Random bytes always give a fault with a field."""
    rng = random.Random(7)
    for _ in range(500):
        fault = fault_in(rng.randbytes(rng.randrange(40)), contexts_pb2.PutRequest.DESCRIPTOR)
        assert fault.field
