"""The forms in which the client takes values: times, vectors, names of enums, one or several."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from vikingd.client import (
    Boost,
    CitationStyle,
    Client,
    ContextItem,
    ContextType,
    Document,
    Levels,
    Method,
    Mode,
    NodeKind,
    Passage,
    SearchMode,
    context_calls,
    context_input,
    find_request,
    memory_calls,
    retrieval_calls,
    retrieve_request,
)
from vikingd.client.admin_calls import create_key
from vikingd.client.value_conversion import When, many_of, micros_of, one_of, struct
from vikingd.domain.prompt_options import RecallPath

URI = "viking://resources/notes/tea.md"


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the local time to UTC+9."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
    assert os.environ.get("TZ") != "JST-9"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (datetime(2026, 5, 1, 9, 30, tzinfo=UTC), datetime(2026, 5, 1, 9, 30, tzinfo=UTC)),
        (
            datetime(2026, 5, 1, 9, 30, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 5, 1, 7, 30, tzinfo=UTC),
        ),
        (datetime(2026, 5, 1, 9, 30), datetime(2026, 5, 1, 0, 30, tzinfo=UTC)),
        (date(2026, 5, 1), datetime(2026, 4, 30, 15, tzinfo=UTC)),
        ("2026-05-01", datetime(2026, 4, 30, 15, tzinfo=UTC)),
        ("2026-05-01T09:30:00", datetime(2026, 5, 1, 0, 30, tzinfo=UTC)),
        ("2026-05-01T09:30:00+02:00", datetime(2026, 5, 1, 7, 30, tzinfo=UTC)),
        ("2026-05-01T09:30:00.000001Z", datetime(2026, 5, 1, 9, 30, 0, 1, UTC)),
        (1_777_628_600_000_001, datetime(2026, 5, 1, 9, 43, 20, 1, UTC)),
    ],
)
@pytest.mark.usefixtures("far_east")
def test_a_time_has_many_forms(given: When, expected: datetime) -> None:
    """Datetimes, dates, ISO texts and microseconds are times; without a zone they are local."""
    micros = (expected - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert micros_of(given) == micros
    for message in (
        context_input(Document(URI, time=given)).time,
        memory_calls.remember("x", "journal", time=given).time,
        memory_calls.forget(older_than=given).older_than,
        memory_calls.recall("x", now=given).now,
    ):
        assert message.ToDatetime(UTC) == expected


@pytest.mark.parametrize(
    "vector",
    [
        [0.5, -2],
        (0.5, -2.0),
        array("f", [0.5, -2.0]),
        np.array([0.5, -2.0]),
        np.array([0.5, -2.0], np.float32),
        b"\x00\x00\x00\x3f\x00\x00\x00\xc0",
    ],
    ids=lambda vector: type(vector).__name__,
)
def test_a_document_takes_any_vector(vector: list[float]) -> None:
    """A document takes the same vectors as a query."""
    expected = b"\x00\x00\x00\x3f\x00\x00\x00\xc0"
    assert context_input(Document(URI, vector=vector)).vector == expected
    assert find_request(vector=vector).vector == expected


@pytest.mark.parametrize(
    "given", ["resource", "RESOURCE", "Resources", " resource ", "ContextType.RESOURCE", 2]
)
def test_a_type_is_named_in_any_case_and_number(given: str) -> None:
    """A member of an enum is given by its name in any case, in the plural, or by its number."""
    assert one_of(ContextType, given, "x") is ContextType.RESOURCE
    assert many_of(ContextType, given, "x") == [ContextType.RESOURCE]
    assert list(find_request("x", context_types=given).context_types) == [2]
    both = find_request("x", context_types=(given, ContextType.SKILL))
    assert list(both.context_types) == [2, 3]


def test_memories_are_memory_in_the_plural() -> None:
    """The plural of memory is known; each member of each enum is found by its own name."""
    assert one_of(ContextType, "memories", "x") is ContextType.MEMORY
    assert one_of(Levels, "directory", "x") is Levels.DIRECTORIES
    assert one_of(Levels, "file", "x") is Levels.FILES
    for kind in (ContextType, Levels, Method, Mode, SearchMode, NodeKind, CitationStyle):
        for member in kind:
            for name in (member.name, member.name.lower(), member.name.replace("_", "-")):
                assert one_of(kind, name, "x") is member


def test_each_request_takes_names() -> None:
    """Names stand for members in every argument with an enum."""
    assert find_request("x", levels="both", method="best-first", mode="thinking") == find_request(
        "x", levels=Levels.BOTH, method=Method.BEST_FIRST, mode=SearchMode.THINKING
    )
    search = retrieval_calls.search("x", mode="quick", levels="directories", context_types="skill")
    assert (search.mode, search.levels) == (SearchMode.QUICK, Levels.DIRECTORIES)
    assert list(search.context_types) == [ContextType.SKILL]
    retrieved = retrieve_request(
        "x",
        mode="keyword",
        include="metadata",
        boosts=Boost(2, "viking://resources"),
        optional_clauses="year",
    )
    assert retrieved.mode == Mode.KEYWORD
    assert len(retrieved.include) == len(retrieved.boosts) == 1
    assert list(retrieved.optional_clauses) == ["year"]
    built = retrieval_calls.build_context(uris=URI, citation="none", order="tree")
    assert list(built.uris.uris) == [URI]
    assert built.citation == CitationStyle.NONE
    assert context_calls.glob("*", kind="files").kind == NodeKind.FILE
    assert list(memory_calls.recall("x", without="timeline").without) == [RecallPath.TIMELINE]


def test_one_value_stands_for_several() -> None:
    """One value is taken where several are expected, and a list where they come one by one."""
    assert list(context_calls.delete([URI, "viking://resources/a"]).uris) == [
        URI,
        "viking://resources/a",
    ]
    assert list(memory_calls.forget([1, 2]).ids) == [1, 2]
    assert list(memory_calls.reinforce((1, 2), 3).ids) == [1, 2, 3]
    assert len(context_calls.put(Document(URI, "x")).contexts) == 1
    assert context_calls.put({"uri": URI, "content": "x"}) == context_calls.put(
        [Document(URI, "x")]
    )
    assert [
        item.uri for item in retrieval_calls.build_context(items=ContextItem(URI)).items.items
    ] == [URI]
    assert list(context_input(Document(URI, update_mask="title")).update_mask.paths) == ["title"]
    key = create_key(read="viking://resources", write=["viking://users/ana"])
    assert [grant.uri_prefix for grant in key.grants] == [
        "viking://resources",
        "viking://users/ana",
    ]


def test_numbers_of_numpy_are_numbers() -> None:
    """Numbers and arrays of numpy are taken as arguments and in metadata."""
    request = find_request("x", limit=np.int64(3), score_threshold=np.float32(0.5))
    assert (request.limit, request.score_threshold) == (3, 0.5)
    metadata = {"a": np.int64(3), "b": np.float64(0.5), "c": np.array([1, 2]), "d": np.bool_(True)}
    assert dict(struct(metadata)) == dict(struct({"a": 3, "b": 0.5, "c": [1, 2], "d": True}))


def test_a_document_keeps_its_values() -> None:
    """Document has the content second, its other fields by name, and is compared by value."""
    tea = Document(URI, "Oolong.", passages=[Passage("", 0, 3)])
    assert (tea.uri, tea.content, tea.time, tea.metadata) == (URI, "Oolong.", None, {})
    assert tea == Document(uri=URI, content="Oolong.", passages=[Passage("", 0, 3)])
    assert Document(URI, metadata=None).metadata == {}  # type: ignore[arg-type]


def test_a_path_of_pathlib_is_imported(typed: Client, tmp_path: Path) -> None:
    """import_path takes a Path."""
    (tmp_path / "tea.md").write_text("Oolong: 90 degrees.")
    assert typed.import_path(tmp_path, "viking://resources/docs").created == 1
    assert typed.exists("viking://resources/docs/tea.md")
