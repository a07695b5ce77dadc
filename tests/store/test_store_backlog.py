"""The texts that wait for their vector, and the reuse of vectors of equal texts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.store.store_helpers import DOCS, ONE, TWO, WITHOUT_DIGESTS, file, opened, put, scanned
from vikingd.store import Store
from vikingd.store.sqlite.sqlite_schema import DATABASE, connect

pytestmark = pytest.mark.stores


def test_backlog(store: Store) -> None:
    """Of one tree, abstracts come before passages; other texts do not wait."""
    put(store, file(f"{DOCS}/a", "a1\na2\n", abstract="A", title="T"))
    put(store, file(f"{DOCS}/b", abstract="B"), file(f"{DOCS}/c", abstract="C", vector=ONE))
    put(store, file(f"{DOCS}/d", vector=ONE))
    put(store, file(f"{DOCS}/e", " \n"))
    backlog = ["B", "T\nA", "T\na2\n", "T\na1\n"]
    assert [waiting.text for waiting in store.backlog(9)] == backlog
    assert [waiting.text for waiting in store.backlog(3)] == backlog[:3]
    ids = [waiting.text_id for waiting in store.backlog(9)]
    waiting, missing = store.waiting(ids[:2])[0], store.waiting([999])[0]
    assert (store.backlog_size().texts, waiting, missing) == (4, 2, 0)
    store.fill([(ids[0], ONE)]).result()
    assert [waiting.text_id for waiting in store.backlog(9)] == ids[1:]
    assert (store.backlog_size().texts, *store.waiting(ids[:2])) == (3, 1, store.revision)


def test_texts_that_are_asked_for_stand_first_in_the_backlog(store: Store) -> None:
    """Requested texts that wait come first, each once, in their own order."""
    put(store, file(f"{DOCS}/a", "a1\na2\n", abstract="A"), file(f"{DOCS}/b", abstract="B"))
    b, a, a2, a1 = (waiting.text_id for waiting in store.backlog(9))
    assert [w.text_id for w in store.backlog(9, [a1, a, 999])] == [a, a1, b, a2]
    assert [w.text_id for w in store.backlog(1, [a1, a])] == [a]
    store.fill([(a1, ONE)]).result()
    assert [w.text_id for w in store.backlog(9, [a1])] == [b, a, a2]


def test_two_imports_take_turns(store: Store) -> None:
    """A later import stops no earlier one, and each has its abstracts before its passages."""
    for tree in "ab":
        files = [f"viking://resources/{tree}/d/{number}" for number in range(40)]
        put(store, *(file(uri, f"passage {uri}\n", abstract=f"abstract {uri}") for uri in files))
    done: list[str] = []
    while group := store.backlog(8):
        done += [waiting.text.strip() for waiting in group]
        store.fill([(waiting.text_id, ONE) for waiting in group]).result()
    trees = [text.split("/")[3] for text in done]
    assert trees[:64] == ["b", "a"] * 32
    while len(set(trees)) == 2:
        assert 2 <= trees[:8].count("a") <= 6
        del trees[:8]
    assert len(trees) <= 8
    for tree in "ab":
        words = [text.split()[0] for text in done if f"/{tree}/" in text]
        assert words == ["abstract"] * 40 + ["passage"] * 40


def test_sources_wait_before_tests(store: Store) -> None:
    """Tests and other late kinds of a tree come behind all others, in whatever order they came."""
    kinds = [
        "test",
        "source",
        "generated",
        "example",
        "vendored",
        "documentation",
        "licence",
        "none",
    ]
    for number, kind in enumerate(kinds * 2):
        uri = f"viking://resources/a/{number}"
        put(store, file(uri, f"{kind}\n", abstract=f"{kind} a", metadata={"kind": kind}))
    done: list[str] = []
    while group := store.backlog(4):
        done += [waiting.text.removesuffix("\n") for waiting in group]
        store.fill([(waiting.text_id, ONE) for waiting in group]).result()
    late = {"test", "generated", "vendored", "licence"}
    others = set(kinds) - late
    assert set(done[:8]) == {f"{kind} a" for kind in others}
    assert set(done[8:16]) == others
    assert set(done[16:24]) == {f"{kind} a" for kind in late}
    assert set(done[24:]) == late


def test_a_small_write_is_among_the_first(store: Store) -> None:
    """A memory beside large imports is in the first turns, also below a name of another user."""
    for tree in "ab":
        for number in range(9):
            uri = f"viking://resources/{tree}/{number}"
            put(store, file(uri, f"{tree}{number} passage\n", abstract=f"{tree}{number}"))
    put(store, file("viking://users/ann/memories/tea", "likes tea\n"))
    put(store, file("viking://users/bob/memories/tea", "likes coffee\n"))
    put(store, file("viking://resources/b/late", abstract="b late"))
    backlog = [waiting.text for waiting in store.backlog(6)]
    assert {"likes tea", "likes coffee", "b late"} <= {text.strip() for text in backlog}


def test_the_backlog_tells_its_work(store: Store) -> None:
    """The work is the characters of passages, tripled for Chinese, plus 100 for each text."""
    put(store, file(f"{DOCS}/a", "a" * 50, abstract="A"))
    put(store, file(f"{DOCS}/b", "茶" * 20, abstract="B"))
    costs = {waiting.text: waiting.cost for waiting in store.backlog(9)}
    assert costs == {"A": 100, "B": 100, "a" * 50: 150, "茶" * 20: 160}
    assert store.backlog_size() == (4, 510)


def test_the_backlog_is_read_from_its_index_alone(sqlite_store: Store) -> None:
    """Backlog and size are read through an index, without a sort or a scan."""
    put(sqlite_store, file(f"{DOCS}/a", "a1\n", abstract="A"))
    told: list[str] = []
    with sqlite_store._snapshot() as db:  # the next reads have the same connection
        db.set_trace_callback(told.append)
    sqlite_store.backlog(9)
    sqlite_store.backlog_size()
    db.set_trace_callback(None)
    queries = [sql for sql in told if "SELECT" in sql]
    plans = [db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall() for sql in queries]
    steps = [row[-1] for plan in plans for row in plan]
    by_index = [step for step in steps if "INDEX texts_waiting" in step]
    assert sum("(embeddable=? AND <expr>=?)" in step for step in by_index) == len(by_index) - 1
    assert sum("COVERING INDEX texts_waiting" in step for step in by_index) == 1
    assert "SEARCH texts USING INTEGER PRIMARY KEY (rowid=?)" in steps  # of the chosen texts
    assert not [step for step in steps if "TEMP B-TREE" in step or step.startswith("SCAN texts")]


def test_texts_that_are_asked_for_are_read_by_their_ids(sqlite_store: Store) -> None:
    """A call that waits costs no walk through a large backlog."""
    put(sqlite_store, *(file(f"{DOCS}/{i}", abstract="a") for i in range(3000)))
    steps: list[int] = []
    with sqlite_store._snapshot() as db:  # the next read has the same connection
        db.set_progress_handler(lambda: steps.append(1), 1)
    assert [waiting.text_id for waiting in sqlite_store.backlog(1, [1])] == [1]
    assert 0 < len(steps) < 1000


def test_equal_texts_have_equal_digests_until_their_vectors_are_dropped(store: Store) -> None:
    """A digest finds a vector that the embedder made, not one that a writer sent."""
    put(store, file(f"{DOCS}/a", abstract="same"), file(f"{DOCS}/b", abstract="same"))
    put(store, file(f"{DOCS}/c", abstract="same", vector=TWO), file(f"{DOCS}/d", abstract="other"))
    a, b, other = sorted(store.backlog(9))
    assert a.digest == b.digest != other.digest
    assert store.made_vectors([a.digest]) == {}
    store.fill([(a.text_id, ONE)], {a.text_id: a.digest}).result()
    assert store.made_vectors([b.digest, other.digest]) == {a.digest: ONE}
    store.drop_vectors(f"{DOCS}/c").result()
    assert store.made_vectors([b.digest]) == {a.digest: ONE}
    assert a.digest not in {waiting.digest for waiting in store.backlog(9)}
    store.drop_vectors(f"{DOCS}/a").result()
    assert store.made_vectors([a.digest]) == {}
    (digest,) = {waiting.digest for waiting in store.backlog(9) if waiting.text == "same"}
    store.fill([(a.text_id, TWO)], {a.text_id: digest}).result()
    store.delete([f"{DOCS}/a"]).result()
    assert store.made_vectors([digest]) == {}


def test_a_damaged_vector_is_not_copied_into_an_equal_text(sqlite_store: Store) -> None:
    """A vector that does not fit its checksum is not returned for its digest."""
    put(sqlite_store, file(f"{DOCS}/a", abstract="same"))
    (waiting,) = sqlite_store.backlog(9)
    sqlite_store.fill([(waiting.text_id, ONE)], {waiting.text_id: waiting.digest}).result()
    assert sqlite_store.made_vectors([waiting.digest]) == {waiting.digest: ONE}
    with closing(connect(sqlite_store._database)) as db:
        db.execute("UPDATE texts SET vector = ? WHERE vector IS NOT NULL", (TWO,))
    assert sqlite_store.made_vectors([waiting.digest]) == {}


def test_one_of_many_equal_texts_tells_the_vector(sqlite_store: Store) -> None:
    """The lookup reads only one of many equal texts."""
    put(sqlite_store, *(file(f"{DOCS}/{i}", abstract="same") for i in range(300)))
    waiting = sqlite_store.backlog(300)
    sqlite_store.fill(
        [(text.text_id, ONE) for text in waiting], {text.text_id: text.digest for text in waiting}
    ).result()
    steps: list[int] = []
    with sqlite_store._snapshot() as db:  # the next read has the same connection
        db.set_progress_handler(lambda: steps.append(1), 1)
    assert sqlite_store.made_vectors([waiting[0].digest]) == {waiting[0].digest: ONE}
    assert 0 < len(steps) < 600


def test_a_store_without_digests_opens(tmp_path: Path) -> None:
    """A store of the schema before digests keeps its vectors and its backlog, without any reuse."""
    with opened(tmp_path) as store:
        put(store, file(f"{DOCS}/a", abstract="same"), file(f"{DOCS}/b", abstract="other"))
        other, same = store.backlog(9)
        store.fill([(same.text_id, ONE)], {same.text_id: same.digest}).result()
    with closing(connect(tmp_path / DATABASE)) as db:
        db.executescript(WITHOUT_DIGESTS)
        db.execute("PRAGMA user_version = 3")
    with opened(tmp_path) as store:
        assert store.made_vectors([same.digest]) == {}
        assert store.backlog(9) == [other]
        assert scanned(store)[f"{DOCS}/a"].texts[0].vector == ONE
        store.fill([(other.text_id, TWO)], {other.text_id: other.digest}).result()
        assert store.made_vectors([other.digest]) == {other.digest: TWO}
