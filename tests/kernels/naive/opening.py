"""Plain twins of the kernels: opening directories, all of them or best first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tests.kernels.naive.scores import file_score, finals_in
from tests.kernels.naive.selection import push_smallest
from tests.kernels.naive.tree import Directory, files_in, texts_in


def none_yet(k: int) -> tuple[int, list[float], list[int]]:
    """Return (number wanted, the best, the candidates)."""
    return k, [], []


def code_directory(directory: Directory, coded: Mapping[int, float]) -> list[float]:
    """Return the scores from codes of the directory's texts."""
    return [coded[text.id] for text in texts_in(directory)]


def score_files(
    directory: Directory, own: Mapping[int, float]
) -> tuple[dict[int, tuple[float, int]], int]:
    """Return (node score and best text of a directory's files, the number of their texts)."""
    files = files_in(directory)
    return {f.id: file_score(f, own) for f in files}, sum(len(f.texts) for f in files)


def push_queue(
    queue: Sequence[int], position: int, final: Sequence[float] | Mapping[int, float]
) -> list[int]:
    """Return the queue, best first, with one more directory."""
    return sorted([*queue, position], key=lambda p: (-final[p], p))


def pop_queue(queue: Sequence[int]) -> tuple[int, list[int]]:
    """Return (the best one, the others)."""
    return queue[0], list(queue[1:])


def queue_children(directory: Directory, seen: Collection[int]) -> set[int]:
    """Return the ids of the child directories that were not queued before."""
    return {child.id for child in directory.directories.values()} - set(seen)


def offer_files(top: Sequence[float], values: Iterable[float], k: int) -> tuple[list[float], bool]:
    """Return (the k largest above 0 in ascending order, True if they changed)."""
    now = push_smallest([*top, *(v for v in values if v > 0)], k)
    return now, now != list(top)


def bound_directories(
    finals: Mapping[int, float], directories: Iterable[Directory]
) -> dict[int, float]:
    """Return the largest final score of each directory's files."""
    return {d.id: best_in(finals[f.id] for f in files_in(d)) for d in directories}


def open_all(ranges: Mapping[int, tuple[float, float]], k: int) -> set[int]:
    """Return the ids that may be among the k best above 0, from (lower, upper) bounds."""
    able = {key for key, (_, most) in ranges.items() if most > 0}
    return {key for key in able if sum(ranges[other][0] > ranges[key][1] for other in able) < k}


def ranges_in(
    directory: Directory,
    own: Mapping[int, tuple[float, float]],
    weights: tuple[float, float, float],
    titles: Mapping[int, float],
) -> dict[int, tuple[float, float]]:
    """Return (lower, upper) bounds of the final scores of files, from bounds of their node scores.

    Final scores are lowest for the lowest node scores, and highest for the highest ones.
    """
    low, high = (
        finals_in(directory, {key: ends[i] for key, ends in own.items()}, weights, titles)
        for i in (0, 1)
    )
    return {key: (low[key], high[key]) for key in low}


def open_directory(
    directory: Directory,
    own: Mapping[int, float],
    weights: tuple[float, float, float],
    titles: Mapping[int, float],
    top: Sequence[float],
    k: int,
) -> tuple[bool, float, int]:
    """Return (whether the k best changed, the best node score with its bonus, texts)."""
    scored, texts = score_files(directory, own)
    owns = {key: value for key, (value, _) in scored.items()}
    _, changed = offer_files(top, finals_in(directory, owns, weights, titles).values(), k)
    return changed, best_in(value + titles[key] for key, value in owns.items()), texts


def best_in(own: Iterable[float]) -> float:
    """Return the largest value, at least 0."""
    return max(own, default=0.0)


def best_first(
    starts: Sequence[int],
    nodes: Mapping[int, tuple[float, Sequence[int], Sequence[float], Sequence[float]]],
    weight: float,
    limits: tuple[int, int, int, int],
) -> tuple[list[int], int, int]:
    """Return (positions in the order of opening, rounds, the reason to stop).

    Args:
        starts: positions of directories, the scope's root last.
        nodes: by position, the final score, the children, the node scores of files with title
            bonuses, and the final scores of files.
        weight: b.
        limits: k, directories per round, patience, most directories.
    """
    k, in_round, patience, most = limits
    final = {position: node[0] for position, node in nodes.items()}
    queue = sorted(set(starts), key=lambda p: (-final[p], p))
    seen = set(queue)
    opened: list[int] = []
    top: list[float] = []
    best_own, rounds, quiet = 0.0, 0, 0
    while True:
        if not queue:
            return opened, rounds, 1
        if len(opened) >= most:
            return opened, rounds, 2
        if quiet >= patience:
            return opened, rounds, 0
        reach = (1 - weight) * best_own + weight * final[queue[0]]
        if starts[-1] in opened and weight > 0 and len(top) == k and reach < top[0]:
            return opened, rounds, 3
        rounds += 1
        changed = False
        for _ in range(min(in_round, most - len(opened))):
            if not queue:
                break
            position, queue = pop_queue(queue)
            opened.append(position)
            _, children, own, finals = nodes[position]
            best_own = max(best_own, best_in(own))
            top, got_in = offer_files(top, finals, k)
            changed = changed or got_in
            for child in children:
                if child not in seen:
                    seen.add(child)
                    queue = push_queue(queue, child, final)
        quiet = 0 if changed else quiet + 1
