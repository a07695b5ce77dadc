"""Scores over the tree: the gate, directories' and files' final scores.

    own      = the best own score of a file's texts (see texts.py)
    g        = max(0, 1 - icc / 0.25)
    smoothed = (own + c * (own of the file before + own of the file after)) / (1 + c * neighbours)
    final    = (1 - b) * smoothed + b * final of the parent

Adaptive: b = 0.5 * g and c = 0.2 * g. With alpha given: b = 1 - alpha, c = 0. icc is the
intraclass correlation of the files' own scores, the share of their variance that lies between
directories (Shrout and Fleiss 1979, ICC(1), by one-way analysis of variance): where the own
scores already tell the directories apart, the directory would count twice.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    COUNTS,
    F64,
    I32,
    OWN_TEXT,
    SCRIPTS,
    U8,
    Directories,
    Files,
    Numbers,
    Query,
    Scope,
    Scratch,
    Texts,
    Tree,
)
from viking_kernels.dense import directory_coded, directory_dense
from viking_kernels.scope import (
    directory_inside,
    list_files,
    next_file,
    place,
    previous_file,
    row_at,
)
from viking_kernels.texts import dense_weight, foreign

PARENT_WEIGHT = 0.5
NEIGHBOUR_WEIGHT = 0.2
ICC_FULL = 0.25
_LEAST_GATE = 1e-9
"""Less is rounding of the icc, and would make matches of files that have no score."""

SAMPLE_FILES = 2048
"""Directories are sampled, whole: the gate costs the same in any scope.

Their files' own scores are those from codes, see `texts.score_codes`, by every method: the gate is
the same for all. What codes leave out counts as variance within directories. A product with a unit
vector is off by some .0003 where scores differ by some .05. So the gate is off by some .001, where
the sample itself leaves it open by some .05.
"""


@njit
def sample_directories(
    directories: Directories, files: int, count: int, scope: Scope, tail_inside: U8
) -> I32:
    """The directories whose files make up the gate's sample, by row: a fixed share by URI hash.

    `files` and `count` are how many files and directories the scope has.
    """
    share = 1.0 if files <= SAMPLE_FILES else SAMPLE_FILES / files
    limit = share * 18446744073709551616.0
    found = np.empty(count, np.int32)
    size = 0
    for position in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        if (
            directories.died[row] > scope.revision
            and directory_inside(row, tail_inside, scope)
            and (share == 1.0 or np.float64(directories.key[row]) < limit)
        ):
            found[size] = row
            size += 1
    return found[:size]


@inlined
def intraclass_correlation(
    sample: I32, tree: Tree, scope: Scope, scratch: Scratch
) -> tuple[float, int]:
    """(icc in [0, 1], files) of the files' own scores in the sampled directories, from `scratch`.

    icc = (MSB - MSW) / (MSB + (n0 - 1) * MSW), n0 the mean size of a group corrected for unequal
    sizes. 1, which closes the gate, where it can't be told: fewer than two directories with
    files, one file in each, or no variance.
    """
    own, listed = scratch.own[0], scratch.listed
    groups = 0
    total = 0
    squares = 0.0  # of the group sizes
    overall = 0.0
    between = 0.0
    within = 0.0
    for i in range(sample.shape[0]):
        row = np.int64(sample[i])
        at = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
        n = list_files(row, scratch.unchanged[at] == 1, tree, scope, listed)
        if n == 0:
            continue
        total_here = 0.0
        for j in range(n):
            total_here += np.float64(own[listed[j]])
        mean = total_here / n
        for j in range(n):
            within += (np.float64(own[listed[j]]) - mean) ** 2
        # Welford's update, group by group, of the variance between the groups' means.
        total += n
        step = mean - overall
        overall += step * n / total
        between += step * (mean - overall) * n
        groups += 1
        squares += float(n) * n
    if groups < 2 or total == groups:
        return 1.0, total
    mean_between = between / (groups - 1)
    mean_within = within / (total - groups)
    size = (total - squares / total) / (groups - 1)
    denominator = mean_between + (size - 1.0) * mean_within
    if denominator <= 1e-12:
        return 1.0, total
    return min(max((mean_between - mean_within) / denominator, 0.0), 1.0), total


@inlined
def gate_of(icc: float) -> float:
    """Return the gate for an icc: g above, rounded to float32.

    The last bits of an icc depend on the order of its sums, which a compaction changes. Without
    the rounding a score would change with them.
    """
    gate = np.float64(np.float32(1.0 - icc / ICC_FULL))
    return gate if gate > _LEAST_GATE else 0.0


@inlined
def directory_scores(
    directories: Directories,
    numbers: Numbers,
    query: Query,
    scope: Scope,
    tail_inside: U8,
    coded: bool,
    scratch: Scratch,
) -> None:
    """Fills scratch.directories[0..3] with dense, lexical, dense weight and own.

    Directories outside the scope get own -1. Lexical is missing where no text below is in the
    query's script. With `coded`, dense is from the codes of means where these can tell, and
    nothing is settled yet: see `settle`. scratch.dir_off gets how far own scores can be off, and
    scratch.unchanged whether a directory's slot is that of the base, and so all below it.
    """
    out = scratch.directories
    for position in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        out[:, position] = 0
        out[3, position] = -1.0
        scratch.settled[position] = 0 if coded else 1
        scratch.dir_off[position] = 0
        scratch.unchanged[position] = row < scope.base_dirs and numbers.slot[row] == row
        if directories.died[row] > scope.revision and directory_inside(row, tail_inside, scope):
            slot = numbers.slot[row]
            missing = False
            if query.script != 0:
                same = numbers.counts[slot, COUNTS - SCRIPTS + query.script]
                neutral = numbers.counts[slot, COUNTS - SCRIPTS]
                missing = same + neutral == 0
            weight = dense_weight(missing, query.use_dense, query.use_lexical)
            score = off = 0.0
            if weight > 0:
                score = -1.0
                if coded:
                    near, off = directory_coded(slot, query, numbers)
                    score = np.float64(near)
                if score < 0:
                    score = directory_dense(slot, query, numbers)
            scratch.dir_off[position] = weight * off
            words = 0.0 if missing else np.float64(scratch.dir_lexical[position])
            out[0, position] = score
            out[1, position] = words
            out[2, position] = weight
            out[3, position] = weight * score + (1.0 - weight) * words


@njit
def root_weight(numbers: Numbers, scope: Scope, parent_weight: float) -> float:
    """B for the children of the scope's root: 0 when the root has no text of its own."""
    return parent_weight if numbers.counts[numbers.slot[scope.root], OWN_TEXT] > 0 else 0.0


@njit
def propagate(
    parents: I32,
    scope: Scope,
    count: int,
    parent_weight: float,
    below_root: float,
    scratch: Scratch,
) -> None:
    """Fills scratch.directories[4] with the final scores of directories, parents before children.

    Of `count` positions. directories[3] are the own ones, negative outside the scope; final(root) =
    own(root). scratch.dir_off, of own scores, becomes that of final ones.
    """
    scores, off = scratch.directories, scratch.dir_off
    for position in range(count):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        own = np.float64(scores[3, position])
        if own < 0 or row == scope.root:
            scores[4, position] = own
            continue
        parent = parents[row]
        weight = below_root if parent == scope.root else parent_weight
        over = place(parent, scope.dir_low, scope.dir_high, scope.base_dirs)
        scores[4, position] = (1.0 - weight) * own + weight * np.float64(scores[4, over])
        off[position] = (1.0 - weight) * np.float64(off[position]) + weight * np.float64(off[over])


@njit
def settle(
    row: int,
    weights: tuple[float, float, float],
    directories: Directories,
    numbers: Numbers,
    query: Query,
    scope: Scope,
    scratch: Scratch,
) -> None:
    """Makes the scores of a directory of the scope, and of those above it, exact.

    `weights` are b, b below the scope's root, c.
    """
    out, chain = scratch.directories, scratch.chain
    depth = 0
    above = row
    at = place(above, scope.dir_low, scope.dir_high, scope.base_dirs)
    while scratch.settled[at] == 0:
        chain[depth] = above
        depth += 1
        if above == scope.root:
            break
        above = np.int64(directories.parent[above])
        at = place(above, scope.dir_low, scope.dir_high, scope.base_dirs)
    for i in range(depth - 1, -1, -1):
        here = np.int64(chain[i])
        at = place(here, scope.dir_low, scope.dir_high, scope.base_dirs)
        share = np.float64(out[2, at])
        score = directory_dense(numbers.slot[here], query, numbers) if share > 0 else 0.0
        out[0, at] = score
        out[3, at] = share * score + (1.0 - share) * np.float64(out[1, at])
        out[4, at] = out[3, at]
        if here != scope.root:
            parent = np.int64(directories.parent[here])
            weight = weights[1] if parent == scope.root else weights[0]
            over = place(parent, scope.dir_low, scope.dir_high, scope.base_dirs)
            out[4, at] = (1.0 - weight) * np.float64(out[3, at]) + weight * np.float64(out[4, over])
        scratch.settled[at] = 1


@inlined
def smooth(own: float, before: float, after: float, share: float) -> float:
    """Own with `share` of each neighbour that is there (negative: it is not), normalised."""
    total = own
    weight = 1.0
    if before >= 0:
        total += share * before
        weight += share
    if after >= 0:
        total += share * after
        weight += share
    return total / weight


@inlined
def final_score(smoothed: float, above: float, weight: float, title: float) -> float:
    """Of a file, from its parent's and what its title adds; at most 1."""
    return min(1.0, (1.0 - weight) * smoothed + weight * above + title)


@njit
def with_neighbours(positions: I32, files: Files, scope: Scope) -> I32:
    """[n, 3] rows of the files at these positions: the file, the one before, the one after (-1)."""
    out = np.empty((positions.shape[0], 3), np.int32)
    for i in range(positions.shape[0]):
        row = row_at(positions[i], scope.file_low, scope.file_high, scope.base_files)
        out[i, 0] = row
        out[i, 1] = previous_file(files.previous[row], files, scope.revision)
        out[i, 2] = next_file(files.next[row], files, scope.revision)
    return out


@njit
def parts_of_files(
    trio: I32,
    file_directory: I32,
    texts: Texts,
    scope: Scope,
    query: Query,
    weights: tuple[float, float, float],
    scratch: Scratch,
) -> tuple[F64, I32]:
    """How the scores of files come about, from the own scores that stand in `scratch`.

    Args:
        trio: [n, 3] from `with_neighbours`.
        weights: b, b below the scope's root, c.

    Returns:
        (parts [n, 9]: dense, lexical, dense weight, own, smoothed, parent, b, title, final; rows of
        the best texts [n], -1 none).
    """
    parts = np.zeros((trio.shape[0], 9), np.float64)
    best = np.empty(trio.shape[0], np.int32)
    around = np.empty(3, np.float64)
    for i in range(trio.shape[0]):
        for k in range(3):
            around[k] = -1.0
            # Without a share of the neighbours, theirs may never have been written.
            if trio[i, k] >= 0 and (k == 0 or weights[2] > 0):
                at = place(trio[i, k], scope.file_low, scope.file_high, scope.base_files)
                around[k] = scratch.own[0, at]
        at = place(trio[i, 0], scope.file_low, scope.file_high, scope.base_files)
        best[i] = scratch.best[at]
        title = np.float64(scratch.titles[at])
        own = around[0]
        if best[i] >= 0:
            missing = foreign(texts.script[best[i]], query.script)
            share = dense_weight(missing, query.use_dense, query.use_lexical)
            if not missing:
                text = place(best[i], scope.text_low, scope.text_high, scope.base_texts)
                parts[i, 1] = scratch.lexical[text]
            if share > 0:
                parts[i, 0] = max(0.0, (own - (1.0 - share) * parts[i, 1]) / share)
            parts[i, 2] = share
        directory = file_directory[trio[i, 0]]
        weight = weights[1] if directory == scope.root else weights[0]
        at = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
        above = np.float64(scratch.directories[4, at])
        smoothed = smooth(own, around[1], around[2], weights[2])
        parts[i, 3] = own
        parts[i, 4] = smoothed
        parts[i, 5] = above
        parts[i, 6] = weight
        parts[i, 7] = title
        parts[i, 8] = final_score(smoothed, above, weight, title)
    return parts, best
