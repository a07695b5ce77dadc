"""The scores of a find once more: in float64, by the formulas as they are written, from SQLite.

It shares the terms of a text and the scripts with the daemon, nothing else: no row numbers, no
postings, no sums that are kept up to date. Slow and meant to be obviously right. Codes of vectors
are made anew here, for the gate alone, which is told by them.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vikingd.domain.text import NONE, SCRIPTS, script_of, text_to_index
from vikingd.index.lexicon.tokens import query_terms, term_hash, terms

F64 = npt.NDArray[np.float64]

ROOT = "viking://"
K1, B, LEAST_BEST, TITLE = 1.2, 0.75, 0.2, 0.1
HEADING = 3
DENSE_WEIGHT = 0.5
PARENT_WEIGHT, NEIGHBOUR_WEIGHT, ICC_FULL = 0.5, 0.2, 0.25
SAMPLE_FILES = 2048
ENOUGH_VECTORS, PRIOR_WEIGHT = 30, 5.0
CODES_TELL = 0.1  # where a code leaves more of an own score open, the gate asks the vector
NEGLIGIBLE = 1e-4  # shorter than this, a centred vector is rounding noise


@dataclass(frozen=True, slots=True)
class StoredText:
    """A piece of a context; `vector` is None where there is none."""

    script: int
    text: str
    heading: str
    vector: F64 | None


@dataclass(frozen=True, slots=True)
class StoredContext:
    """A directory or file with its texts, the abstract first."""

    uri: str
    is_directory: bool
    title: str
    texts: tuple[StoredText, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """All that scores depend on; `prior` is [scripts, dim], the model's mean of each script."""

    contexts: tuple[StoredContext, ...]
    prior: F64


@dataclass(frozen=True, slots=True)
class Expected:
    """Final scores by URI, and the intraclass correlation that they rest on."""

    files: Mapping[str, float]
    directories: Mapping[str, float]  # the scope's root among them
    icc: float


def read_store(path: Path) -> Stored:
    """Reads the SQLite file of a store, beside a daemon or after it."""
    with closing(sqlite3.connect(f"file:{path / 'store.sqlite3'}?mode=ro", uri=True)) as db:
        texts: dict[int, list[StoredText]] = defaultdict(list)
        for context_id, script, stored, title, section, piece, raw in db.execute(
            "SELECT c.id, t.script, t.text, c.title, t.section, "
            "CASE t.ordinal WHEN 0 THEN c.abstract "
            'ELSE substr(c.content, t."start" + 1, t."end" - t."start") END, t.vector '
            "FROM texts t JOIN contexts c ON c.id = t.context_id ORDER BY c.id, t.ordinal"
        ):
            text = text_to_index(title, section, piece) if stored is None else stored
            vector = None if raw is None else np.frombuffer(raw, "<f4").astype(np.float64)
            heading = text[: -len(piece)] if piece and text.endswith(piece) else ""
            texts[context_id].append(StoredText(script, text, heading, vector))
        contexts = tuple(
            StoredContext(uri, bool(is_directory), title, tuple(texts[context_id]))
            for context_id, uri, is_directory, title in db.execute(
                "SELECT id, uri, is_directory, title FROM contexts"
            )
        )
        vectors = [t.vector for c in contexts for t in c.texts if t.vector is not None]
        dimension = len(vectors[0]) if vectors else 0
        prior = np.zeros((len(SCRIPTS), dimension))
        for (raw,) in db.execute("SELECT value FROM meta WHERE key LIKE 'prior/%'"):
            prior = np.frombuffer(raw, "<f4").astype(np.float64).reshape(len(SCRIPTS), -1)
    return Stored(contexts, prior)


PARTS = (
    "meaning",
    "words",
    "centring",
    "languages",
    "headings",
    "lift",
    "titles",
    "gate",
    "parents",
    "neighbours",
)
"""What `Recomputation` can do without: one mean for all languages is without "languages", parents
and neighbours always in full without the "gate"."""


class Recomputation:
    """The scores of what lies below one directory, for any query; `without` some of PARTS."""

    def __init__(self, stored: Stored, scope: str, without: Collection[str] = ()) -> None:
        self._scope = scope
        self._without = without
        inside = [c for c in stored.contexts if _within(c.uri, scope)]
        inside.sort(key=lambda c: (c.uri.count("/"), c.uri))  # parents before their children
        self._directories = [c.uri for c in inside if c.is_directory]
        files = sorted(c.uri for c in inside if not c.is_directory)
        # By name, of every directory.
        self._files_of: dict[str, list[str]] = {uri: [] for uri in self._directories}
        for uri in files:
            self._files_of[_parent(uri)].append(uri)
        self._file_count = len(files)
        self._mean = _means(stored, scope)
        if "centring" in without:
            self._mean[:] = 0
        if "languages" in without:
            all_vectors = [t.vector for c in inside for t in c.texts if t.vector is not None]
            self._mean[:] = np.mean(all_vectors, axis=0)
        self._scripts = sorted(
            {t.script for c in stored.contexts for t in c.texts if t.vector is not None}
        )

        self._texts: list[StoredText] = []
        self._counts: list[Counter[str]] = []  # terms of each text
        self._titles = {c.uri: frozenset(terms(c.title)) for c in inside if "titles" not in without}
        self._of: dict[str, list[int]] = {}  # the texts of each context
        self._below: dict[str, list[int]] = {uri: [] for uri in self._directories}
        self._documents: dict[str, Counter[str]] = {uri: Counter() for uri in self._directories}
        for context in inside:
            self._of[context.uri] = []
            for i, text in enumerate(context.texts):
                self._add(context, text, first=i == 0)

        self._by_words = _Documents(self._counts)
        self._directories_by_words = _Documents([self._documents[d] for d in self._directories])
        self._known = {term_hash(term) for counts in self._counts for term in counts}
        # Each vector less the mean of its language; zeros where there is none.
        self._centred = np.zeros((len(self._texts), stored.prior.shape[1]))
        vectors = np.zeros_like(self._centred)
        for i, text in enumerate(self._texts):
            if text.vector is not None:
                vectors[i] = text.vector
                self._centred[i] = text.vector - self._mean[text.script]
        self._codes = _Codes(vectors)
        # Of what lies below each directory: its scripts, the sum of the vectors, their number.
        self._scripts_below = {
            uri: {self._texts[i].script for i in below} for uri, below in self._below.items()
        }
        self._sums = {uri: self._centred[below].sum(axis=0) for uri, below in self._below.items()}
        self._vectors_below = {
            uri: sum(self._texts[i].vector is not None for i in below)
            for uri, below in self._below.items()
        }

    def _add(self, context: StoredContext, text: StoredText, *, first: bool) -> None:
        number = len(self._texts)
        counts = Counter(terms(text.text))
        if "headings" not in self._without:
            counts.update(terms(text.heading) * (HEADING - 1))
        name = context.uri.rpartition("/")[2]
        if first and name and not name.isdecimal():
            counts.update(terms(name))
        self._texts.append(text)
        self._counts.append(counts)
        self._of[context.uri].append(number)
        # A directory's document: its abstract, its files' texts, its directories' abstracts.
        directory = context.uri if context.is_directory else _parent(context.uri)
        self._documents[directory].update(counts)
        if context.is_directory and directory != self._scope:
            self._documents[_parent(directory)].update(counts)
        while True:
            self._below[directory].append(number)
            if directory == self._scope:
                break
            directory = _parent(directory)

    def scores(self, text: str, vector: F64 | None, alpha: float | None = None) -> Expected:
        """Final scores in [0, 1] of all files and directories of the scope.

        Args:
            text: the question, "" for none.
            vector: its embedding, of any length; None for none.
            alpha: the weight of the own score; None for the adaptive one.
        """
        if "meaning" in self._without:
            vector = None
        weights = Counter() if "words" in self._without else Counter(terms(text))
        script = script_of(text) if text or vector is None else self._nearest_script(vector)
        if self._known.intersection(query_terms(text).identifiers):
            script, vector = NONE, None
            alpha = 1.0 if alpha is None else alpha
        dense, direction = self._dense(vector, script)
        lexical = self._by_words.bm25(weights)
        in_directories = dict(
            zip(self._directories, self._directories_by_words.bm25(weights), strict=True)
        )

        foreign = [t.script != script and NONE not in (t.script, script) for t in self._texts]
        best = max((x for x, far in zip(lexical, foreign, strict=True) if not far), default=0.0)
        lift = LEAST_BEST / best if 0 < best < LEAST_BEST and "lift" not in self._without else 1.0
        coded, left_open = self._dense_of_codes(dense, direction)
        own_texts, own_of_codes = [], []
        for i in range(len(self._texts)):
            missing = not weights or foreign[i]
            words = 0.0 if missing else min(1.0, lexical[i] * lift)
            own_texts.append(_own(dense[i], words, direction is not None, missing))
            share = 1.0 if missing else DENSE_WEIGHT
            told = coded[i] if share * left_open[i] <= CODES_TELL else dense[i]
            own_of_codes.append(_own(told, words, direction is not None, missing))
        own, sampled = (
            {
                uri: max(scores[i] for i in self._of[uri])
                for files in self._files_of.values()
                for uri in files
            }
            for scores in (own_texts, own_of_codes)
        )
        own_directories = {}
        for uri in self._directories:
            scripts = self._scripts_below[uri]
            missing = not weights or (script != NONE and not scripts & {script, NONE})
            words = 0.0 if missing else in_directories[uri]
            meaning = self._dense_of_directory(uri, direction)
            own_directories[uri] = _own(meaning, words, direction is not None, missing)

        icc = self._icc(sampled)
        gate = 1.0 if "gate" in self._without else max(0.0, 1.0 - icc / ICC_FULL)
        b = 0.0 if "parents" in self._without else PARENT_WEIGHT * gate
        c = 0.0 if "neighbours" in self._without else NEIGHBOUR_WEIGHT * gate
        if alpha is not None:
            b, c = 1.0 - alpha, 0.0
        below_root = b if self._of[self._scope] else 0.0
        directories = {self._scope: own_directories[self._scope]}
        files: dict[str, float] = {}
        for uri in self._directories:
            if uri != self._scope:
                above = _parent(uri)
                weight = below_root if above == self._scope else b
                directories[uri] = (1 - weight) * own_directories[uri] + weight * directories[above]
            weight = below_root if uri == self._scope else b
            siblings = self._files_of[uri]
            for i, file in enumerate(siblings):
                around = [own[s] for s in siblings[max(0, i - 1) : i] + siblings[i + 1 : i + 2]]
                smoothed = (own[file] + c * sum(around)) / (1 + c * len(around))
                title = self._titles.get(file)
                share = len(title & weights.keys()) / len(title) if title else 0.0
                score = (1 - weight) * smoothed + weight * directories[uri] + TITLE * share**2
                files[file] = min(1.0, score)
        return Expected(files, directories, icc)

    def _dense(self, vector: F64 | None, script: int) -> tuple[F64, F64 | None]:
        """(closeness of each text, the centred query of unit length)."""
        dense = np.zeros(len(self._texts))
        if vector is None:
            return dense, None
        if not self._mean.shape[1]:
            return dense, np.zeros(0)  # no text has a vector any more: none is near
        direction = vector / np.linalg.norm(vector) - self._mean[script]
        length = np.linalg.norm(direction)
        direction = direction / length if length > NEGLIGIBLE else np.zeros_like(direction)
        lengths = np.linalg.norm(self._centred, axis=1)
        long = lengths > NEGLIGIBLE
        dense[long] = np.clip(self._centred[long] @ direction / lengths[long], 0.0, 1.0)
        return dense, direction

    def _dense_of_codes(self, dense: F64, direction: F64 | None) -> tuple[F64, F64]:
        """(`dense` as int8 codes tell it, how far that can be off) of each text."""
        if direction is None or not len(direction):
            return dense, np.zeros(len(dense))
        told, left_open = dense.copy(), np.zeros(len(dense))
        for script in self._scripts:
            rows = [
                i for i, t in enumerate(self._texts) if t.script == script and t.vector is not None
            ]
            told[rows], left_open[rows] = self._codes.cosines(rows, direction, self._mean[script])
        return told, left_open

    def _dense_of_directory(self, uri: str, direction: F64 | None) -> float:
        """Closeness of the sum of all centred vectors below a directory."""
        if direction is None:
            return 0.0
        total = self._sums[uri]
        length = float(np.linalg.norm(total))
        if length <= NEGLIGIBLE * self._vectors_below[uri]:
            return 0.0
        return min(max(0.0, float(total @ direction) / length), 1.0)

    def _nearest_script(self, vector: F64) -> int:
        """The script whose mean is nearest, of those that the store has vectors of."""
        lengths = np.linalg.norm(self._mean, axis=1)
        present = [s for s in self._scripts if lengths[s] > 0]
        if not present:
            return NONE
        return max(present, key=lambda s: float(self._mean[s] @ vector) / lengths[s])

    def _icc(self, own: Mapping[str, float]) -> float:
        """Shrout and Fleiss' ICC(1) of the files' own scores by directory, over the sample."""
        share = min(1.0, SAMPLE_FILES / max(1, self._file_count))
        groups = [
            np.array([own[file] for file in files])
            for uri, files in self._files_of.items()
            if files and (share == 1.0 or term_hash(uri) < share * 2.0**64)
        ]
        sizes = np.array([len(group) for group in groups])
        total, k = sizes.sum(), len(groups)
        if k < 2 or total == k:
            return 1.0
        grand = np.concatenate(groups).mean()
        between = sum(len(g) * (g.mean() - grand) ** 2 for g in groups) / (k - 1)
        within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (total - k)
        n0 = (total - (sizes**2).sum() / total) / (k - 1)
        denominator = between + (n0 - 1) * within
        if denominator <= 1e-12:
            return 1.0
        return float(np.clip((between - within) / denominator, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Comparison:
    """How returned scores compare with the recomputed ones.

    `difference` is the largest of a returned context, `misplaced` the most by which any place has
    less than what belongs there; 0 where only equal scores have changed places.
    """

    difference: float
    misplaced: float
    same_order: bool


def compare(
    returned: Sequence[tuple[str, float]], expected: Mapping[str, float], limit: int
) -> Comparison:
    """Compares (URI, score) in the order in which they came with all that could have come."""
    ordered = sorted(((-score, uri) for uri, score in expected.items() if score > 0))[:limit]
    difference = max((abs(s - expected.get(uri, math.inf)) for uri, s in returned), default=0.0)
    misplaced = 0.0
    for place, (negative, _) in enumerate(ordered):
        there = expected.get(returned[place][0], -math.inf) if place < len(returned) else 0.0
        misplaced = max(misplaced, -negative - there)
    same = [uri for uri, _ in returned] == [uri for _, uri in ordered]
    return Comparison(difference, misplaced, same)


def _own(dense: float, lexical: float, use_dense: bool, missing: bool) -> float:
    """Half and half; a part that is missing leaves all to the other."""
    if not use_dense:
        return lexical
    return dense if missing else DENSE_WEIGHT * dense + (1 - DENSE_WEIGHT) * lexical


class _Codes:
    """Vectors x [n, dim] as int8 codes: x is nearly scale * code."""

    def __init__(self, vectors: F64) -> None:
        rows = vectors.astype(np.float32)
        scale = np.abs(rows).max(axis=1, initial=0) / np.float32(127)
        code = np.rint(rows / np.where(scale > 0, scale, np.float32(1))[:, None])
        self._near = scale[:, None].astype(np.float64) * code.astype(np.float64)
        self._left = np.linalg.norm(vectors - self._near, axis=1)

    def cosines(self, rows: Sequence[int], direction: F64, mean: F64) -> tuple[F64, F64]:
        """(cosines of x - mean with a direction, in [0, 1], how far each can be off).

        As if x were of unit length, and with codes of the direction and the mean too.
        """
        near, left = self._near[rows], self._left[rows]
        (direction_near, direction_left), (mean_near, mean_left) = _coded(direction), _coded(mean)
        above = near @ direction_near - direction @ mean
        square = 1 - 2 * (near @ mean_near) + mean @ mean
        above_off = direction_left + left * (1 + direction_left)
        square_off = 2 * (mean_left + left * (np.linalg.norm(mean) + mean_left))
        whole = np.maximum(square, NEGLIGIBLE**2)
        off = (above_off + (np.abs(above) + above_off) * square_off / whole) / np.sqrt(whole)
        off[(square_off > square / 2) | (square - square_off <= NEGLIGIBLE**2)] = 1.0
        off[above + above_off <= 0] = 0.0
        return np.clip(above / np.sqrt(whole), 0.0, 1.0), off


def _coded(x: F64) -> tuple[F64, float]:
    """(what the int8 code of a vector stands for, the length of what it leaves out)."""
    largest = float(np.abs(x).max(initial=0.0))
    if largest == 0:
        return x, 0.0
    near = np.rint(x * (127 / largest)) * (largest / 127)
    return near, float(np.linalg.norm(x - near))


class _Documents:
    """Documents by their terms."""

    def __init__(self, documents: Sequence[Mapping[str, int]]) -> None:
        lengths = [sum(document.values()) for document in documents]
        average = max(1.0, sum(lengths) / max(1, len(documents)))
        self._norms = [K1 * (1 - B + B * length / average) for length in lengths]
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for i, document in enumerate(documents):
            for term, tf in document.items():
                self._postings[term].append((i, tf))

    def bm25(self, weights: Mapping[str, int]) -> list[float]:
        """BM25 in Lucene's form over the ideal, the sum of weight * idf, of each document."""
        scores = [0.0] * len(self._norms)
        ideal = 0.0
        for term, weight in weights.items():
            found = self._postings.get(term, [])
            gain = weight * math.log(1 + (len(scores) - len(found) + 0.5) / (len(found) + 0.5))
            ideal += gain
            for i, tf in found:
                scores[i] += gain * tf / (tf + self._norms[i])
        return [score / ideal for score in scores] if ideal > 0 else scores


def _means(stored: Stored, scope: str) -> F64:
    """[scripts, dim] mean of each script's vectors in the scope or the nearest with enough above.

    Where even the whole store has few, they are mixed with the prior; where it has none, the
    prior stands alone.
    """
    mean = stored.prior.copy()
    for script in range(len(SCRIPTS)):
        vectors = [
            (context.uri, text.vector)
            for context in stored.contexts
            for text in context.texts
            if text.script == script and text.vector is not None
        ]
        uri = scope
        while True:
            below = [vector for where, vector in vectors if _within(where, uri)]
            if len(below) >= ENOUGH_VECTORS or uri == ROOT:
                break
            uri = _parent(uri)
        if below:
            total, count = np.sum(below, axis=0), float(len(below))
            if count < ENOUGH_VECTORS:
                total, count = total + PRIOR_WEIGHT * stored.prior[script], count + PRIOR_WEIGHT
            mean[script] = total / count
    return mean


def _within(uri: str, directory: str) -> bool:
    return directory in (ROOT, uri) or uri.startswith(f"{directory}/")


def _parent(uri: str) -> str:
    head = uri.rpartition("/")[0]
    return head if len(head) > len(ROOT) else ROOT
