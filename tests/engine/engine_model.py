"""A model of the engine: a state machine of all writes beside a plain dict and float64 scores."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from viking_kernels.arrays import F32, decode_file, encode_file

from benchmarks.recompute import Recomputation, compare
from benchmarks.stored import stored_in
from tests.index.find_helpers import Answer, find
from tests.kernels.trees import linked_with
from tests.postgres_servers import Server
from vikingd.domain import uri as uris
from vikingd.domain.contexts import MAX_RELATIONS, Draft, Passage, Prepared, Relation
from vikingd.domain.errors import AlreadyExists, InvalidField, NotFound
from vikingd.domain.find_query import FindQuery, Levels, Method
from vikingd.engine import Engine, EngineSettings
from vikingd.index.settings import IndexSettings
from vikingd.index.shown_strings import ShownPassage
from vikingd.index.snapshot import Snapshot
from vikingd.ingest.draft_preparation import prepare
from vikingd.ingest.masks import Masked
from vikingd.models.embed.embed_settings import EmbedSettings

ROOT = "viking://resources"
DIMENSION = 16
ALL = 1000

WORDS = ("harbour", "light", "winter", "API_KEY", "status", "港口", "冬天", "代码", "the")

names = st.sampled_from(["a", "b", "c", "ab", "文"])
directories = st.lists(names, max_size=2).map(lambda parts: "/".join([ROOT, *parts]))
files = st.tuples(directories, st.sampled_from(["1.md", "2.md", "10.md", "é.md"])).map("/".join)
anything = st.one_of(files, directories.filter(lambda uri: uri != ROOT))
words = st.tuples(
    st.sampled_from([" ", "\n", " \n", "\r\n", "\n\n"]),
    st.lists(st.sampled_from(WORDS), max_size=6),
).map(lambda drawn: drawn[0].join(drawn[1]))
titles = st.sampled_from(["", "harbour", "harbour light", "冬天"])
seeds = st.none() | st.integers(0, 40)


def vector(seed: int | None) -> bytes:
    """Return a unit vector that depends on the seed only."""
    if seed is None:
        return b""
    raw = np.random.default_rng(seed).normal(size=DIMENSION) + 1
    return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()


def file_draft(uri: str, content: str, seed: int | None, cut: bool, title: str) -> Draft:
    """Return a file; with `cut`, the draft has an abstract and passages of its own."""
    half = len(content) // 2
    passages = [Passage("一", 0, half), Passage("two", half, len(content))] if half else []
    return Draft(
        uri,
        content=content,
        title=title,
        vector=vector(seed),
        metadata={"n": len(content)},
        abstract=content[half:] if cut else "",
        passages=passages if cut else None,
    )


drafts = st.builds(
    file_draft, uri=files, content=words, seed=seeds, cut=st.booleans(), title=titles
)


def shown(result: Answer) -> tuple[object, ...]:
    """Return a result without its timings."""
    return result.revision, result.matches


Shown = dict[str, tuple[str, list[ShownPassage], tuple[Relation, ...]]]
"""Abstract, passages and links of each URI."""


def shown_by(snapshot: Snapshot) -> Shown:
    """Return everything that a snapshot shows of its living contexts."""
    out: Shown = {}
    tree = snapshot.tree
    directories = np.flatnonzero(tree.directories.tombstoned > snapshot.revision).tolist()
    files = np.flatnonzero(tree.files.tombstoned > snapshot.revision).tolist()
    for row in [*directories, *(encode_file(file) for file in files)]:
        own = (tree.texts.file == decode_file(row)) & (tree.texts.tombstoned > snapshot.revision)
        texts = np.flatnonzero(own & (snapshot.text_ordinal > 0)).tolist() if row < 0 else []
        passages = [snapshot.contents.passage(text) for text in texts]
        out[snapshot.uri(row)] = snapshot.abstract(row), passages, linked_with(snapshot, row)
    return out


class EngineMachine(RuleBasedStateMachine):
    """The engine beside a dict from URI to content (None for a directory).

    With a PostgreSQL server the second engine is a node of the same tenant, not a reader.
    """

    server: Server | None = None

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="vikingd-random-"))
        self.known: dict[str, str | None] = {uris.ROOT: None}
        self.prepared: dict[str, Prepared] = {}  # the last Put of each URI
        self.links: dict[frozenset[str], str] = {}
        self.held: list[tuple[Snapshot, Shown]] = []
        self.tenant = f"t{uuid4().hex}"
        self.engine = self.opened()
        self.reader = self.opened(reader=True)

    def opened(self, *, reader: bool = False) -> Engine:
        """Open the engine with a short tail, so that it compacts often."""
        settings = EngineSettings(
            self.path,
            EmbedSettings(provider="none"),
            IndexSettings(compact_min=24, compact_ratio=0.5),
            reader=reader,
        )
        if self.server is not None:
            path = self.path / ("second" if reader else "first")
            settings = replace(
                settings, path=path, store=self.server.url, tenant=self.tenant, reader=False
            )
        return Engine(settings)

    def teardown(self) -> None:
        """Close the engine and its reader, and delete all files."""
        self.reader.close()
        self.engine.close()
        shutil.rmtree(self.path)

    def below(self, uri: str) -> list[str]:
        """Return the URIs of a subtree in the dict."""
        return [known for known in self.known if uris.is_within(known, uri)]

    def add_directories(self, uri: str) -> None:
        """Add a context and the directories above it to the dict."""
        for above in uris.ancestors(uri):
            self.known.setdefault(above, None)

    def expected(self) -> Shown:
        """Return the contents that a snapshot must show, by the dicts."""
        out: Shown = {}
        for uri in self.known:
            prepared = self.prepared.get(uri)
            ends = sorted(
                (other, reason)
                for link, reason in self.links.items()
                for other in link - {uri}
                if uri in link
            )
            relations = tuple(
                Relation(
                    other, self.prepared[other].abstract if other in self.prepared else "", reason
                )
                for other, reason in ends
            )
            if prepared is None:
                out[uri] = "", [], relations
                continue
            content = prepared.draft.content
            passages = [
                ShownPassage(
                    t.section,
                    content[t.start : t.end],
                    t.start,
                    t.end,
                    content[: t.start].count("\n") + 1,
                    content[: t.end - 1].count("\n") + 1,
                )
                for t in prepared.texts
                if t.ordinal > 0
            ]
            out[uri] = prepared.abstract, passages, relations
        return out

    def refuses(self, batch: list[Draft]) -> bool:
        """Return True if a batch repeats a URI or has a URI of the other kind."""
        return len({draft.uri for draft in batch}) < len(batch) or any(map(self.clashes, batch))

    def clashes(self, draft: Draft) -> bool:
        """Return True if the dict has no place for a draft, or the draft would empty a file."""
        above = uris.ancestors(draft.uri)
        directories = [*above, draft.uri] if draft.is_directory else above
        if any(self.known.get(directory) is not None for directory in directories):
            return True
        if draft.is_directory or draft.uri not in self.known:
            return False
        old = self.known[draft.uri]
        return old is None or (bool(old) and not draft.content)

    def put(self, batches: list[list[Draft]]) -> None:
        """Write batches, which may share a commit; each is written whole or not at all."""
        store = self.engine.writable_store
        futures = [store.put([prepare(draft) for draft in batch]) for batch in batches]
        for batch, future in zip(batches, futures, strict=True):
            if self.refuses(batch):
                assert isinstance(future.exception(), InvalidField)
                continue
            future.result()
            for draft in batch:
                self.add_directories(draft.uri)
                self.known[draft.uri] = None if draft.is_directory else draft.content
                self.prepared[draft.uri] = prepare(draft)

    @rule(draft=drafts)
    def put_file(self, draft: Draft) -> None:
        """A file is written, or refused if a directory has its URI."""
        self.put([[draft]])

    @rule(uri=files, title=titles)
    def put_title(self, uri: str, title: str) -> None:
        """A mask writes the title of an existing context and nothing else."""
        future = self.engine.writable_store.put(
            [Masked.of(Draft(uri, title=title, update_mask=["title"]))]
        )
        if uri not in self.known:
            assert isinstance(future.exception(), NotFound)
            return
        future.result()
        self.prepared[uri] = prepare(replace(self.prepared[uri].draft, title=title))

    @rule(uri=directories, abstract=words, seed=seeds)
    def put_directory(self, uri: str, abstract: str, seed: int | None) -> None:
        """A directory gets a new abstract."""
        given = vector(seed) if abstract else b""
        self.put([[Draft(uri, is_directory=True, abstract=abstract, vector=given)]])

    @rule(uri=anything)
    def delete(self, uri: str) -> None:
        """A context is removed with its subtree."""
        future = self.engine.writable_store.delete([uri])
        if uri not in self.known:
            assert isinstance(future.exception(), NotFound)
            return
        gone = self.below(uri)
        assert future.result().count == len(gone)
        for known in gone:
            del self.known[known]
            self.prepared.pop(known, None)
        self.links = {link: why for link, why in self.links.items() if not link & set(gone)}

    @rule(source=anything, destination=anything)
    def move(self, source: str, destination: str) -> None:
        """A subtree gets another name and keeps its links."""
        future = self.engine.writable_store.move(source, destination)
        error = future.exception()
        if source not in self.known:
            assert isinstance(error, NotFound | InvalidField)
        elif uris.is_within(destination, source) or any(
            self.known.get(above) is not None for above in uris.ancestors(destination)
        ):
            assert isinstance(error, InvalidField | AlreadyExists)
        elif destination in self.known:
            assert isinstance(error, AlreadyExists)
        else:
            assert error is None
            renamed = {old: destination + old[len(source) :] for old in self.below(source)}
            self.add_directories(destination)
            for old, new in renamed.items():
                self.known[new] = self.known.pop(old)
                if old in self.prepared:
                    self.prepared[new] = self.prepared.pop(old)
            self.links = {
                frozenset(renamed.get(end, end) for end in link): why
                for link, why in self.links.items()
            }

    @precondition(lambda self: len(self.known) > 1)
    @rule(data=st.data(), why=st.sampled_from(["why", "", "因为"]))
    def link(self, data: st.DataObject, why: str) -> None:
        """Two existing contexts are linked, and the last reason counts."""
        there = anything | st.sampled_from(sorted(self.known))
        one, other = data.draw(there), data.draw(there)
        error = self.engine.writable_store.link(one, other, why).exception()
        if one == other:
            assert isinstance(error, InvalidField | NotFound)
        elif one not in self.known or other not in self.known:
            assert isinstance(error, NotFound)
        else:
            assert error is None
            self.links[frozenset((one, other))] = why

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def unlink(self, data: st.DataObject) -> None:
        """A link is removed."""
        ends = data.draw(st.sampled_from(sorted(map(sorted, self.links))))
        self.engine.writable_store.unlink(*ends).result()
        del self.links[frozenset(ends)]

    @rule()
    def hold(self) -> None:
        """A snapshot stays the same during all later writes."""
        self.held.append((self.engine.snapshot, shown_by(self.engine.snapshot)))

    @rule()
    def compact(self) -> None:
        """A compaction changes no result and no shown content."""
        before = self.everything()
        self.engine.optimize()
        after = self.everything()
        assert [m.uri for m in after.matches] == [m.uri for m in before.matches]
        assert shown_by(self.engine.snapshot) == self.expected()

    @rule()
    def restart(self) -> None:
        """The same queries get the same answers after a restart."""
        queries = [
            FindQuery("harbour API_KEY 冬天", levels=Levels.BOTH, limit=ALL, method=method)
            for method in (Method.EXHAUSTIVE, Method.EXACT)
        ]
        asked = np.frombuffer(vector(3), "<f4")
        generation = self.engine.snapshot.generation
        before = [shown(find(self.engine, query, asked)) for query in queries]
        self.engine.close()
        self.engine = self.opened()
        after = [shown(find(self.engine, query, asked)) for query in queries]
        if generation == self.engine.snapshot.generation:
            assert after == before

    @precondition(lambda self: ROOT in self.known)
    @rule(scope=directories, text=words, seed=seeds, where=st.booleans())
    def search(self, scope: str, text: str, seed: int | None, where: bool) -> None:
        """Scores equal those of the formulas, and only existing contexts are found."""
        if not text and seed is None:
            return
        asked = np.frombuffer(vector(seed), "<f4") if seed is not None else None
        if scope not in self.known:
            try:
                find(self.engine, FindQuery(text, target_uri=scope), asked)
            except NotFound:
                return
            raise AssertionError(f"{scope} is found though it is not there")
        if self.known[scope] is not None:
            return  # a file was moved there; the formulas are those of directories
        self.check_scores(scope, text, asked, where=where)

    def check_scores(
        self, scope: str, text: str, asked: F32 | None, *, where: bool = False
    ) -> None:
        """Compare the scores of an existing scope with those of the formulas."""
        clauses = {"n": {"$gte": 10}} if where else None
        query = FindQuery(text, target_uri=scope, limit=ALL, where=clauses)
        with self.engine.store._snapshot() as db:
            stored = stored_in(db)
        wide = asked.astype(np.float64) if asked is not None else None
        if self.engine.store.dimension is None:
            wide = None
        expected = Recomputation(stored, scope).scores(text, wide, None).files
        if where:
            expected = {u: s for u, s in expected.items() if len(self.known[u] or "") >= 10}
        # The gate from codes has an error of about .001, see `viking_kernels.final_scores`.
        for method, tolerance in ((Method.EXHAUSTIVE, 3e-3), (Method.EXACT, 1e-5)):
            same = replace(query, method=method)
            matches = find(self.engine, same, asked).matches
            compared = compare([(m.uri, m.score) for m in matches], expected, ALL)
            assert max(compared.difference, compared.misplaced) <= tolerance, compared

    def everything(self) -> Answer:
        """Return the results of a query that many files match."""
        query = FindQuery("harbour 港口 status", limit=ALL, levels=Levels.BOTH, trace=True)
        return find(self.engine, query, None)

    @invariant()
    def the_store_holds_what_the_dict_holds(self) -> None:
        """Store and index have all URIs, contents and links."""
        contexts = self.engine.store.tree(uris.ROOT, 0, "", ALL)
        assert {c.uri for c in contexts} == set(self.known)
        for uri, content in self.known.items():
            row = self.engine.snapshot.find(uri)
            assert row is not None
            assert (row >= 0) == (content is None)
        links = {
            frozenset((uri, relation.uri))
            for uri in {end for link in self.links for end in link}
            for relation in self.engine.store.get(uri).relations
        }
        assert links == set(self.links)

    @invariant()
    def what_is_shown_is_what_is_there(self) -> None:
        """The newest and all held snapshots show the right abstracts, passages and relations."""
        expected = self.expected()
        assert shown_by(self.engine.snapshot) == expected
        for snapshot, shown in self.held:
            assert shown_by(snapshot) == shown
        found = self.everything()
        assert found.trace is not None
        scores = {match.uri: match.score for match in found.matches}
        scores |= {directory.uri: directory.parts.final for directory in found.trace.directories}
        for match in found.matches:
            abstract, passages, linked = expected[match.uri]
            best = sorted(linked, key=lambda end: (-scores.get(end.uri, 0.0), end.uri))
            related = tuple(Relation(r.uri, r.abstract, r.reason) for r in match.relations)
            assert (match.abstract, related) == (abstract, tuple(best[:MAX_RELATIONS]))
            shown = {
                (p.section, p.text, p.start, p.end, p.first_line, p.last_line)
                for p in match.passages
            }
            assert shown <= set(passages)

    @rule()
    def verify(self) -> None:
        """Index and store agree, row by row."""
        report = self.engine.verify()
        assert report.ok, report.problems

    @rule()
    def follow(self) -> None:
        """A reader that stays open shows and answers the same as the writer."""
        self.reader.wait_for_revision(self.engine.store.revision, 10)
        assert shown_by(self.reader.snapshot) == self.expected()
        report = self.reader.verify()
        assert report.ok, report.problems
        query = FindQuery("harbour API_KEY 冬天", levels=Levels.BOTH, limit=ALL)
        asked = np.frombuffer(vector(3), "<f4")
        if self.engine.store.dimension is not None:
            answers = [shown(find(one, query, asked)) for one in (self.reader, self.engine)]
            assert answers[0] == answers[1]

    @rule()
    def another_reader(self) -> None:
        """A newly opened reader shows and answers the same as the writer."""
        self.reader.close()
        self.reader = self.opened(reader=True)
        self.follow()
