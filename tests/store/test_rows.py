"""Checksums of rows, over both stores: damage of each kind is named, and never answered from."""

from __future__ import annotations

import math
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.postgres_servers import Server
from tests.store.store_helpers import ONE, TWO, vector
from tests.tiers import seeds
from vikingd.domain.contexts import Draft
from vikingd.domain.description import Description
from vikingd.domain.errors import NotFound, StoreDamaged, VikingError
from vikingd.domain.rights import LOCAL
from vikingd.domain.uri import ROOT, ancestors
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.masks import Masked
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store.postgres.postgres_connection import PostgresConnection, connect
from vikingd.store.reads.change_reads import all_damage
from vikingd.store.sqlite.sqlite_schema import DATABASE
from vikingd.store.store_copy import copy
from vikingd.store.store_places import opened_source, opened_target
from vikingd.store.store_writes import WritableStore

pytestmark = pytest.mark.stores

DOCS = "viking://resources/docs"
A, B, NOTES = f"{DOCS}/a.md", f"{DOCS}/b.md", "viking://user/memories/notes.md"
NONE = EmbedSettings(provider="none")


class Stored:
    """A store of one kind, closed or open; its engines have no index at their start.

    Attributes:
        url: of the database; "" with SQLite.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self.url = url
        self.tenant = f"t{uuid4().hex}"

    @property
    def place(self) -> str:
        """The place for a copy."""
        return self.url or str(self.path)

    @contextmanager
    def opened(self) -> Iterator[Engine]:
        """Open an engine, which builds its index."""
        shutil.rmtree(self.path / "index", ignore_errors=True)
        settings = EngineSettings(self.path, NONE)
        if self.url:
            settings = EngineSettings(self.path, NONE, store=self.url, tenant=self.tenant)
        with closing(Engine(settings)) as engine:
            yield engine

    def change(self, sql: str) -> None:
        """Change rows behind the back of the store."""
        if not self.url:
            with closing(sqlite3.connect(self.path / DATABASE)) as db, db:
                assert db.execute(sql).rowcount
            return
        sql = re.sub(r"\bx'(?=[0-9a-f]{16})", r"'\\x", sql).replace("zeroblob(8)", r"'\x00000000'")
        with connect(self.url) as db:
            part = PostgresConnection(db, self.tenant)
            with part.transaction():
                assert part.execute(sql).rowcount


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    """Return an empty store of each kind."""
    is_shared = request.param != "sqlite"
    server: Server | None = request.getfixturevalue("postgres") if is_shared else None
    return Stored(tmp_path / "store", server.url if server else "")


def damage_of(store: WritableStore) -> list[str]:
    """Return the damage of all rows."""
    with store._snapshot() as db:
        return [str(damage) for damage in all_damage(db)]


def put(engine: Engine, *drafts: Draft) -> None:
    """Write contexts."""
    engine.writable_store.put([prepare(draft) for draft in drafts]).result()


def filled(stored: Stored) -> None:
    """Write two linked files with vectors, and a file of memories."""
    with stored.opened() as engine:
        put(
            engine,
            Draft(A, content="# One\n\ntea\n", title="A", metadata={"k": 1}, vector=ONE),
            Draft(B, content="# Two\n\nrain\n", abstract="B.", vector=TWO),
            Draft(NOTES, content="- drinks tea\n- likes rain\n"),
        )
        engine.writable_store.link(A, B, "beside").result()
        read = engine.store.get(B).content_hash
        made = Description(B, "", "- rain", "a-model", b"basis", read)
        engine.writable_store.describe([made]).result()
        assert damage_of(engine.writable_store) == []
        assert engine.verify().problems == ()


OF_A = f"WHERE uri = '{A}'"
TEXTS_OF_A = f"context_id = (SELECT id FROM contexts {OF_A})"
VECTOR_OF_A = f"WHERE {TEXTS_OF_A} AND vector IS NOT NULL"
TEXTS_OF_NOTES = f"context_id = (SELECT id FROM contexts WHERE uri = '{NOTES}')"
ENTRIES = f"WHERE text_id IN (SELECT id FROM texts WHERE {TEXTS_OF_NOTES})"
NAN, INFINITE, LONG = "0000c07f00000000", "0000807f00000000", "000000000000803f0000803f"

CONTEXTS = {
    "a content": f"UPDATE contexts SET content = replace(content, 'tea', 'teb') {OF_A}",
    "a title": f"UPDATE contexts SET title = 'a' {OF_A}",
    "an abstract": f"UPDATE contexts SET abstract = 'a' {OF_A}",
    "metadata": f"UPDATE contexts SET metadata = '{{}}' {OF_A}",
    "no metadata": f"UPDATE contexts SET metadata = '[' {OF_A}",
    "a time": f"UPDATE contexts SET time = time + 4 {OF_A}",
    "a revision": f"UPDATE contexts SET revision = revision + 1 {OF_A}",
    "a parent": f"UPDATE contexts SET parent_id = 1 {OF_A}",
    "a hash": f"UPDATE contexts SET content_hash = zeroblob(8) {OF_A}",
    "no checksum": f"UPDATE contexts SET checksum = NULL {OF_A}",
    "no texts": f"DELETE FROM texts WHERE {TEXTS_OF_A}",
    "one text less": f"DELETE FROM texts WHERE {TEXTS_OF_A} AND ordinal = 1",
    "a section": f"UPDATE texts SET section = 'Ome' WHERE {TEXTS_OF_A} AND ordinal = 1",
    "a range": f'UPDATE texts SET "end" = "end" - 1 WHERE {TEXTS_OF_A} AND ordinal = 1',
    "an order": f"UPDATE texts SET ordinal = 7 WHERE {TEXTS_OF_A} AND ordinal = 1",
}
VECTORS = {
    "a bit": f"UPDATE texts SET vector = x'0000803e00000000' {VECTOR_OF_A}",
    "NaN": f"UPDATE texts SET vector = x'{NAN}' {VECTOR_OF_A}",
    "infinity": f"UPDATE texts SET vector = x'{INFINITE}' {VECTOR_OF_A}",
    "a size": f"UPDATE texts SET vector = x'{LONG}' {VECTOR_OF_A}",
    "nothing": f"UPDATE texts SET vector = NULL {VECTOR_OF_A}",
    "a digest": f"UPDATE texts SET digest = zeroblob(8) {VECTOR_OF_A}",
}
DESCRIPTIONS = {
    "a maker": "UPDATE descriptions SET maker = 'hand'",
    "a basis": "UPDATE descriptions SET basis = zeroblob(8)",
    "texts": "UPDATE descriptions SET slots = 3",
    "a revision": "UPDATE descriptions SET revision = revision + 1",
    "no checksum": "UPDATE descriptions SET checksum = NULL",
}
MEMORIES = {
    "a counter": f"UPDATE entries SET reinforcement = -2 {ENTRIES}",
    "a time": f"UPDATE entries SET created_at = created_at + 1 {ENTRIES}",
    "a number": f"UPDATE entries SET id = id + 1000 {ENTRIES}",
    "no entries": f"DELETE FROM entries {ENTRIES}",
}


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("uri", ["", " "])
def test_a_context_without_a_uri_is_named_by_its_id(store: Stored, uri: str) -> None:
    """The damage of a context whose URI was emptied names the id of the context."""
    filled(store)
    store.change(f"UPDATE contexts SET uri = '{uri}' {OF_A}")
    with store.opened() as engine:
        assert any(
            re.match(rf'context \d+ \("{uri}"\) is damaged', d) for d in engine.verify().problems
        )


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("sql", CONTEXTS.values(), ids=list(CONTEXTS))
def test_a_damaged_context_is_named_and_not_served(store: Stored, sql: str) -> None:
    """An index is built without it; Get, moves, links and masked writes refuse it by name."""
    filled(store)
    store.change(sql)
    with store.opened() as engine:
        writes = engine.writable_store
        assert engine.snapshot.find(A) is None
        assert engine.snapshot.find(B) is not None
        assert any(A in problem for problem in engine.verify().problems)
        masked = Masked.of(Draft(A, title="new", update_mask=("title",)))
        for call in (
            lambda: engine.store.get(A),
            lambda: writes.move(DOCS, "viking://resources/moved").result(),
            lambda: writes.link(A, B, "again").result(),
            lambda: writes.put([masked]).result(),
        ):
            with pytest.raises(StoreDamaged, match=A):
                call()
        assert engine.store.get(B).content == "# Two\n\nrain\n"
        put(engine, Draft(f"{DOCS}/c.md", content="new"))
        assert writes.failure == ""


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("change", [*CONTEXTS, *(f"vector: {name}" for name in VECTORS)])
def test_a_damaged_store_is_neither_copied_nor_backed_up(store: Stored, change: str) -> None:
    """A copy and a backup are refused with the URI, and nothing of a copy is left."""
    filled(store)
    store.change(CONTEXTS.get(change) or VECTORS[change.removeprefix("vector: ")])
    target = store.path.with_name("copy")
    with (
        pytest.raises(StoreDamaged, match=A),
        opened_source(store.place, store.tenant) as source,
        opened_target(str(target), "default") as made,
    ):
        copy(source, made, lambda _: None)
    assert not (target / DATABASE).exists()
    with opened_source(store.place, store.tenant) as source:
        assert any(A in str(damage) for damage in source.damage())
    if not store.url:
        with store.opened() as engine, pytest.raises(StoreDamaged, match=A):
            engine.store.backup(lambda: None)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("sql", CONTEXTS.values(), ids=list(CONTEXTS))
def test_a_damaged_context_that_is_written_again_is_sound(store: Stored, sql: str) -> None:
    """A Put takes nothing from the damaged context, and it is found by words again."""
    filled(store)
    store.change(sql)
    with store.opened() as engine:
        put(engine, Draft(A, content="# One\n\ntea\n", title="A", metadata={"k": 1}, vector=ONE))
        assert engine.store.get(A).content == "# One\n\ntea\n"
        assert damage_of(engine.writable_store) == []
        assert engine.verify().problems == ()
    with store.opened() as engine:
        assert engine.verify().problems == ()


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("sql", VECTORS.values(), ids=list(VECTORS))
def test_a_damaged_vector_is_named_left_out_and_made_again(store: Stored, sql: str) -> None:
    """Its context is served by words; once dropped, its text waits for a new vector."""
    filled(store)
    store.change(sql)
    with store.opened() as engine:
        writes = engine.writable_store
        assert [damage.uri for damage in engine._follower.damage.values()] == [A]
        assert any(A in problem for problem in engine.verify().problems)
        assert engine.store.get(A).title == "A"
        ids = [damage.text_id for damage in engine._follower.damage.values()]
        assert writes.drop_damaged([*ids, 1, 2, 3]).result().count == 1
        assert engine.verify().problems == ()
        assert ids[0] in [text.text_id for text in engine.store.backlog(99)]
        writes.fill([(ids[0], TWO)]).result()
        assert engine.verify().problems == ()


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("sql", MEMORIES.values(), ids=list(MEMORIES))
def test_damaged_counters_are_named_and_not_changed(store: Stored, sql: str) -> None:
    """Verify names the file; no reinforcement and no rewrite takes the damaged counters."""
    filled(store)
    store.change(sql)
    with store.opened() as engine:
        writes = engine.writable_store
        assert any(NOTES in problem for problem in engine.verify().problems)
        ids = [one.entry.id for one in engine.store.memories_below("viking://user")]
        with pytest.raises((StoreDamaged, NotFound)):
            writes.reinforce(ids[:1] or [1], 1, caller=LOCAL).result()
        writes.touch(dict.fromkeys(ids, 1)).result()
        for call in (lambda: engine.store.get(NOTES), lambda: engine.store.memory_file(NOTES)):
            with pytest.raises(StoreDamaged, match=NOTES):
                call()
        assert any(NOTES in problem for problem in engine.verify().problems)
        put(engine, Draft(NOTES, content="- drinks tea\n- likes rain\n"))
        assert engine.verify().problems == ()


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("sql", DESCRIPTIONS.values(), ids=list(DESCRIPTIONS))
@pytest.mark.parametrize("by", ["a put", "a description"])
def test_a_damaged_description_is_named(store: Stored, sql: str, by: str) -> None:
    """Get, copies and backups refuse it; a Put of the file, or a new one, makes it whole."""
    filled(store)
    store.change(sql)
    target = store.path.with_name("copy")
    with (
        pytest.raises(StoreDamaged, match=B),
        opened_source(store.place, store.tenant) as source,
        opened_target(str(target), "default") as made,
    ):
        copy(source, made, lambda _: None)
    if not store.url:
        with store.opened() as engine, pytest.raises(StoreDamaged, match=B):
            engine.store.backup(lambda: None)
    with store.opened() as engine:
        writes = engine.writable_store
        assert any(B in problem for problem in engine.verify().problems)
        with pytest.raises(StoreDamaged, match=B):
            engine.store.get(B)
        assert engine.store.described([B]) == {}
        assert engine.snapshot.find(B) is not None
        if by == "a put":
            put(engine, Draft(B, content="# Two\n\nrain\n", abstract="B.", vector=TWO))
        else:
            read = next(one for one in engine.store.files_to_describe("", 9) if one.uri == B)
            again = Description(B, "", "- rain", "a-model", b"basis", read.content_hash)
            assert writes.describe([again]).result().count == 1
        assert engine.verify().problems == ()
        assert engine.store.get(B).overview == ("" if by == "a put" else "- rain")


def test_a_damaged_link_is_named_and_left_out(store: Stored) -> None:
    """A link with another reason is not shown by the index, and can be made again."""
    filled(store)
    store.change("UPDATE links SET reason = 'above'")
    with store.opened() as engine:
        problems = engine.verify().problems
        assert any(f"{A} is damaged: its link with {B}" in problem for problem in problems)
        engine.writable_store.link(A, B, "beside").result()
        assert engine.verify().problems == ()


def test_a_deleted_row_is_named_while_an_index_has_it(store: Stored) -> None:
    """Verify names the ends of a link, and the context, whose rows are gone."""
    filled(store)
    of_b = f"(SELECT id FROM contexts WHERE uri = '{B}')"
    with store.opened() as engine:
        store.change("DELETE FROM links")
        store.change(f"DELETE FROM texts WHERE context_id = {of_b}")
        store.change(f"DELETE FROM contexts WHERE id = {of_b}")
        problems = engine.verify().problems
        assert f"{A} and {B} have different links in index and store" in problems
        assert f"{B} is in the index, and the store has no sound row of it" in problems


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("rows", ["", f"WHERE uri = '{ROOT}'"], ids=["all", "the root"])
def test_a_store_without_its_root_is_damaged(store: Stored, rows: str) -> None:
    """Verify names the missing root, and a write is refused."""
    filled(store)
    store.change("DELETE FROM links")
    store.change("DELETE FROM entries")
    store.change("DELETE FROM texts")
    store.change(f"DELETE FROM contexts {rows}")
    with store.opened() as engine:
        problems = engine.verify().problems
        assert f"{ROOT} is damaged: it is not in the store as a directory" in problems
        with pytest.raises(StoreDamaged, match="it has no viking://"):
            put(engine, Draft("viking://agent/skills/new.md", content="new"))


def test_a_damaged_directory_does_not_hide_what_is_below_it(store: Stored) -> None:
    """Files below a damaged directory are served; the directory is named."""
    filled(store)
    for sql in ("abstract = 'x'", "uri = 'viking://resources/docz'"):
        store.change(f"UPDATE contexts SET {sql} WHERE uri = '{DOCS}'")
        with store.opened() as engine:
            assert engine.snapshot.find(A) is not None
            assert engine.store.get(B).abstract == "B."
            assert any("viking://resources/doc" in one for one in engine.verify().problems)
            put(engine, Draft(f"{DOCS}/c.md", content="new"))


def test_no_write_makes_damage_sound(store: Stored) -> None:
    """Moves and dropped vectors renew the checksum of a sound row, and of a damaged one never."""
    filled(store)
    store.change(CONTEXTS["a time"])
    with store.opened() as engine:
        writes = engine.writable_store
        before = damage_of(writes)
        writes.drop_vectors(ROOT).result()
        assert damage_of(writes) == before
        with pytest.raises(StoreDamaged, match=A):
            writes.move(DOCS, "viking://agent/skills/docs").result()
        assert damage_of(writes) == before


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_random_writes_keep_the_checksums_of_all_rows(store: Stored, seed: int) -> None:
    """After any operations each checksum is that of its row, in both stores."""
    rng = random.Random(seed)
    tops = ("viking://resources/x", "viking://user/memories/x", "viking://agent/skills/x")
    uris = [f"{top}/{a}/{b}.md" for top in tops for a in "ab" for b in "cd文"]

    def turned() -> bytes:
        angle = rng.random() * 6
        return vector(math.cos(angle), math.sin(angle))

    def one() -> str:
        return rng.choice(uris)

    def made() -> Draft:
        lines = [f"- {rng.choice(('tea', 'rain', '茶'))}\n" for _ in range(rng.randint(0, 4))]
        return Draft(
            one(),
            content="".join(lines),
            abstract=rng.choice(("", "a")),
            vector=turned() if rng.random() < 0.3 else b"",
            metadata={"n": rng.random()},
        )

    with store.opened() as engine:
        writes = engine.writable_store

        def memories() -> list[int]:
            return [one.entry.id for one in engine.store.memories_below("viking://user")] or [1]

        def fill() -> object:
            waiting = engine.store.backlog(9)
            digests = {text.text_id: text.digest for text in waiting if rng.random() < 0.5}
            return writes.fill([(text.text_id, turned()) for text in waiting], digests)

        def described() -> object:
            uri = rng.choice([context.uri for context in engine.store.tree(ROOT, 0, "", 99)])
            read, (one, two) = engine.store.get(uri).content_hash, rng.choices(("", "a", "茶"), k=2)
            return writes.describe([Description(uri, one, two, "m", b"basis", read)])

        operations: list[Callable[[], object]] = [
            lambda: writes.put([prepare(made())]),
            lambda: writes.put([Masked.of(Draft(one(), title="t", update_mask=("title",)))]),
            lambda: writes.delete([one()]),
            lambda: writes.move(rng.choice(ancestors(one())[2:]), f"{one()}.z"),
            lambda: writes.link(one(), one(), rng.choice("pq")),
            lambda: writes.unlink(one(), one()),
            lambda: writes.drop_vectors(rng.choice((ROOT, one()))),
            lambda: writes.reinforce(rng.sample(memories(), 1), rng.randint(1, 3)),
            lambda: writes.touch(dict.fromkeys(memories()[:3], 2)),
            fill,
            described,
        ]
        for step in range(60):
            operation = rng.randrange(len(operations))
            with suppress(VikingError, ValueError):
                operations[operation]().result()  # type: ignore[attr-defined]
            assert damage_of(writes) == [], f"seed {seed}, step {step}, operation {operation}"
        assert engine.verify().problems == ()
