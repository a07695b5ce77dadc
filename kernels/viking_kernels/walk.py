"""Best-first walk: opens the most promising directories until nothing better is in sight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import (
    F32,
    I32,
    U8,
    Directories,
    Files,
    Query,
    Scope,
    Scores,
    Texts,
    Tree,
    Vectors,
)
from viking_kernels.hierarchy import final_of_files, own_of_base_files, own_of_files
from viking_kernels.scope import next_file, place, row_at
from viking_kernels.select import push_smallest
from viking_kernels.texts import own_of_base, own_of_rows

CONVERGED = 0
EXHAUSTED = 1
LIMIT = 2
OUT_OF_REACH = 3


class Limits(NamedTuple):
    """When a walk stops."""

    k: int  # results wanted
    in_round: int  # directories opened a round
    patience: int  # unchanged rounds to stop after
    most: int  # directories to open at most


@njit
def open_directories(
    rows: I32,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    lexical: F32,
    scope: Scope,
    scores: Scores,
) -> int:
    """Scores the files right in these directories; returns how many texts that took."""
    count = 0
    for i in range(rows.shape[0]):
        if rows[i] < scope.base_dirs:
            # One type of number for each kernel: every other one would compile it again.
            first = np.int64(tree.directories.texts[rows[i]])
            last = np.int64(tree.directories.texts[rows[i] + 1])
            own_of_base(first, last, tree.texts, vectors, query, lexical, scope, scores.own_texts)
            own_of_base_files(
                first, last, tree.texts, scope, scores.own_texts, scores.own, scores.best
            )
            count += last - first
    tail = tail_texts_in(rows, tree.directories, tree.files, tree.texts, scope)
    own_of_rows(tail, tree.texts, vectors, query, lexical, scope, scores.own_texts)
    own_of_files(tree.texts, tail, scope, scores.own_texts, scores.own, scores.best)
    return count + tail.shape[0]


@njit
def tail_texts_in(
    rows: I32, directories: Directories, files: Files, texts: Texts, scope: Scope
) -> I32:
    """The living tail texts of the files right in these directories."""
    out = np.empty(texts.older.shape[0], np.int32)
    count = 0
    for i in range(rows.shape[0]):
        file = next_file(directories.first_file[rows[i]], files, scope.revision)
        while file >= 0:
            text = files.newest[file]
            while text >= 0:
                if text < texts.died.shape[0] and texts.died[text] > scope.revision:
                    out[count] = text
                    count += 1
                text = texts.older[text - scope.base_texts]
            file = next_file(files.next[file], files, scope.revision)
    return out[:count]


@njit
def _before(a: int, b: int, final: F32) -> bool:
    """The queue's order: the higher final score first, then the lower position."""
    return final[a] > final[b] or (final[a] == final[b] and a < b)


@njit
def push_queue(queue: I32, count: int, position: int, final: F32) -> int:
    """Puts a directory into the queue, a binary heap with the best one at 0; its new size."""
    at = count
    while at > 0 and _before(position, queue[(at - 1) // 2], final):
        queue[at] = queue[(at - 1) // 2]
        at = (at - 1) // 2
    queue[at] = position
    return count + 1


@njit
def pop_queue(queue: I32, count: int, final: F32) -> int:
    """Takes the best directory out of the queue, which then holds count - 1; returns it."""
    top = queue[0]
    count -= 1
    last = queue[count]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _before(queue[child + 1], queue[child], final):
            child += 1
        if not _before(queue[child], last, final):
            break
        queue[at] = queue[child]
        at = child
    if count > 0:
        queue[at] = last
    return top


@njit
def queue_children(
    row: int, directories: Directories, scope: Scope, queue: I32, waiting: int, seen: U8, final: F32
) -> int:
    """Queues the living directories right below `row`, each once; the queue's new size."""
    if row < scope.base_dirs:
        child = row + 1
        while child < directories.end[row]:
            if directories.died[child] > scope.revision:
                waiting = _queue_once(child, scope, queue, waiting, seen, final)
            child = directories.end[child]
    child = directories.newest[row]
    while child >= 0:
        if child < directories.died.shape[0] and directories.died[child] > scope.revision:
            waiting = _queue_once(child, scope, queue, waiting, seen, final)
        child = directories.older[child - scope.base_dirs]
    return waiting


@njit
def _queue_once(row: int, scope: Scope, queue: I32, waiting: int, seen: U8, final: F32) -> int:
    position = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
    if seen[position] == 1:
        return waiting
    seen[position] = 1
    return push_queue(queue, waiting, position, final)


@njit
def offer_files(
    directory: int, directories: Directories, files: Files, scope: Scope, final: F32, allowed: U8,
    top: F32, held: int,
) -> tuple[int, bool]:  # fmt: skip
    """Offers a directory's files to the k best so far; (how many are held, whether one got in)."""
    changed = False
    file = next_file(directories.first_file[directory], files, scope.revision)
    while file >= 0:
        at = place(file, scope.file_low, scope.file_high, scope.base_files)
        if allowed.shape[0] == 0 or allowed[at]:
            least = final[0, at] - final[1, at]
            if least > 0 and (held < top.shape[0] or least > top[0]):
                held = push_smallest(top, held, least)
                changed = True
        file = next_file(files.next[file], files, scope.revision)
    return held, changed


@njit
def best_first(
    tree: Tree,
    vectors: Vectors,
    query: Query,
    lexical: F32,
    scope: Scope,
    scores: Scores,
    plan: tuple[I32, U8, U8, tuple[float, float, float]],
    limits: Limits,
) -> tuple[I32, int, int, int]:
    """Opens directories by final score, best first, and scores the files in them.

    A directory is queued when its parent is opened or when it is a start point; each is opened
    once. After a round the walk stops when the k best files have not changed for some rounds
    (CONVERGED), when no queued directory's files could enter them even with the best own score
    seen so far (OUT_OF_REACH), at the most directories (LIMIT) or when all are open (EXHAUSTED).

    Args:
        scores: directories are scored; files of sampled directories have their own scores.
        plan: positions of the start points; 1 where a directory was sampled ([d]); the allowed
            files ([f], or [0] for all); b, b below the scope's root, c.

    Returns:
        (positions of the opened directories in order, rounds, reason to stop, texts scored).
    """
    starts, sampled, allowed, weights = plan
    final = scores.directories[4].copy()
    queue = np.empty(final.shape[0], np.int32)
    seen = np.zeros(final.shape[0], np.uint8)
    opened = np.empty(min(limits.most, final.shape[0]), np.int32)
    waiting = 0
    for i in range(starts.shape[0]):
        if seen[starts[i]] == 0:
            seen[starts[i]] = 1
            waiting = push_queue(queue, waiting, starts[i], final)
    top = np.empty(limits.k, np.float32)
    held = 0
    best_own = 0.0
    one = np.empty(1, np.int32)
    root_open = False  # its files may owe less to their parent than all others
    rounds = 0
    quiet = 0
    count = 0
    texts = 0
    while True:
        stop = -1
        if waiting == 0:
            stop = EXHAUSTED
        elif count >= limits.most:
            stop = LIMIT
        elif quiet >= limits.patience:
            stop = CONVERGED
        elif held == limits.k and root_open and weights[0] > 0:
            reach = (1.0 - weights[0]) * best_own + weights[0] * final[queue[0]]
            if reach < top[0]:
                stop = OUT_OF_REACH
        if stop >= 0:
            return opened[:count], rounds, stop, texts
        rounds += 1
        changed = False
        for _ in range(limits.in_round):
            if waiting == 0 or count >= limits.most:
                break
            position = pop_queue(queue, waiting, final)
            waiting -= 1
            opened[count] = position
            count += 1
            row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
            if sampled[position] == 0:
                one[0] = row
                texts += open_directories(one, tree, vectors, query, lexical, scope, scores)
            root_open = root_open or row == scope.root
            weight = weights[1] if row == scope.root else weights[0]
            above = np.float64(final[position])
            final_of_files(
                row, (weight, weights[2], above), tree.directories, tree.files, scope, scores.own,
                scores.final,
            )  # fmt: skip
            best_own = max(best_own, best_in(row, tree.directories, tree.files, scope, scores.own))
            held, got_in = offer_files(
                row, tree.directories, tree.files, scope, scores.final, allowed, top, held
            )
            changed = changed or got_in
            waiting = queue_children(row, tree.directories, scope, queue, waiting, seen, final)
        quiet = 0 if changed else quiet + 1


@njit
def best_in(
    directory: int, directories: Directories, files: Files, scope: Scope, own: F32
) -> float:
    """The best own score of a directory's files; 0 without files."""
    best = 0.0
    file = next_file(directories.first_file[directory], files, scope.revision)
    while file >= 0:
        at = place(file, scope.file_low, scope.file_high, scope.base_files)
        best = max(best, np.float64(own[0, at]))
        file = next_file(files.next[file], files, scope.revision)
    return best
