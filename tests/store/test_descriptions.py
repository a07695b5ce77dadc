"""Descriptions by a model, over both stores: what they fill, what they leave, and their reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.store.store_helpers import DOCS, ONE, TWO, Mirror, scanned, text_ids, vectors
from tests.store.write_helpers import put, text_rows
from vikingd.domain.contexts import EXTRACT, HAND, Context, Draft, Passage
from vikingd.domain.description import Described, Description, Slot
from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import Committed, Filled, PutOutcome, Upsert
from vikingd.ingest.jsonl import record_of
from vikingd.ingest.original_draft import as_put
from vikingd.store.store_writes import WritableStore

pytestmark = pytest.mark.stores

SHORT, LONG = f"{DOCS}/short.md", f"{DOCS}/long.md"
NOTES = "viking://user/memories/notes.md"
TEA = "Green tea wants water of seventy degrees and two minutes of patience.\n"
WORDS = "\n\n".join(f"## Part {i}\n\n{TEA * 30}" for i in range(3))
STATED = f"---\ndescription: All about tea.\n---\n\n{TEA}"
MODEL, BASIS = "small-model", b"\x01basis"
BOTH = Slot.ABSTRACT | Slot.OVERVIEW


def describe(
    store: WritableStore,
    uri: str,
    abstract: str = "On tea.",
    overview: str = "- tea",
    basis: bytes = BASIS,
) -> Committed:
    """Write a description of what is there now."""
    read = store.get(uri).content_hash
    return store.describe([Description(uri, abstract, overview, MODEL, basis, read)]).result()


def slots(context: Context) -> tuple[str, str, str, str]:
    """Return abstract and overview, and their makers."""
    return context.abstract, context.overview, context.abstract_by, context.overview_by


def filled(store: WritableStore) -> None:
    """Give all texts that wait the same vector."""
    store.fill([(text.text_id, ONE) for text in store.backlog(99)]).result()


@pytest.mark.parametrize("uri", [DOCS, SHORT, LONG])
def test_a_description_fills_the_slots_and_changes_nothing_else(
    store: WritableStore, uri: str
) -> None:
    """Passages keep ids and vectors, the abstract waits for one, and followers are told."""
    put(store, Draft(SHORT, content=TEA), Draft(LONG, content=WORDS))
    filled(store)
    before, known, texts = store.get(uri), Mirror(scanned(store)), text_rows(store, uri)
    known.revision = store.revision
    done = describe(store, uri)
    after = store.get(uri)
    assert slots(after) == ("On tea.", "- tea", MODEL, MODEL)
    assert after == replace(
        before, abstract="On tea.", overview="- tea", abstract_by=MODEL, overview_by=MODEL
    )
    (head, text, vector), *rest = text_rows(store, uri)
    assert ("On tea." in text, vector) == (True, b"")
    assert rest == [row for row in texts if row[0] in text_ids(store, uri)]
    assert len(rest) == {DOCS: 0, SHORT: 1}.get(uri, len(texts) - 1)
    assert done.count == 1
    assert done.text_ids == (head,)
    assert [waiting.text_id for waiting in store.backlog(99)] == [head]
    changes, revision = store.changes_since(known.revision)
    assert changes == [scanned(store)[uri]]
    assert revision == done.revision == known.revision + 1
    store.fill([(head, TWO)]).result()
    assert [type(one) for one in store.changes_since(known.revision)[0]] == [Upsert]
    assert store.changes_since(revision)[0] == [Filled(head, TWO)]


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        (Draft(DOCS, is_directory=True, abstract="Mine."), ("Mine.", "- tea", HAND, MODEL)),
        (Draft(DOCS, is_directory=True, overview="Mine."), ("On tea.", "Mine.", MODEL, HAND)),
        (Draft(SHORT, content=TEA, abstract="Mine."), ("Mine.", "- tea", HAND, MODEL)),
        (Draft(SHORT, content=TEA, overview="Mine."), ("On tea.", "Mine.", MODEL, HAND)),
        (Draft(SHORT, content=STATED), ("All about tea.", "- tea", HAND, MODEL)),
        (Draft(SHORT, content=TEA, abstract="1", overview="2"), ("1", "2", HAND, HAND)),
        (
            Draft(SHORT, content=TEA, time=5, passages=[Passage("", 0, 9)]),
            ("On tea.", "- tea", MODEL, MODEL),
        ),
    ],
)
def test_what_a_person_wrote_stays(
    store: WritableStore, draft: Draft, expected: tuple[str, ...]
) -> None:
    """A second description finds the same free slots as the first one."""
    put(store, draft)
    for _ in range(2):
        describe(store, draft.uri, "Other.", "Others.")
        describe(store, draft.uri)
        assert slots(store.get(draft.uri)) == expected
    given = as_put(store.get(draft.uri))
    assert (given.abstract, given.overview) == (draft.abstract, draft.overview)
    assert given.content_hash() == draft.content_hash()
    record = record_of(store.get(draft.uri), ())
    assert record.get("overview", "") == draft.overview


def test_a_text_that_a_model_left_out_is_the_derived_one(store: WritableStore) -> None:
    """It takes the place of an earlier one by a model, too, and has the vector of its passage."""
    put(store, Draft(SHORT, content=TEA))
    filled(store)
    derived, texts = store.get(SHORT), text_rows(store, SHORT)
    assert slots(derived) == (TEA.strip(), "", EXTRACT, "")
    describe(store, SHORT)
    describe(store, SHORT, "", "")
    assert store.get(SHORT) == derived
    assert text_rows(store, SHORT) == texts
    assert store.described([SHORT]) == {SHORT: Described(MODEL, BASIS, Slot(0))}
    describe(store, SHORT, derived.abstract, "- tea")
    assert slots(store.get(SHORT)) == (derived.abstract, "- tea", EXTRACT, MODEL)
    assert text_rows(store, SHORT) == texts


def test_an_equal_description_makes_no_new_text(store: WritableStore) -> None:
    """Only the row changes: its basis is the new one, and the vector stays."""
    put(store, Draft(LONG, content=WORDS))
    describe(store, LONG)
    filled(store)
    texts = text_rows(store, LONG)
    done = describe(store, LONG, basis=b"new")
    assert (done.count, done.text_ids) == (1, ())
    assert text_rows(store, LONG) == texts
    assert store.described([LONG]) == {LONG: Described(MODEL, b"new", BOTH)}
    describe(store, LONG, overview="- more")
    assert text_rows(store, LONG) == texts


def test_what_is_gone_or_changed_is_left_out(store: WritableStore) -> None:
    """The others of the call are written; a file of memories is refused, a directory is not."""
    put(store, Draft(SHORT, content=TEA), Draft(LONG, content=WORDS), Draft(NOTES, content="- a\n"))
    old = store.get(LONG).content_hash
    put(store, Draft(LONG, content=WORDS, title="New"))
    before = store.get(LONG)
    made = [
        Description(LONG, "a", "b", MODEL, BASIS, old),
        Description(f"{DOCS}/none.md", "a", "b", MODEL, BASIS, old),
        Description(SHORT, "a", "b", MODEL, BASIS, store.get(SHORT).content_hash),
    ]
    assert store.describe(made).result().count == 1
    assert store.get(LONG) == before
    assert store.get(SHORT).abstract == "a"
    with pytest.raises(InvalidField, match=r"descriptions\[0\]\.uri"):
        describe(store, NOTES)
    with pytest.raises(InvalidField, match=r"descriptions\[0\]\.abstract"):
        describe(store, SHORT, "a" * 9000)
    describe(store, "viking://user/memories")
    assert store.get("viking://user/memories").abstract_by == MODEL


@pytest.mark.parametrize("vector", [b"", ONE])
@pytest.mark.parametrize("content", [TEA, WORDS])
def test_an_unchanged_put_keeps_a_description(
    store: WritableStore, content: str, vector: bytes
) -> None:
    """A given vector of the abstract that the model replaced is no change, either."""
    put(store, Draft(SHORT, content=content, vector=vector))
    describe(store, SHORT)
    texts, before = text_rows(store, SHORT), store.get(SHORT)
    assert put(store, Draft(SHORT, content=content, vector=vector)).outcomes == (
        PutOutcome.UNCHANGED,
    )
    same = Draft(SHORT, content=content, update_mask=["content"])
    assert put(store, same).outcomes == (PutOutcome.UNCHANGED,)
    assert (text_rows(store, SHORT), store.get(SHORT)) == (texts, before)


@pytest.mark.parametrize("content", [TEA, WORDS])
def test_a_put_that_changes_a_context_deletes_its_description(
    store: WritableStore, content: str
) -> None:
    """The abstract is derived again, by a whole draft and by a masked one; vectors stay."""
    put(store, Draft(SHORT, content=content))
    filled(store)
    derived = store.get(SHORT).abstract
    for draft in (
        Draft(SHORT, content=content, metadata={"n": 1}),
        Draft(SHORT, metadata={"n": 2}, update_mask=["metadata"]),
    ):
        describe(store, SHORT)
        put(store, draft)
        assert slots(store.get(SHORT)) == (derived, "", EXTRACT, "")
        assert store.described([SHORT]) == {}
        assert store.backlog_size().texts == (content == WORDS)
        filled(store)
        known = store.revision
        assert all(vectors(store, SHORT))
        put(store, Draft(SHORT, content=content, title=f"{known}"))
        put(store, Draft(SHORT, content=content))
        filled(store)


def test_a_move_keeps_a_description_and_a_delete_drops_it(store: WritableStore) -> None:
    """Below the memories, a rewrite of the file does not take the texts for given ones."""
    put(store, Draft(SHORT, content="- drinks green tea\n"))
    describe(store, SHORT)
    describe(store, DOCS)
    store.move(DOCS, "viking://user/memories/docs").result()
    moved = "viking://user/memories/docs/short.md"
    assert slots(store.get(moved)) == ("On tea.", "- tea", MODEL, MODEL)
    assert store.described([moved, "viking://user/memories/docs"]).keys() == {
        moved,
        "viking://user/memories/docs",
    }
    file = store.memory_file(moved)
    assert file is not None
    assert (file.abstract, file.overview, len(file.entries)) == ("", "", 1)
    store.delete([moved]).result()
    assert store.described([moved]) == {}


@pytest.mark.parametrize("change", ["delete", "move", "put"])
def test_a_text_that_goes_takes_the_descriptions_above_it(
    store: WritableStore, change: str
) -> None:
    """A description may quote what is below it, so it ends with that; a new file ends none."""
    put(store, Draft(SHORT, content="Green tea."), Draft(LONG, content=WORDS))
    describe(store, DOCS)
    put(store, Draft(f"{DOCS}/new.md", content="Black tea."))
    assert slots(store.get(DOCS)) == ("On tea.", "- tea", MODEL, MODEL)
    known = store.revision
    if change == "delete":
        store.delete([SHORT]).result()
    elif change == "move":
        store.move(SHORT, "viking://resources/elsewhere/short.md").result()
    else:
        put(store, Draft(SHORT, content="Coffee."))
    assert slots(store.get(DOCS)) == ("", "", "", "")
    changes, _ = store.changes_since(known)
    assert DOCS in {change.uri for change in changes if isinstance(change, Upsert)}


def test_equal_material_has_a_known_description(store: WritableStore) -> None:
    """Only both texts of the same model and basis are taken."""
    put(store, Draft(SHORT, content=TEA, abstract="Mine."), Draft(LONG, content=WORDS))
    describe(store, SHORT)
    assert store.described_as(BASIS, MODEL) is None
    describe(store, LONG)
    assert store.described_as(BASIS, MODEL) == ("On tea.", "- tea")
    assert store.described_as(BASIS, "other") is None
    assert store.described_as(b"other", MODEL) is None


def test_pages_of_what_may_be_described(store: WritableStore) -> None:
    """Files and directories come by URI, without the files of memories."""
    some = [f"{DOCS}/{name}.md" for name in ("a", "b", "c")]
    put(store, *(Draft(uri, content=TEA, title="T") for uri in some), Draft(NOTES, content="- a\n"))
    put(store, Draft("viking://user/memories/z/z.md", content="- b\n"), Draft(SHORT, content="茶"))
    describe(store, some[1])
    found, after = [], ""
    while page := store.files_to_describe(after, 2):
        found += page
        after = page[-1].uri
    assert [one.uri for one in found] == [*some, SHORT]
    assert [(one.title, one.length) for one in found] == [("T", len(TEA))] * 3 + [("", 1)]
    assert [(one.basis, one.maker) for one in found[:2]] == [(None, None), (BASIS, MODEL)]
    assert found[0].content_hash == store.get(some[0]).content_hash
    describe(store, DOCS)
    directories, after = [], ""
    while some_of_them := store.directories(after, 2):
        directories += some_of_them
        after = some_of_them[-1].uri
    assert [one.uri for one in directories] == [
        context.uri for context in store.tree("viking://", 0, "", 99) if context.is_directory
    ]
    assert [one.uri for one in directories if one.maker == MODEL] == [DOCS]


def test_children_of_many_directories(store: WritableStore) -> None:
    """The first ones of each come as files by name, then directories, with the number of all."""
    put(
        store,
        *(Draft(f"{DOCS}/{name}.md", content=TEA, title=name) for name in ("b", "a-b", "a", "é")),
        *(Draft(f"{DOCS}/{name}", is_directory=True, abstract=name) for name in ("0", "a0")),
        Draft(f"{DOCS}/0/x.md", content=""),
    )
    found = store.children_of([DOCS, f"{DOCS}/0", f"{DOCS}/a0", f"{DOCS}/b.md", "viking://no"], 5)
    assert {uri: count for uri, (_, count) in found.items()} == {DOCS: 6, f"{DOCS}/0": 1}
    assert [child.name for child in found[DOCS][0]] == ["a-b.md", "a.md", "b.md", "é.md", "0"]
    assert found[DOCS][0][1] == ("a.md", False, "a", TEA.strip())
    assert found[DOCS][0][4] == ("0", True, "", "0")
    assert len(store.children_of([DOCS], 99)[DOCS][0]) == 6
    assert store.children_of([], 5) == {}


def test_pieces_of_a_file(store: WritableStore) -> None:
    """Passages come with their sections and lines."""
    put(store, Draft(LONG, content=WORDS))
    pieces = store.pieces_of(LONG)
    assert {section for section, _, _ in pieces} == {"Part 0", "Part 1", "Part 2"}
    lines = WORDS.splitlines()
    assert all(text.startswith(lines[line - 1][:20]) for _, text, line in pieces)
    assert len(pieces) > 2
    assert (store.pieces_of(DOCS), store.pieces_of("viking://no")) == ([], [])
