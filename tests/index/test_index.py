"""The whole index: snapshots, commits, compaction and restarts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from viking_kernels import find as kernel
from viking_kernels.arrays import decode_file
from viking_kernels.bm25 import postings

from tests.kernels import naive
from tests.kernels.naive import files_below, walk
from tests.kernels.trees import Shape, World, build, check_contents, search, shapes
from tests.tiers import examples
from vikingd.domain.errors import Corrupt
from vikingd.domain.store_changes import Filled, IndexedText, Remove, Upsert
from vikingd.domain.text import LATIN
from vikingd.index.index import Index
from vikingd.index.lexicon.tokens import term_hash
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot

few = examples(20)
METHODS = (kernel.EXHAUSTIVE, kernel.BEST_FIRST, kernel.EXACT)

Answer = tuple[list[str], list[list[float]]]


def answers(snapshot: Snapshot, uri: str, queries: list[naive.Query]) -> list[Answer]:
    """Return the results of every method for some queries: URIs and scores."""
    out = []
    for query in queries:
        for method in METHODS:
            found = search(snapshot, uri, query, method)
            uris = [snapshot.file_uri(int(row)) for row in found.rows]
            order = sorted(range(len(uris)), key=lambda i: uris[i])
            out.append(([uris[i] for i in order], found.parts[order].tolist()))
    return out


@few
@given(shapes)
def test_the_index_holds_the_tree(shape):
    """The index finds exactly the living contexts by URI, with the ids and URIs of the store."""
    world = build(shape)
    snapshot = world.snapshot
    directories, files = list(walk(world.root)), files_below(world.root)
    for directory in directories:
        row = snapshot.find(directory.uri)
        assert row is not None
        assert row >= 0
        assert int(snapshot.dir_id[row]) == directory.id
        assert snapshot.directory_uri(row) == directory.uri
        gone = f"{directory.uri.rstrip('/')}/nobody"
        assert snapshot.find(gone) is None
    for file in files:
        row = snapshot.find(file.uri)
        assert row is not None
        assert row < 0
        assert int(snapshot.file_id[decode_file(row)]) == file.id
        assert snapshot.file_uri(decode_file(row)) == file.uri
    assert (snapshot.tree.files.tombstoned > snapshot.revision).sum() == len(files)
    assert (snapshot.tree.directories.tombstoned > snapshot.revision).sum() == len(directories)
    world.close()


@few
@given(shapes)
def test_an_old_snapshot_stays_as_it_was(shape):
    """Later commits and compactions change no result of an old snapshot."""
    world = build(shape)
    old = world.snapshot
    uris = [directory.uri for directory in walk(world.root)]
    queries = [world.query() for _ in range(2)]
    before = [answers(old, uri, queries) for uri in uris[:3]]
    counts = old.counts(0).tolist()
    keys = [term_hash(term) for term in ("status", "42", "memori")]
    scope = old.scope(0)[0]
    held = [old.has_term(key, scope) for key in keys]
    world.step(20)
    world.commit([Remove(d.uri) for d in world.root.directories.values()])
    world.root.directories.clear()
    world.step(10)
    assert [answers(old, uri, queries) for uri in uris[:3]] == before
    world.compact()
    world.step(10)
    assert [answers(old, uri, queries) for uri in uris[:3]] == before
    assert [old.find(uri) is not None for uri in uris] == [True] * len(uris)
    assert [old.has_term(key, scope) for key in keys] == held
    assert old.counts(0).tolist() == counts
    check_contents(old)
    world.close()


@few
@given(shapes)
@example(Shape(2912, (23,), 0, "mixed", False))  # the icc is 1/4 up to rounding
def test_compaction_changes_no_result(shape):
    """After a compaction, the exact method finds the same files, with scores within 1e-6."""
    world = build(shape)
    world.step(12)
    uris = [directory.uri for directory in walk(world.root)][:3]
    queries = [world.query() for _ in range(2)]
    before = [answers(world.snapshot, uri, queries) for uri in uris]
    check_contents(world.snapshot)
    world.compact()
    check_contents(world.snapshot)
    after = [answers(world.snapshot, uri, queries) for uri in uris]
    exact = METHODS.index(kernel.EXACT)
    for there, here in zip(before, after, strict=True):
        for i, (old, new) in enumerate(zip(there, here, strict=True)):
            if i % len(METHODS) == exact:
                assert new[0] == old[0]
                np.testing.assert_allclose(new[1], old[1], atol=1e-6)
    world.close()


def test_a_term_is_there_while_a_living_text_has_it():
    """A scope has a term only while a living text below it has the term, in base and tail."""
    world = World(1)
    world.commit(
        [
            world.put("viking://a", True, []),
            world.put("viking://b", True, []),
            world.put("viking://a/x", False, [(LATIN, "E4102", b"")]),
        ]
    )
    for _ in range(2):
        for uri, there in (("viking://", True), ("viking://a", True), ("viking://b", False)):
            snapshot, scope, _ = world.scope_of(world.directory(uri))
            assert snapshot.has_term(term_hash("e4102"), scope) == there
            assert not snapshot.has_term(term_hash("e4103"), scope)
        world.compact()
    world.commit([Remove("viking://a/x"), world.put("viking://b/y", False, [(LATIN, "E5", b"")])])
    world.commit([Remove("viking://b/y")])
    snapshot, scope, _ = world.scope_of(world.root)
    assert not snapshot.has_term(term_hash("e4102"), scope)
    assert not snapshot.has_term(term_hash("e5"), scope)
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_an_old_snapshot_finds_what_was_replaced_since(compacted):
    """A context that is removed and put again has a new row, and the old row stays."""
    world = World(8)
    world.commit([world.put("viking://a", True, []), world.put("viking://a/x", False, [])])
    if compacted:
        world.compact()
    old = world.snapshot
    uris = ("viking://a", "viking://a/x")
    before = [old.find(uri) for uri in uris]
    del world.root.directories["a"]
    again = [world.put("viking://a", True, []), world.put("viking://a/x", False, [])]
    world.commit([Remove("viking://a"), *again])
    new = [world.snapshot.find(uri) for uri in uris]
    assert None not in (*before, *new)
    assert [old.find(uri) for uri in uris] == before
    assert new != before
    world.commit([Remove("viking://a")])
    assert [old.find(uri) for uri in uris] == before
    assert [world.snapshot.find(uri) for uri in uris] == [None, None]
    world.close()


def test_a_rewritten_file_leaves_the_next_directory_its_abstract():
    """The texts of a directory's last file end before the abstract of the next directory."""
    world = World(2)
    text = (LATIN, "status", world.vector(LATIN))
    world.commit(
        [
            world.put("viking://a", True, [text]),
            world.put("viking://a/z", False, [text]),
            world.put("viking://b", True, [text]),
        ]
    )
    world.compact()
    world.commit([world.put("viking://a/z", False, [text, text])])
    alive = world.snapshot.tree.texts.tombstoned > world.revision
    assert alive.sum() == 4
    world.compact()
    assert sorted(world.snapshot.text_id.tolist()) == sorted(
        text.id for text in naive.texts_below(world.root)
    )
    world.close()


def test_directories_alone_are_compacted():
    """A tree with abstracts and without files is compacted."""
    world = World(3)
    world.commit([world.put("viking://a", True, [(LATIN, "status", world.vector(LATIN))])])
    world.compact()
    assert world.snapshot.generation == 1
    assert world.snapshot.counts(0)[2] == 1
    world.close()


def test_an_index_that_was_loaded_is_the_one_that_was_saved():
    """A loaded index returns the results of the saved one, and takes commits."""
    world = World(4)
    world.step(30)
    world.compact()
    query = world.query()
    before = answers(world.snapshot, "viking://", [query])
    other = Index(Path(world.folder.name), "model", world.prior, IndexSettings())
    assert other.load()
    assert answers(other.snapshot, "viking://", [query]) == before
    world.index = other
    world.step(10)
    world.compact()
    assert world.snapshot.generation == 2
    with pytest.raises(Corrupt):
        Index(Path(world.folder.name), "another", world.prior, IndexSettings()).load()
    world.close()


def test_the_first_vector_says_the_dimension():
    """The first vector sets the dimension of an index; vectors of another length are refused."""
    world = World(5)
    index = Index(Path(world.folder.name), "model", np.zeros((8, 0), np.float32), IndexSettings())
    text = IndexedText(1, 0, LATIN, "status", b"", True)
    index.apply([Upsert(1, "viking://a", True, "", "", {}, (text,))], 1)
    assert index.snapshot.dimension == 0
    index.apply([Filled(1, world.vector(LATIN))], 2)
    assert index.snapshot.dimension == 16
    query = naive.Query(np.ones(16), LATIN, {"status": 1.0})
    found = search(index.snapshot, "viking://", query)
    assert np.isfinite(found.directories).all()
    with pytest.raises(Corrupt):
        index.apply(
            [
                Upsert(
                    2,
                    "viking://b",
                    True,
                    "",
                    "",
                    {},
                    (IndexedText(2, 0, LATIN, "", b"\0" * 8, True),),
                )
            ],
            3,
        )
    index.close()
    world.close()


def test_what_does_not_fit_is_refused():
    """The index refuses a context without a parent, and a file in place of a directory."""
    world = World(6)
    world.commit([world.put("viking://a", True, [])])
    for change in (
        Upsert(9, "viking://x/y", False, "", "", {}, ()),
        Upsert(9, "viking://a", False, "", "", {}, ()),
    ):
        with pytest.raises(Corrupt):
            world.index.apply([change], world.revision + 1)
    world.close()


def test_readers_and_compactions_beside_the_writer():
    """Readers see whole commits only, and compactions lose nothing."""
    world = World(7, minimum=60)
    world.commit([world.put("viking://a", True, []), world.put("viking://b", True, [])])
    query = naive.Query(None, LATIN, {"status": 1.0})
    done = threading.Event()
    torn: list[object] = []

    def read() -> None:
        try:
            while not done.is_set():
                snapshot = world.snapshot
                pair = [int(snapshot.counts(snapshot.find(f"viking://{d}"))[0]) for d in "ab"]
                found = search(snapshot, "viking://", query)
                if pair[0] != pair[1] or len(found.rows) != sum(pair):
                    torn.append((pair, len(found.rows)))
                check_contents(snapshot)
        except BaseException as error:
            torn.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(60):
        names = [f"viking://{d}/{'z' if i % 2 else 'c'}{99 - i}" for d in "ab"]
        changes = [world.put(uri, False, [(LATIN, "status", b"")] * 3) for uri in names]
        world.commit(changes)
    done.set()
    for reader in readers:
        reader.join()
    world.index.close()
    assert torn == []
    assert world.index.state().problem == ""
    world.compact()
    assert world.snapshot.generation > 1
    assert world.snapshot.counts(0)[0] == 120
    found = search(world.snapshot, "viking://", query)
    assert len(found.rows) == 120
    world.close()


@pytest.mark.parametrize("compacted", [False, True])
def test_frequencies_saturate_and_the_length_does_not(compacted):
    """A term frequency is at most 65,535; the length of a text is not limited."""
    world = World(8)
    world.commit([world.put("viking://a", False, [(LATIN, "word " * 70_000, b"")])])
    if compacted:
        world.compact()
    key = np.array([term_hash("word")], np.uint64)
    terms = world.snapshot.terms(key, np.ones(1, np.float32))
    first, last = postings(terms, 0)
    assert (terms.base_tf[first:last].tolist() + terms.tail_tf.tolist()) == [65_535]
    assert 70_000 in world.snapshot.tree.texts.length.tolist()
    world.close()


@pytest.mark.parametrize("directories", [False, True])
def test_what_grows_without_a_text_is_folded_too(tmp_path: Path, directories: bool):
    """Added and removed directories, or rewritten metadata, start a compaction without any text."""
    index = Index(tmp_path, "model", np.zeros((8, 16), np.float32), IndexSettings(compact_min=50))
    for revision in range(1, 121):
        uri = f"viking://{revision if directories else 'a'}"
        upsert = Upsert(revision, uri, True, "", "", {"said": revision}, ())
        index.apply([upsert, Remove(uri)] if directories else [upsert], revision)
    index.close()
    assert index.state().generation > 0


@pytest.mark.parametrize("compacted", [False, True])
def test_numbers_that_no_snapshot_shows_are_used_again(tmp_path: Path, compacted: bool):
    """Slots of statistics are used again, except those of a snapshot that is still held."""
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(100, 16)).astype("<f4")

    def opened(name: str) -> Index:
        prior, settings = np.zeros((8, 16), np.float32), IndexSettings(compact_min=10**6)
        index = Index(tmp_path / name, "model", prior, settings)
        paths = ["a", "a/b", "d"]
        index.apply([Upsert(i, f"viking://{paths[i]}", True, "", "", {}, ()) for i in range(3)], 1)
        return index

    def write(index: Index, revision: int) -> None:
        """Write below `a`, and in odd revisions below `d`, so that commits need different slots."""
        upserts = []
        for number, uri in enumerate(["viking://a/b/c.md", "viking://d/e.md"][: 1 + revision % 2]):
            vector = vectors[revision - number].tobytes()
            text = IndexedText(revision, 0, LATIN, f"word{revision}", vector, True, "", 0, "")
            upserts.append(Upsert(9 + number, uri, False, "", "", {}, (text,)))
        index.apply(upserts, revision)

    def numbers(snapshot: Snapshot) -> list[tuple[list[int], list[float]]]:
        held, out = snapshot.stats, []
        for row in range(len(held.slot)):
            slot = held.slot[row]
            mean = snapshot.mean_row(int(held.centroid_slot[slot, LATIN]))
            out.append((held.counts[slot].tolist(), mean.tolist()))
        return out

    index = opened("one")
    write(index, 3)
    if compacted:
        index.compact()
    stats = index._tail.stats
    kept: list[tuple[Snapshot, list[tuple[list[int], list[float]]]]] = []
    ends = []
    for revision in range(4, 44):
        write(index, revision)
        if revision in (11, 14, 20):
            kept.append((index.snapshot, numbers(index.snapshot)))
        if revision == 16:
            del kept[1]  # the older snapshot is still held
        if revision == 30:
            assert all(numbers(snapshot) == then for snapshot, then in kept)
            kept.clear()
        ends.append((stats.slots.end, stats.means.end))
    assert ends[30] == ends[-1]
    assert len(set(ends)) > 5
    other = opened("other")
    write(other, 43)
    assert numbers(index.snapshot) == numbers(other.snapshot)
    index.close()
    other.close()
