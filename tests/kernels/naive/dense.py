"""Plain twins of the kernels: centred cosines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tests.kernels.naive.tree import (
    ENOUGH,
    F64,
    NEGLIGIBLE,
    PRIOR_WEIGHT,
    SCRIPTS,
    Directory,
    Query,
    Text,
    texts_below,
)


def to_int8(x: F64) -> tuple[list[int], float, float]:
    """Return (codes, step, residual norm)."""
    if not x.any():
        return [0] * len(x), 0.0, 0.0
    step = max(abs(x)) / 127
    codes = [round(float(value) / step) for value in x]
    return codes, step, math.dist(x, [step * code for code in codes])


def code_centroids(mean: F64) -> list[tuple[list[int], float, float, float]]:
    """Return (codes, step, residual norm, length) of each centroid."""
    return [(*to_int8(row), float(np.linalg.norm(row))) for row in mean]


def products_int8(
    code: Sequence[int], direction: Sequence[int], mean: Sequence[int]
) -> tuple[int, int]:
    """Return the products of a code with the direction and with the centroid."""
    return (
        sum(int(a) * int(b) for a, b in zip(code, direction, strict=True)),
        sum(int(a) * int(b) for a, b in zip(code, mean, strict=True)),
    )


def multiply_codes(
    codes: Iterable[Sequence[int]], direction: Sequence[int], mean: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the products of each code with the direction and with the centroid."""
    return [products_int8(code, direction, mean) for code in codes]


def operands_of(query: Query, mean: F64, script: int) -> tuple[float, float]:
    """Return (direction . m', 1 + |m'|^2) for a script."""
    centre = mean[script]
    return float(direction_of(query, mean) @ centre), 1 + float(centre @ centre)


def centred(x: F64, direction: F64, mean: F64) -> tuple[float, float]:
    """Return (x - mean) . direction and |x - mean|^2."""
    return float((x - mean) @ direction), float((x - mean) @ (x - mean))


def cosine(x: F64, mean: F64, direction: F64) -> float:
    """Return max(0, cos(direction, x - mean)); 0 if x - mean is negligible."""
    difference = x - mean
    length = math.sqrt(difference @ difference)
    return 0.0 if length <= NEGLIGIBLE else min(max(0.0, direction @ difference / length), 1.0)


def raw_cosine(text: Text, query: Query, mean: F64) -> float:
    """Return the dense score of a text; 0 without a vector."""
    if text.vector is None:
        return 0.0
    return cosine(text.vector, mean[text.script], direction_of(query, mean))


def cosines(texts: Iterable[Text], query: Query, usual: F64) -> tuple[float, float]:
    """Return the largest cosine of a query with some texts, and that with `usual` times its length.

    Nothing is centred. (nan, nan) if nothing has a vector.
    """
    vectors = [text.vector for text in texts if text.vector is not None]
    if query.vector is None or not vectors or not query.vector.any():
        return math.nan, math.nan
    unit = query.vector / np.linalg.norm(query.vector)
    return max(float(x @ unit) for x in vectors), float(usual @ unit)


def coded_parts(
    code: Sequence[int], scale: float, query: Query, mean: F64, script: int
) -> tuple[float, float]:
    """Return the arguments of `clipped` for decoded vectors, as if the text's had unit length."""
    x, centre = scale * np.array(code), mean[script]
    direction = direction_of(query, mean)
    above = decoded(direction) @ x - direction @ centre
    return float(above), 1 - 2 * float(decoded(centre) @ x) + float(centre @ centre)


def parts_of_code(
    code: Sequence[int], scale: float, query: Query, mean: F64, script: int
) -> tuple[float, float]:
    """Return `coded_parts` of one code."""
    return coded_parts(code, scale, query, mean, script)


def decoded(x: F64) -> F64:
    """Return the vector that the int8 code of a vector decodes to."""
    codes, step, _ = to_int8(x)
    return step * np.array(codes)


def clipped(above: float, square: float) -> float:
    """Return max(0, dot / sqrt(square)); 0 if the square is negligible."""
    return 0.0 if square <= NEGLIGIBLE**2 else min(max(0.0, above / math.sqrt(square)), 1.0)


def bounded_cosine(
    above: float, square: float, above_off: float, square_off: float
) -> tuple[float, float]:
    """Return (a cosine, its largest error on a grid)."""
    steps = np.linspace(-1, 1, 21)
    told = clipped(above, square)
    return told, max(
        abs(clipped(above + a * above_off, square + c * square_off) - told)
        for a, c in itertools.product(steps, steps)
    )


def cosine_upper_bound(above: float, square: float, above_off: float, square_off: float) -> float:
    """Return the largest cosine on a grid."""
    steps = np.linspace(-1, 1, 21)
    return max(
        clipped(above + a * above_off, square + c * square_off)
        for a, c in itertools.product(steps, steps)
    )


def only_language(vectors_of: Mapping[int, int]) -> int:
    """Return the script of all vectors from the counts by script; -1 for several or none."""
    present = [script for script, count in vectors_of.items() if count]
    return present[0] if len(present) == 1 else -1


def directory_coded(
    code: Sequence[int], scale: float, square: float, query: Query, mean: F64, script: int
) -> float:
    """Return the approximate dense score of a directory, from its centroid's code and squares."""
    above, unit = parts_of_code(code, scale, query, mean, script)
    return clipped(above, unit - 1 + square)


def directory_dense(directory: Directory, direction: F64, mean: F64) -> float:
    """Return the dense score of the sum of all x - m' in the subtree."""
    embedded = [text for text in texts_below(directory) if text.vector is not None]
    total = sum((t.vector - mean[t.script] for t in embedded), np.zeros(len(direction)))
    length = float(np.linalg.norm(total))
    if length <= NEGLIGIBLE * len(embedded):
        return 0.0
    return min(max(0.0, float(direction @ total) / length), 1.0)


def scope_centroids(top: Directory, prior: F64) -> F64:
    """Return m' [SCRIPTS, dim]: of the nearest directory with 30 vectors, or with the prior."""
    out = prior.copy()
    for script in range(SCRIPTS):
        place: Directory | None = top
        found: list[F64] = []
        while place is not None:
            found = [
                t.vector for t in texts_below(place) if t.script == script and t.vector is not None
            ]
            place = None if len(found) >= ENOUGH else place.parent
        if len(found) >= ENOUGH:
            out[script] = np.mean(found, axis=0)
        elif found:
            total = np.sum(found, axis=0) + PRIOR_WEIGHT * prior[script]
            out[script] = total / (len(found) + PRIOR_WEIGHT)
    return out


def direction_of(query: Query, mean: F64) -> F64:
    """Return (q - m) / |q - m|; zeros if there is none."""
    if query.vector is None:
        return np.zeros(mean.shape[1])
    centred = query.vector / np.linalg.norm(query.vector) - mean[query.script]
    length = float(np.linalg.norm(centred))
    return centred / length if length > NEGLIGIBLE else np.zeros(mean.shape[1])


def prepare(query: Query, mean: F64) -> tuple[F64, F64]:
    """Return (direction, its products with the centroids)."""
    direction = direction_of(query, mean)
    return direction, mean @ direction
