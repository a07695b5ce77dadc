"""Strings in replies, which come from one revision of the index and not from the database."""

from __future__ import annotations

import mmap
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import find as kernel

from tests.index.find_helpers import find
from tests.kernels.trees import linked_with
from tests.tiers import examples
from vikingd.domain.answers import MESSAGE_BYTES, ReplyBudget
from vikingd.domain.contexts import MAX_RELATIONS, Draft, Passage, Relation
from vikingd.domain.find_query import FindQuery
from vikingd.domain.store_changes import Committed, IndexedText, Upsert
from vikingd.engine import Engine, EngineSettings
from vikingd.index.compaction import compacted
from vikingd.index.index_verification import Comparison
from vikingd.index.segment.segment_arrays import empty
from vikingd.index.shown_strings import Contents, Strings
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings

DOCS = "viking://resources/docs"
A, B, C = f"{DOCS}/a.md", f"{DOCS}/b.md", f"{DOCS}/c.md"
STAYS, COMPACTS, REBUILDS, RELOADS = "stays", "compacts", "rebuilds", "reloads"


class Fixture:
    """An engine that can compact or restart after each write.

    A restart rebuilds the index (REBUILDS) or loads an older base (RELOADS).
    """

    def __init__(self, path: Path, after: str) -> None:
        self.settings = EngineSettings(path, EmbedSettings(provider="none"))
        self.after = after
        self.engine = Engine(self.settings)

    def wrote(self, future: Future[Committed]) -> Snapshot:
        """Wait for a write, compact or restart, and return the snapshot with the write."""
        future.result(timeout=10)
        if self.after == COMPACTS:
            self.engine.optimize()
        elif self.after in (REBUILDS, RELOADS):
            if self.after == RELOADS and self.engine.snapshot.generation == 0:
                self.engine.optimize()
            self.engine.close()
            self.engine = Engine(self.settings)
        assert self.engine.verify().ok
        return self.engine.snapshot

    def put(self, uri: str, abstract: str, **fields: object) -> Snapshot:
        """Write one context and return the snapshot with it."""
        draft = Draft(uri, abstract=abstract, **fields)  # type: ignore[arg-type]
        return self.wrote(self.engine.writable_store.put([prepare(draft)]))


@pytest.fixture(params=[STAYS, COMPACTS, REBUILDS, RELOADS])
def fixture(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fixture]:
    """Yield an empty engine for each way to continue after a write."""
    made = Fixture(tmp_path, request.param)
    yield made
    made.engine.close()


def abstract(snapshot: Snapshot, uri: str) -> str:
    """Return the abstract of a URI."""
    row = snapshot.find(uri)
    assert row is not None
    return snapshot.abstract(row)


def relations(snapshot: Snapshot, uri: str) -> tuple[Relation, ...]:
    """Return the relations of a URI."""
    row = snapshot.find(uri)
    assert row is not None
    return linked_with(snapshot, row)


@pytest.mark.parametrize("is_directory", [False, True])
def test_an_abstract_is_that_of_its_revision(fixture: Fixture, is_directory: bool) -> None:
    """Each snapshot shows the abstract of its revision."""
    held = [fixture.put(A, text, is_directory=is_directory) for text in ("1", "二", "二", "", "1")]
    assert [abstract(snapshot, A) for snapshot in held] == ["1", "二", "二", "", "1"]


def test_an_older_snapshot_is_compacted_as_it_is(tmp_path: Path) -> None:
    """A base from an older snapshot has the abstract of its revision, not a later abstract."""
    made = Fixture(tmp_path, STAYS)
    old = made.put(A, "1")
    made.put(A, "2")
    base, _, _ = compacted(old)
    assert Strings(base.file_abstract_at, base.file_abstracts)[0] == "1"
    made.engine.close()


@pytest.mark.deep_after(1)
def test_relations_are_those_of_their_revision(fixture: Fixture) -> None:
    """A link, move or deletion is visible in later snapshots only."""
    fixture.put(A, "a")
    held = [
        fixture.put(B, "b"),
        fixture.wrote(fixture.engine.writable_store.link(B, A, "why")),
        fixture.wrote(fixture.engine.writable_store.link(A, B, "因为")),
        fixture.put(B, "b2"),
        fixture.wrote(fixture.engine.writable_store.move(B, C)),
        fixture.wrote(fixture.engine.writable_store.link(A, DOCS, "")),
        fixture.wrote(fixture.engine.writable_store.unlink(C, A)),
        fixture.wrote(fixture.engine.writable_store.link(A, C, "again")),
        fixture.wrote(fixture.engine.writable_store.delete([C])),
        fixture.put(C, "another"),
    ]
    docs, c = Relation(DOCS, "", ""), Relation(C, "b2", "因为")
    assert [relations(snapshot, A) for snapshot in held] == [
        (),
        (Relation(B, "b", "why"),),
        (Relation(B, "b", "因为"),),
        (Relation(B, "b2", "因为"),),
        (c,),
        (docs, c),
        (docs,),
        (docs, Relation(C, "b2", "again")),
        (docs,),
        (docs,),
    ]
    assert relations(held[2], B) == (Relation(A, "a", "因为"),)
    assert relations(held[4], C) == (Relation(A, "a", "因为"),)
    assert relations(held[9], C) == ()


def test_links_move_with_the_directory_above_them(fixture: Fixture) -> None:
    """Links inside a moved directory, and links out of it, move with it."""
    fixture.put(A, "a")
    fixture.put(B, "b")
    fixture.put("viking://resources/other.md", "other")
    fixture.wrote(fixture.engine.writable_store.link(A, B, "within"))
    fixture.wrote(fixture.engine.writable_store.link(A, "viking://resources/other.md", "out"))
    moved = fixture.wrote(fixture.engine.writable_store.move(DOCS, "viking://resources/new"))
    assert relations(moved, "viking://resources/new/a.md") == (
        Relation("viking://resources/new/b.md", "b", "within"),
        Relation("viking://resources/other.md", "other", "out"),
    )
    assert relations(moved, "viking://resources/other.md") == (
        Relation("viking://resources/new/a.md", "a", "out"),
    )


def test_links_outlive_the_first_vector(fixture: Fixture) -> None:
    """Links survive the first vector, which sets the dimension of the index."""
    fixture.put(A, "a")
    fixture.put(B, "b")
    fixture.wrote(fixture.engine.writable_store.link(A, B, "why"))
    wide = fixture.put(C, "c", vector=np.full(4, 0.5, "<f4").tobytes())
    assert wide.dimension == 4
    assert relations(wide, A) == (Relation(B, "b", "why"),)


def _with(context: Upsert, **fields: Any) -> Upsert:
    """Return a context whose second text has other fields."""
    first, second = context.texts
    return replace(context, texts=(first, replace(second, **fields)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda context: replace(context, abstract="x"), "has another abstract"),
        (lambda context: _with(context, text="cold"), "has other terms"),
        (lambda context: _with(context, start=1), "is another passage"),
        (lambda context: _with(context, section="x"), "is another passage"),
        (lambda context: _with(context, line=2), "is another passage"),
        (lambda context: replace(context, context_id=99), "is context 99"),
        (lambda context: replace(context, uri=C), "has no sound row"),
    ],
)
def test_verify_sees_what_a_reply_would_show_wrong(
    tmp_path: Path, change: Callable[[Upsert], Upsert], problem: str
) -> None:
    """Verify reports a context or a passage that differs between store and index."""
    made = Fixture(tmp_path, STAYS)
    made.put(B, "b")
    snapshot = made.put(A, "a", content="warm", passages=(Passage("S", 0, 4),))
    comparison = Comparison(snapshot)
    with made.engine.store.at_revision(snapshot.revision) as stored:
        assert stored is not None
        contexts, links = stored
        comparison.run((change(one) if one.uri == A else one for one in contexts), links)
    made.engine.close()
    assert any(problem in found and A in found for found in comparison.problems)


@pytest.mark.parametrize("statement", ["UPDATE links SET reason = 'x'", "DELETE FROM links"])
def test_verify_sees_another_link(tmp_path: Path, statement: str) -> None:
    """Verify reports a link that is not as the index has it."""
    made = Fixture(tmp_path, STAYS)
    made.put(B, "b")
    made.put(A, "a")
    made.wrote(made.engine.writable_store.link(A, B, "why"))
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as db, db:
        assert db.execute(statement).rowcount == 1
    report = made.engine.verify()
    made.engine.close()
    assert f"{A} and {B} have different links in index and store" in report.problems


@pytest.mark.parametrize("place", ["base", "tail"])
@pytest.mark.parametrize("part", ["codes", "scale", "residual", "raw"])
def test_verify_sees_another_vector(tmp_path: Path, part: str, place: str) -> None:
    """Verify reports a changed vector, code, scale or residual norm in base and tail."""
    made = Fixture(tmp_path, COMPACTS if place == "base" else STAYS)
    vectors = made.put(A, "a", vector=np.array([0.6, -0.8], "<f4").tobytes()).vectors
    name = part if place == "base" and part in ("scale", "residual") else f"{place}_{part}"
    held = getattr(vectors, name)
    held[held != 0] += 1
    report = made.engine.verify()
    made.engine.close()
    assert f"{A}: another vector is in the index" in report.problems


@pytest.mark.parametrize("part", ["axis", "codes", "scale", "residual", "along"])
def test_verify_sees_other_int4_codes(tmp_path: Path, part: str) -> None:
    """Verify reports changed int4 codes of the base."""
    made = Fixture(tmp_path, COMPACTS)
    made.put(B, "b", vector=np.array([0.8, 0.6], "<f4").tobytes())
    coded = made.put(A, "a", vector=np.array([0.6, -0.8], "<f4").tobytes()).vectors.base_int4
    assert made.engine.verify().ok
    held = getattr(coded, part)
    held[held != 0] += 1
    report = made.engine.verify()
    made.engine.close()
    assert f"{A}: another vector is in the index" in report.problems


@pytest.mark.deep_after(1)
def test_a_find_reads_no_database(fixture: Fixture) -> None:
    """A find answers completely with a closed store; of many relations it shows the first."""
    content = "the harbour\nin winter 冬天\n"
    passages = (Passage("One > two", 0, 12), Passage("", 12, len(content)))
    fixture.put(A, "About a harbour", content=content, passages=passages)
    linked = [f"{DOCS}/{name}.txt" for name in "gfedcba"]
    for uri in linked:
        fixture.put(uri, uri[-5:])
        fixture.wrote(fixture.engine.writable_store.link(uri, A, "r"))
    fixture.engine.store.close()
    (match, *_) = find(fixture.engine, FindQuery("harbour winter 冬天"), None).matches
    assert (match.uri, match.abstract) == (A, "About a harbour")
    assert sorted((p.section, p.text, p.start, p.end) for p in match.passages) == [
        ("", "in winter 冬天\n", 12, len(content)),
        ("One > two", "the harbour\n", 0, 12),
    ]
    first = sorted(linked)[:MAX_RELATIONS]
    assert [(one.uri, one.abstract, one.reason) for one in match.relations] == [
        (uri, uri[-5:], "r") for uri in first
    ]


@pytest.mark.parametrize("writes", [12, pytest.param(60, marks=pytest.mark.deep)])
def test_finds_beside_writes_show_whole_revisions(tmp_path: Path, writes: int) -> None:
    """Finds during writes never mix the abstracts and passages of different revisions."""
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:

        def write(i: int) -> None:
            drafts = [Draft(uri, abstract=f"{i}", content=f"harbour {i}") for uri in (A, B)]
            engine.writable_store.put([prepare(draft) for draft in drafts]).result(timeout=10)

        write(0)
        engine.writable_store.link(A, B, "").result(timeout=10)
        mixed: list[object] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                for match in find(engine, FindQuery("harbour"), None).matches:
                    said = {match.abstract, *(r.abstract for r in match.relations)}
                    said |= {p.text.removeprefix("harbour ") for p in match.passages}
                    if len(said) != 1 or not match.relations or not match.passages:
                        mixed.append(match)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for i in range(1, writes):
            write(i)
            if i % (writes // 3) == 0:
                engine.optimize()
        done.set()
        for reader in readers:
            reader.join()
        assert mixed == []


def test_a_base_is_mapped_not_read(tmp_path: Path) -> None:
    """The strings of a loaded base are memory-mapped."""
    made = Fixture(tmp_path, STAYS)
    made.put(A, "a", content="harbour " * 2000)
    made.engine.optimize()
    base = made.engine.snapshot.base
    made.engine.close()
    assert len(base.text_shown) > 8000
    memory = base.text_shown
    while isinstance(memory, np.ndarray):
        memory = memory.base
    assert isinstance(getattr(memory, "obj", memory), mmap.mmap)


@examples(50)
@given(st.lists(st.text(max_size=5)), st.lists(st.text(max_size=5)), st.data())
def test_strings_of_base_and_tail(base, tail, data):
    """Strings of base and tail are read by number and gathered into a new base."""
    coded = [text.encode() for text in base]
    at = np.cumsum([0, *map(len, coded)]).astype(np.int64)
    strings = Strings(at, np.frombuffer(bytearray(b"".join(coded)), np.uint8))
    assert [strings.append(text) for text in tail] == [*range(len(base), len(base) + len(tail))]
    texts = [*base, *tail]
    assert [strings[i] for i in range(len(texts))] == texts
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1))) if texts else []
    fresh = Strings(*strings.gather(np.array(chosen, np.int32)))
    assert [fresh[i] for i in range(len(chosen))] == [texts[i] for i in chosen]


def test_no_kernel_is_compiled_anew_for_a_vector_that_is_read_only(tmp_path: Path) -> None:
    """A find with a read-only vector, as from the cache of queries, compiles no new kernel."""
    made = Fixture(tmp_path, STAYS)
    vector = np.eye(16, dtype=np.float32)[0]
    made.put(A, "harbour", vector=vector.tobytes())
    vector.flags.writeable = False
    assert find(made.engine, FindQuery("harbour"), vector).matches
    assert not any("readonly" in str(signature) for signature in kernel.find.signatures)
    made.engine.close()


@given(st.text("aß好🦊", max_size=9), st.text("aß\n\r好🦊", max_size=30), st.integers(0, 250))
def test_a_passage_is_cut_to_the_budget_at_a_character(
    section: str, passage: str, limit: int
) -> None:
    """A passage above the budget is cut at a character and keeps its whole range and lines."""
    contents = Contents(empty(0))
    contents.add_text(IndexedText(1, 1, 0, "", b"", False, section, 5, passage, line=12))
    budget = ReplyBudget(limit)
    shown_section, shown, start, end, first_line, last_line = contents.passage(0, budget)
    assert (start, end) == (5, 5 + len(passage))
    assert (first_line, last_line) == (12, 12 + passage[:-1].count("\n"))
    left = limit
    if MESSAGE_BYTES + len(section.encode()) <= left:
        left -= MESSAGE_BYTES + len(section.encode())
        assert shown_section == section
    else:
        assert shown_section == ""
    assert passage.startswith(shown)
    assert len(shown.encode()) <= left
    longer = passage[: len(shown) + 1].encode()
    assert shown == passage or len(longer) > left
    assert budget.shortened == (shown != passage)
