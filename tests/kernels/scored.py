"""The scores of one query over one scope of a random tree, for the tests of kernels."""

from __future__ import annotations

from viking_kernels import bm25, directory_scoring, final_scores, node_scores
from viking_kernels import scope as scopes
from viking_kernels.arrays import Search, Vectors, decode_file
from viking_kernels.titles import score_titles

from tests.kernels.naive import Directory, files_below, files_in, walk
from tests.kernels.trees import World, compared, room, terms_of


class Scored:
    """A random tree with the arrays of one query over one scope, step by step."""

    def __init__(self, world: World, top: Directory | None = None) -> None:
        self.top, self.query = top or world.random_directory(), world.query()
        self.snapshot, self.scope, self.centroids = world.scope_of(self.top)
        scope, tree = self.scope, self.snapshot.tree
        self.tree = tree
        self.inside = scopes.tail_directories(tree.directories, scope)
        self.compared = compared(self.query, self.centroids)
        self.vectors = self.snapshot.vectors
        self.size = scope.dir_high - scope.dir_low + len(self.inside)
        self.scratch = room(self.snapshot)
        self.scratch.dir_lexical[: self.size] = 0
        self.scratch.sampled[: self.size] = 0
        stats = self.snapshot.stats
        self.search = Search(tree, self.vectors, stats, self.compared, scope, self.scratch)
        terms = terms_of(self.snapshot, self.query)
        ranges = bm25.ranges_of(terms, scope)
        bm25.score_scope(self.search, self.inside, terms, ranges)
        score_titles(tree.texts, scope, self.inside, terms, ranges, self.scratch.titles)
        final_scores.directory_scores(self.inside, False, self.search)
        self.text_row = {int(key): row for row, key in enumerate(self.snapshot.text_id)}
        found = {f.id: self.snapshot.find(f.uri) for f in files_below(self.top)}
        self.file_row = {key: decode_file(int(node)) for key, node in found.items()}
        self.dir_row = {d.id: int(self.snapshot.find(d.uri)) for d in walk(self.top)}
        for row in self.dir_row.values():
            self.score(row, exact=True)

    def score(self, row: int, vectors: Vectors | None = None, *, exact: bool) -> int:
        """Score a directory's files; return the number of their texts."""
        search = self.search_of(vectors)
        if not exact and row < self.scope.base_dirs:
            low, high = self.tree.directories.texts[row : row + 2].tolist()
            node_scores.score_codes(low, high, search)
        return directory_scoring.score_files(row, exact, search)

    def text_score(
        self, key: int, vectors: Vectors | None = None, *, exact: bool = True
    ) -> tuple[float, float]:
        """Return the node score of a text and its error bound."""
        row, search = self.text_row[key], self.search_of(vectors)
        if exact:
            return node_scores.text_score(row, search), 0.0
        if row >= self.scope.base_texts:
            return node_scores.text_score_from_code(row, search)
        node_scores.score_codes(row, row + 1, search)
        return float(self.scratch.code_scores[0]), float(self.scratch.code_errors[0])

    def search_of(self, vectors: Vectors | None) -> Search:
        """Return the search, with other vectors if they are given."""
        return self.search._replace(vectors=vectors or self.vectors)

    def text_id(self, row: int) -> int:
        """Return the id of a row's text, or -1 for row -1."""
        return int(self.snapshot.text_id[row]) if row >= 0 else -1

    def text_at(self, key: int) -> int:
        """Return the position of a text."""
        s = self.scope
        return scopes.place(self.text_row[key], s.text_low, s.text_high, s.base_texts)

    def file_at(self, key: int) -> int:
        """Return the position of a file."""
        s = self.scope
        return scopes.place(self.file_row[key], s.file_low, s.file_high, s.base_files)

    def dir_at(self, key: int) -> int:
        """Return the position of a directory."""
        s = self.scope
        return scopes.place(self.dir_row[key], s.dir_low, s.dir_high, s.base_dirs)

    def file_scores(self) -> dict[int, float]:
        """Return the node scores of the files by id."""
        return {key: float(self.scratch.file_scores[self.file_at(key)]) for key in self.file_row}

    def titles(self) -> dict[int, float]:
        """Return the title bonuses of the files by id."""
        return {key: float(self.scratch.titles[self.file_at(key)]) for key in self.file_row}

    def scores_in(self, directory: Directory) -> dict[int, float]:
        """Return the node scores of the files of a directory by id."""
        scores = self.scratch.file_scores
        return {f.id: float(scores[self.file_at(f.id)]) for f in files_in(directory)}
