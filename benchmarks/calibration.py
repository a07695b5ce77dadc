"""Logistic functions fitted by Newton's method, and the figures of their calibration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Names = npt.NDArray[Any]

KEPT = 0.95
"""The share of the questions with an answer that are STRONG."""

ENOUGH = 20
"""The questions that a set must have to count for the limit of STRONG."""

NOTHING, NOTHING_ACROSS = 0.025, 0.1
"""Less is NOTHING; the second one from one script to another.

On no set does that leave out more than .01 of the questions with an answer: a memory that is left
out costs more than a weak one that is shown.
"""

OWN, OTHER, SET, NONSENSE = "own", "other", "another set", "nonsense"
"""A question in its own scope, in another one of its set, of another set; a nonsense string."""

_RIDGE = 1e-3  # of the weights, against sets that a line divides
_STEPS = 50


@dataclass(frozen=True, slots=True)
class Answers:
    """The features of n answers with their questions' kinds and sets, and which ones are fitted."""

    x: F64  # [n, features]
    kind: Names  # [n] OWN, OTHER, SET or NONSENSE
    set: Names  # [n]
    is_for_fit: Mask  # [n]

    @property
    def y(self) -> F64:
        """1 for a question that is asked in its own scope, else 0."""
        return (self.kind == OWN).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted logistic function, and the values above which answers are STRONG and WEAK."""

    weights: F64
    strong: float
    weak: float

    def of(self, x: F64) -> F64:
        """Return the predictions for features."""
        return predicted(self.weights, x)


def fitted(answers: Answers, chosen: Mask, weak: float) -> Fitted:
    """Fit a function to the chosen answers; sets and classes have equal weight.

    `weak` is the smallest value that is not NOTHING.
    """
    x, y, sets = answers.x[chosen], answers.y[chosen], answers.set[chosen]
    weights = fit(x, y, balanced(sets, y))
    own = y > 0
    return Fitted(weights, limit(predicted(weights, x[own]), sets[own]), weak)


def fit(x: F64, y: F64, sample_weights: F64) -> F64:
    """Return intercept and weights of a logistic function, by Newton's method (IRLS)."""
    design = np.column_stack([np.ones(len(x)), x])
    ridge = np.full(design.shape[1], _RIDGE)
    ridge[0] = 0.0
    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        p = _logistic(design @ weights)
        curvature = sample_weights * np.maximum(p * (1 - p), 1e-9)
        gradient = design.T @ (sample_weights * (y - p)) - ridge * weights
        step = np.linalg.solve(design.T @ (curvature[:, None] * design) + np.diag(ridge), gradient)
        weights += step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def predicted(weights: F64, x: F64) -> F64:
    """Return the value of the logistic function for each row of features [n, m]."""
    return _logistic(weights[0] + x @ weights[1:])


def _logistic(x: F64) -> F64:
    values: F64 = 1.0 / (1.0 + np.exp(-np.clip(x, -500, 500)))
    return values


def balanced(sets: Names, y: F64) -> F64:
    """Return weights [n] that give equal weight to both classes, and to all sets within each."""
    weights = np.zeros(len(y))
    for name in sorted(set(sets.tolist())):
        for value in (0.0, 1.0):
            same = (sets == name) & (y == value)
            if same.any():
                weights[same] = 1.0 / same.sum()
    for value in (0.0, 1.0):
        weights[y == value] /= max(weights[y == value].sum(), 1e-9)
    return weights * len(y) / 2


def limit(own: F64, sets: Names) -> float:
    """Return the highest value that the share KEPT of the questions reaches; sets count equally.

    Sets with fewer than ENOUGH questions do not count.
    """
    large = [name for name in sorted(set(sets.tolist())) if (sets == name).sum() >= ENOUGH]
    if large:
        own, sets = own[np.isin(sets, large)], sets[np.isin(sets, large)]
    names, number, counts = np.unique(sets, return_inverse=True, return_counts=True)
    order = np.argsort(-own)
    share = np.cumsum(1.0 / counts[number[order]]) / len(names)
    return float(own[order[min(int(np.searchsorted(share, KEPT)), len(own) - 1)]])


def auc(p: F64, y: F64) -> float:
    """Return the area under the ROC curve: how often a positive is above a negative."""
    positives = y.sum()
    if not 0 < positives < len(y):
        return float("nan")
    _, number, counts = np.unique(p, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[number]
    above = ranks[y > 0].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(y) - positives)))


def calibration_error(p: F64, y: F64) -> float:
    """Return the calibration error: the mean difference of prediction and true share over ten bins.

    A bin has the weight of its number of answers.
    """
    return float(sum(abs(p[i].sum() - y[i].sum()) for _, i in bins(p)) / max(len(p), 1))


def bins(p: F64) -> Iterator[tuple[float, Mask]]:
    """Yield (lower end, mask of the members) for each of ten bins of predictions."""
    number = np.minimum((p * 10).astype(int), 9)
    for i in range(10):
        yield i / 10, number == i


HEAD = (
    "| set | questions | AUC | error | own: strong / not nothing | other | another set "
    "| nonsense: not strong / nothing |\n|---|---|---|---|---|---|---|---|"
)


def row(title: str, answers: Answers, function: Fitted, chosen: Mask) -> str:
    """Return a table row: AUC, calibration error, and shares of answers above and below the limits.

    For questions in their own scope it is the share that is kept, for others the share that is
    flagged.
    """
    p, y, kind = function.of(answers.x)[chosen], answers.y[chosen], answers.kind[chosen]

    def shares(name: str) -> str:
        values = p[kind == name]
        if not len(values):
            return ""
        pair = np.mean(values < function.strong), np.mean(values < function.weak)
        return " / ".join(f"{1 - one if name == OWN else one:.3f}" for one in pair)

    return (
        f"| {title} | {int(y.sum())} | {auc(p, y):.3f} | {calibration_error(p, y):.3f} | "
        + " | ".join(map(shares, (OWN, OTHER, SET, NONSENSE)))
        + " |"
    )


def reliability(p: F64, y: F64) -> Iterator[str]:
    """Yield a table of ten bins: the mean prediction, and the share of questions in their scope."""
    yield "| in_scope | answers | mean | in their own scope |"
    yield "|---|---|---|---|"
    for low, inside in bins(p):
        if inside.any():
            mean, share = p[inside].mean(), y[inside].mean()
            yield f"| {low:.1f} to {low + 0.1:.1f} | {inside.sum()} | {mean:.3f} | {share:.3f} |"
