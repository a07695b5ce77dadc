"""The outcome of questions with known answers, by each way of searching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple, TypeAlias

from vikingd.ctl.question_file import Question, given_answers
from vikingd.domain.ranking_metrics import (
    Interval,
    bootstrap_interval,
    ndcg,
    reciprocal_rank,
    wilson_interval,
)

FIND, FIND_WEAK, FIND_STRONG = "find", "find weak", "find strong"
HYBRID, VECTOR, KEYWORD = "hybrid", "vector", "keyword"
METHODS = (FIND, FIND_WEAK, FIND_STRONG, HYBRID, VECTOR, KEYWORD)
"""The ways of searching. FIND_WEAK has the results of a find that is weak or strong, else none."""

K = 10
"""The number of results of each search that are judged."""

_FIRST, _THREE = 1, 3
_FEWEST = 10  # values; with fewer, resampling gives no useful interval


Results: TypeAlias = Sequence[Sequence[str]]
"""The results of a search, best first. Each is a list: its URI, then the URIs of its copies."""


def results_of_find(results: Results, strength: str) -> dict[str, Results]:
    """Return the results of a find for each minimum strength of its confidence.

    FIND has all results. FIND_WEAK has them if the confidence is weak or strong, FIND_STRONG only
    if it is strong; otherwise these are empty.
    """
    return {
        FIND: results,
        FIND_WEAK: results if strength in ("weak", "strong") else [],
        FIND_STRONG: results if strength == "strong" else [],
    }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a question by each search method.

    Attributes:
        question: the question.
        answers: the URIs of each answer.
        found: the results by search method; a method that cannot be used is left out.
        strength: the strength of the find's confidence: strong, weak or nothing.
    """

    question: Question
    answers: Sequence[frozenset[str]]
    found: Mapping[str, Results]
    strength: str

    def place(self, method: str) -> int:
        """Return the rank of the first right result, from 1; 0: none of the first ten is right."""
        rank = reciprocal_rank(*self._ranking(method), K)
        return round(1 / rank) if rank else 0

    def ndcg(self, method: str) -> float:
        """Return the nDCG@10, in [0, 1]; each answer counts once, at its first result."""
        return ndcg(*self._ranking(method), K)

    @property
    def first(self) -> str:
        """The URI of the first result of the find; "" if there is none."""
        results = self.found[FIND]
        return results[0][0] if results else ""

    @property
    def fails(self) -> bool:
        """True if the first result of the find is wrong.

        A question without an answer fails if the find's confidence does not say that nothing
        answers.
        """
        return self.place(FIND) != _FIRST if self.answers else self.strength != "nothing"

    def _ranking(self, method: str) -> tuple[list[str], list[str]]:
        """Return the results and the answers as names, for the measures of a ranking.

        A result has the number of the first answer that it contains and no result before it, such
        as "0". A result without such an answer has a name that is no answer, such as "#3".
        """
        ranking: list[str] = []
        for place, result in enumerate(self.found[method]):
            given = map(str, given_answers(result, self.answers))
            ranking.append(next((one for one in given if one not in ranking), f"#{place}"))
        return ranking, [str(number) for number in range(len(self.answers))]


class Measure(NamedTuple):
    """A mean with its 95% interval."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Row:
    """The measures of a search method; None where no question gives one.

    Attributes:
        method: the search method.
        first: the share of the questions with an answer whose first result is right.
        among_three: the share with a right result among the first three.
        among_ten: the share with a right result among the first ten.
        ndcg: the mean nDCG@10 of these questions.
        told: the share without any result, of the questions that nothing answers.
        first_to_find: `first` of this method less that of find, as a mean over the questions;
            None for the methods of find.
        ndcg_to_find: the same difference in nDCG@10.
        absent: the reason why there are no measures; "" if there are.
    """

    method: str
    first: Measure | None = None
    among_three: Measure | None = None
    among_ten: Measure | None = None
    ndcg: Measure | None = None
    told: Measure | None = None
    first_to_find: Measure | None = None
    ndcg_to_find: Measure | None = None
    absent: str = ""


@dataclass(slots=True)
class Evaluation:
    """The outcomes of all questions that were asked.

    Attributes:
        asked: the number of all questions of the file.
        missing: (line, answer) of each answer that matches no context.
        outcomes: the outcomes of the questions that were asked, in the order of the file.
        absent: the reason for each search method that cannot be used.
        degraded: by the detail of a degradation, the number of questions whose answers have it.
    """

    asked: int
    missing: list[tuple[int, str]]
    outcomes: list[Outcome] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    degraded: dict[str, int] = field(default_factory=dict)

    @property
    def answerable(self) -> list[Outcome]:
        """The outcomes of the questions with an answer."""
        return [one for one in self.outcomes if one.answers]

    @property
    def unanswerable(self) -> list[Outcome]:
        """The outcomes of the questions that nothing answers."""
        return [one for one in self.outcomes if not one.answers]

    def rows(self) -> list[Row]:
        """Return the measures of each search method."""
        return [
            Row(method, absent=self.absent[method]) if method in self.absent else self._row(method)
            for method in METHODS
        ]

    def failures(self) -> list[Outcome]:
        """Return the outcomes in which find fails, the worst first.

        First those without a right result, then those whose first right result comes latest; last
        the questions that nothing answers.
        """
        failed = [one for one in self.outcomes if one.fails]
        return sorted(failed, key=lambda one: -(one.place(FIND) or K + 1) if one.answers else 0)

    def _row(self, method: str) -> Row:
        asked = self.answerable
        places = [one.place(method) for one in asked]
        gains = [one.ndcg(method) for one in asked]
        is_find = method in (FIND, FIND_WEAK, FIND_STRONG)
        firsts = [
            float(place == _FIRST) - (one.place(FIND) == _FIRST)
            for place, one in zip(places, asked, strict=True)
        ]
        more = [gain - one.ndcg(FIND) for gain, one in zip(gains, asked, strict=True)]
        return Row(
            method,
            first=_share(place == _FIRST for place in places),
            among_three=_share(0 < place <= _THREE for place in places),
            among_ten=_share(place > 0 for place in places),
            ndcg=_mean(gains, 0.0),
            told=_share(not one.found[method] for one in self.unanswerable),
            first_to_find=None if is_find else _mean(firsts, -1.0),
            ndcg_to_find=None if is_find else _mean(more, -1.0),
        )


def _share(hits: Iterable[bool]) -> Measure | None:
    all_of_them = list(hits)
    count, right = len(all_of_them), sum(all_of_them)
    return Measure(right / count, wilson_interval(right, count)) if count else None


def _mean(values: Sequence[float], least: float) -> Measure | None:
    """Return the mean of values in [least, 1] with its interval; None without values.

    With fewer than _FEWEST values the interval is the whole of [least, 1].
    """
    if not values:
        return None
    interval = Interval(least, 1.0) if len(values) < _FEWEST else bootstrap_interval(values)
    return Measure(fmean(values), interval)
