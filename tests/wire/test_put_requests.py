"""A Put becomes contexts to write, or faults that name them."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from unittest.mock import Mock

import numpy as np
import pytest

from tests.wire.wire_helpers import FILE, floats, to_struct
from vikingd.domain import errors
from vikingd.domain.contexts import Prepared
from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import PutRefusal
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.masks import Masked
from vikingd.lanes.call_pools import Deadline
from vikingd.pb import contexts_pb2
from vikingd.wire.messages.put_request import PutReader, put_size
from vikingd.wire.put_preparation import INLINE_SIZE, SMALL_SIZE, PutBatch
from vikingd.wire.request_limits import guards

NAN = math.nan


def prepared(
    request: contexts_pb2.PutRequest, dimension: int | None
) -> list[Prepared | Masked | PutRefusal]:
    """Return the contexts of a batch."""
    batch = PutBatch(request, dimension)
    while not batch.do_slice(Mock(spec=Deadline)):
        pass
    return batch.contexts


def put_fault(*contexts: contexts_pb2.ContextInput, dimension: int | None = 2) -> str:
    """Return the field under which a Put is refused."""
    with pytest.raises(InvalidField) as caught:
        prepared(contexts_pb2.PutRequest(contexts=contexts), dimension)
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
    draft = PutReader(contexts_pb2.PutRequest(contexts=[context]), 2).draft(0)
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
    draft = PutReader(contexts_pb2.PutRequest(contexts=[context]), None).draft(0)
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
    for field, most in (("abstract", 8), ("overview", 64), ("content", 2048), ("title", 1)):
        long = "x" * (most * 1024 + 1)
        assert put_fault(good, make(uri=other, **{field: long[1:]}), make()) == "contexts[2].uri"
        assert put_fault(good, make(uri=other, **{field: long})) == f"contexts[1].{field}"


def test_passages_beyond_the_limit_are_not_looked_at() -> None:
    """A million passages are refused by their number in little time."""
    many = contexts_pb2.ContextInput(uri=FILE, content="x")
    many.passages.extend([contexts_pb2.Passage(start=0, end=1)] * 1_000_000)
    request = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(uri=f"{FILE}0"), many])
    data, guard = request.SerializeToString(), guards()["/viking.retrieval.v1.Contexts/Put"]
    guard.check(contexts_pb2.PutRequest(wait_for_vectors=True).SerializeToString())  # compiles it
    before = time.process_time()
    with pytest.raises(InvalidField) as caught:
        guard.check(data)
    assert caught.value.field == "contexts[1].passages"
    assert time.process_time() - before < 0.5


def test_all_that_takes_time_in_a_put_counts_for_its_size() -> None:
    """The size of a put counts contexts, metadata, passages and lines, because each takes time."""
    small = contexts_pb2.ContextInput(uri=FILE, content="x" * 10)
    large = contexts_pb2.ContextInput(uri=FILE, metadata=to_struct({"n": list(range(1000))}))
    cut = contexts_pb2.ContextInput(uri=FILE, passages=[contexts_pb2.Passage()] * 1000)
    lines = contexts_pb2.ContextInput(uri=FILE, content="x\n" * 100)
    rows = contexts_pb2.ContextInput(uri=FILE, content="|\n" * 100)

    def size(*contexts: contexts_pb2.ContextInput) -> int:
        return put_size(contexts_pb2.PutRequest(contexts=contexts))

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

    most = bisect_right(range(20_000), INLINE_SIZE, key=lambda n: put_size(request(n))) - 1

    def seconds() -> float:
        before = time.process_time()
        assert prepared(request(most), None)
        return time.process_time() - before

    # Other threads and the collector of this process may take time in one of them.
    assert min(seconds() for _ in range(3)) < 0.5


def test_an_ordinary_text_of_some_pages_does_not_queue_with_large_ones() -> None:
    """An ordinary text of some pages counts as small, so that it does not wait for large ones."""
    text = "# A heading\n\n" + f"{'Some words of a paragraph. ' * 4}\n\n" * 60
    context = contexts_pb2.ContextInput(uri=FILE, content=text)
    assert len(text) > 6000
    assert put_size(contexts_pb2.PutRequest(contexts=[context])) <= SMALL_SIZE


def test_no_more_of_a_batch_is_cut_once_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch is cut no further after the deadline of its call."""
    contexts = [contexts_pb2.ContextInput(uri=f"{FILE}{i}", content="x") for i in range(9)]
    deadline = Mock(spec=Deadline)
    deadline.left.side_effect = [1.0, 1.0, errors.DeadlinePassed("too late")]
    cut = Mock(wraps=prepare)
    monkeypatch.setattr("vikingd.ingest.draft_preparation.prepare", cut)
    batch = PutBatch(contexts_pb2.PutRequest(contexts=contexts), None)
    with pytest.raises(errors.DeadlinePassed):
        batch.do_slice(deadline)
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
    reader = PutReader(request, None)
    one, two = reader.draft(0), reader.draft(1)
    found = [*(p.vector for p in one.passages or ()), one.vector, two.vector]
    assert found == [(axis / 3).tobytes() for axis in axes]
    request.contexts[1].vector = bytes(16)
    with pytest.raises(InvalidField) as refused:
        prepared(request, None)
    assert refused.value.field == "contexts[1].vector"


OTHER = "viking://resources/other.md"


def test_a_partial_batch_refuses_contexts_alone() -> None:
    """Each fault is that of its context, and no vector or dimension of a refused one is taken."""
    make = contexts_pb2.ContextInput
    passages = [contexts_pb2.Passage(start=0, end=1, vector=floats(0.0, 2.0))]
    request = contexts_pb2.PutRequest(
        partial_success=True,
        contexts=[
            make(uri="viking://nowhere/a.md", content="x", vector=floats(1.0, 0.0, 0.0)),
            make(uri=FILE, content="x", passages=passages, metadata=to_struct({"a": NAN})),
            make(uri=OTHER, content="x", passages=passages, vector=floats(3.0, 0.0)),
            make(uri=f"{OTHER}/", content="y"),
            make(uri="viking://resources/b.md", vector=floats(NAN, 1.0)),
            make(uri="viking://resources/c.md", abstract="x" * 8193),
            make(uri="viking://resources/d.md", title="d", vector=floats(0.0, 5.0)),
        ],
    )
    contexts = prepared(request, None)
    assert [
        (one.index, one.reason, one.field) for one in contexts if isinstance(one, PutRefusal)
    ] == [
        (0, "INVALID_FIELD", "uri"),
        (1, "INVALID_FIELD", "metadata.a"),
        (3, "INVALID_FIELD", "uri"),
        (4, "INVALID_FIELD", "vector"),
        (5, "INVALID_FIELD", "abstract"),
    ]
    assert vectors(contexts) == [floats(0.0, 1.0), floats(0.0, 1.0)]


def vectors(contexts: list[Prepared | Masked | PutRefusal]) -> list[bytes]:
    """Return the vectors of the texts of all contexts that are not refused."""
    return [text.vector for one in contexts if isinstance(one, Prepared) for text in one.texts]


def test_many_source_files_of_a_put_stay_in_their_order() -> None:
    """Files that the parser reads ahead come in turn, and a fault among them at its own place."""
    contexts = [
        contexts_pb2.ContextInput(
            uri=f"viking://resources/{i}.py", content=f"def number_{i}():\n    return {i}\n"
        )
        for i in range(50)
    ]
    contexts[20].uri = "viking://nowhere/a.py"
    found = prepared(contexts_pb2.PutRequest(contexts=contexts, partial_success=True), None)
    refused = found.pop(20)
    assert isinstance(refused, PutRefusal)
    assert refused.index == 20
    sections = [one.texts[0].section for one in found if isinstance(one, Prepared)]
    assert sections == [f"number_{i}" for i in range(50) if i != 20]


def test_a_refused_context_decides_nothing_for_the_others() -> None:
    """Before the first vector of a store, the contexts of a partial batch are not compared."""
    request = contexts_pb2.PutRequest(partial_success=True)
    request.contexts.add(uri="viking://resources/a.md", vector=floats(1.0, 2.0, 3.0))
    request.contexts.add(uri="viking://resources/b.md", vector=floats(1.0, 2.0))
    reader = PutReader(request, None)
    assert [len(reader.draft(i).vector) for i in range(2)] == [12, 8]
    request.partial_success = False
    whole = PutReader(request, None)
    whole.draft(0)
    with pytest.raises(InvalidField, match="numbers"):
        whole.draft(1)


def test_a_uri_is_repeated_even_if_its_first_context_is_refused() -> None:
    """A repeated URI is refused from its second context on, whatever became of the first."""
    request = contexts_pb2.PutRequest(partial_success=True)
    request.contexts.add(uri="viking://resources/a.md", vector=floats(math.nan))
    request.contexts.add(uri="viking://resources/a.md", content="x")
    reader = PutReader(request, None)
    with pytest.raises(InvalidField):
        reader.draft(0)
    with pytest.raises(InvalidField, match="contexts\\[0\\] already"):
        reader.draft(1)
