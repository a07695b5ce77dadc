"""Reads of the store, the change feed, and the opening of a store."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.store_helpers import (
    DOCS,
    GUIDE,
    ONE,
    TWO,
    Mirror,
    file,
    linked,
    opened,
    put,
    scanned,
    text_ids,
    uris,
)
from vikingd.domain.answers import UNBOUNDED, ReplyBudget
from vikingd.domain.contexts import Context, Passage
from vikingd.domain.errors import (
    Corrupt,
    DeadlinePassed,
    InvalidField,
    NotFound,
    StoreDamaged,
    StoreInUse,
    StoreMismatch,
    TooLarge,
)
from vikingd.domain.store_changes import Filled, Remove
from vikingd.domain.uri import ROOT
from vikingd.store import Store, StoreCounts, page_token
from vikingd.store.sqlite import sqlite_schema as schema

pytestmark = pytest.mark.stores


def test_a_new_store_has_the_root(store: Store) -> None:
    """A new store has the root at revision 1, so a listing is never NotFound."""
    assert store.revision == 1
    assert uris(store.tree(ROOT, 0, "", 9)) == [ROOT]
    assert store.children(ROOT, "", 9) == []
    changes, revision = store.changes_since(0)
    assert (changes, revision) == (list(store.scan()), 1)


def test_a_walk_over_parts_is_in_the_order_of_uris(store: Store) -> None:
    """Subtrees interleave: a-b sorts between a and a/c. Texts come in the order of their ids."""
    names = ("a/c", "a-b/c", "a-b", "ab", "a", "a/0")
    put(store, *(file(f"{DOCS}/{name}/{name[-1]}.md", name, abstract="é") for name in names))
    parts = (f"{DOCS}/a-b", f"{DOCS}/a", f"{DOCS}/missing")
    below = [uri for uri in uris(store.tree(DOCS, 0, "", 99)) if f"{uri}/".startswith(
        tuple(f"{part}/" for part in parts))]  # fmt: skip
    with store.walking(DOCS, parts) as walk:
        nodes = list(walk.nodes("", DOCS))
        assert [node.uri for node in nodes] == below
        assert [node.uri for node in nodes if not node.is_directory] == [
            node.uri for node in walk.nodes("", DOCS, directories=False)
        ]
        for since in (*below, f"{DOCS}/a.", f"{DOCS}/b"):
            rest = [uri for uri in below if uri >= since]
            assert [node.uri for node in walk.nodes(since, DOCS)] == rest
        within = [uri for uri in below if f"{uri}/".startswith(f"{DOCS}/a/c/")]
        assert [node.uri for node in walk.nodes("", f"{DOCS}/a/c")] == within
        files = [node for node in nodes if not node.is_directory][::-1]
        texts = [store.get(node.uri) for node in files]
        assert list(walk.texts([node.id for node in files])) == [
            (text.abstract.encode(), text.content.encode()) for text in texts
        ]
        assert (walk.revision, walk.is_of_file) == (store.revision, False)
    with store.walking(files[0].uri, (files[0].uri,)) as walk:
        assert walk.is_of_file
    for missing in ((), (f"{DOCS}/missing",)):
        with pytest.raises(NotFound), store.walking(DOCS, missing):
            pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, DeadlinePassed])
def test_a_read_that_ends_midway_leaves_no_old_revision(
    store: Store, error: type[BaseException]
) -> None:
    """A later read sees the newest revision while the error of an earlier one is still held."""
    put(store, *(file(f"{DOCS}/{number}.md", "x") for number in range(9)))

    def fits(context: Context) -> bool:
        if context.uri.endswith("/3.md"):
            raise error("no longer wanted")
        return True

    with pytest.raises(error) as held:
        store.tree(DOCS, 0, "", 99, fits)
    put(store, file(f"{DOCS}/new.md", "x"))
    assert f"{DOCS}/new.md" in uris(store.tree(DOCS, 0, "", 99))
    assert held.value is not None


def test_get_of_nothing(store: Store) -> None:
    """Every read of a missing context is NotFound."""
    for read in (
        lambda: store.get(DOCS),
        lambda: store.children(DOCS, "", 9),
        lambda: store.tree(DOCS, 0, "", 9),
    ):
        with pytest.raises(NotFound):
            read()


@pytest.mark.parametrize(
    "read",
    [
        lambda store, room: store.passages_of({GUIDE: [1, 2]}, room),
        lambda store, room: store.texts_of([GUIDE], room, with_content=True),
        lambda store, room: store.texts_of([GUIDE], room, with_content=False),
    ],
    ids=["passages", "whole texts", "summaries"],
)
def test_sources_for_which_there_is_no_room_are_refused(
    store: Store, read: Callable[[Store, ReplyBudget], object]
) -> None:
    """A reading of exactly the limit is accepted, and one byte more is refused with a remedy."""
    put(store, file(GUIDE, "first\nsecond\n", overview="All of it", abstract="Some of it"))
    room = ReplyBudget(1000)
    assert read(store, room)
    used = room.limit - room.left
    assert used > 10
    assert read(store, ReplyBudget(used))
    with pytest.raises(TooLarge, match=rf"more than {used - 1} bytes .* ask for fewer"):
        read(store, ReplyBudget(used - 1))


def test_passages_of_a_long_file_are_read_in_one_reading(store: Store) -> None:
    """Thousands of passages of long files are read in less than a second."""
    words = [f"{i:09}".replace("0", "零") for i in range(100_000)]
    cut = [Passage("", 10 * i, 10 * i + 9) for i in range(0, 100_000, 25)]
    guide, memories = f"{DOCS}/a.md", "viking://user/memories/a.md"
    put(store, *(file(uri, " ".join(words), passages=cut) for uri in (guide, memories)))
    began = time.process_time()
    passages = store.passages_of({guide: range(1, 4001)}, ReplyBudget(UNBOUNDED))
    entries = store.memories_below("viking://user/memories")
    assert time.process_time() - began < 1
    assert [text for _, text, _, _, _ in passages.values()] == words[::25]
    assert [entry.passage for entry in entries] == words[::25]
    assert [entry.ordinal for entry in entries] == list(range(1, 4001))


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_children_page_by_page(store: Store, limit: int) -> None:
    """Files come before directories, each by name, without deeper levels."""
    put(store, *(file(f"{DOCS}/{name}", abstract="x") for name in ("b", "é", "z/1", "a/1", "C")))
    pages: list[Context] = []
    while page := store.children(DOCS, page_token(pages[-1]) if pages else "", limit):
        assert len(page) <= limit
        pages.extend(page)
    assert uris(pages) == [f"{DOCS}/{name}" for name in ("C", "b", "é", "a", "z")]
    with pytest.raises(InvalidField, match="is a file"):
        store.children(f"{DOCS}/b", "", 9)


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize(
    ("top", "depth", "expected"),
    [
        (ROOT, 1, [ROOT, "viking://resources"]),
        (ROOT, 2, [ROOT, "viking://resources", DOCS]),
        (DOCS, 0, [DOCS, *(f"{DOCS}/{name}" for name in ("a", "a!", "a/1", "a/b", "a/b/2", "c"))]),
        (DOCS, 1, [DOCS, f"{DOCS}/a", f"{DOCS}/a!", f"{DOCS}/c"]),
        (f"{DOCS}/a", 0, [f"{DOCS}/{name}" for name in ("a", "a/1", "a/b", "a/b/2")]),
        (f"{DOCS}/c", 1, [f"{DOCS}/c"]),
    ],
)
def test_tree_page_by_page(
    store: Store, top: str, depth: int, expected: list[str], limit: int
) -> None:
    """A subtree comes by URI, down to a depth, independent of the page size."""
    put(store, *(file(f"{DOCS}/{name}") for name in ("a/b/2", "a/1", "a!", "c")))
    pages: list[Context] = []
    while page := store.tree(top, depth, page_token(pages[-1]) if pages else "", limit):
        assert len(page) <= limit
        pages.extend(page)
    assert uris(pages) == expected


def test_a_page_token_that_nobody_gave(store: Store) -> None:
    """A wrong token is refused, so that no page lacks a context."""
    for read in (store.children, lambda uri, *rest: store.tree(uri, 0, *rest)):
        with pytest.raises(InvalidField, match="page_token"):
            read(ROOT, ROOT, 9)


def test_the_feed_brings_what_a_reply_shows(tmp_path: Path) -> None:
    """The live feed and a scan have the abstract, the sections and the passages of a file."""
    content = "héllo 😀 one\n二 two\n"
    passages = (Passage("A > B", 0, 12), Passage("", 12, 18))
    heard = Mirror()
    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        store.start(heard.apply)
        put(store, file(GUIDE, content, abstract="A guide", title="T", passages=passages))
        for upsert in (heard[GUIDE], scanned(store)[GUIDE]):
            assert upsert.abstract == "A guide"
            assert [(t.section, t.start, t.passage) for t in upsert.texts] == [
                ("", 0, ""),
                ("A > B", 0, "héllo 😀 one\n"),
                ("", 12, "二 two\n"),
            ]


def test_all_links(store: Store) -> None:
    """Each link comes once, by URI, in either direction of its creation."""
    names = "cab"
    put(store, file(GUIDE), *(file(f"{DOCS}/{name}", abstract=name) for name in names))
    assert linked(store) == []
    for name in names:
        store.link(GUIDE, f"{DOCS}/{name}", name).result()
    assert sorted((*sorted((link.uri, link.other)), link.reason) for link in linked(store)) == [
        (f"{DOCS}/{name}", GUIDE, name) for name in "abc"
    ]
    assert len(store.get(GUIDE).relations) == 3


def test_counts(sqlite_store: Store, tmp_path: Path) -> None:
    """The counts are directories, files, texts, vectors, links, and bytes of database and log."""
    put(sqlite_store, file(GUIDE, "one\n", abstract="A", vector=ONE), file(f"{DOCS}/b"))
    sqlite_store.link(GUIDE, DOCS, "").result()
    size = sum(path.stat().st_size for path in tmp_path.glob("store.sqlite3*"))
    assert sqlite_store.counts() == StoreCounts(3, 2, 2, 1, 1, size)


def test_a_scan_sees_one_revision(store: Store) -> None:
    """Writes during a scan change neither the scan nor other open reads."""
    put(store, *(file(f"{DOCS}/{i:03}", "x") for i in range(200)))
    expected = list(store.scan())
    scan = store.scan()
    first = next(scan)
    store.delete([DOCS]).result()
    with pytest.raises(NotFound):
        store.get(DOCS)
    assert [first, *scan] == expected


def test_what_stands_at_a_revision_is_that_of_no_other(store: Store) -> None:
    """A read at a revision has exactly its contexts and links, in spite of concurrent writes."""
    put(store, *(file(f"{DOCS}/{name}", name) for name in "ab"))
    revision = store.link(f"{DOCS}/a", f"{DOCS}/b", "why").result().revision
    for other in (revision - 1, revision + 1):
        with store.at_revision(other) as stored:
            assert stored is None
    expected, links = list(store.scan()), linked(store)
    with store.at_revision(revision) as stored:
        assert stored is not None
        store.delete([DOCS]).result()
        assert (list(stored[0]), stored[1]) == (expected, links)
    with store.at_revision(revision) as stored:
        assert stored is None


def test_changes_since(store: Store) -> None:
    """Changes are removals, then complete contexts by URI, then vectors of unchanged contexts."""
    put(store, *(file(f"{DOCS}/{name}", name) for name in "abc"))
    _, revision = store.changes_since(store.revision)
    store.fill([(text_ids(store, f"{DOCS}/{name}")[0], ONE) for name in "ab"]).result()
    put(store, file(f"{DOCS}/b", "new"))
    store.delete([f"{DOCS}/c"]).result()
    put(store, file(f"{DOCS}/c", "again"), file(f"{DOCS}/d", abstract="D", vector=TWO))
    changes, now = store.changes_since(revision)
    after = scanned(store)
    assert now == store.revision
    assert changes == [
        Remove(f"{DOCS}/c"),
        after[f"{DOCS}/b"],
        after[f"{DOCS}/c"],
        after[f"{DOCS}/d"],
        Filled(text_ids(store, f"{DOCS}/a")[0], ONE),
    ]
    assert store.changes_since(now) == ([], now)


def test_forgotten_removals(sqlite_store: Store) -> None:
    """A follower that is too far behind gets an error, so it keeps no deleted context."""
    put(sqlite_store, file(GUIDE))
    sqlite_store.delete([GUIDE]).result()
    sqlite_store.forget_removals(3)
    sqlite_store.delete([DOCS]).result()
    assert sqlite_store.changes_since(3) == ([Remove(DOCS)], 4)
    with pytest.raises(Corrupt, match="since revision 2"):
        sqlite_store.changes_since(2)
    assert sqlite_store.changes_since(0)[1] == 4


def test_meta(sqlite_store: Store, tmp_path: Path) -> None:
    """Values survive a restart and make no revision."""
    assert sqlite_store.get_meta("prior") is None
    sqlite_store.set_meta("prior", b"\x00\x01")
    sqlite_store.set_meta("prior", b"\x00\x02")
    sqlite_store.close()
    with opened(tmp_path) as sqlite_store:
        assert (sqlite_store.get_meta("prior"), sqlite_store.revision) == (b"\x00\x02", 1)


# Opening


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    """Contexts, ids and revision are the same after a restart, and no id is used twice."""
    with opened(tmp_path) as store:
        put(store, file(f"{DOCS}/a", "a", abstract="A", vector=ONE), file(f"{DOCS}/b", "b"))
        last = text_ids(store, f"{DOCS}/b")
        store.delete([f"{DOCS}/b"]).result()
        before, revision = scanned(store), store.revision
    with opened(tmp_path) as store:
        assert (scanned(store), store.revision) == (before, revision)
        put(store, file(f"{DOCS}/b", "b"))
        assert text_ids(store, f"{DOCS}/b") > last


def test_a_second_opener_is_refused(tmp_path: Path) -> None:
    """A second opening fails in any process until the first closes; the directory is private."""
    path = tmp_path / "new" / "store"
    script = (
        "import sys, pathlib; from vikingd.store import Store\n"
        "from vikingd.domain.errors import *\n"
        "try: Store(pathlib.Path(sys.argv[1]), model='m', dimension=2)\n"
        "except StoreInUse as error: print(error)"
    )
    with opened(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        with pytest.raises(StoreInUse, match=str(path)):
            Store(path, model="m", dimension=2)
        command = [sys.executable, "-c", script, str(path)]
        assert "in use" in subprocess.run(command, capture_output=True, text=True).stdout
    with opened(path) as store:
        assert store.revision == 1


@pytest.mark.parametrize(("model", "dimension"), [("other", 2), ("m", 3), ("none", None)])
def test_another_model_is_refused_or_drops_the_vectors(
    tmp_path: Path, model: str, dimension: int | None
) -> None:
    """A store of another model is refused, or drops its vectors with `reembed`."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one\n"), file(f"{DOCS}/b", abstract="B", vector=ONE))
        before = scanned(store)
    with pytest.raises(StoreMismatch) as error:
        Store(tmp_path, model=model, dimension=dimension)
    for part in ("m (2 dimensions)", f"{model} ({dimension or 'unknown'} ", "serve --reembed"):
        assert part in str(error.value)
    with opened(tmp_path) as store:
        assert scanned(store) == before
    with opened(tmp_path, model=model, dimension=dimension, reembed=True) as store:
        assert (store.revision, store.dimension, store.backlog_size().texts) == (3, dimension, 2)
        assert store.changes_since(2)[0] == [scanned(store)[f"{DOCS}/b"]]
        put(store, file(GUIDE, "two\n", abstract="A", vector=bytes(4 * (dimension or 4))))
    with opened(tmp_path, model=model, dimension=dimension, reembed=True) as store:
        assert store.counts().vectors == 1


def test_a_store_without_a_model_takes_any_while_it_has_no_vector(tmp_path: Path) -> None:
    """The first vector sets the dimension, which later vectors must have."""
    with opened(tmp_path, model="none", dimension=None) as store:
        put(store, file(GUIDE, "one\n"))
    with opened(tmp_path, model="none", dimension=None) as store:
        with pytest.raises(InvalidField):
            put(store, file(f"{DOCS}/a", vector=ONE + ONE), file(f"{GUIDE}/below"))
        assert store.dimension is None
        put(store, file(f"{DOCS}/a", abstract="A", vector=ONE))
        with pytest.raises(InvalidField, match="2 float32"):
            put(store, file(f"{DOCS}/b", vector=ONE + ONE))
    with opened(tmp_path, model="none", dimension=None) as store:
        assert store.dimension == 2
        store.delete([f"{DOCS}/a"]).result()
        put(store, file(f"{DOCS}/a", abstract="A"))
    with opened(tmp_path, model="m", dimension=3) as store:
        assert (store.dimension, store.revision) == (3, 5)


def test_migrations_and_their_record_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed migration changes nothing, a good one runs once, and a newer schema is refused."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE))
        before = scanned(store)
    bad = "CREATE TABLE extra (x); INSERT INTO extra VALUES (1); CREATE TABLE extra (y)"
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, bad])
    with pytest.raises(StoreDamaged, match="extra already exists"):
        Store(tmp_path, model="m", dimension=2)
    good = bad.rpartition(";")[0]
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS[:-1], good])
    for _ in range(2):
        with opened(tmp_path) as store:
            assert scanned(store) == before
    with sqlite3.connect(tmp_path / "store.sqlite3") as db:
        assert db.execute("SELECT x FROM extra").fetchall() == [(1,)]
        assert db.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
    db.close()
    monkeypatch.undo()
    with pytest.raises(StoreMismatch, match=f"schema {len(schema.MIGRATIONS) + 1}"):
        Store(tmp_path, model="m", dimension=2)
