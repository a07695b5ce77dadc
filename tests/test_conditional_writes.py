"""Writes of some fields, at a revision, once: masks, expected revisions, request ids."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_helpers import WITHOUT_DIGESTS, opened, vector

from vikingd.client import (
    Client,
    ClientError,
    Draft,
    InvalidField,
    NotFound,
    RevisionDiffers,
    Unsendable,
)
from vikingd.client.messages import MessageClient
from vikingd.domain import errors
from vikingd.domain.model import Committed, Context, Entry, Once, Passage, PutOutcome
from vikingd.ingest.masks import FIELDS, Masked
from vikingd.ingest.prepare import prepare
from vikingd.ingest.written import as_put
from vikingd.pb import contexts_pb2, memories_pb2
from vikingd.store import Store
from vikingd.store import requests as kept_requests
from vikingd.store.schema import MIGRATIONS, connect

TEA = "viking://resources/tea.md"
NOTES = "viking://user/memories/notes.md"
DOCS = "viking://resources/docs"
TEXT = "# Tea\n\nOolong wants water of 90 degrees.\n\n## Milk\n\nNever with green tea.\n"
ONE, TWO = vector(1, 0), vector(0, 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open store with vectors of two numbers."""
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def typed(client: MessageClient) -> Iterator[Client]:
    """A client of the daemon that returns dataclasses; the tree is empty."""
    with Client(client.address) as made:
        yield made


def put(store: Store, *drafts: Draft) -> Committed:
    """Writes drafts, masked or whole."""
    return store.put(
        [prepare(d) if d.update_mask is None else Masked.of(d) for d in drafts]
    ).result()


# Masks


def told(context: Context) -> dict[str, Any]:
    """What a context says, by the names of a mask; passages by their places."""
    return {
        "title": context.title,
        "abstract": context.abstract,
        "overview": context.overview,
        "content": context.content,
        "metadata": context.metadata,
        "time": context.time,
        "passages": [(p.section, p.start, p.end) for p in context.passages],
    }


def text_rows(store: Store, uri: str) -> list[tuple[int, str, bytes]]:
    """(id, text, vector) of the texts of a context."""
    return [
        (text.text_id, text.text, text.vector)
        for upsert in store.scan()
        if upsert.uri == uri
        for text in upsert.texts
    ]


@pytest.mark.parametrize("name", ["title", "overview", "metadata", "time", "abstract"])
def test_a_mask_writes_what_it_names_and_nothing_else(store: Store, name: str) -> None:
    """The other fields that the draft has are not looked at."""
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
    """Nothing is embedded again, and what was counted stays counted."""
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
    """Equal texts keep their vectors; an abstract of the writer's own stays."""
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
    """What a context says that is written whole."""
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
    """They must fit it, in the transaction that writes them."""
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
    """The other texts keep theirs."""
    put(store, Draft(TEA, content=TEXT, abstract="Tea.", vector=ONE))
    put(store, Draft(TEA, vector=TWO, update_mask=["vector"]))
    assert [v for _, _, v in text_rows(store, TEA)] == [TWO, b"", b""][: len(text_rows(store, TEA))]


def test_a_mask_needs_a_context_that_is_there(store: Store) -> None:
    """And with "*" one of its kind; nothing of the batch is written."""
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
    """It says what to do; a mask that names the content does empty it."""
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
@settings(max_examples=30, deadline=None)
def test_a_masked_put_is_the_whole_put_of_its_merge(
    tmp_path_factory: pytest.TempPathFactory, first: Draft, second: Draft, mask: list[str]
) -> None:
    """By hash and texts; passages alone or with the content, which decides how it is cut."""
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


# Expected revisions


def test_a_put_at_another_revision_writes_nothing(store: Store) -> None:
    """0 is for what must not exist; the error names both."""
    put(store, Draft(TEA, content="x", expected_revision=0))
    revision = store.get(TEA).revision
    for expected in (0, revision + 1):
        with pytest.raises(errors.RevisionDiffers) as caught:
            put(
                store,
                Draft(NOTES, content="y"),
                Draft(TEA, content="z", expected_revision=expected),
            )
        assert caught.value.metadata == {
            "uri": TEA,
            "expected_revision": str(expected),
            "revision": str(revision),
        }
    with pytest.raises(errors.NotFound):
        store.get(NOTES)
    with pytest.raises(errors.RevisionDiffers):
        put(store, Draft(NOTES, content="y", expected_revision=3))
    put(store, Draft(TEA, title="T", update_mask=["title"], expected_revision=revision))
    assert (store.get(TEA).content, store.get(TEA).title) == ("x", "T")


def test_writes_of_one_commit_see_each_others_revisions(tmp_path: Path) -> None:
    """Of two that expect the same the first is done, also where they share a commit."""
    with closing(Store(tmp_path, model="none", dimension=None)) as store:
        batch = [prepare(Draft(TEA, content=text, expected_revision=0)) for text in "ab"]
        first, second = store.put(batch[:1]), store.put(batch[1:])
        store.start(lambda *_: None)
        assert first.result().outcomes == (PutOutcome.CREATED,)
        with pytest.raises(errors.RevisionDiffers):
            second.result()
        assert store.get(TEA).content == "a"


def test_move_and_delete_at_another_revision_do_nothing(store: Store) -> None:
    """A directory's revision is its own."""
    put(store, Draft(DOCS, is_directory=True), Draft(f"{DOCS}/a.md", content="x"))
    revision = store.get(DOCS).revision
    put(store, Draft(f"{DOCS}/a.md", content="y"))
    assert store.get(DOCS).revision == revision
    for write in (
        lambda expected: store.move(DOCS, f"{DOCS}2", expected),
        lambda expected: store.delete([f"{DOCS}2"], expected),
    ):
        with pytest.raises((errors.RevisionDiffers, errors.NotFound)):
            write(revision + 99).result()
        revision = write(revision).result().revision
    assert [c.uri for c in store.tree("viking://resources", 0, "", 9)] == ["viking://resources"]


def test_delete_of_what_is_missing_can_be_allowed(store: Store) -> None:
    """It removes what is there, and none where nothing is."""
    put(store, Draft(TEA, content="x"))
    with pytest.raises(errors.NotFound):
        store.delete([TEA, NOTES]).result()
    assert store.delete([TEA, NOTES], allow_missing=True).result().count == 1
    assert store.delete([TEA, NOTES], allow_missing=True).result().count == 0


def test_eight_threads_that_compare_and_set_count_right(typed: Client) -> None:
    """No increment is lost, and none is done twice."""
    typed.put([Draft(TEA, content="counter", metadata={"n": 0})])

    def count(_: int) -> None:
        done = 0
        while done < 10:
            now = typed.get(TEA)
            try:
                typed.put(
                    [
                        Draft(
                            TEA,
                            metadata={"n": now.metadata["n"] + 1},
                            update_mask=["metadata"],
                            expected_revision=now.revision,
                        )
                    ]
                )
            except RevisionDiffers:
                continue
            done += 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    after = typed.get(TEA)
    assert (after.metadata, after.content) == ({"n": 80}, "counter")


# Calls that count once


def once(name: str, digest: bytes = b"d") -> Once:
    """A call by name, answered by the revision that it had."""
    return Once(name, digest, lambda done: str(done.revision).encode())


def test_a_repeated_call_counts_once_also_after_a_restart(tmp_path: Path) -> None:
    """It gets the first answer. Another call of the name is refused; one that failed is none."""
    with opened(tmp_path) as store:
        put(store, Draft(NOTES, content="- drinks tea\n"))
        (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
        ids = [entry.entry.id]
        with pytest.raises(errors.NotFound):
            store.reinforce([99], 1, once("a")).result()
        first = store.reinforce(ids, 1, once("a")).result()
    with opened(tmp_path) as store:
        again = store.reinforce(ids, 1, once("a")).result()
        assert again.reply == str(first.revision).encode()
        assert again.revision == first.revision
        with pytest.raises(errors.InvalidField, match="another call"):
            store.reinforce(ids, 2, once("a", b"e")).result()
        store.reinforce(ids, 1, once("b")).result()
        (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
        assert entry.entry.reinforcement == 2


def test_names_of_calls_are_dropped_by_number_and_by_age(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are known, and none that is older than the limit."""
    put(store, Draft(NOTES, content="- drinks tea\n"))
    (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    monkeypatch.setattr(kept_requests, "MAX_REQUESTS", 3)
    for name in ("a", "b", "c", "d"):
        store.reinforce([entry.entry.id], 1, once(name)).result()
    assert store.reinforce([entry.entry.id], 1, once("b")).result().reply
    assert not store.reinforce([entry.entry.id], 1, once("a")).result().reply
    monkeypatch.setattr(kept_requests, "MAX_AGE", -1)
    assert not store.reinforce([entry.entry.id], 1, once("e")).result().reply
    assert not store.reinforce([entry.entry.id], 1, once("d")).result().reply


def test_a_store_of_the_schema_before_opens(tmp_path: Path) -> None:
    """What is in it stays, and calls count once from then on."""
    with opened(tmp_path) as store:
        put(store, Draft(NOTES, content="- drinks tea\n"))
        (entry,) = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    with closing(connect(tmp_path / "store.sqlite3")) as db:
        db.executescript(WITHOUT_DIGESTS)
        db.execute("DROP TABLE requests")
        db.execute("PRAGMA user_version = 2")
    with opened(tmp_path) as store:
        assert store.get(NOTES).content == "- drinks tea\n"
        store.reinforce([entry.entry.id], 1, once("a")).result()
        assert store.reinforce([entry.entry.id], 1, once("a")).result().reply
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_remember_and_reinforce_with_a_name_count_once(client: MessageClient) -> None:
    """Each repetition gets the same answer; without a name each call counts."""
    name = str(uuid.uuid4())
    first = client.remember("drinks tea", uri=NOTES, request_id=name)
    assert client.remember("drinks tea", uri=NOTES, request_id=name) == first
    reinforced = client.reinforce(first.id, by=2, request_id="r 1")
    assert reinforced.reinforcements == [2]
    assert client.reinforce(first.id, by=2, request_id="r 1") == reinforced
    assert client.reinforce(first.id, by=2).reinforcements == [4]
    assert client.reinforce(first.id, by=2).reinforcements == [6]
    said_again = client.remember("Drinks tea.", uri=NOTES)
    assert said_again.outcome == memories_pb2.REMEMBER_OUTCOME_REINFORCED
    for call in (
        lambda: client.remember("drinks milk", uri=NOTES, request_id=name),
        lambda: client.reinforce(first.id, by=3, request_id="r 1"),
        lambda: client.reinforce(first.id, request_id=name),
        lambda: client.reinforce(first.id, request_id="x" * 65),
        lambda: client.reinforce(first.id, request_id="\n"),
        lambda: client.remember("drinks tea", uri=NOTES, request_id="é"),
    ):
        with pytest.raises(InvalidField) as caught:
            call()
        assert [v.field for v in caught.value.field_violations] == ["request_id"]
    assert client.reinforce(first.id, by=1).reinforcements == [8]


def test_64_repetitions_at_once_count_once(client: MessageClient) -> None:
    """All get one answer."""
    with ThreadPoolExecutor(16) as pool:
        replies = list(
            pool.map(lambda _: client.remember("t", uri=NOTES, request_id="same"), range(64))
        )
    assert all(reply == replies[0] for reply in replies)
    assert replies[0].outcome == memories_pb2.REMEMBER_OUTCOME_ADDED


# Over the wire


def test_masks_and_revisions_go_over_the_wire(typed: Client) -> None:
    """Bad masks are refused by their path."""
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
    assert typed.delete(f"{DOCS}/tea.md", allow_missing=True).deleted == 0


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**60 + 1, 10**400])
def test_an_integer_that_would_be_rounded_is_not_sent(typed: Client, number: int) -> None:
    """The error names its key, in metadata and in filters."""
    for call in (
        lambda: typed.put([Draft(TEA, metadata={"a": {"b": [1, number]}})]),
        lambda: typed.find("x", where={"a": {"b": [1, number]}}),
    ):
        with pytest.raises(Unsendable, match=r"^a\.b\[1\]: .*string"):
            call()


@pytest.mark.parametrize("number", [2.0**53, -(2.0**63), 1e300])
def test_a_number_that_may_be_rounded_is_refused(typed: Client, number: float) -> None:
    """On the wire a double does not say whether it was an integer."""
    calls: list[tuple[str, Callable[[], object]]] = [
        ("contexts[0].metadata.a[0]", lambda: typed.put([Draft(TEA, metadata={"a": [number]})])),
        ("where.a", lambda: typed.find("x", where={"a": number})),
        ("where.a.$gte", lambda: typed.retrieve("x", where={"a": {"$gte": number}})),
    ]
    for field, call in calls:
        with pytest.raises(InvalidField, match="string") as caught:
            call()
        assert [v.field for v in caught.value.field_violations] == [field]
    typed.put([Draft(TEA, metadata={"a": 2**53 - 1, "b": 1 - 2**53, "c": 0.1})])
    assert typed.get(TEA).metadata == {"a": 2**53 - 1, "b": 1 - 2**53, "c": 0.1}


def test_an_import_says_which_file_has_such_a_number(typed: Client, tmp_path: Path) -> None:
    """Of front matter as text, of JSON lines by the line; the others go in."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(f"---\nid: {2**60 + 1}\n---\n# A\n")
    (tmp_path / "docs" / "b.md").write_text("---\nid: 7\n---\n# B\n")
    summary = typed.import_path(tmp_path / "docs", DOCS)
    assert [(f.uri, "metadata.id" in f.reason) for f in summary.as_text] == [(f"{DOCS}/a.md", True)]
    assert typed.get(f"{DOCS}/b.md").metadata == {"id": 7}
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f'{{"uri": "{TEA}", "text": "x", "n": {2**53}}}\n')
    (unread,) = typed.import_path(lines).unreadable
    assert "metadata.n" in unread.reason


def test_an_import_empties_a_file_that_was_emptied(typed: Client, tmp_path: Path) -> None:
    """What stands in the store is what the files say."""
    (tmp_path / "a.txt").write_text("some text\n")
    typed.import_path(tmp_path, DOCS)
    (tmp_path / "a.txt").write_text("")
    summary = typed.import_path(tmp_path, DOCS)
    assert (summary.updated, summary.failed) == (1, [])
    assert typed.get(f"{DOCS}/a.txt").content == ""


def test_a_link_to_a_uri_with_a_slash_at_its_end_is_imported(typed: Client, tmp_path: Path) -> None:
    """Such a URI names the context without it."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text(
        f'{{"uri": "{DOCS}/", "metadata": {{}}, "relations": [{{"to": "{TEA}/"}}]}}\n'
        f'{{"uri": "{TEA}", "metadata": {{}}, "text": "x"}}\n'
    )
    assert typed.import_path(lines).linked == 1
    assert [r.uri for r in typed.get(TEA).relations] == [DOCS]


def test_vikingctl_puts_metadata_alone(ctl: Callable[..., Any], client: MessageClient) -> None:
    """The content stays, and stdin is not read."""
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
    """A new title writes the texts anew, and the memories with what is known of them."""
    put(store, Draft(NOTES, content="- drinks tea\n- likes rain\n"))
    first, _ = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    store.reinforce([first.entry.id], 5).result()
    put(store, Draft(NOTES, title="Notes", update_mask=["title"]))
    again, other = store.memory_file(NOTES).entries  # type: ignore[union-attr]
    assert (again.entry.id, again.entry.reinforcement) == (first.entry.id, 5)
    assert isinstance(other.entry, Entry)


def test_a_client_error_tells_the_revisions(client: MessageClient) -> None:
    """For programs, in the metadata."""
    client.put([Draft(TEA, content="x")])
    revision = client.get(TEA).context.revision
    with pytest.raises(ClientError) as caught:
        client.put([Draft(TEA, content="y", expected_revision=0)])
    assert caught.value.code is grpc.StatusCode.ABORTED
    assert caught.value.metadata == {
        "uri": TEA,
        "expected_revision": "0",
        "revision": str(revision),
    }
