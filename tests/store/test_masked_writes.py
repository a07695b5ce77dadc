"""Writes of some fields of a context, by an update mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.store_helpers import opened
from tests.store.write_helpers import DOCS, NOTES, ONE, TEA, TEXT, TWO, put, text_rows, told
from tests.tiers import examples
from vikingd.client import Client, InvalidField, NotFound, RevisionDiffers
from vikingd.client.messages import MessageClient
from vikingd.domain import errors
from vikingd.domain.contexts import Draft, Entry, Passage
from vikingd.domain.store_changes import PutOutcome
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.masks import FIELDS
from vikingd.ingest.original_draft import as_put
from vikingd.pb import contexts_pb2
from vikingd.store import Store

pytestmark = pytest.mark.stores


@pytest.mark.parametrize("name", ["title", "overview", "metadata", "time", "abstract"])
def test_a_mask_writes_what_it_names_and_nothing_else(store: Store, name: str) -> None:
    """A mask writes the fields it names and ignores the draft's other fields."""
    put(store, Draft(TEA, content=TEXT, title="Tea", metadata={"a": 1}, overview="Long.", time=5))
    before = store.get(TEA)
    other = Draft(
        TEA, False, "Another.", "Longer.", "other", "Others", {"b": 2}, time=9, update_mask=[name]
    )
    assert put(store, other).outcomes == (PutOutcome.UPDATED,)
    after = store.get(TEA)
    assert told(after) == told(before) | {name: getattr(other, name)}
    assert put(store, other).outcomes == (PutOutcome.UNCHANGED,)


def test_metadata_alone_leaves_texts_vectors_and_memories(store: Store) -> None:
    """A masked Put of metadata keeps texts, vectors and memories."""
    draft = Draft(NOTES, content="- drinks tea\n- likes rain\n")
    put(store, draft)
    store.fill([(waiting.text_id, ONE) for waiting in store.backlog(9)]).result()
    (entry, _) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    store.reinforce([entry.entry.id], 3).result()
    before, memories = text_rows(store, NOTES), store.get(NOTES).passages
    done = put(store, Draft(NOTES, metadata={"a": 1}, update_mask=["metadata"]))
    assert done.outcomes == (PutOutcome.UPDATED,)
    assert done.text_ids == ()
    assert text_rows(store, NOTES) == before
    assert store.get(NOTES).passages == memories
    assert store.backlog_size().texts == 0


def test_a_content_by_mask_is_cut_anew_and_a_derived_abstract_follows_it(store: Store) -> None:
    """A new content by mask replaces a derived abstract, and keeps one of the writer."""
    put(store, Draft(TEA, content="Oolong wants water of 90 degrees.", metadata={"a": 1}))
    new = Draft(TEA, content=TEXT, update_mask=["content"])
    put(store, new)
    assert told(store.get(TEA)) | {"time": 0} == told_of(
        Draft(TEA, content=TEXT, metadata={"a": 1})
    )
    stated = Draft("viking://resources/b.md", content="x", abstract="Mine.")
    put(store, stated)
    put(store, replace(stated, content=TEXT, abstract="", update_mask=["content"]))
    assert store.get(stated.uri).abstract == "Mine."


def told_of(draft: Draft) -> dict[str, Any]:
    """Return the fields of a context that is written whole."""
    prepared = prepare(draft)
    passages = [(t.section, t.start, t.end) for t in prepared.texts if t.ordinal]
    return {
        "title": draft.title,
        "abstract": prepared.abstract,
        "overview": draft.overview,
        "content": draft.content,
        "metadata": dict(draft.metadata),
        "time": 0,
        "passages": passages,
    }


def test_passages_by_mask_cut_the_content_that_stands(store: Store) -> None:
    """Passages by mask divide the stored content, and are refused if they do not fit."""
    put(store, Draft(TEA, content="one two"))
    cut = (Passage("", 0, 3, ONE), Passage("", 4, 7))
    put(store, Draft(TEA, passages=cut, update_mask=["passages"]))
    assert [t for _, t, _ in text_rows(store, TEA)][-2:] == ["one", "two"]
    assert ONE in [v for _, _, v in text_rows(store, TEA)]
    for passages, field in (((Passage("", 0, 8),), "passages[0].end"), (None, "passages")):
        with pytest.raises(errors.InvalidField) as caught:
            put(store, Draft(TEA, passages=passages, update_mask=["passages"]))
        assert caught.value.field == f"contexts[0].{field}"


def test_a_vector_by_mask_is_that_of_the_abstract(store: Store) -> None:
    """A vector by mask replaces that of the abstract, and other texts keep theirs."""
    put(store, Draft(TEA, content=TEXT, abstract="Tea.", vector=ONE))
    put(store, Draft(TEA, vector=TWO, update_mask=["vector"]))
    assert [v for _, _, v in text_rows(store, TEA)] == [TWO, b"", b""][: len(text_rows(store, TEA))]


def test_a_mask_needs_a_context_that_is_there(store: Store) -> None:
    """A masked Put of a missing context fails its batch, and a mask must fit the context's kind."""
    batch = [Draft(TEA, content="x"), Draft(f"{DOCS}/none.md", title="T", update_mask=["title"])]
    with pytest.raises(errors.NotFound, match=r"none\.md"):
        put(store, *batch)
    with pytest.raises(errors.NotFound):
        store.get(TEA)
    put(store, Draft(DOCS, is_directory=True, abstract="Docs."))
    put(store, Draft(DOCS, metadata={"a": 1}, update_mask=["metadata"]))
    assert (store.get(DOCS).abstract, store.get(DOCS).metadata) == ("Docs.", {"a": 1})
    for mask, field in ((["content"], "content"), (FIELDS, "uri")):
        with pytest.raises(errors.InvalidField) as caught:
            put(store, Draft(DOCS, content="x", update_mask=mask))
        assert caught.value.field == f"contexts[0].{field}"


def test_a_put_without_content_does_not_empty_a_file(store: Store) -> None:
    """A Put without content does not empty a file, unless its mask names the content."""
    put(store, Draft(TEA, content=TEXT))
    with pytest.raises(errors.InvalidField, match="update_mask") as caught:
        put(store, Draft(f"{DOCS}/new.md", content="x"), Draft(TEA, metadata={"a": 1}))
    assert caught.value.field == "contexts[1].content"
    assert (store.get(TEA).content, store.get(TEA).metadata) == (TEXT, {})
    with pytest.raises(errors.NotFound):
        store.get(f"{DOCS}/new.md")
    for mask in (["content"], FIELDS):
        put(store, Draft(TEA, content=TEXT))
        put(store, Draft(TEA, update_mask=mask))
        assert store.get(TEA).content == ""
    assert put(store, Draft(TEA, title="empty")).outcomes == (PutOutcome.UPDATED,)


drafts = st.builds(
    Draft,
    st.sampled_from([TEA, NOTES]),
    abstract=st.sampled_from(["", "Mine."]),
    overview=st.sampled_from(["", "Long."]),
    content=st.sampled_from(["x", TEXT, "- a\n- b\n", "---\ndescription: Said.\n---\ntext\n"]),
    title=st.sampled_from(["", "Tea"]),
    metadata=st.sampled_from([{}, {"a": 1, "b": [0.5, None]}]),
    passages=st.none() | st.just((Passage("", 0, 1),)),
    time=st.none() | st.just(7),
)
masks = st.lists(st.sampled_from(FIELDS), min_size=1, unique=True)


@given(first=drafts, second=drafts, mask=masks)
@examples(30)
def test_a_masked_put_is_the_whole_put_of_its_merge(
    tmp_path_factory: pytest.TempPathFactory, first: Draft, second: Draft, mask: list[str]
) -> None:
    """A masked Put gives the hash and texts of a Put of the merged draft."""
    second = replace(second, uri=first.uri, update_mask=mask)
    merged = replace(first, **{name: getattr(second, name) for name in mask})
    if "content" in mask and "passages" not in mask:
        merged = replace(merged, passages=None)
    if "passages" in mask and "content" not in mask and second.passages is None:
        return
    with opened(tmp_path_factory.mktemp("masked")) as store:
        put(store, first)
        stored = store.get(first.uri)
        assert replace(as_put(stored), passages=None) == replace(first, passages=None)
        put(store, second)
        now = store.get(first.uri)
        whole = prepare(merged)
        assert now.content_hash == (
            whole.content_hash
            if "time" not in mask or second.time is not None
            else replace(merged, time=second.time).content_hash()
        )
        assert [text for _, text, _ in text_rows(store, first.uri)] == [t.text for t in whole.texts]


def test_masks_and_revisions_go_over_the_wire(typed: Client) -> None:
    """Masks and revisions work over the wire, and the error of a bad mask names its path."""
    typed.put([Draft(TEA, content="x", title="T", expected_revision=0)])
    there = typed.get(TEA)
    assert [c.revision for c in typed.list("viking://resources")] == [there.revision]
    typed.put([Draft(TEA, metadata={"a": 1}, update_mask=["metadata"])])
    after = typed.get(TEA)
    assert (after.content, after.title, after.metadata) == ("x", "T", {"a": 1})
    for paths, field in (
        ([], "update_mask"),
        (["titel"], "update_mask.paths[0]"),
        (["title", "*"], "update_mask.paths[1]"),
        (["uri"], "update_mask.paths[0]"),
        (["metadata.a"], "update_mask.paths[0]"),
        (["title"] * 101, "update_mask.paths"),
    ):
        context = contexts_pb2.ContextInput(uri=TEA)
        context.update_mask.paths.extend(paths)
        context.update_mask.SetInParent()
        with pytest.raises(InvalidField) as caught:
            typed.put([context])
        assert [v.field for v in caught.value.field_violations] == [f"contexts[0].{field}"]
    with pytest.raises(InvalidField, match="names no field"):
        typed.put([Draft(TEA, content="y", update_mask=[])])
    with pytest.raises(NotFound):
        typed.put([Draft(NOTES, title="T", update_mask=["title"])])
    with pytest.raises(RevisionDiffers):
        typed.move(TEA, f"{DOCS}/tea.md", expected_revision=there.revision)
    with pytest.raises(RevisionDiffers):
        typed.delete(TEA, expected_revision=there.revision)
    with pytest.raises(InvalidField, match="single URI"):
        typed.delete(TEA, NOTES, expected_revision=after.revision)
    moved = typed.move(TEA, f"{DOCS}/tea.md", expected_revision=after.revision)
    assert typed.get(f"{DOCS}/tea.md").update_time == after.update_time
    assert typed.get(f"{DOCS}/tea.md").revision == moved.revision
    gone = typed.delete(f"{DOCS}/tea.md", NOTES, allow_missing=True)
    assert gone.deleted == 1
    with pytest.raises(NotFound):
        typed.delete(f"{DOCS}/tea.md")
    assert typed.delete(f"{DOCS}/tea.md", allow_missing=True).deleted == 0


def test_vikingctl_puts_metadata_alone(ctl: Callable[..., Any], client: MessageClient) -> None:
    """`vikingctl put` of metadata or title alone keeps the content, and does not read stdin."""
    client.put([Draft(TEA, content="x", title="T")])
    code, out, _ = ctl("put", TEA, "--metadata", '{"a": 1}')
    assert code == 0
    assert out.startswith("updated")
    after = client.get(TEA).context
    assert (after.content, after.title, dict(after.metadata)) == ("x", "T", {"a": 1})
    assert ctl("put", TEA, "--title", "")[0] == 0
    assert client.get(TEA).context.title == ""
    code, _, err = ctl("put", NOTES, "--title", "T")
    assert code != 0
    assert "does not exist" in err


def test_an_entry_stays_what_a_masked_put_brings_no_word_of(store: Store) -> None:
    """A masked Put of a title keeps the memories of a file and their counters."""
    put(store, Draft(NOTES, content="- drinks tea\n- likes rain\n"))
    first, _ = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    store.reinforce([first.entry.id], 5).result()
    put(store, Draft(NOTES, title="Notes", update_mask=["title"]))
    again, other = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    assert (again.entry.id, again.entry.reinforcement) == (first.entry.id, 5)
    assert isinstance(other.entry, Entry)
