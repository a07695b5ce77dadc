"""Plain twins of the kernels: positions of a scope, and the best of many scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tests.kernels.naive.tree import Directory, walk


def place(row: int, low: int, high: int, base: int) -> int:
    """Return the position of a row among the scope's."""
    return [*range(low, high), *range(base, max(base, row) + 1)].index(row)


def row_at(position: int, low: int, high: int, base: int) -> int:
    """Return the row at a position."""
    return [*range(low, high), *range(base, base + position + 1)][position]


def directory_inside(directory: int, top: Directory) -> bool:
    """Return whether the directory of an id is alive below `top`."""
    return directory in {d.id for d in walk(top)}


def tail_directories(tail: Sequence[int], top: Directory) -> list[bool]:
    """Return for each directory id whether its directory is alive below `top`."""
    return [directory_inside(d, top) for d in tail]


def list_files(chain: Sequence[int], alive: Collection[int]) -> list[int]:
    """Return the living files of a directory, in the order of its chain."""
    return [file for file in chain if file in alive]


def living_file(chain: Sequence[int], alive: Collection[int]) -> int:
    """Return the first living file of a chain, -1 for none."""
    return next((file for file in chain if file in alive), -1)


def push_smallest(values: Iterable[float], k: int) -> list[float]:
    """Return the k largest values, rising."""
    return sorted(sorted(values, reverse=True)[:k])


def mask_above(scores: Sequence[float], first: int, limit: float) -> list[int]:
    """Return the numbers of the scores above a limit, among the next 64."""
    return [i for i, score in enumerate(scores[first : first + 64]) if score > limit]


def lowest(mask: int) -> int:
    """Return the number of the lowest bit that is 1."""
    return next(i for i in range(64) if mask >> i & 1)


def best_positions(scores: Sequence[float], k: int) -> list[int]:
    """Return the k best that are not below 0, ties by position."""
    return sorted((i for i, s in enumerate(scores) if s >= 0), key=lambda i: (-scores[i], i))[:k]


def sort_rising(values: Sequence[int]) -> list[int]:
    """Return the values in rising order."""
    return sorted(values)


def best_rows(scores: Sequence[float], k: int, threshold: float) -> list[int]:
    """Return the k best above the threshold and all that tie with the last, ties by position."""
    able = [i for i, score in enumerate(scores) if score > threshold]
    kept = [i for i in able if sum(scores[j] > scores[i] for j in able) < k]
    return sorted(kept, key=lambda i: (-scores[i], i))
