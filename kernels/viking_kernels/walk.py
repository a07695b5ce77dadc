"""Opening directories: all of them in their order, or best-first until nothing better is in sight.

To open a directory is to score its files: their own scores, what they have from their neighbours
and from the directory, and whether they can be among the k best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    F32,
    I32,
    I64,
    U8,
    Directories,
    Numbers,
    Query,
    Scope,
    Scratch,
    Tree,
    Vectors,
)
from viking_kernels.bounds import bound_scores
from viking_kernels.dense import PREFETCH_VECTORS
from viking_kernels.hierarchy import final_score, settle, smooth
from viking_kernels.scope import list_files, place, row_at
from viking_kernels.select import best_positions, push_smallest
from viking_kernels.simd import prefetch
from viking_kernels.texts import dense_weight, own_of_file, score_codes

CONVERGED = 0
EXHAUSTED = 1
LIMIT = 2
OUT_OF_REACH = 3


_ROUNDING = 1e-6  # of scores that are kept in fp32
_FIRST = 32  # directories with the best chances


class Limits(NamedTuple):
    """When a walk stops."""

    k: int  # results wanted
    in_round: int  # directories opened a round
    patience: int  # unchanged rounds to stop after
    most: int  # directories to open at most


class Best(NamedTuple):
    """The best files so far."""

    top: F32  # [k] heap of the least that the final scores of the k best can be
    held: I64  # [1] how many it holds
    candidates: I64  # [1] how many files stand in Scratch.candidates


@njit
def none_yet(k: int) -> Best:
    """No file has been looked at."""
    return Best(np.empty(k, np.float32), np.zeros(1, np.int64), np.zeros(1, np.int64))


@inlined
def code_directory(
    directory: int, tree: Tree, vectors: Vectors, query: Query, scope: Scope, scratch: Scratch
) -> None:
    """Fills scratch.coded for the texts of a directory that stand in the base; see `score_codes`.

    The others have codes of their own, which `score_files` looks at one by one.
    """
    if directory < scope.base_dirs:
        low, high = tree.directories.texts[directory], tree.directories.texts[directory + 1]
        score_codes(np.int64(low), np.int64(high), tree, vectors, query, scope, scratch)


@inlined
def score_files(
    directory: int,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    exact: bool,
    scratch: Scratch,
) -> int:
    """Fills scratch.own and .best for the files right in a directory; how many texts they have.

    Unless `exact` from codes, whose scores `code_directory` has just left in scratch.coded.
    """
    position = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
    unchanged = scratch.unchanged[position] == 1
    if unchanged and not exact:
        return _score_range(directory, tree, scope, scratch)
    texts = 0
    for i in range(list_files(directory, unchanged, tree, scope, scratch.listed)):
        at = np.int64(scratch.listed[i])
        file = row_at(at, scope.file_low, scope.file_high, scope.base_files)
        if file < scope.base_files:
            prefetch(vectors.base_raw, np.int64(tree.files.texts[file, 0]) + PREFETCH_VECTORS)
        own, bound, best, count = own_of_file(file, tree, vectors, query, scope, not exact, scratch)
        scratch.own[0, at] = own
        scratch.own[1, at] = bound
        scratch.best[at] = best
        texts += count
    return texts


@inlined
def _score_range(directory: int, tree: Tree, scope: Scope, scratch: Scratch) -> int:
    """`score_files` from codes, in a directory that has not changed since the base was written."""
    first, last = tree.directories.files[directory], tree.directories.files[directory + 1]
    if first == last:
        return np.int64(0)
    low = np.int64(tree.directories.texts[directory])
    text = start = np.int64(tree.files.texts[first, 0])
    for file in range(first, last):
        end = np.int64(tree.files.texts[file, 1])
        own = bound = np.float32(0)
        best = np.int64(-1)
        while text < end:
            score = scratch.coded[0, text - low]
            bound = max(bound, scratch.coded[1, text - low])
            if best < 0 or score > own:
                own = score
                best = text
            text += 1
        at = file - scope.file_low
        scratch.own[0, at] = own
        scratch.own[1, at] = bound
        scratch.best[at] = best
    return text - start


@inlined
def offer_files(
    directory: int,
    weights: tuple[float, float, float],
    tree: Tree,
    scope: Scope,
    allowed: U8,
    scratch: Scratch,
    best: Best,
) -> tuple[bool, float]:
    """Gives a directory's files their final scores and offers them to the best.

    A convex combination is off by no more than the worst of its parts; the parent is exact.

    Args:
        weights: b, c and the directory's final score.
        allowed: uint8 [files of the scope], 0 where a filter forbids; or [0]: nothing is forbidden.
        scratch: has the own scores; .candidates and .reach get the files that may be among the
            best.

    Returns:
        (whether the k best changed, the best own score of the files, what titles add included).
    """
    weight, share, above = weights
    before = -1.0
    bound_before = 0.0
    best_own = 0.0
    changed = False
    k = best.top.shape[0]
    listed = scratch.listed
    position = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
    count = list_files(directory, scratch.unchanged[position] == 1, tree, scope, listed)
    for i in range(count):
        at = np.int64(listed[i])
        own = np.float64(scratch.own[0, at])
        bound = np.float64(scratch.own[1, at])
        worst = max(bound, bound_before) if share > 0 else bound
        after = -1.0
        if i + 1 < count:
            after = np.float64(scratch.own[0, listed[i + 1]])
            if share > 0:
                worst = max(worst, np.float64(scratch.own[1, listed[i + 1]]))
        best_own = max(best_own, own + np.float64(scratch.titles[at]))
        if allowed.shape[0] == 0 or allowed[at]:
            smoothed = smooth(own, before, after, share)
            final = final_score(smoothed, above, weight, np.float64(scratch.titles[at]))
            off = (1.0 - weight) * worst
            held = best.held[0]
            # What is equal may differ in its last bit, and so in how it is rounded.
            most = np.float32(final + off + _ROUNDING)
            if final + off > 0 and (held < k or most >= best.top[0]):
                scratch.candidates[best.candidates[0]] = at
                scratch.reach[best.candidates[0]] = most
                best.candidates[0] += 1
                if held < k or np.float32(final - off) > best.top[0]:
                    best.held[0] = push_smallest(best.top, held, final - off)
                    changed = True
        before = own
        bound_before = bound
    return changed, best_own


@inlined
def open_directory(
    position: int,
    row: int,
    weights: tuple[float, float, float],
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    exact: bool,
    allowed: U8,
    scratch: Scratch,
    best: Best,
) -> tuple[bool, float, int]:
    """Scores the files right in a directory and offers them: (changed, best own score, texts).

    `weights` are b, b below the scope's root, c. Sampled directories have their own scores; for
    the others, unless `exact`, `code_directory` has just been called.
    """
    texts = 0
    if scratch.sampled[position] == 0:
        texts = score_files(row, tree, vectors, query, scope, exact, scratch)
    weight = weights[1] if row == scope.root else weights[0]
    above = np.float64(scratch.directories[4, position])
    changed, best_own = offer_files(
        row, (weight, weights[2], above), tree, scope, allowed, scratch, best
    )
    return changed, best_own, texts


@njit
def open_all(
    count: int,
    weights: tuple[float, float, float],
    tree: Tree,
    vectors: Vectors,
    numbers: Numbers,
    query: Query,
    scope: Scope,
    exact: bool,
    every: bool,
    allowed: U8,
    scratch: Scratch,
    best: Best,
) -> int:
    """Opens the directories of the scope (`count` positions); returns how many texts there are.

    Unless `exact`, or `every` one is to be opened, those are passed over in which no file can be
    among the best, by int4 codes or by int8 codes. Those that may hold the best come first, so that
    these are soon known.
    """
    reach = np.full(count, np.inf, np.float32)
    first = np.empty(0, np.int32)
    texts = 0
    if not (exact or every):
        left = False  # whether a directory of the base has files that aren't scored yet
        for position in range(scope.dir_high - scope.dir_low):
            left = left or (scratch.sampled[position] == 0 and scratch.unchanged[position] == 1)
        if left:
            share = dense_weight(False, query.use_dense, query.use_lexical)
            bound_scores(tree.texts, vectors, query, (share, 1.0 - share), scope, scratch)
        texts = reach_all(weights, tree, scope, scratch, reach)
        first = best_positions(reach, _FIRST)
    for i in range(first.shape[0] + count):
        position = np.int64(first[i]) if i < first.shape[0] else i - first.shape[0]
        floor = best.top[0] if best.held[0] == best.top.shape[0] else np.float32(-1)
        if scratch.directories[3, position] >= 0 and reach[position] >= floor:
            row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
            if not exact and scratch.sampled[position] == 0:
                code_directory(row, tree, vectors, query, scope, scratch)
                if (
                    floor >= 0
                    and reach[position] < np.inf
                    and _reach(row, position, weights, True, tree, scope, scratch) < floor
                ):
                    reach[position] = -np.inf
                    continue
            settle(row, weights, tree.directories, numbers, query, scope, scratch)
            _, _, more = open_directory(
                position, row, weights, tree, vectors, query, scope, exact, allowed, scratch, best
            )
            if reach[position] == np.inf:
                texts += more
            reach[position] = -np.inf  # nothing is left to open
    return texts


@njit
def reach_all(
    weights: tuple[float, float, float], tree: Tree, scope: Scope, scratch: Scratch, reach: F32
) -> int:
    """Fills `reach` with the most that the final score of a file right in a directory can be.

    No file is smoothed to more than the best own score of its directory. Those of sampled
    directories are there, within their bounds; what the others can be stands in scratch.coded,
    from `bound_scores`. Where something below has changed since the base was written, and no own
    score is there, `reach` is left as it is.

    Args:
        reach: [positions of the scope's directories].

    Returns:
        How many texts the files of the others have, but for those of sampled directories.
    """
    texts = 0
    for position in range(reach.shape[0]):
        if scratch.directories[3, position] < 0:
            continue
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        if scratch.sampled[position] == 1:
            reach[position] = _reach_of_sampled(row, position, weights, tree, scope, scratch)
        elif scratch.unchanged[position] == 1:
            first, last = tree.directories.files[row], tree.directories.files[row + 1]
            reach[position] = -np.inf
            if first < last:
                reach[position] = _reach(row, position, weights, False, tree, scope, scratch)
                texts += tree.files.texts[last - 1, 1] - tree.files.texts[first, 0]
    return texts


@inlined
def _reach_of_sampled(
    row: int,
    position: int,
    weights: tuple[float, float, float],
    tree: Tree,
    scope: Scope,
    scratch: Scratch,
) -> float:
    """The most that the final score of a file of a directory can be, from scratch.own."""
    own = title = np.float32(0)
    count = list_files(row, scratch.unchanged[position] == 1, tree, scope, scratch.listed)
    if count == 0:
        return -np.inf
    for i in range(count):
        at = scratch.listed[i]
        own = max(own, scratch.own[0, at] + scratch.own[1, at])
        title = max(title, scratch.titles[at])
    weight = weights[1] if row == scope.root else weights[0]
    above = np.float64(scratch.directories[4, position] + scratch.dir_off[position])
    return final_score(np.float64(own), above, weight, np.float64(title)) + _ROUNDING


@inlined
def _reach(
    row: int,
    position: int,
    weights: tuple[float, float, float],
    off: bool,
    tree: Tree,
    scope: Scope,
    scratch: Scratch,
) -> float:
    """The most that the final score of a file of a base directory can be, from scratch.coded.

    With `off` that is of the directory's texts alone, from `score_codes`: own scores, and how far
    each can be off. Without, of the scope's, from `bound_scores`: bounds.
    """
    first, last = tree.directories.files[row], tree.directories.files[row + 1]
    start = np.int64(tree.directories.texts[row]) if off else scope.text_low
    low = np.int64(tree.files.texts[first, 0]) - start
    high = np.int64(tree.files.texts[last - 1, 1]) - start
    own = title = np.float32(0)
    for at in range(low, high):
        # What stands there of old may be anything.
        more = scratch.coded[1, at] if off else np.float32(0)
        own = max(own, scratch.coded[0, at] + more)
    for at in range(first - scope.file_low, last - scope.file_low):
        title = max(title, scratch.titles[at])
    weight = weights[1] if row == scope.root else weights[0]
    above = np.float64(scratch.directories[4, position] + scratch.dir_off[position])
    return final_score(np.float64(own), above, weight, np.float64(title)) + _ROUNDING


@inlined
def _before(a: int, b: int, final: F32) -> bool:
    """The queue's order: the higher final score first, then the lower position."""
    return final[a] > final[b] or (final[a] == final[b] and a < b)


@inlined
def push_queue(queue: I32, count: int, position: int, final: F32) -> int:
    """Puts a directory into the queue, a binary heap with the best one at 0; its new size."""
    at = count
    while at > 0 and _before(position, queue[(at - 1) // 2], final):
        queue[at] = queue[(at - 1) // 2]
        at = (at - 1) // 2
    queue[at] = position
    return count + 1


@inlined
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


@inlined
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


@inlined
def _queue_once(row: int, scope: Scope, queue: I32, waiting: int, seen: U8, final: F32) -> int:
    position = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
    if seen[position] == 1:
        return waiting
    seen[position] = 1
    return push_queue(queue, waiting, position, final)


@inlined
def best_first(
    starts: I32,
    count: int,
    weights: tuple[float, float, float],
    tree: Tree,
    vectors: Vectors,
    numbers: Numbers,
    query: Query,
    scope: Scope,
    exact: bool,
    allowed: U8,
    scratch: Scratch,
    best: Best,
    limits: Limits,
) -> tuple[int, int, int, int]:
    """Opens directories by final score, best first.

    A directory is queued when its parent is opened or when it is a start point; each is opened
    once, and settled then: the queue's order may be that of scores from codes. After a round the
    walk stops when the k best files have not changed for some rounds (CONVERGED), when no queued
    directory's files could enter them even with the best own score seen so far (OUT_OF_REACH), at
    the most directories (LIMIT) or when all are open (EXHAUSTED).

    Args:
        starts: positions of directories.
        count: positions of the scope's directories, which are scored.
        weights: b, b below the scope's root, c.
        scratch: .opened gets the positions of the opened directories in order.

    Returns:
        (directories opened, rounds, reason to stop, texts scored).
    """
    final = scratch.directories[4]
    queue = scratch.queue
    scratch.seen[:count] = 0
    waiting = np.int64(0)
    for i in range(starts.shape[0]):
        if scratch.seen[starts[i]] == 0:
            scratch.seen[starts[i]] = 1
            waiting = push_queue(queue, waiting, np.int64(starts[i]), final)
    best_own = 0.0
    root_open = False  # its files may owe less to their parent than all others
    rounds = 0
    quiet = 0
    opened = 0
    texts = 0
    while True:
        stop = -1
        if waiting == 0:
            stop = EXHAUSTED
        elif opened >= limits.most:
            stop = LIMIT
        elif quiet >= limits.patience:
            stop = CONVERGED
        elif best.held[0] == limits.k and root_open and weights[0] > 0:
            reach = (1.0 - weights[0]) * best_own + weights[0] * final[queue[0]]
            if reach < best.top[0]:
                stop = OUT_OF_REACH
        if stop >= 0:
            return opened, rounds, stop, texts
        rounds += 1
        changed = False
        for _ in range(limits.in_round):
            if waiting == 0 or opened >= limits.most:
                break
            position = np.int64(pop_queue(queue, waiting, final))
            waiting -= 1
            scratch.opened[opened] = position
            opened += 1
            row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
            root_open = root_open or row == scope.root
            settle(row, weights, tree.directories, numbers, query, scope, scratch)
            if not exact and scratch.sampled[position] == 0:
                code_directory(row, tree, vectors, query, scope, scratch)
            got_in, own, more = open_directory(
                position, row, weights, tree, vectors, query, scope, exact, allowed, scratch, best
            )
            best_own = max(best_own, own)
            changed = changed or got_in
            texts += more
            waiting = queue_children(
                row, tree.directories, scope, queue, waiting, scratch.seen, final
            )
        quiet = 0 if changed else quiet + 1
