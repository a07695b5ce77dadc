"""The best-first walk: it opens directories until no other one can have a better file."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined
from viking_kernels.arrays import DIRECTORY_FINAL, I32, Search
from viking_kernels.directory_scoring import Opening, code_directory, open_directory
from viking_kernels.final_scores import rescore_exactly
from viking_kernels.scope import place, row_at
from viking_kernels.select import pop_queue, push_queue

CONVERGED = 0
EXHAUSTED = 1
LIMIT = 2
OUT_OF_REACH = 3


@inlined
def queue_children(row: int, waiting: int, search: Search) -> int:
    """Queue the living directories directly below `row`, each once; return the queue's size."""
    directories, scope = search.tree.directories, search.scope
    if row < scope.base_dirs:
        child = row + 1
        while child < directories.end[row]:
            if directories.tombstoned[child] > scope.revision:
                waiting = _queue_once(child, waiting, search)
            child = directories.end[child]
    child = directories.newest[row]
    while child >= 0:
        if (
            child < directories.tombstoned.shape[0]
            and directories.tombstoned[child] > scope.revision
        ):
            waiting = _queue_once(child, waiting, search)
        child = directories.older[child - scope.base_dirs]
    return waiting


@inlined
def _queue_once(row: int, waiting: int, search: Search) -> int:
    scope, scratch = search.scope, search.scratch
    position = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
    if scratch.seen[position] == 1:
        return waiting
    scratch.seen[position] = 1
    return push_queue(scratch.queue, waiting, position, scratch.directories[DIRECTORY_FINAL])


@inlined
def best_first(starts: I32, search: Search, opening: Opening) -> tuple[int, int, int, int]:
    """Open directories, best final score first, starting from those at the positions `starts`.

    A directory is queued when its parent is opened, or at the start. It is opened once, and its
    exact score is computed then; in the queue its score may be from codes. After a round the walk
    stops for one of four reasons:

    - CONVERGED: the k best files have not changed for `patience` rounds.
    - OUT_OF_REACH: no file of a queued directory could be among them, even with the best node score
    seen so far.
    - LIMIT: `max_directories` are open.
    - EXHAUSTED: all directories are open.

    scratch.opened gets the positions of the opened directories in order.

    Returns:
        (directories opened, rounds, reason to stop, texts scored).
    """
    scope, scratch = search.scope, search.scratch
    weights, limits, best = opening.weights, opening.limits, opening.best
    final = scratch.directories[DIRECTORY_FINAL]
    queue = scratch.queue
    tail = search.tree.directories.parent.shape[0] - scope.base_dirs
    scratch.seen[: scope.dir_high - scope.dir_low + tail] = 0
    waiting = np.int64(0)
    for i in range(starts.shape[0]):
        if scratch.seen[starts[i]] == 0:
            scratch.seen[starts[i]] = 1
            waiting = push_queue(queue, waiting, np.int64(starts[i]), final)
    best_node = 0.0
    root_open = False  # the parent may weigh less for the root's files than for all others
    rounds = 0
    quiet = 0
    opened = 0
    texts = 0
    while True:
        stop = -1
        if waiting == 0:
            stop = EXHAUSTED
        elif opened >= limits.max_directories:
            stop = LIMIT
        elif quiet >= limits.patience:
            stop = CONVERGED
        elif best.held[0] == best.top.shape[0] and root_open and weights.parent > 0:
            upper_bound = (1.0 - weights.parent) * best_node + weights.parent * final[queue[0]]
            if upper_bound < best.top[0]:
                stop = OUT_OF_REACH
        if stop >= 0:
            return opened, rounds, stop, texts
        rounds += 1
        changed = False
        for _ in range(limits.in_round):
            if waiting == 0 or opened >= limits.max_directories:
                break
            position = np.int64(pop_queue(queue, waiting, final))
            waiting -= 1
            scratch.opened[opened] = position
            opened += 1
            row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
            root_open = root_open or row == scope.root
            rescore_exactly(row, weights, search)
            if not opening.exact and scratch.sampled[position] == 0:
                code_directory(row, search)
            is_better, node, more = open_directory(position, row, search, opening)
            best_node = max(best_node, node)
            changed = changed or is_better
            texts += more
            waiting = queue_children(row, waiting, search)
        quiet = 0 if changed else quiet + 1
