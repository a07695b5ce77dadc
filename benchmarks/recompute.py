"""A recomputation of a find's scores: in float64, by the plain formulas, from SQLite.

It shares only the tokenizer and the detection of scripts, turns and days with the daemon. It has no
rows, postings or incremental sums. It is slow and meant to be obviously right. Only the gate uses
int8 codes, which are computed again here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from benchmarks.adjusted import FileFacts, FirstStage, adjusted
from benchmarks.recomputed_codes import NEGLIGIBLE, Codes
from benchmarks.recomputed_words import Documents, counts_in_length, length_of
from benchmarks.stored import F64, Stored, StoredContext, StoredText
from vikingd.domain.text import NONE, SCRIPTS, script_of
from vikingd.index.lexicon.tokens import (
    indexed_terms,
    parts,
    query_terms,
    term_hash,
)
from vikingd.index.lexicon.turns import asks, speaker_of
from vikingd.times.time_phrases import spans

ROOT = "viking://"
LEAST_BEST, TITLE = 0.2, 0.1
DENSE_WEIGHT = 0.5
TERMS_ENOUGH = 2  # terms in common with a title for its whole bonus
OTHER_SCRIPT, CAP_SLOPE, BEST_BY_WORDS = 0.8, 1e-3, 64
PARENT_WEIGHT, NEIGHBOUR_WEIGHT, ICC_FULL = 0.5, 0.2, 0.25
MANY_FILES = 15  # per directory, from which on the parent counts less
SAMPLE_FILES = 2048
ENOUGH_VECTORS, PRIOR_WEIGHT = 30, 5.0
CODE_ERROR = 0.1  # with a larger error bound of the node score the gate uses the vector


@dataclass(frozen=True, slots=True)
class Expected:
    """Final scores by URI, and the intraclass correlation of the gate."""

    files: Mapping[str, float]
    directories: Mapping[str, float]  # with the root of the scope
    icc: float


PARTS = (
    *("meaning", "words", "centring", "languages", "headings"),
    *("score floor", "titles", "title of one word", "gate", "parents", "neighbours"),
    *("directory size", "other script"),
    *("second stage", "feedback", "cover", "agreement", "replies", "dates"),
)
"""Parts that `Recomputation` can leave out.

Without "languages" all languages have one centroid. Without "gate" parents and neighbours have
their full share. Without "title of one word" one word of a longer query counts as two. Without
"directory size" parents of many files count as others do. Without "other script" texts in another
script keep their whole dense score.
"""


class Recomputation:
    """The recomputed scores of a scope, for any query; parts of the score can be left out."""

    def __init__(self, stored: Stored, scope: str, without: Collection[str] = ()) -> None:
        self._scope = scope
        self._without = without
        inside = [c for c in stored.contexts if _within(c.uri, scope)]
        inside.sort(key=lambda c: (c.uri.count("/"), c.uri))  # parents before their children
        self._directories = [c.uri for c in inside if c.is_directory]
        files = sorted(c.uri for c in inside if not c.is_directory)
        # The files of each directory, by name.
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
        self._titles = {
            c.uri: frozenset(filter(counts_in_length, indexed_terms(c.title)))
            for c in inside
            if "titles" not in without
        }
        self._of: dict[str, list[int]] = {}  # the texts of each context
        self._below: dict[str, list[int]] = {uri: [] for uri in self._directories}
        self._documents: dict[str, Counter[str]] = {uri: Counter() for uri in self._directories}
        for context in inside:
            self._of[context.uri] = []
            for i, text in enumerate(context.texts):
                self._add(context, text, first=i == 0)

        self._by_words = Documents(self._counts)
        self._directories_by_words = Documents([self._documents[d] for d in self._directories])
        self._known = {term_hash(term) for counts in self._counts for term in counts}
        # Each vector minus the centroid of its script; zeros if a text has none.
        self._centred = np.zeros((len(self._texts), stored.prior.shape[1]))
        vectors = np.zeros_like(self._centred)
        for i, text in enumerate(self._texts):
            if text.vector is not None:
                vectors[i] = text.vector
                self._centred[i] = text.vector - self._mean[text.script]
        self._codes = Codes(vectors)
        self._facts = {c.uri: self._facts_of(c) for c in inside if not c.is_directory}
        # Scripts, sum and number of the vectors below each directory.
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
        name = context.uri.rpartition("/")[2] if first else ""
        heading = "" if "headings" in self._without else text.heading
        counts: Counter[str] = Counter()
        for part in parts(text.text, name, heading):
            counts.update(indexed_terms(part))
        self._texts.append(text)
        self._counts.append(counts)
        self._of[context.uri].append(number)
        # The document of a directory: its abstract, its files' texts, its directories' abstracts.
        directory = context.uri if context.is_directory else _parent(context.uri)
        self._documents[directory].update(counts)
        if context.is_directory and directory != self._scope:
            self._documents[_parent(directory)].update(counts)
        while True:
            self._below[directory].append(number)
            if directory == self._scope:
                break
            directory = _parent(directory)

    def _facts_of(self, context: StoredContext) -> FileFacts:
        counts = [self._counts[i] for i in self._of[context.uri]]
        passages = {t.ordinal: t.text.removeprefix(t.heading) for t in context.texts if t.ordinal}
        siblings = self._files_of[_parent(context.uri)]
        at = siblings.index(context.uri)
        return FileFacts(
            sum(map(length_of, counts)),
            frozenset().union(*counts),
            speaker_of(passages.get(1, "")),
            any(map(asks, passages.values())),
            context.day,
            siblings[at - 1] if at else "",
        )

    def scores(
        self,
        text: str,
        vector: F64 | None,
        alpha: float | None = None,
        now: datetime | None = None,
    ) -> Expected:
        """Return the final scores in [0, 1] of all files and directories of the scope.

        Args:
            text: the question, "" for none.
            vector: its embedding, of any length; None for none.
            alpha: the weight of the node score; None for the adaptive weight.
            now: the time that days such as "yesterday" are counted from; None for the clock.
        """
        if "meaning" in self._without:
            vector = None
        asked = query_terms("" if "words" in self._without else text)
        weights = dict(zip(asked.terms, asked.weights.tolist(), strict=True))
        script = script_of(text) if text or vector is None else self._nearest_script(vector)
        if self._known.intersection(query_terms(text).identifiers):
            script, vector = NONE, None
            alpha = 1.0 if alpha is None else alpha
        if vector is None:
            script = NONE  # only words can answer
        dense, direction = self._dense(vector, script)
        lexical = self._by_words.bm25(weights)
        mismatch = [t.script != script and NONE not in (t.script, script) for t in self._texts]
        floor = self._score_floor(lexical, mismatch)
        coded, error = self._dense_of_codes(dense, direction)
        cap = self._other_script_cap(lexical, floor, dense, mismatch, direction is not None)
        exact_scores: list[float] = []
        coded_scores: list[float] = []
        for i in range(len(self._texts)):
            missing = not weights or mismatch[i]
            words = 0.0 if missing else min(1.0, lexical[i] * floor)
            share = 1.0 if missing else DENSE_WEIGHT
            nearly = coded[i] if share * error[i] <= CODE_ERROR else dense[i]
            for scores, meaning in (exact_scores, dense[i]), (coded_scores, nearly):
                told = _capped(meaning, cap) if mismatch[i] else meaning
                scores.append(_node_score(told, words, direction is not None, missing))
        icc, files_per_directory = self._icc(self._best_of_files(coded_scores))
        node_scores = self._best_of_files(exact_scores)
        of_directories = self._node_scores_of_directories(weights, direction, script)
        gate = 1.0 if "gate" in self._without else max(0.0, 1.0 - icc / ICC_FULL)
        b = 0.0 if "parents" in self._without else PARENT_WEIGHT * gate
        if "directory size" not in self._without:
            b *= min(1.0, MANY_FILES / max(1.0, files_per_directory))
        c = 0.0 if "neighbours" in self._without else NEIGHBOUR_WEIGHT * gate
        if alpha is not None:
            b, c = 1.0 - alpha, 0.0
        below_root = b if self._of[self._scope] else 0.0
        directories = {self._scope: of_directories[self._scope]}
        files: dict[str, float] = {}
        for uri in self._directories:
            if uri != self._scope:
                above = _parent(uri)
                weight = below_root if above == self._scope else b
                directories[uri] = (1 - weight) * of_directories[uri] + weight * directories[above]
            weight = below_root if uri == self._scope else b
            siblings = self._files_of[uri]
            for i, file in enumerate(siblings):
                window = siblings[max(0, i - 1) : i] + siblings[i + 1 : i + 2]
                around = [node_scores[neighbour] for neighbour in window]
                smoothed = (node_scores[file] + c * sum(around)) / (1 + c * len(around))
                title = self._titles.get(file)
                bonus = self._title_bonus(title, weights) if title else 0.0
                score = (1 - weight) * smoothed + weight * directories[uri] + bonus
                files[file] = min(1.0, score)
        if alpha is None and "second stage" not in self._without:
            best = {
                uri: max(self._of[uri], key=lambda i: exact_scores[i])
                for uri in files
                if self._of[uri]
            }
            found = FirstStage(
                files,
                node_scores,
                {uri: unit for uri, i in best.items() if (unit := self._unit(i)) is not None},
                {
                    u: min(1.0, lexical[i] * floor)
                    for u, i in best.items()
                    if weights and not mismatch[i]
                },
                {uri: dense[i] for uri, i in best.items()},
                direction if direction is not None and len(direction) else None,
                {term: self._by_words.idf(term) for term in weights},
            )
            named = [(s.first, s.last) for s in spans(text, now or datetime.now(UTC))]
            files = adjusted(found, self._facts, named, self._without)
        return Expected(files, directories, icc)

    def _unit(self, text: int) -> F64 | None:
        """Return the centred vector of a text in unit length; None if it has none."""
        length = float(np.linalg.norm(self._centred[text]))
        return self._centred[text] / length if length > NEGLIGIBLE else None

    def _title_bonus(self, title: frozenset[str], weights: Mapping[str, float]) -> float:
        """Return the bonus of a title."""
        common = len(title & weights.keys())
        if not common:
            return 0.0
        told = common / min(len(weights), TERMS_ENOUGH)
        if "title of one word" in self._without:
            told = 1.0
        return float(TITLE * (common / len(title)) ** 2 * min(1.0, told))

    def _other_script_cap(
        self,
        lexical: Sequence[float],
        floor: float,
        dense: F64,
        mismatch: Sequence[bool],
        use_dense: bool,
    ) -> float:
        """Return the best node score in the query's script, of texts with high lexical scores."""
        own = [i for i, far in enumerate(mismatch) if not far and lexical[i] > 0]
        if not use_dense or not any(mismatch) or "other script" in self._without:
            return math.inf
        own.sort(key=lambda i: -lexical[i])
        if len(own) > BEST_BY_WORDS:  # texts that tie with the first one too many do not count
            limit = lexical[own[BEST_BY_WORDS]] * (1 + 1e-6)
            own = [i for i in own if lexical[i] > limit]
        words = [min(1.0, lexical[i] * floor) for i in own]
        scores = [_node_score(dense[i], w, True, False) for i, w in zip(own, words, strict=True)]
        return max(scores, default=math.inf)

    def _score_floor(self, lexical: Sequence[float], mismatch: Sequence[bool]) -> float:
        """Return the factor that raises the best lexical score to LEAST_BEST; 1 if it is higher."""
        best = max((x for x, far in zip(lexical, mismatch, strict=True) if not far), default=0.0)
        raised = 0 < best < LEAST_BEST and "score floor" not in self._without
        return LEAST_BEST / best if raised else 1.0

    def _best_of_files(self, scores: Sequence[float]) -> dict[str, float]:
        """Return, for each file, the highest score among its texts."""
        return {
            uri: max(scores[i] for i in self._of[uri])
            for files in self._files_of.values()
            for uri in files
        }

    def _node_scores_of_directories(
        self, weights: Mapping[str, float], direction: F64 | None, script: int
    ) -> dict[str, float]:
        scores = {}
        by_words = self._directories_by_words.bm25(weights)
        for uri, lexical in zip(self._directories, by_words, strict=True):
            scripts = self._scripts_below[uri]
            missing = not weights or (script != NONE and not scripts & {script, NONE})
            words = 0.0 if missing else lexical
            dense = self._dense_of_directory(uri, direction)
            scores[uri] = _node_score(dense, words, direction is not None, missing)
        return scores

    def _dense(self, vector: F64 | None, script: int) -> tuple[F64, F64 | None]:
        """Return (dense score of each text, centred query of unit length)."""
        dense = np.zeros(len(self._texts))
        if vector is None:
            return dense, None
        if not self._mean.shape[1]:
            return dense, np.zeros(0)  # no text has a vector
        direction = vector / np.linalg.norm(vector) - self._mean[script]
        length = np.linalg.norm(direction)
        direction = direction / length if length > NEGLIGIBLE else np.zeros_like(direction)
        lengths = np.linalg.norm(self._centred, axis=1)
        long = lengths > NEGLIGIBLE
        dense[long] = np.clip(self._centred[long] @ direction / lengths[long], 0.0, 1.0)
        return dense, direction

    def _dense_of_codes(self, dense: F64, direction: F64 | None) -> tuple[F64, F64]:
        """Return (dense score from int8 codes, its error bound) of each text."""
        if direction is None or not len(direction):
            return dense, np.zeros(len(dense))
        coded, error = dense.copy(), np.zeros(len(dense))
        for script in self._scripts:
            rows = [
                i for i, t in enumerate(self._texts) if t.script == script and t.vector is not None
            ]
            coded[rows], error[rows] = self._codes.cosines(rows, direction, self._mean[script])
        return coded, error

    def _dense_of_directory(self, uri: str, direction: F64 | None) -> float:
        """Return the dense score of a directory, by the sum of all centred vectors below it."""
        if direction is None:
            return 0.0
        total = self._sums[uri]
        length = float(np.linalg.norm(total))
        if length <= NEGLIGIBLE * self._vectors_below[uri]:
            return 0.0
        return min(max(0.0, float(total @ direction) / length), 1.0)

    def _nearest_script(self, vector: F64) -> int:
        """Return the script with vectors in the store whose centroid is nearest."""
        lengths = np.linalg.norm(self._mean, axis=1)
        present = [s for s in self._scripts if lengths[s] > 0]
        if not present:
            return NONE
        return max(present, key=lambda s: float(self._mean[s] @ vector) / lengths[s])

    def _icc(self, scores: Mapping[str, float]) -> tuple[float, float]:
        """Return ICC(1) (Shrout and Fleiss) of the sampled files' node scores by directory.

        Also returns the mean number of these files per directory.
        """
        share = min(1.0, SAMPLE_FILES / max(1, self._file_count))
        groups = [
            np.array([scores[file] for file in files])
            for uri, files in self._files_of.items()
            if files and (share == 1.0 or term_hash(uri) < share * 2.0**64)
        ]
        sizes = np.array([len(group) for group in groups])
        total, k = sizes.sum(), len(groups)
        mean = float(total) / max(1, k)
        if k < 2 or total == k:
            return 1.0, mean
        grand = np.concatenate(groups).mean()
        between = sum(len(g) * (g.mean() - grand) ** 2 for g in groups) / (k - 1)
        within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (total - k)
        n0 = (total - (sizes**2).sum() / total) / (k - 1)
        denominator = between + (n0 - 1) * within
        if denominator <= 1e-12:
            return 1.0, mean
        return float(np.clip((between - within) / denominator, 0.0, 1.0)), mean


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of returned scores with the recomputed scores.

    Attributes:
        difference: the largest difference of a returned context.
        misplaced: the largest difference to the score that belongs at a place; 0 if only contexts
            with equal scores are in another order.
        same_order: True if all URIs are in the recomputed order.
    """

    difference: float
    misplaced: float
    same_order: bool


def compare(
    returned: Sequence[tuple[str, float]], expected: Mapping[str, float], limit: int
) -> Comparison:
    """Compare the returned (URI, score), in their order, with all recomputed scores."""
    ordered = sorted(((-score, uri) for uri, score in expected.items() if score > 0))[:limit]
    difference = max((abs(s - expected.get(uri, math.inf)) for uri, s in returned), default=0.0)
    misplaced = 0.0
    for place, (negative, _) in enumerate(ordered):
        there = expected.get(returned[place][0], -math.inf) if place < len(returned) else 0.0
        misplaced = max(misplaced, -negative - there)
    same = [uri for uri, _ in returned] == [uri for _, uri in ordered]
    return Comparison(difference, misplaced, same)


def _capped(dense: float, cap: float) -> float:
    """Return the node score of a text in another script than the query's, limited by `cap`."""
    return max(OTHER_SCRIPT * dense, min(dense, cap - CAP_SLOPE * (1 - dense)))


def _node_score(dense: float, lexical: float, use_dense: bool, missing: bool) -> float:
    """Return the mean of dense and lexical score, or one of them if the other is missing."""
    if not use_dense:
        return lexical
    return dense if missing else DENSE_WEIGHT * dense + (1 - DENSE_WEIGHT) * lexical


def _means(stored: Stored, scope: str) -> F64:
    """Return [scripts, dim] the centroid of each script for a scope.

    A scope with few vectors of a script uses its nearest ancestor with enough vectors. If the whole
    store has few, the prior is added. If it has none, the prior is the centroid.
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
