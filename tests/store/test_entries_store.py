"""Memories in the store: ids and counters that survive edits, moves, restarts and kills."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.store_helpers import file
from vikingd.domain.contexts import MAX_COUNTER, Draft, Entry, Passage
from vikingd.domain.errors import NotFound
from vikingd.domain.store_changes import Committed, PutOutcome
from vikingd.domain.uri import ancestors, parent
from vikingd.engine import Engine, EngineSettings
from vikingd.memory.accesses import Accesses
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store import Store
from vikingd.store.sqlite.sqlite_schema import MIGRATIONS, connect

pytestmark = pytest.mark.stores

NOTES = "viking://user/memories/notes.md"
KEPT = "viking://user/memories/kept.md"


@pytest.fixture
def store(tmp_path: Path):
    """Yield a store without a model."""
    opened = Store(tmp_path, model="none", dimension=None)
    opened.start(lambda *_: None)
    yield opened
    opened.close()


def put(store: Store, content: str, uri: str = NOTES, **fields) -> None:
    """Put a file with one passage per line."""
    store.put([file(uri, content, **fields)]).result()


def known(store: Store, uri: str = NOTES) -> dict[str, Entry]:
    """Return the entries of a file by their text."""
    found = store.memory_file(uri)
    return {s.passage.strip(): s.entry for s in found.entries} if found else {}


def test_only_passages_of_memory_files_are_memories(store: Store) -> None:
    """Each passage of a memory file has its own id; passages of resources have none."""
    put(store, "a\nb\n")
    put(store, "a\nb\n", "viking://resources/notes.md")
    entries = known(store)
    assert list(entries) == ["a", "b"]
    assert len({entry.id for entry in entries.values()}) == 2
    assert not known(store, "viking://resources/notes.md")
    assert [p.entry for p in store.get("viking://resources/notes.md").passages] == [None, None]


def test_an_edit_keeps_what_is_known_of_unchanged_texts(store: Store) -> None:
    """A memory keeps its entry wherever its text moves; a new text gets a new entry."""
    put(store, "a\nb\nc\n", time=5)
    before = known(store)
    store.reinforce([before["b"].id], 3).result()
    store.touch({before["b"].id: 7, before["c"].id: 1}).result()
    b = store.get(NOTES).passages[1].entry
    assert (b.reinforcement, b.access_count, b.time) == (3, 1 + 7, 5)
    put(store, "new\nc\na\nb\n", time=9)
    after = known(store)
    assert {text: after[text] for text in "abc"} == {
        "a": before["a"],
        "b": b,
        "c": Entry(before["c"].id, 0, 1, 5, before["c"].created_at),
    }
    assert (after["new"].reinforcement, after["new"].access_count, after["new"].time) == (0, 0, 9)
    assert after["new"].id not in {entry.id for entry in before.values()}
    context = store.get(NOTES)
    assert (context.reinforcement, context.access_count) == (3, 9)


def test_equal_texts_keep_their_entries_in_order(store: Store) -> None:
    """Memories with equal texts are separate and keep their ids in order."""
    put(store, "x\nx\ny\n")
    one, two, _ = (s.entry for s in store.memory_file(NOTES).entries)
    put(store, "y\nx\nx\n")
    assert [s.entry.id for s in store.memory_file(NOTES).entries][1:] == [one.id, two.id]


def test_what_a_put_brings_of_memories_is_restored(store: Store) -> None:
    """Given counters are written even if the content is the same; the id stays."""
    put(store, "a\nb\n")
    before = known(store)
    given = file(NOTES, "a\nb\n")
    state = Entry(0, 4, 5, 6, 7)
    store.put([replace(given, entries={2: state})]).result()
    assert known(store) == {"a": before["a"], "b": replace(state, id=before["b"].id)}


def test_a_put_of_what_is_known_of_memories_changes_nothing(store: Store) -> None:
    """Equal counters are UNCHANGED and make no revision; another counter or time is an update."""
    given, state = file(NOTES, "a\nb\n"), Entry(0, 4, 5, 6, 7)

    def put_with(entry: Entry) -> Committed:
        return store.put([replace(given, entries={2: entry})]).result()

    first = put_with(state)
    for equal in (state, Entry(0, 4, 5)):
        again = put_with(equal)
        assert (again.outcomes, again.revision) == ((PutOutcome.UNCHANGED,), first.revision)
    for other in (replace(state, time=8), replace(state, reinforcement=5)):
        assert put_with(other).outcomes == (PutOutcome.UPDATED,)
        assert known(store)["b"] == replace(other, id=known(store)["b"].id)


def test_a_put_never_lowers_a_counter(store: Store) -> None:
    """A put with lower counters keeps the higher counters of the store."""
    put(store, "a\n")
    before = known(store)["a"]
    store.reinforce([before.id], 7).result()
    store.touch({before.id: 2}).result()
    given = replace(file(NOTES, "a\n"), entries={1: Entry(0, 3, 9)})
    store.put([given]).result()
    after = known(store)["a"]
    assert (after.reinforcement, after.access_count) == (7, 9)


def test_counters_stay_at_their_limit(store: Store) -> None:
    """Counters stop at a limit, so that an export can be imported again."""
    put(store, "a\n")
    entry_id = known(store)["a"].id
    given = replace(file(NOTES, "a\n"), entries={1: Entry(0, MAX_COUNTER - 1, MAX_COUNTER)})
    store.put([given]).result()
    (counted,) = store.reinforce([entry_id], 1_000_000).result().entries
    store.touch({entry_id: 3}).result()
    after = known(store)["a"]
    assert counted.reinforcement == after.reinforcement == after.access_count == MAX_COUNTER


def test_accesses_of_missing_memories_make_no_revision(store: Store) -> None:
    """An access of a memory that is gone changes no entry and no revision."""
    put(store, "a\n")
    before = store.revision
    assert store.touch({known(store)["a"].id + 1: 3}).result().count == 0
    assert store.revision == before


def test_a_move_into_the_memories_makes_memories_and_one_within_keeps_them(store: Store) -> None:
    """A move into the memories creates entries; a move within them keeps ids and counters."""
    put(store, "a\nb\n", "viking://resources/d/notes.md")
    store.move("viking://resources/d", "viking://user/memories/d").result()
    moved = known(store, "viking://user/memories/d/notes.md")
    assert list(moved) == ["a", "b"]
    store.reinforce([moved["a"].id], 2).result()
    store.move("viking://user/memories/d/notes.md", KEPT).result()
    assert known(store, KEPT)["a"].reinforcement == 2
    assert known(store, KEPT)["a"].id == moved["a"].id
    assert not known(store, "viking://user/memories/d/notes.md")
    put(store, "c\n")
    assert known(store)["c"].id not in {entry.id for entry in moved.values()}


def test_reinforcing_what_is_not_there_changes_nothing(store: Store) -> None:
    """A reinforcement with a missing memory raises NotFound and changes nothing."""
    put(store, "a\n")
    (entry,) = known(store).values()
    with pytest.raises(NotFound, match="no memory 999"):
        store.reinforce([entry.id, 999], 1).result()
    assert known(store)["a"].reinforcement == 0


def test_an_append_writes_no_text_again(store: Store) -> None:
    """An append keeps the rows of all texts before the new text."""
    put(store, "a\nb\n", abstract="A file.")

    def rows() -> list[int]:
        with closing(connect(store._database, read_only=True)) as db:
            return [row for (row,) in db.execute("SELECT id FROM texts ORDER BY ordinal")]

    before = rows()
    put(store, "a\nb\nc\n", abstract="A file.")
    assert rows()[:3] == before
    put(store, "a\nX\nc\n", abstract="A file.")
    assert rows()[:2] == before[:2]
    assert set(rows()[2:]).isdisjoint(before)


def test_a_store_of_before_gets_its_memories(tmp_path: Path) -> None:
    """The migration makes an entry for each passage of a memory file, with the file's times."""
    tables = MIGRATIONS[0]
    with closing(connect(tmp_path / "store.sqlite3")) as db:
        db.executescript(f"{tables}; PRAGMA user_version = 1;")
    with closing(connect(tmp_path / "store.sqlite3")) as db:
        state = {"revision": 1, "forgotten": 0, "linked": 0, "model": "none"}
        db.executemany(
            "INSERT INTO meta VALUES (?, ?)", [(f"store.{key}", one) for key, one in state.items()]
        )
        for i, uri in enumerate(
            [NOTES, "viking://resources/r.md", "viking://projects/p/memories/x.md", KEPT], 1
        ):
            db.execute(
                "INSERT INTO contexts (id, uri, is_directory, revision, content_hash, time, "
                "created_at, updated_at, title, abstract, metadata, overview, content) "
                "VALUES (?, ?, 0, 1, x'00', ?, 20, 30, '', 'abs', '{}', '', 'one')",
                (i, uri, 10 + i),
            )
            ordinals = (0,) if uri == KEPT else (0, 1)
            for ordinal in ordinals:
                db.execute(
                    'INSERT INTO texts (context_id, ordinal, section, "start", "end", script, '
                    "embeddable) VALUES (?, ?, '', 0, 3, 1, 1)",
                    (i, ordinal),
                )
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
    opened = Store(tmp_path, model="none", dimension=None)
    try:
        assert [
            (s.uri, s.ordinal, s.passage, s.entry.time, s.entry.created_at)
            for root in ("viking://projects", "viking://user")
            for s in opened.memories_below(root)
        ] == [
            ("viking://projects/p/memories/x.md", 1, "one", 13, 20),
            (KEPT, 0, "abs", 14, 20),
            (NOTES, 1, "one", 11, 20),
        ]
    finally:
        opened.close()


def test_the_files_of_the_first_schema_are_split_into_their_items(tmp_path: Path) -> None:
    """Each item becomes a memory once; the first one keeps the id, and a given cut stays."""
    content, given = "# Notes\n\n- one\n- two\n  more\n", "viking://agent/memories/given.md"

    def above(uri: str) -> list[str]:
        return [one for one in ancestors(uri)[1:] if one != "viking://"]

    with closing(connect(tmp_path / "store.sqlite3")) as db:
        db.executescript(f"{MIGRATIONS[0]}; PRAGMA user_version = 1;")
        ids: dict[str, int] = {}
        for uri in ("viking://", *above(NOTES), NOTES, *above(given), given):
            is_file = uri in (NOTES, given)
            text = content if is_file else ""
            passages = [Passage("", 0, len(content))] if uri == given else None
            stored = Draft(uri, not is_file, content=text, passages=passages)
            ids[uri] = len(ids) + 1
            db.execute(
                "INSERT INTO contexts (id, uri, parent_id, is_directory, revision, content_hash, "
                "time, created_at, updated_at, title, abstract, metadata, overview, content) "
                "VALUES (?, ?, ?, ?, 1, ?, 11, 20, 30, '', ?, '{}', '', ?)",
                (
                    ids[uri],
                    uri,
                    ids.get(parent(uri)),
                    int(not is_file),
                    stored.content_hash(),
                    "one" * is_file,
                    text,
                ),
            )
            if is_file:
                db.execute(
                    'INSERT INTO texts (context_id, ordinal, section, "start", "end", script, '
                    "embeddable) VALUES (?, 1, '', 0, ?, 1, 1)",
                    (ids[uri], len(content)),
                )
        db.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [("store.revision", 1), ("store.forgotten", 0), ("store.model", "none")],
        )
    for _ in range(2):
        engine = Engine(settings(tmp_path))
        try:
            found = engine.store.memory_file(NOTES)
            assert found is not None
            times = [(one.entry.time, one.entry.created_at) for one in found.entries]
            assert [one.passage for one in found.entries] == ["one", "two\n  more"]
            assert times == [(11, 20)] * 2
            assert [one.entry.id for one in found.entries] == [1, 3]
            (kept,) = engine.store.memory_file(given).entries
            assert (kept.passage, kept.entry.id) == (content, 2)
            assert engine.store.get(NOTES).content == content
            assert engine.verify().ok
            assert engine.store.revision == 2
        finally:
            engine.close()


# Accesses


def settings(path: Path) -> EngineSettings:
    """Return settings of an engine without an embedder."""
    return EngineSettings(path, EmbedSettings(provider="none"))


def count_until_killed(path: Path, acknowledged) -> None:
    """Count accesses for ever, and report the counts of a second ago and of now."""
    engine = Engine(settings(path))
    (entry,) = known(engine.store).values()
    counted: list[tuple[float, int]] = []
    total = 0
    while True:
        total += 1
        engine.count_accesses([entry.id])
        counted.append((time.monotonic(), total))
        if total % 100 == 0:
            old = [n for at, n in counted if at < time.monotonic() - 1]
            acknowledged.send((max(old, default=0), total))
        time.sleep(0.0005)


@pytest.mark.deep
def test_a_kill_loses_no_more_than_the_accesses_of_a_second(tmp_path: Path) -> None:
    """A kill loses the accesses of a second at most, and no acknowledged reinforcement."""
    engine = Engine(settings(tmp_path))
    engine.writable_store.put([file(NOTES, "a\n")]).result()
    (entry,) = known(engine.store).values()
    engine.writable_store.reinforce([entry.id], 5).result()
    engine.close()
    fork = multiprocessing.get_context("fork")
    least = 0
    for _ in range(2):
        receive, send = fork.Pipe(duplex=False)
        child = fork.Process(target=count_until_killed, args=(tmp_path, send))
        child.start()
        send.close()
        began, last = least, (0, 0)
        while last[0] < 100:  # until so many are older than a second
            last = receive.recv()
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        while True:
            try:
                last = receive.recv()
            except EOFError:
                break
        engine = Engine(settings(tmp_path))
        (now,) = known(engine.store).values()
        assert engine.verify().ok
        engine.close()
        assert last[0] > 0
        assert began + last[0] <= now.access_count <= began + last[1] + 200
        assert now.reinforcement == 5
        least = now.access_count


def test_a_stop_writes_all_accesses(tmp_path: Path) -> None:
    """All accesses are in the store after the engine is closed."""
    engine = Engine(settings(tmp_path))
    engine.writable_store.put([file(NOTES, "a\nb\n")]).result()
    one, two = (s.entry.id for s in engine.store.memory_file(NOTES).entries)
    for _ in range(37):
        engine.count_accesses([one, two])
        engine.count_accesses([two])
    engine.close()
    engine = Engine(settings(tmp_path))
    assert [e.access_count for e in known(engine.store).values()] == [37, 74]
    engine.close()


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("kind", [OSError, SystemExit])
def test_accesses_that_could_not_be_written_are_tried_again(kind: type[BaseException]) -> None:
    """Accesses whose write failed are written again."""
    written: dict[int, int] = {}
    failures = iter([True, False])

    def write(accesses) -> None:
        if next(failures, False):
            raise kind("full")
        written.update(accesses)

    accesses = Accesses(write)
    accesses.count([1, 1, 2])
    deadline = time.monotonic() + 5
    while not written:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    accesses.close()
    assert written == {1: 2, 2: 1}
