"""A model of the engine for long runs, with batches, late vectors, memories and readers."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from viking_kernels.arrays import F32

from tests.engine.engine_model import (
    ALL,
    ROOT,
    EngineMachine,
    anything,
    directories,
    drafts,
    seeds,
    shown,
    vector,
    words,
)
from tests.index.find_helpers import find
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft, Entry, Prepared, Text
from vikingd.domain.errors import NotFound
from vikingd.domain.find_query import FindQuery, Levels, Method
from vikingd.domain.retrieve_query import Rrf
from vikingd.domain.store_changes import Waiting
from vikingd.engine import Engine
from vikingd.ingest.draft_preparation import prepare
from vikingd.memory.entries import clean as entry_text
from vikingd.memory.entry_comparison import normalized
from vikingd.memory.memory_file_changes import Forgetting, Remembering
from vikingd.memory.memory_types import MemoryScope, RecallQuery, Remembered, Salience
from vikingd.memory_calls.memory_search import MemorySearch

USER = "viking://user/memories"
TITLE = "About"
WORDINGS = ("Alpha tea.", "alpha tea", "Beta tea", "Beta tea!", "γ 茶", "delta\ntea", "Epsilon tea")
SENT = frozenset(map(vector, [*range(41), None]))  # the vectors that a writer sends

memory_files = st.sampled_from([f"{USER}/{name}.md" for name in "pqr"])
wordings = st.sampled_from(WORDINGS)
batches = st.lists(st.lists(drafts, min_size=1, max_size=4), min_size=1, max_size=3)
methods = st.sampled_from([Method.AUTO, Method.EXHAUSTIVE, Method.EXACT, Method.BEST_FIRST])


class Said(NamedTuple):
    """A memory in the model."""

    text: str
    reinforcement: int = 0
    accesses: int = 0


def embedding(text: str) -> bytes:
    """Return the vector of a text by the embedder of this model."""
    return vector(zlib.crc32(text.encode()))


def as_array(seed: int | None) -> F32 | None:
    """Return the vector of a query, or None without a seed."""
    return None if seed is None else np.frombuffer(vector(seed), "<f4")


class SoakMachine(EngineMachine):
    """The engine beside dicts, with embeddings that arrive after other writes."""

    def __init__(self) -> None:
        super().__init__()
        self.memories: dict[str, dict[int, Said]] = {}
        self.newest = 0  # the highest id of a memory so far
        self.clock = itertools.count(1)
        self.flights: list[list[Waiting]] = []

    # Batches

    @rule(batches=batches)
    def put_batches(self, batches: list[list[Draft]]) -> None:
        """Batches that are sent at once are written in order, each whole or not at all."""
        self.put(batches)

    # Late vectors

    @rule(limit=st.integers(1, 30))
    def begin_embedding(self, limit: int) -> None:
        """The embedder takes waiting texts, even twice; their vectors arrive after other writes."""
        self.flights.append(self.engine.store.backlog(limit))

    @precondition(lambda self: self.flights)
    @rule(text=words, seed=st.integers(0, 40), method=methods)
    def end_embedding(self, text: str, seed: int, method: Method) -> None:
        """Late vectors change no answer of an older snapshot, and the newest scores are right."""
        query = FindQuery(text, limit=ALL, levels=Levels.BOTH, method=method)
        asked, snapshot = as_array(seed), self.engine.snapshot
        before = shown(find(self.engine, query, asked, snapshot))
        store, flight = self.engine.writable_store, self.flights.pop(0)
        still = {waiting.text_id for waiting in store.backlog(ALL)}
        made = store.made_vectors([waiting.digest for waiting in flight])
        assert all(made.get(w.digest, embedding(w.text)) == embedding(w.text) for w in flight)
        digests = {waiting.text_id: waiting.digest for waiting in flight}
        filled = store.fill([(w.text_id, embedding(w.text)) for w in flight], digests).result()
        assert filled.count == len(still & digests.keys())
        assert shown(find(self.engine, query, asked, snapshot)) == before
        self.check_scores(uris.ROOT, text, asked)

    @rule(uri=anything)
    def drop_vectors(self, uri: str) -> None:
        """Texts whose vectors are dropped wait again."""
        store = self.engine.writable_store
        waiting = store.backlog_size().texts
        future = store.drop_vectors(uri)
        if uri not in self.known:
            assert isinstance(future.exception(), NotFound)
            return
        dropped = future.result().count
        assert store.backlog_size().texts == waiting + dropped

    @invariant()
    def each_vector_is_that_of_its_text(self) -> None:
        """Each text has no vector, the vector of its own words, or one that a writer sent."""
        for upsert in self.engine.store.scan():
            for text in upsert.texts:
                assert text.vector in SENT or text.vector == embedding(text.text), text

    # Memories

    def entry(self, uri: str, text: str) -> int | None:
        """Return the id of the memory that a text repeats."""
        there = self.memories.get(uri, {})
        same = [i for i, old in there.items() if normalized(old.text) == normalized(text)]
        return same[0] if same else None

    def learn(self, uri: str) -> None:
        """Copy a memory file into the dicts, because the daemon alone decides its layout."""
        if not self.memories.get(uri):
            self.memories.pop(uri, None)
            self.known.pop(uri, None)
            self.prepared.pop(uri, None)
            self.links = {link: why for link, why in self.links.items() if uri not in link}
            return
        self.add_directories(uri)
        file = self.engine.store.get(uri)
        texts = tuple(
            Text(i, passage.section, passage.start, passage.end, "", 0)
            for i, passage in enumerate(file.passages, start=1)
        )
        draft = Draft(uri, content=file.content)
        self.known[uri] = file.content
        self.prepared[uri] = Prepared(draft, file.abstract, texts, b"")

    def some_ids(self, data: st.DataObject) -> list[int]:
        """Draw some of the memories of all files."""
        ids = sorted(i for there in self.memories.values() for i in there)
        return data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True))

    def change(self, ids: list[int], change: Callable[[Said], Said | None]) -> None:
        """Change memories in the dicts, and remove those that become None."""
        for uri, there in list(self.memories.items()):
            for i in there.keys() & set(ids):
                new = change(there.pop(i))
                if new is not None:
                    there[i] = new
            self.learn(uri)

    @rule(uri=memory_files, text=wordings, prepared=st.booleans())
    def remember(self, uri: str, text: str, prepared: bool) -> None:
        """A text is added to its file, or reinforces an equal memory and replaces its wording."""
        now = next(self.clock)
        remembering = Remembering(uri, TITLE, text, "", now, now)
        if prepared:
            remembering.prepare(self.engine.store.memory_series(uri), {})
        self.engine.writable_store.rewrite({uri: remembering}).result()
        outcome = remembering.outcome
        assert outcome is not None
        old = self.entry(uri, text)
        there = self.memories.setdefault(uri, {})
        if old is None:
            assert outcome.did is Remembered.ADDED
            assert outcome.entry.id > self.newest
            self.newest = outcome.entry.id
            there[self.newest] = Said(text)
        else:
            assert (outcome.did, outcome.entry.id) == (Remembered.REINFORCED, old)
            known = there[old]
            there[old] = known._replace(text=text, reinforcement=known.reinforcement + 1)
        self.learn(uri)

    @precondition(lambda self: self.memories)
    @rule(data=st.data(), by=st.integers(1, 3))
    def reinforce(self, data: st.DataObject, by: int) -> None:
        """The counters of memories rise, all or none."""
        ids = self.some_ids(data)
        store = self.engine.writable_store
        missing = store.reinforce([*ids, self.newest + 1], by).exception()
        assert isinstance(missing, NotFound)
        store.reinforce(ids, by).result()
        self.change(
            ids,
            lambda said: said._replace(
                reinforcement=said.reinforcement + by, accesses=said.accesses + 1
            ),
        )

    @precondition(lambda self: self.memories)
    @rule(data=st.data())
    def access(self, data: st.DataObject) -> None:
        """Accesses of existing memories are counted, and accesses of missing ones are not."""
        ids = self.some_ids(data)
        store = self.engine.writable_store
        touched = store.touch({**dict.fromkeys(ids, 2), self.newest + 1: 1})
        assert touched.result().count == len(ids)
        self.change(ids, lambda said: said._replace(accesses=said.accesses + 2))

    @precondition(lambda self: self.memories)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """Forgotten memories are gone, and a file without memories is deleted."""
        ids = self.some_ids(data)
        forgetting = Forgetting(dict.fromkeys(ids, Entry()), unchanged=False)
        self.engine.writable_store.rewrite_holders(ids, forgetting, require_all=True).result()
        assert forgetting.gone == set(ids)
        self.change(ids, lambda _: None)

    @precondition(lambda self: self.memories)
    @rule(data=st.data(), text=wordings, eol=st.sampled_from(["\n", "\r\n"]))
    def edit(self, data: st.DataObject, text: str, eol: str) -> None:
        """A Put of an edited file keeps the memories whose lines stay."""
        uri = data.draw(st.sampled_from(sorted(self.memories)))
        there = self.memories[uri]
        kept = data.draw(st.lists(st.sampled_from(sorted(there)), unique=True))
        new = f"{text.replace(chr(10), ' ')} by hand {next(self.clock)}"
        lines = [*(there[i].text.replace("\n", "\n  ") for i in kept), new]
        content = "".join(f"- {line}\n" for line in lines).replace("\n", eol)
        self.engine.writable_store.put([prepare(Draft(uri, content=content))]).result()
        file = self.engine.store.memory_file(uri)
        assert file is not None
        (added,) = {stored.entry.id for stored in file.entries} - there.keys()
        assert added > self.newest
        self.newest = added
        self.memories[uri] = {i: there[i] for i in kept} | {added: Said(new)}
        self.learn(uri)

    @rule(source=memory_files, destination=memory_files)
    def move_memories(self, source: str, destination: str) -> None:
        """A moved file keeps its memories."""
        moves = source in self.known and destination not in self.known
        self.move(source, destination)
        if moves:
            self.memories[destination] = self.memories.pop(source)

    @rule(uri=memory_files)
    def delete_memories(self, uri: str) -> None:
        """A deleted file takes its memories with it."""
        self.delete(uri)
        self.memories.pop(uri, None)

    @invariant()
    def memories_are_those_of_the_dict(self) -> None:
        """Ids, wordings and counters of all memories are right."""
        assert remembered(self.engine) == self.memories

    @rule()
    def recall(self) -> None:
        """A recall finds each wording, and a reader recalls the same."""
        found = recalled(self.engine)
        texts = {said.text for there in self.memories.values() for said in there.values()}
        assert found <= {(said, i) for there in self.memories.values() for i, said in there.items()}
        assert {normalized(said.text) for said, _ in found} == set(map(normalized, texts))
        self.reader.wait_for_revision(self.engine.store.revision, 10)
        assert recalled(self.reader) == found

    # Readers

    @rule(scope=directories, text=words, seed=seeds, method=methods)
    def ask_the_reader(self, scope: str, text: str, seed: int | None, method: Method) -> None:
        """A reader gives the same answers and has the same memories as the writer."""
        self.reader.wait_for_revision(self.engine.store.revision, 10)
        assert remembered(self.reader) == self.memories
        scopes = [scope if scope in self.known else uris.ROOT, ROOT, USER]
        for target in scopes:
            # A file may have been moved to the place of a directory.
            is_directory = target in self.known and self.known[target] is None
            if is_directory and (text or seed is not None):
                query = FindQuery(
                    text, target_uri=target, limit=ALL, levels=Levels.BOTH, method=method
                )
                answers = [
                    shown(find(one, query, as_array(seed))) for one in (self.engine, self.reader)
                ]
                assert answers[0] == answers[1]


def remembered(engine: Engine) -> dict[str, dict[int, Said]]:
    """Return all memories of a store, by file and id."""
    out: dict[str, dict[int, Said]] = {}
    for stored in engine.store.memories_below(USER):
        entry = stored.entry
        said = Said(entry_text(stored.passage), entry.reinforcement, entry.access_count)
        out.setdefault(stored.uri, {})[entry.id] = said
    return out


def recalled(engine: Engine) -> set[tuple[Said, int]]:
    """Return the memories that a recall by words finds, with their ids."""
    query = RecallQuery(
        "tea 茶",
        MemoryScope(),
        now=10**9,
        time_zone="UTC",
        max_tokens=10**6,
        tokenizer="o200k_base",
        top_k=ALL,
        without=frozenset(),
        fusion=Rrf(),
        salience=Salience(),
        skip_oversize=False,
        no_touch=True,
        min_revision=0,
    )
    return {
        (Said(m.content, m.entry.reinforcement, m.entry.access_count), m.entry.id)
        for m in MemorySearch(engine, query).answer([None]).memories
    }
