"""The confidence of an answer: is the scope about the question, and was a right result found?

Both are logistic functions of a few features of the scores:

    in_scope = logistic(b + w1 * cosine + w2 * usual + w3 * lexical + w4 * known + w5 * ln(files))
    among_results = logistic(c + v1 * (first - mean of ten) + v2 * node + v3 * (first - second))

- *cosine*: the largest cosine of the query with the best texts of the first ten results. It is
  computed from fp32 vectors, without subtracting a centroid.
- *usual*: the cosine of the query with the embedder's prior centroid of the query's script. Some
  questions have a high cosine with every text.
- *lexical*: the BM25 score of the first result divided by the largest possible one, without the
  score floor.
- *known*: the share of the query's terms that occur in the scope.
- *node*, *first*, *second*: the node score of the first result, and the scores of the first two.

A query without a vector is judged by words alone, a query without terms by meaning alone. If the
first result is in another script than the query, meaning alone counts, by the cosine and the
centred cosine (less the centroids). Each of these kinds has its own coefficients.

confidence.toml has the coefficients of each embedder; `python -m benchmarks.confidence` fits them.
An embedder that is not in the table is judged by the centred cosine instead of cosine and usual:
raw cosines of embedders lie in different ranges, centred ones do not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import exp, isnan, log
from operator import attrgetter, itemgetter, mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from viking_kernels import answer_features
from viking_kernels.arrays import DENSE, DENSE_SHARE, F32, FILES, FINAL, I32, LEXICAL, NODE
from viking_kernels.bm25 import SCORE_FLOOR
from viking_kernels.node_scores import DENSE_WEIGHT, script_mismatch

from vikingd.answer.ranked_lists import RankedList
from vikingd.answer.scored_scope import Scored
from vikingd.domain.answers import NO_CONFIDENCE, Confidence, Strength
from vikingd.domain.retrieve_query import Mode
from vikingd.plan.find_plan import FIRST, FindScope
from vikingd.plan.query_scope import QueryScope
from vikingd.plan.retrieve_plan import TextScope

TABLE = Path(__file__).parent / "confidence.toml"

BOTH, ACROSS, MEANING, WORDS = "both", "across", "meaning", "words"
"""The kinds of features, by what compares the query with the first result.

ACROSS is meaning alone, because the result is in another script.
"""

NONE, OTHER = "none", "other"
"""The entries of the table for queries of words alone, and for embedders that it does not name."""


class Features(NamedTuple):
    """The features of one scope for the two logistic functions, see the module.

    `best` has (score, node score) of the first results. `lacks_vector` is True if the query has a
    vector and the first result has none yet: words alone found it, before meaning could judge it.
    """

    kind: str
    cosine: float
    usual: float  # 0: the model has no mean
    centred: float
    lexical: float
    known: float
    files: int
    best: Sequence[tuple[float, float]]
    lacks_vector: bool = False


class Logistic(NamedTuple):
    """The two fitted functions of an embedder, and the thresholds of Strength.

    Attributes:
        in_scope: intercept and weights of in_scope.
        among_results: intercept and weights of among_results.
        strong: the least in_scope that is STRONG; 95% of the questions with an answer reach it.
        weak: the least in_scope that is WEAK; a lower one is NOTHING.
    """

    in_scope: tuple[float, ...]
    among_results: tuple[float, ...]
    strong: float
    weak: float


def features_of_find(scope: FindScope, scored: Scored) -> Features | None:
    """Return the features of a scored scope; None if nothing matches.

    They do not depend on the query's filters, limit and threshold, because the kernel returns the
    first FIRST files whatever the query shows.
    """
    found = scored.found
    if not len(found.rows):
        return None
    parts: list[list[float]] = found.parts.tolist()
    scores = [one[FINAL] for one in parts]
    at, last = 0, scores[:FIRST][-1]
    if tied := scores.count(scores[0]) - 1:  # a new base has another order
        at = max(range(tied + 1), key=lambda i: (parts[i][LEXICAL], parts[i][NODE]))
    first, text = parts[at], found.best_text.item(at)
    kind = _kind(scope, scope.query_script, text, first[DENSE_SHARE])
    cosines = found.cosine, found.usual
    if kind == WORDS or isnan(found.cosine):
        kind, cosines = WORDS, (0.0, 0.0)
    by_meaning = scope.query.vector is not None and scope.raw_query.use_dense
    return Features(
        kind,
        *cosines,
        max(one[DENSE] for one in parts if one[FINAL] >= last),
        first[LEXICAL] / found.floor_factor,
        found.known,
        scope.counts.item(FILES),
        [(one[FINAL], one[NODE]) for one in parts[:FIRST]],
        kind == WORDS and by_meaning and _lacks_vector(scope, text),
    )


def features_of_texts(
    scope: TextScope, vector: F32 | None, found: RankedList, sides: Mapping[str, RankedList]
) -> Features | None:
    """Return the features of a scope whose texts were ranked; None if nothing matches.

    Each text counts as a file whose node score is made of the text alone, without directories and
    neighbours.

    Args:
        scope: the scope of the retrieval.
        vector: the vector of the query, of any length.
        found: the ranked list that the reply shows.
        sides: the lists "vector" and "keyword" that `found` was fused from; if empty, `found` has
            the dense and lexical parts of each score.
    """
    if not len(found.rows):
        return None
    # Include all texts that tie with the last one, and with the first: a new base reorders ties.
    scores = found.scores
    count = int(np.count_nonzero(scores >= scores[:FIRST][-1]))
    best = int(np.count_nonzero(scores >= scores[0]))
    rows = found.rows[:count]
    asked = scope.asked(vector, scope.script(vector), dense=True, lexical=True)
    meaning, words = sides.get("vector"), sides.get("keyword")
    if meaning is None and words is None:
        assert found.parts is not None, "one pass made both parts"
        dense, lexical = found.parts[:count].T.tolist()
        nearest = rows
    else:
        dense, lexical = _scores_of(meaning, rows), _scores_of(words, rows)
        nearest = rows if meaning is None else meaning.rows[:FIRST]
    known, largest, usual = answer_features.features(
        scope.snapshot.tree, scope.snapshot.vectors, asked, scope.scope, scope.postings, nearest
    )
    if not any(dense) or isnan(largest):
        kind, largest, usual = WORDS, 0.0, 0.0
    elif scope.query.mode is Mode.VECTOR:
        kind = MEANING
    else:
        kinds = {_kind(scope, asked.script, row, 1.0) for row in rows[:best].tolist()}
        kind = BOTH if BOTH in kinds else kinds.pop()  # a new base has another order of ties
    if kind == ACROSS:  # texts in the query's script say nothing about the first one's meaning
        is_other = [_kind(scope, asked.script, row, 1.0) == ACROSS for row in rows.tolist()]
        dense = [of_text * other for of_text, other in zip(dense, is_other, strict=True)]
    share = {BOTH: DENSE_WEIGHT, WORDS: 0.0}.get(kind, 1.0)
    factor = max(1.0, SCORE_FLOOR / max(lexical)) if any(lexical) else 1.0
    nodes = sorted(
        (share * d + (1.0 - share) * factor * w for d, w in zip(dense, lexical, strict=True)),
        reverse=True,
    )
    return Features(
        kind,
        largest,
        usual,
        max(dense),
        max(lexical[:best]),
        known,
        scope.counts.item(FILES),
        [(node, node) for node in nodes[:FIRST]],
        kind == WORDS
        and vector is not None
        and scope.by_meaning
        and all(_lacks_vector(scope, row) for row in rows[:best].tolist()),
    )


def _lacks_vector(scope: QueryScope, row: int) -> bool:
    """Return True if a text has no vector in the snapshot of a scope, and False for row -1."""
    snapshot = scope.snapshot
    return row >= 0 and snapshot.vectors.vector_at.item(row) > snapshot.revision


def _scores_of(ranked: RankedList | None, rows: I32) -> list[float]:
    """Return the score that a list gives to each row; 0 for rows that are not in the list."""
    if ranked is None:
        return [0.0] * len(rows)
    known = dict(zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True))
    return [known.get(row, 0.0) for row in rows.tolist()]


def _kind(scope: QueryScope, script: int, row: int, dense_share: float) -> str:
    """Return the kind of features: WORDS, MEANING, BOTH or ACROSS.

    ACROSS: the first result is in another script than the query.

    Args:
        scope: the scope of the query.
        script: the script of the query.
        row: the best text of the first result, -1 for none.
        dense_share: the weight of meaning in the score of that result.
    """
    if dense_share <= 0.0:
        return WORDS
    if not len(scope.terms.hashes):
        return MEANING
    of_text = scope.snapshot.tree.texts.script.item(row) if row >= 0 else script
    return ACROSS if script_mismatch(of_text, script) else BOTH


def confidence_of(parts: Iterable[Features | None], model: str) -> Confidence:
    """Return the confidence of an answer, given the features of each scope that it covers.

    `model` is the name of the embedder as the store records it.
    """
    known = [part for part in parts if part is not None and part.best]
    if not known:
        return NO_CONFIDENCE
    in_scope, fitted, best = max((_in_scope(one, model) for one in known), key=itemgetter(0))
    merged = sorted((pair for part in known for pair in part.best), reverse=True)[:FIRST]
    among = logistic(fitted.among_results, values_of_results(merged))
    strength = strength_of(in_scope, fitted)
    if best.lacks_vector and strength is Strength.STRONG:
        strength = Strength.WEAK  # words such as "the user" are in many texts
    return Confidence(in_scope, among, strength)


def confidence_to_show(confidence: Confidence, results: int) -> Confidence | None:
    """Return the confidence that a reply with `results` results shows.

    Without results its strength is NOTHING. It is None if there are results but the confidence was
    not measured, as for directories without files.
    """
    if results:
        return None if confidence is NO_CONFIDENCE else confidence
    return Confidence(confidence.in_scope, 0.0, Strength.NOTHING)


def strength_of(in_scope: float, fitted: Logistic) -> Strength:
    """Return STRONG, WEAK or NOTHING for a probability by the thresholds of an embedder."""
    if in_scope >= fitted.strong:
        return Strength.STRONG
    return Strength.WEAK if in_scope >= fitted.weak else Strength.NOTHING


def best_confidence(answers: Sequence[Confidence | None]) -> Confidence | None:
    """Return the best of several confidences; None stands for one that was not measured.

    The best is the one with the highest in_scope that is not NOTHING. If there is none, it is None,
    and if all were measured, the highest NOTHING.
    """
    known = [one for one in answers if one is not None]
    best = max(known, key=attrgetter("is_something", "in_scope"), default=NO_CONFIDENCE)
    return best if best.is_something or len(known) == len(answers) else None


def _in_scope(one: Features, model: str) -> tuple[float, Logistic, Features]:
    name = name_for(model, one)
    fitted = _table()[name][one.kind]
    return logistic(fitted.in_scope, values_of_scope(one, name)), fitted, one


def values_of_scope(one: Features, name: str) -> tuple[float, ...]:
    """Return the values of the features in the formula of in_scope, in the order of the weights.

    `name` is the embedder from `name_for`.
    """
    files = log(max(one.files, 1))
    if one.kind == WORDS:
        return one.lexical, one.known, files
    meaning = (one.centred,) if name == OTHER else (one.cosine, one.usual)
    if one.kind == BOTH:
        return *meaning, one.lexical, one.known, files
    if one.kind == ACROSS and name != OTHER:
        return *meaning, one.centred, files
    return *meaning, files


def values_of_results(best: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the values of the features in the formula of among_results, in order of the weights.

    `best` has (score, node score) of the first results. Missing results count with the score 0.
    """
    scores = [score for score, _ in best]
    second = scores[1] if len(scores) > 1 else 0.0
    return scores[0] - sum(scores) / FIRST, best[0][1], scores[0] - second


def logistic(weights: Sequence[float], values: Sequence[float]) -> float:
    """Return 1 / (1 + exp(-x)) with x = weights[0] + weights[1] * values[0] + ..., in [0, 1]."""
    x = weights[0] + sum(map(mul, weights[1:], values))
    return 1.0 / (1.0 + exp(-x)) if x >= 0 else 1.0 - 1.0 / (1.0 + exp(x))


def name_for(model: str, one: Features) -> str:
    """Return the name of the embedder in confidence.toml whose functions judge these features.

    It is NONE for features of words alone, and OTHER for an embedder that is not in the file.
    """
    if one.kind == WORDS:
        return NONE
    return model if one.usual and one.kind in _table().get(model, {}) else OTHER


@cache
def _table() -> dict[str, dict[str, Logistic]]:
    with TABLE.open("rb") as file:
        return read_table(tomllib.load(file))


def read_table(values: dict[str, Any]) -> dict[str, dict[str, Logistic]]:
    """Return the functions by embedder and kind, given the parsed confidence.toml."""
    return {
        name: {
            kind: Logistic(
                tuple(map(float, fitted["in_scope"])),
                tuple(map(float, fitted["among_results"])),
                float(fitted["strong"]),
                float(fitted["weak"]),
            )
            for kind, fitted in kinds.items()
        }
        for name, kinds in values.items()
    }
