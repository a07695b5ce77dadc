"""Single writes to the store, with real SQLite, no index and no embedder."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.store.store_helpers import (
    CREATED,
    DOCS,
    GUIDE,
    ONE,
    TWO,
    UNCHANGED,
    UPDATED,
    Mirror,
    directory,
    file,
    prepared,
    put,
    scanned,
    text_ids,
    uris,
    vectors,
)
from vikingd.domain.contexts import HAND, Context, Draft, Passage, Prepared, Relation, Text
from vikingd.domain.errors import AlreadyExists, InvalidField, NotFound, VikingError
from vikingd.domain.store_changes import Committed, Filled, Remove
from vikingd.domain.uri import ROOT
from vikingd.store import Store

pytestmark = pytest.mark.stores


def test_put_makes_the_directories_above(store: Store) -> None:
    """A put makes the missing directories above a file, in the same revision."""
    committed = put(store, file(GUIDE, "Read me."))
    assert committed.outcomes == (CREATED,)
    assert committed.revision == store.revision == 2
    assert list(scanned(store)) == [ROOT, "viking://resources", DOCS, GUIDE]
    assert store.get(DOCS).is_directory
    assert store.get(DOCS).revision == 2


def test_get_returns_what_was_put(store: Store) -> None:
    """A read returns every field that was written; its passages have no vectors."""
    draft = Draft(
        GUIDE,
        abstract="一篇",
        overview="long",
        content="α\nβ",
        title="Guide",
        time=77,
        metadata={"lang": "中文", "n": [1, None, 2.5]},
        passages=(Passage("A > B", 2, 3, ONE),),
    )
    put(store, prepared(draft))
    context = store.get(GUIDE)
    assert context.created_at == context.updated_at > 0
    assert context == Context(
        GUIDE,
        False,
        "一篇",
        "Guide",
        draft.metadata,
        77,
        context.created_at,
        context.updated_at,
        0,
        0,
        draft.content_hash(),
        2,
        "long",
        "α\nβ",
        (Passage("A > B", 2, 3),),
        abstract_by=HAND,
        overview_by=HAND,
    )


def test_put_again_changes_nothing(store: Store) -> None:
    """An equal put is UNCHANGED, makes no revision, and returns the texts without a vector."""
    first = put(store, file(GUIDE, "Read me."))
    again = put(store, file(GUIDE, "Read me."), directory(DOCS))
    assert again == Committed(first.revision, (UNCHANGED, UNCHANGED), text_ids=first.text_ids)
    assert len(first.text_ids) == 1


def test_put_of_new_vectors_is_an_update(store: Store) -> None:
    """The content hash ignores vectors, so a put compares them separately."""
    put(store, file(GUIDE, abstract="A guide", vector=ONE))
    assert put(store, file(GUIDE, abstract="A guide", vector=ONE)).outcomes == (UNCHANGED,)
    assert put(store, file(GUIDE, abstract="A guide")).outcomes == (UNCHANGED,)
    assert put(store, file(GUIDE, abstract="A guide", vector=TWO)).outcomes == (UPDATED,)
    assert vectors(store, GUIDE) == [TWO]


def test_update_keeps_what_is_not_written(store: Store) -> None:
    """Id, creation time and links survive an update; text ids are always new."""
    put(store, file(GUIDE, "one\n"), file(f"{DOCS}/b.md", "b"))
    store.link(GUIDE, DOCS, "why").result()
    before, upsert = store.get(GUIDE), scanned(store)[GUIDE]
    assert put(store, file(GUIDE, "one\ntwo\n")).outcomes == (UPDATED,)
    after = store.get(GUIDE)
    assert (after.created_at, after.time) == (before.created_at, before.time)
    assert after.updated_at > before.updated_at
    assert after.relations == (Relation(DOCS, "", "why"),)
    assert scanned(store)[GUIDE].context_id == upsert.context_id
    assert min(text_ids(store, GUIDE)) > max(text_ids(store, f"{DOCS}/b.md"))


def test_another_title_makes_other_texts(store: Store) -> None:
    """A new title makes new texts, even equal ones, because the index counts titles by text."""
    put(store, file(GUIDE, "x", abstract="Guide to it.", title="Guide"))
    before = scanned(store)[GUIDE]
    put(store, file(GUIDE, "x", abstract="Guide to it.", title="Guide to"))
    after = scanned(store)[GUIDE]
    assert after.texts[0].text == before.texts[0].text
    assert after.texts[0].text_id != before.texts[0].text_id
    assert (before.title, after.title) == ("Guide", "Guide to")


def test_update_keeps_the_vectors_of_equal_texts(store: Store) -> None:
    """A passage that only moved keeps its vector; an abstract equal to a passage gets its own."""
    put(store, file(GUIDE, "one\ntwo\n"))
    first, second = text_ids(store, GUIDE)
    store.fill([(first, ONE), (second, TWO)]).result()
    committed = put(store, file(GUIDE, "new\ntwo\none\n", abstract="two\n"))
    assert vectors(store, GUIDE) == [b"", b"", TWO, ONE]
    assert committed.text_ids == tuple(text_ids(store, GUIDE)[:2])


def test_texts_are_rebuilt_as_they_were_put(store: Store) -> None:
    """A scan returns each text as it was put, even if it cannot be derived from the context."""
    draft = Draft(GUIDE, content="a 😀 b", title="T", abstract="A")
    abstract = Text(0, "", 0, 0, "T\nA", 1)
    made = Text(1, "S", 2, 3, "T > S\n😀", 1)
    other = Text(2, "S", 2, 3, "something else", 1)
    put(store, Prepared(draft, "A", (abstract, made, other), draft.content_hash()))
    expected = [abstract.text, made.text, other.text]
    assert [text.text for text in scanned(store)[GUIDE].texts] == expected
    assert [waiting.text for waiting in store.backlog(9)] == [abstract.text, other.text, made.text]


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        ([directory(DOCS), directory(GUIDE)], "contexts[1].uri"),
        ([file(f"{DOCS}/b"), file(f"{GUIDE}/b")], "contexts[1].uri"),
        ([file(f"{DOCS}/b/c"), file(f"{DOCS}/b")], "contexts[0].uri"),
        ([file(DOCS)], "contexts[0].uri"),
        ([file(f"{DOCS}/b"), file(f"{DOCS}/b")], "contexts[1].uri"),
        ([file(f"{DOCS}/b"), file(f"{DOCS}/c", vector=ONE + ONE)], "contexts[1].vector"),
        (
            [file(f"{DOCS}/b", "ab", passages=(Passage("", 0, 1), Passage("", 1, 2, b"12345")))],
            "contexts[0].passages[1].vector",
        ),
    ],
)
def test_a_bad_put_changes_nothing(store: Store, batch: list[Prepared], field: str) -> None:
    """The error names the field, and no context of the batch is written."""
    put(store, file(GUIDE, "Read me."))
    before = scanned(store)
    with pytest.raises(InvalidField) as error:
        put(store, *batch)
    assert error.value.field == field
    assert scanned(store) == before
    assert store.revision == 2


def test_delete_takes_the_subtree_and_nothing_beside_it(store: Store) -> None:
    """URIs with only a common prefix stay; nested URIs of one call are counted once."""
    put(store, *(file(f"{DOCS}{tail}", "x") for tail in ("/a/b", "/a/c", "/a!/b", "/a.md", "/ab")))
    heard = Mirror()
    committed = store.delete([f"{DOCS}/a/b", f"{DOCS}/a!", f"{DOCS}/a", f"{DOCS}/a/b"]).result()
    assert committed.count == 5
    assert list(scanned(store))[3:] == [f"{DOCS}/a.md", f"{DOCS}/ab"]
    heard.apply(*store.changes_since(2))
    changes, _ = store.changes_since(2)
    assert changes == [Remove(f"{DOCS}/a"), Remove(f"{DOCS}/a!")]
    assert store.counts().texts == 2


def test_delete_of_roots(store: Store) -> None:
    """The root cannot be deleted; a typed root can, and the next put makes it again."""
    put(store, file(GUIDE))
    with pytest.raises(InvalidField, match="root"):
        store.delete([GUIDE, ROOT]).result()
    with pytest.raises(NotFound):
        store.delete([GUIDE, "viking://user"]).result()
    assert store.delete(["viking://resources"]).result().count == 3
    put(store, file(GUIDE))
    assert store.get("viking://resources").is_directory


def test_move_keeps_all_but_the_names(store: Store) -> None:
    """Ids, vectors, links and times move with the subtree, and its neighbours stay."""
    put(store, file(f"{DOCS}/a/x", "x", abstract="X", vector=ONE), file(f"{DOCS}/a!", "y"))
    store.link(f"{DOCS}/a/x", f"{DOCS}/a!", "").result()
    before = scanned(store)
    committed = store.move(f"{DOCS}/a", "viking://user/memories/new/b").result()
    after = scanned(store)
    assert committed.count == 2
    assert after["viking://user/memories/new/b/x"] == replace(
        before[f"{DOCS}/a/x"], uri="viking://user/memories/new/b/x"
    )
    assert f"{DOCS}/a/x" not in after
    assert after[f"{DOCS}/a!"] == before[f"{DOCS}/a!"]
    moved = store.get("viking://user/memories/new/b/x")
    assert moved.relations == (Relation(f"{DOCS}/a!", "", ""),)
    assert moved.revision == committed.revision
    assert uris(store.children("viking://user/memories/new", "", 9)) == [
        "viking://user/memories/new/b"
    ]


@pytest.mark.parametrize(
    ("source", "destination", "error"),
    [
        (ROOT, f"{DOCS}/x", InvalidField),
        ("viking://resources", "viking://user/memories/x", InvalidField),
        ("viking://projects/p/memories", f"{DOCS}/x", InvalidField),
        (GUIDE, "viking://projects/p", InvalidField),
        (GUIDE, "viking://agent/skills", InvalidField),
        (GUIDE, "viking://projects/q/memories", InvalidField),
        (DOCS, f"{DOCS}/x", InvalidField),
        (DOCS, "viking://resources/" + "x" * 1000, InvalidField),
        (DOCS, "viking://resources" + "/x" * 63, InvalidField),
        (f"{DOCS}/b", f"{GUIDE}/b", InvalidField),
        (f"{DOCS}/none", f"{DOCS}/x", NotFound),
        (f"{DOCS}/b", GUIDE, AlreadyExists),
        (GUIDE, GUIDE, AlreadyExists),
    ],
)
def test_a_bad_move_changes_nothing(
    store: Store, source: str, destination: str, error: type[VikingError]
) -> None:
    """Roots cannot be moved, URIs must be free and short enough, and files have no children."""
    put(store, file(GUIDE), file(f"{DOCS}/b"), file("viking://projects/p/memories/m"))
    before = scanned(store)
    with pytest.raises(error):
        store.move(source, destination).result()
    assert scanned(store) == before


def test_links(store: Store) -> None:
    """Both ends show a link, a second link replaces the reason, and a deleted end removes it."""
    put(store, *(file(f"{DOCS}/{name}", abstract=name) for name in "cab"))
    store.link(f"{DOCS}/a", f"{DOCS}/c", "old").result()
    revision = store.link(f"{DOCS}/c", f"{DOCS}/a", "new").result().revision
    assert store.link(f"{DOCS}/a", f"{DOCS}/c", "new").result().revision == revision
    store.link(f"{DOCS}/b", f"{DOCS}/a", "").result()
    assert store.get(f"{DOCS}/a").relations == (
        Relation(f"{DOCS}/b", "b", ""),
        Relation(f"{DOCS}/c", "c", "new"),
    )
    assert store.get(f"{DOCS}/c").relations == (Relation(f"{DOCS}/a", "a", "new"),)
    store.unlink(f"{DOCS}/a", f"{DOCS}/b").result()
    store.delete([f"{DOCS}/a"]).result()
    assert store.get(f"{DOCS}/c").relations == ()
    assert store.counts().relations == 0


def test_links_that_cannot_be(store: Store) -> None:
    """Both ends must exist and differ, and only an existing link can be removed."""
    put(store, file(GUIDE))
    with pytest.raises(InvalidField):
        store.link(GUIDE, GUIDE, "").result()
    with pytest.raises(NotFound):
        store.link(GUIDE, f"{DOCS}/none", "").result()
    with pytest.raises(NotFound, match="not linked"):
        store.unlink(GUIDE, DOCS).result()


def test_fill(store: Store) -> None:
    """Texts that are gone or have a vector are skipped, and a wrong size is refused."""
    put(store, file(GUIDE, "one\ntwo\n"))
    first, second = text_ids(store, GUIDE)
    revision = store.get(GUIDE).revision
    assert store.fill([(first, ONE), (999, ONE)]).result().count == 1
    committed = store.fill([(first, TWO), (second, TWO)]).result()
    assert committed.count == 1
    assert store.changes_since(committed.revision - 1)[0] == [Filled(second, TWO)]
    assert vectors(store, GUIDE) == [ONE, TWO]
    assert store.get(GUIDE).revision == revision
    assert store.waiting([first, second])[0] == store.backlog_size().texts == 0
    with pytest.raises(InvalidField, match="8 bytes"):
        store.fill([(first, b"1234")]).result()


def test_drop_vectors(store: Store) -> None:
    """The texts of a subtree wait again; neighbours and other writers' vectors stay."""
    put(
        store,
        file(f"{DOCS}/a", abstract="a", vector=ONE),
        file(f"{DOCS}/b", abstract="b", vector=ONE),
        file(f"{DOCS}/c", vector=ONE),
    )
    assert store.drop_vectors(f"{DOCS}/a").result().count == 1
    assert (vectors(store, f"{DOCS}/a"), vectors(store, f"{DOCS}/b")) == ([b""], [ONE])
    committed = store.drop_vectors(ROOT).result()
    assert committed.count == 1
    assert vectors(store, f"{DOCS}/c") == [ONE]
    changes, _ = store.changes_since(committed.revision - 1)
    assert changes == [scanned(store)[f"{DOCS}/b"]]
    with pytest.raises(NotFound):
        store.drop_vectors(f"{DOCS}/none").result()
