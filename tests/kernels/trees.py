"""Random trees that are the same in an index and in plain objects."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from viking_kernels import dense, final_scores
from viking_kernels import find as kernel
from viking_kernels.arrays import (
    FILES,
    SCRIPTS,
    Centroids,
    PreparedQuery,
    RawQuery,
    Scope,
    Scratch,
    SubtreeStats,
    Terms,
    encode_file,
)

from tests.kernels.naive import Directory, File, Query, Text, files_below, walk
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Relation
from vikingd.domain.store_changes import Change, Filled, IndexedText, Remove, Upsert
from vikingd.domain.text import HAN, LATIN, NONE, script_of
from vikingd.index.index import Index
from vikingd.index.lexicon import tokens
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot

DIMENSION = 16
NAMES = ("a", "a!", "b", "b.md", "E4102.md", "7", "更新")
WORDS = {
    LATIN: ("status", "codes", "of", "response", "HTTP", "src/main.c", "memory", "E4102", "coffee"),
    HAN: ("世界", "代码", "部署", "的", "你好"),
    NONE: ("42", "7", "->", "2024"),
}
SCRIPTS_OF = {"latin": (LATIN,), "mixed": (LATIN, LATIN, HAN, NONE), "han": (HAN, HAN, NONE)}


@dataclass(frozen=True)
class Shape:
    """The parameters of a random tree."""

    seed: int
    steps: tuple[int, ...]  # changes of each commit
    compact_after: int  # commits before a compaction; later commits are in the tail
    scripts: str
    hard: bool  # vectors with one huge component, or nearly equal vectors


shapes = st.builds(
    Shape,
    seed=st.integers(0, 2**32 - 1),
    steps=st.lists(st.integers(0, 25), max_size=4).map(tuple),
    compact_after=st.integers(0, 4),
    scripts=st.sampled_from(sorted(SCRIPTS_OF)),
    hard=st.booleans(),
)

LARGE = Shape(8, (25, 25, 25), 2, "mixed", False)
"""A shape with several directories of files in base and tail."""


class World:
    """An index and the same tree in plain objects, changed together at random."""

    def __init__(
        self,
        seed: int = 0,
        *,
        scripts: str = "mixed",
        hard: bool = False,
        minimum: int = 2000,
        dimension: int = DIMENSION,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.scripts = SCRIPTS_OF[scripts]
        self.hard = hard
        self.dimension = dimension
        self.prior = (self.rng.normal(size=(SCRIPTS, dimension)) * 0.1).astype(np.float32)
        self.centres = self.rng.normal(size=(SCRIPTS, dimension)) * 0.3
        self.folder = tempfile.TemporaryDirectory()
        self.index = Index(Path(self.folder.name), "model", self.prior, IndexSettings(minimum, 1.0))
        self.root = Directory(-1, uris.ROOT, "", None)
        self.revision = 0
        self.pending: dict[int, Text] = {}
        self._known: list[tuple[int, str, bytes]] = []  # (script, text, vector) to repeat
        self._ids = 0

    @property
    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""
        return self.index.snapshot

    def close(self) -> None:
        """Close the index, and delete its folder."""
        self.index.close()
        self.folder.cleanup()

    def new_id(self) -> int:
        """Return an id that was never used."""
        self._ids += 1
        return self._ids

    def compact(self) -> None:
        """Compact now, without `fsync`, which takes long."""
        with mock.patch("os.fsync"):
            self.index.compact()

    # Changes

    def vector(self, script: int) -> bytes:
        """Return a unit vector near those of its script, sometimes one that is hard to code."""
        raw = self.centres[script] + self.rng.normal(size=self.dimension) * 0.2
        kind = self.rng.integers(4) if self.hard else 0
        if kind == 1:
            raw = self.rng.normal(size=self.dimension) * 1e-3
            raw[self.rng.integers(self.dimension)] = self.rng.choice([-1, 1])
        elif kind == 2:
            raw = self.centres[script] + self.rng.normal(size=self.dimension) * 1e-2
        return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()

    def random_texts(self, count: int) -> list[tuple[int, str, bytes]]:
        """Return (script, text, vector) of random texts, some equal to earlier ones."""
        out = []
        for _ in range(count):
            if self._known and self.rng.random() < 0.3:
                out.append(self._known[self.rng.integers(len(self._known))])
                continue
            words = WORDS[int(self.rng.choice(self.scripts))]
            text = " ".join(self.rng.choice(words, self.rng.integers(0, 12)))
            script = script_of(text)
            out.append((script, text, self.vector(script) if self.rng.random() < 0.8 else b""))
            self._known.append(out[-1])
        return out

    def random_title(self) -> str:
        """Return a few words, or none."""
        words = WORDS[int(self.rng.choice(self.scripts))]
        return " ".join(self.rng.choice(words, self.rng.integers(0, 4)))

    def put(
        self,
        uri: str,
        is_directory: bool,
        texts: Sequence[tuple[int, str, bytes]],
        title: str = "",
    ) -> Upsert:
        """Put a context into the plain tree, and return the change for the index."""
        parent, name = self.directory(uris.parent(uri)), uris.name(uri)
        node: Directory | File | None = (
            parent.directories.get(name) if is_directory else parent.files.get(name)
        )
        if node is None:
            node = (Directory if is_directory else File)(self.new_id(), uri, name, parent)
        indexed, plain = [], []
        for ordinal, (script, text, vector) in enumerate(texts):
            text_id = self.new_id()
            terms = tokens.terms(text)
            if ordinal == 0 and not name.isdecimal():
                terms += tokens.terms(name)
            raw = np.frombuffer(vector, "<f4").astype(np.float64) if vector else None
            plain.append(Text(text_id, script, terms, raw))
            embeddable = bool(vector) or bool(text)
            if embeddable and not vector:
                self.pending[text_id] = plain[-1]
            indexed.append(
                IndexedText(
                    text_id,
                    ordinal,
                    script,
                    text,
                    vector,
                    embeddable,
                    self.stamp(uri),
                    text_id,
                    text,
                    text_id % 1000,
                )
            )
        if isinstance(node, Directory):
            parent.directories[name] = node
            node.abstract = plain[0] if plain else None
        else:
            parent.files[name] = node
            node.texts, node.title = plain, frozenset(tokens.terms(title))
        return Upsert(node.id, uri, is_directory, title, self.stamp(uri), {}, tuple(indexed))

    def stamp(self, uri: str) -> str:
        """Return the text that marks abstract and sections of a context with its commit."""
        return f"{uri} 的 {self.revision + 1}"

    def change(self) -> Change:
        """Make one random change to the plain tree, and return the change for the index."""
        directories = list(walk(self.root))
        files = files_below(self.root)
        kind = self.rng.random()
        if kind < 0.1 and self.pending:
            text_id = int(self.rng.choice(list(self.pending)))
            text = self.pending.pop(text_id)
            vector = self.vector(text.script)
            text.vector = np.frombuffer(vector, "<f4").astype(np.float64)
            return Filled(text_id, vector)
        if kind < 0.2 and files:
            file = files[self.rng.integers(len(files))]
            del file.parent.files[file.name]
            return Remove(file.uri)
        if kind < 0.23 and len(directories) > 1:
            gone = directories[self.rng.integers(1, len(directories))]
            assert gone.parent is not None
            del gone.parent.directories[gone.name]
            return Remove(gone.uri)
        if kind < 0.35 and files:
            file = files[self.rng.integers(len(files))]
            texts = self.random_texts(int(self.rng.integers(4)))
            return self.put(file.uri, False, texts, self.random_title())
        parent = directories[self.rng.integers(len(directories))]
        name = str(self.rng.choice(NAMES)) + str(self.rng.integers(4))
        uri = uris.join(parent.uri, name)
        is_directory = name not in parent.files and (
            name in parent.directories or self.rng.random() < 0.25
        )
        count = int(self.rng.integers(2 if is_directory else 4))
        return self.put(uri, is_directory, self.random_texts(count), self.random_title())

    def commit(self, changes: Sequence[Change]) -> None:
        """Apply changes to the index as one commit."""
        self.revision += 1
        self.index.apply(changes, self.revision)

    def step(self, count: int) -> None:
        """Commit random changes."""
        self.commit([self.change() for _ in range(count)])

    # Looking up

    def directory(self, uri: str) -> Directory:
        """Return the plain directory of a URI."""
        at = self.root
        for name in filter(None, uri.removeprefix(uris.ROOT).split("/")):
            at = at.directories[name]
        return at

    def scope_of(self, top: Directory) -> tuple[Snapshot, Scope, Centroids]:
        """Return the newest snapshot, and in it the scope of a directory with its centroids."""
        snapshot = self.snapshot
        row = snapshot.find(top.uri)
        assert row is not None
        scope, means, _ = snapshot.scope(row)
        return snapshot, scope, means

    def random_directory(self) -> Directory:
        """Return a random directory."""
        directories = list(walk(self.root))
        return directories[self.rng.integers(len(directories))]

    def query(self) -> Query:
        """Return a random query, with or without a vector and words."""
        script = int(self.rng.choice(self.scripts))
        text = " ".join(self.rng.choice(WORDS[script], self.rng.integers(0, 5)))
        found = tokens.query_terms(text)
        terms = dict(zip(found.terms, found.weights.tolist(), strict=True))
        vector = None
        if self.rng.random() < 0.85:
            vector = np.frombuffer(self.vector(script), "<f4").astype(np.float64) * 3
        return Query(vector, script_of(text), terms, self.rng.random() < 0.9, bool(terms))


def build(shape: Shape) -> World:
    """Return the random tree of a shape."""
    world = World(shape.seed, scripts=shape.scripts, hard=shape.hard)
    for i, count in enumerate(shape.steps):
        if i == shape.compact_after:
            world.compact()
        world.step(count)
    return world


def check_contents(snapshot: Snapshot) -> None:
    """Check that all shown contents of a context came with one commit."""
    tree, contents = snapshot.tree, snapshot.contents
    for text in np.flatnonzero(tree.texts.tombstoned > snapshot.revision).tolist():
        file, directory = int(tree.texts.file[text]), int(tree.texts.directory[text])
        row = directory if file < 0 else encode_file(file)
        section, passage, start, end, first_line, _ = contents.passage(text)
        assert section == snapshot.abstract(row)
        assert (start, end) == (snapshot.text_id[text], start + len(passage))
        assert first_line == snapshot.text_id[text] % 1000
        uri, _, revision = section.rpartition(" 的 ")
        assert uri == snapshot.uri(row)
        assert int(revision) <= snapshot.revision


def linked_with(snapshot: Snapshot, row: int) -> tuple[Relation, ...]:
    """Return the links of a node, by URI."""
    links = snapshot.links.get(row, {})
    alive = {uri: end for end in links if snapshot.find(uri := snapshot.uri(end)) == end}
    return tuple(
        Relation(uri, snapshot.abstract(end), links[end]) for uri, end in sorted(alive.items())
    )


def asked(query: Query, centroids: Centroids) -> RawQuery:
    """Return the query in the form of `find`."""
    vector = np.zeros(0, np.float32) if query.vector is None else query.vector.astype(np.float32)
    return RawQuery(vector, query.script, query.use_dense, query.use_lexical, centroids)


def compared(query: Query, centroids: Centroids) -> PreparedQuery:
    """Return the query in the form of the kernels within `find`."""
    return dense.prepare(asked(query, centroids))


def room(snapshot: Snapshot, more: int = 0, rubbish: float = np.nan) -> Scratch:
    """Return a scratch for a snapshot and `more` rows, with rubbish where it is allowed."""
    scratch = kernel.scratch(*(len(rows.tombstoned) + more for rows in snapshot.tree))
    spoil(scratch, rubbish)
    return scratch


def spoil(scratch: Scratch, rubbish: float) -> None:
    """Fill a scratch with rubbish where a query may leave rubbish."""
    for name, array in scratch._asdict().items():
        if name not in ("lexical", "titles", "dir_tf"):
            # Rubbish rows exist, so that a wrong read stays within bounds.
            odd = np.arange(array.size).reshape(array.shape) % 2
            array[:] = rubbish if array.dtype == np.float32 else odd


def terms_of(snapshot: Snapshot, query: Query) -> Terms:
    """Return the postings of a query's terms."""
    hashed = sorted((tokens.term_hash(term), weight) for term, weight in query.terms.items())
    weights = np.array([weight for _, weight in hashed], np.float32)
    keys = np.array([key for key, _ in hashed], np.uint64)
    return snapshot.terms(keys, weights)


def sampled(snapshot: Snapshot, root: int, sample: float) -> SubtreeStats:
    """Return statistics by which a find samples this share of the directories, if below 1."""
    stats = snapshot.stats
    if sample < 1:
        stats = stats._replace(counts=stats.counts.copy())
        stats.counts[stats.slot[root], FILES] = int(final_scores.SAMPLE_FILES / sample)
    return stats


def search(
    snapshot: Snapshot,
    uri: str,
    query: Query,
    method: int = kernel.EXACT,
    *,
    k: int = 10**4,
    alpha: float = -1.0,
    threshold: float = 0.0,
    allowed: Sequence[int] = (),
    starts: int = 3,
    limits: tuple[int, int, int] = (8, 10**6, 10**6),
    passages: int = 3,
    near: Sequence[int] = (),
    sample: float = 1.0,
    all_directories: bool = True,
    all_files: bool = False,
    keeps_words: bool = False,
    adjusted: int = 0,
    named: Sequence[int] = (),
    factors: Sequence[float] = (),
    more: Sequence[int] = (),
    scratch: Scratch | None = None,
) -> kernel.Found:
    """Run the kernels' find; `limits` are directories a round, patience and most directories.

    A `sample` below 1 makes the scope appear so large that a find samples only this share of its
    directories. The scratch must be clean after each find.
    """
    row = snapshot.find(uri)
    assert row is not None
    scope, centroids, _ = snapshot.scope(row)
    stats = sampled(snapshot, row, sample)
    plan = kernel.Plan(
        method,
        threshold,
        alpha,
        starts,
        passages,
        all_directories,
        k,
        *limits,
        keeps_words=keeps_words,
        all_files=all_files,
        near=np.array(near, np.int32),
        allowed=np.array(allowed, np.uint8),
        adjusted=adjusted,
        named=np.array(named, np.uint8),
        factors=np.array(factors, np.float32),
        more=np.array(more, np.int32),
    )
    scratch = room(snapshot) if scratch is None else scratch
    found = kernel.find(
        snapshot.tree,
        snapshot.vectors,
        stats,
        asked(query, centroids),
        scope,
        terms_of(snapshot, query),
        plan,
        scratch,
    )
    assert keeps_words or not scratch.lexical.any()
    assert keeps_words or not scratch.titles.any()
    assert not scratch.dir_tf.any()
    return found
