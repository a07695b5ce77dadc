"""Scores over the tree: the gate, and the final scores of directories and files.

    g        = max(0, 1 - icc / 0.25)
    smoothed = (node + c * (node of the previous file + node of the next file))
               / (1 + c * number of these neighbours)
    final    = (1 - b) * smoothed + b * final of the parent

`node` is the node score, see `node_scores`. In the adaptive mode, b = 0.5 * g and c = 0.2 * g. With
a given alpha, b = 1 - alpha and c = 0. The 0.5 is less if the directories have more than 15 files
on average: it is multiplied by 15 / average. A large directory says little about each of its files.

icc is the intraclass correlation of the files' node scores: the share of their variance that lies
between directories (Shrout and Fleiss 1979, ICC(1), by one-way analysis of variance). If the node
scores already separate the directories, the score of the directory would count twice; so the gate
closes.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import called, inlined, njit
from viking_kernels.arrays import (
    COUNTS,
    DENSE,
    DENSE_SHARE,
    DIRECTORY_FINAL,
    F64,
    FINAL,
    I32,
    LEXICAL,
    NODE,
    OWN_TEXT,
    PARENT,
    PARENT_SHARE,
    PARTS,
    SCRIPTS,
    SMOOTHED,
    TITLE_BONUS,
    U8,
    Directories,
    Files,
    Scope,
    Search,
    SubtreeStats,
    Weights,
)
from viking_kernels.dense import directory_coded, directory_dense
from viking_kernels.node_scores import capped, dense_score, dense_weight, script_mismatch
from viking_kernels.scope import directory_inside, list_files, living_file, place, row_at

PARENT_WEIGHT = 0.5
NEIGHBOUR_WEIGHT = 0.2
ICC_FULL = 0.25
MANY_FILES = 15
"""Files per directory, on average, from which on the share of the parent falls."""

_LEAST_GATE = 1e-9
"""A smaller gate is rounding of the icc. It would give a score to files that match nothing."""

SAMPLE_FILES = 2048
"""The gate is from a sample of whole directories with about so many files, so its cost is bounded.

The node scores of the sample are those from codes (see `node_scores.score_codes`) in every method,
so that the gate is the same for all. What codes leave out counts as variance within directories. A
product with a unit vector has an error of about .0003, while scores differ by about .05. So the
gate has an error of about .001, and the sample itself one of about .05.
"""


@njit
def sample_directories(
    directories: Directories, files: int, count: int, scope: Scope, tail_inside: U8
) -> I32:
    """Return the rows of the directories from whose files the gate is computed, see `gate_of`.

    They are chosen by the hash of their URI, so that they have about SAMPLE_FILES files. `files`
    and `count` are the numbers of files and directories in the scope.
    """
    share = 1.0 if files <= SAMPLE_FILES else SAMPLE_FILES / files
    limit = share * 18446744073709551616.0
    found = np.empty(count, np.int32)
    size = 0
    for position in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        if (
            directories.tombstoned[row] > scope.revision
            and directory_inside(row, tail_inside, scope)
            and (share == 1.0 or np.float64(directories.key[row]) < limit)
        ):
            found[size] = row
            size += 1
    return found[:size]


@inlined
def intraclass_correlation(sample: I32, search: Search) -> tuple[float, int, int]:
    """Return (icc in [0, 1], number of files, number of directories with files) of a sample.

    icc = (MSB - MSW) / (MSB + (n0 - 1) * MSW). MSB and MSW are the variances between and within
    directories. n0 is the mean size of a directory, corrected for unequal sizes. icc is 1, which
    closes the gate, if it is undefined: fewer than two directories with files, one file in each, or
    no variance.
    """
    scope, scratch = search.scope, search.scratch
    scores, listed = scratch.file_scores, scratch.listed
    groups = 0
    total = 0
    squares = 0.0  # of the group sizes
    overall = 0.0
    between = 0.0
    within = 0.0
    for i in range(sample.shape[0]):
        row = np.int64(sample[i])
        at = place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
        n = list_files(row, scratch.unchanged[at] == 1, search)
        if n == 0:
            continue
        total_here = 0.0
        for j in range(n):
            total_here += np.float64(scores[listed[j]])
        mean = total_here / n
        for j in range(n):
            within += (np.float64(scores[listed[j]]) - mean) ** 2
        # Welford's update of the variance between the groups' means, one group at a time.
        total += n
        step = mean - overall
        overall += step * n / total
        between += step * (mean - overall) * n
        groups += 1
        squares += float(n) * n
    if groups < 2 or total == groups:
        return 1.0, total, groups
    mean_between = between / (groups - 1)
    mean_within = within / (total - groups)
    size = (total - squares / total) / (groups - 1)
    denominator = mean_between + (size - 1.0) * mean_within
    if denominator <= 1e-12:
        return 1.0, total, groups
    return min(max((mean_between - mean_within) / denominator, 0.0), 1.0), total, groups


@inlined
def gate_of(icc: float) -> float:
    """Return the gate g = 1 - icc / ICC_FULL, at least 0, rounded to float32.

    The last bits of an icc depend on the order of its sums, which a compaction changes. Without the
    rounding a score would change with them.
    """
    gate = np.float64(np.float32(1.0 - icc / ICC_FULL))
    return gate if gate > _LEAST_GATE else 0.0


@inlined
def parent_weight(gate: float, files_per_directory: float) -> float:
    """Return b, the weight of the parent's score in the adaptive mode."""
    return PARENT_WEIGHT * gate * min(1.0, MANY_FILES / max(1.0, files_per_directory))


@inlined
def directory_scores(tail_inside: U8, coded: bool, search: Search) -> None:
    """Compute the node scores of all directories of the scope.

    Fills the rows DENSE, LEXICAL, DENSE_SHARE and NODE of scratch.directories. Directories outside
    the scope get the node score -1. Lexical is missing if no text of the subtree is in the query's
    script. With `coded`, dense is from the codes of centroids where these can tell, and no score is
    exact yet: see `rescore_exactly`. scratch.dir_errors gets the error bounds of node scores.
    scratch.unchanged is 1 for each directory that still has the slot of the base, because then
    nothing in its subtree has changed.
    """
    stats, query, scope, scratch = search.stats, search.query, search.scope, search.scratch
    tombstoned, out = search.tree.directories.tombstoned, scratch.directories
    for position in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        out[:, position] = 0
        out[NODE, position] = -1.0
        scratch.is_exact[position] = 0 if coded else 1
        scratch.dir_errors[position] = 0
        scratch.unchanged[position] = row < scope.base_dirs and stats.slot[row] == row
        if tombstoned[row] > scope.revision and directory_inside(row, tail_inside, scope):
            slot = stats.slot[row]
            missing = False
            if query.script != 0:
                same = stats.counts[slot, COUNTS - SCRIPTS + query.script]
                neutral = stats.counts[slot, COUNTS - SCRIPTS]
                missing = same + neutral == 0
            weight = dense_weight(missing, query.use_dense, query.use_lexical)
            score = error = 0.0
            if weight > 0:
                score = -1.0
                if coded:
                    near, error = directory_coded(slot, query, stats)
                    score = np.float64(near)
                if score < 0:
                    score = directory_dense(slot, query, stats)
            scratch.dir_errors[position] = weight * error
            words = 0.0 if missing else np.float64(scratch.dir_lexical[position])
            out[DENSE, position] = score
            out[LEXICAL, position] = words
            out[DENSE_SHARE, position] = weight
            out[NODE, position] = weight * score + (1.0 - weight) * words


@njit
def root_weight(stats: SubtreeStats, scope: Scope, parent_weight: float) -> float:
    """Return b, the parent's weight, for children of the scope's root: 0 if it has no abstract."""
    return parent_weight if stats.counts[stats.slot[scope.root], OWN_TEXT] > 0 else 0.0


@inlined
def parent_share(directory: int, weights: Weights, scope: Scope) -> float:
    """Return b, the parent's weight, for the children of a directory."""
    return weights.below_root if directory == scope.root else weights.parent


@called
def propagate(count: int, weights: Weights, search: Search) -> None:
    """Compute the final scores of directories, parents before children.

    Fills the row DIRECTORY_FINAL of scratch.directories for `count` positions. Final scores are -1
    outside the scope. The root's final score is its node score. scratch.dir_errors changes from
    bounds of node scores to those of final ones.
    """
    parents, scope = search.tree.directories.parent, search.scope
    scores, errors = search.scratch.directories, search.scratch.dir_errors
    for position in range(count):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        node = np.float64(scores[NODE, position])
        if node < 0 or row == scope.root:
            scores[DIRECTORY_FINAL, position] = node
            continue
        parent = parents[row]
        weight = parent_share(parent, weights, scope)
        above = place(parent, scope.dir_low, scope.dir_high, scope.base_dirs)
        of_parent = np.float64(scores[DIRECTORY_FINAL, above])
        scores[DIRECTORY_FINAL, position] = (1.0 - weight) * node + weight * of_parent
        error, parent_error = np.float64(errors[position]), np.float64(errors[above])
        errors[position] = (1.0 - weight) * error + weight * parent_error


@called
def rescore_exactly(row: int, weights: Weights, search: Search) -> None:
    """Compute the exact scores of a directory and of its ancestors, up to the scope's root."""
    parents, stats, query = search.tree.directories.parent, search.stats, search.query
    scope, scratch = search.scope, search.scratch
    out, chain = scratch.directories, scratch.chain
    depth = 0
    ancestor = row
    at = place(ancestor, scope.dir_low, scope.dir_high, scope.base_dirs)
    while scratch.is_exact[at] == 0:
        chain[depth] = ancestor
        depth += 1
        if ancestor == scope.root:
            break
        ancestor = np.int64(parents[ancestor])
        at = place(ancestor, scope.dir_low, scope.dir_high, scope.base_dirs)
    for i in range(depth - 1, -1, -1):
        here = np.int64(chain[i])
        at = place(here, scope.dir_low, scope.dir_high, scope.base_dirs)
        share = np.float64(out[DENSE_SHARE, at])
        score = directory_dense(stats.slot[here], query, stats) if share > 0 else 0.0
        out[DENSE, at] = score
        out[NODE, at] = share * score + (1.0 - share) * np.float64(out[LEXICAL, at])
        out[DIRECTORY_FINAL, at] = out[NODE, at]
        if here != scope.root:
            parent = np.int64(parents[here])
            weight = parent_share(parent, weights, scope)
            above = place(parent, scope.dir_low, scope.dir_high, scope.base_dirs)
            node, of_parent = np.float64(out[NODE, at]), np.float64(out[DIRECTORY_FINAL, above])
            out[DIRECTORY_FINAL, at] = (1.0 - weight) * node + weight * of_parent
        scratch.is_exact[at] = 1


@inlined
def smooth(node: float, before: float, after: float, share: float) -> float:
    """Return the weighted mean of a file's node score and those of its neighbours.

    The file has weight 1, each neighbour has weight `share`. A negative score stands for a missing
    neighbour.
    """
    total = node
    weight = 1.0
    if before >= 0:
        total += share * before
        weight += share
    if after >= 0:
        total += share * after
        weight += share
    return total / weight


@inlined
def final_score(smoothed: float, parent: float, weight: float, title: float) -> float:
    """Return the final score of a file, at most 1; `weight` is the parent's, `title` a bonus."""
    return min(1.0, (1.0 - weight) * smoothed + weight * parent + title)


@njit
def neighbour_windows(positions: I32, files: Files, scope: Scope) -> I32:
    """Return [n, 3]: the rows of each file and of its previous and next file, -1 for none."""
    out = np.empty((positions.shape[0], 3), np.int32)
    for i in range(positions.shape[0]):
        row = row_at(positions[i], scope.file_low, scope.file_high, scope.base_files)
        out[i, 0] = row
        out[i, 1] = living_file(files.previous[row], files.previous, files, scope.revision)
        out[i, 2] = living_file(files.next[row], files.next, files, scope.revision)
    return out


@njit
def parts_of_files(windows: I32, weights: Weights, search: Search) -> tuple[F64, I32]:
    """Return the parts that make up the final scores of n files.

    search.scratch must hold the results of the search: in `file_scores` the exact node scores of
    the files and, unless weights.neighbours is 0, of their neighbours; in `best`, `titles` and
    `directories` what belongs to these files.

    Args:
        windows: [n, 3], the rows of each file and its neighbours, by `neighbour_windows`.
        weights: the weights of the parts.
        search: the search.

    Returns:
        (parts [n, PARTS], see arrays.DENSE; rows of the best texts [n], -1 none).
    """
    tree, query, scope, scratch = search.tree, search.query, search.scope, search.scratch
    parts = np.zeros((windows.shape[0], PARTS), np.float64)
    best = np.empty(windows.shape[0], np.int32)
    around = np.empty(3, np.float64)
    for i in range(windows.shape[0]):
        for k in range(3):
            around[k] = -1.0
            # Scores of neighbours that do not count may be missing.
            if windows[i, k] >= 0 and (k == 0 or weights.neighbours > 0):
                at = place(windows[i, k], scope.file_low, scope.file_high, scope.base_files)
                around[k] = scratch.file_scores[at]
        at = place(windows[i, 0], scope.file_low, scope.file_high, scope.base_files)
        best[i] = scratch.best[at]
        title = np.float64(scratch.titles[at])
        node = around[0]
        if best[i] >= 0:
            missing = script_mismatch(tree.texts.script[best[i]], query.script)
            share = dense_weight(missing, query.use_dense, query.use_lexical)
            if missing and share > 0:
                dense = dense_score(np.int64(best[i]), search)
                parts[i, DENSE] = dense
                share = capped(dense, search.other_script) / dense if dense > 0 else 1.0
            elif not missing:
                text = place(best[i], scope.text_low, scope.text_high, scope.base_texts)
                parts[i, LEXICAL] = scratch.lexical[text]
            if not missing and share > 0:
                parts[i, DENSE] = max(0.0, (node - (1.0 - share) * parts[i, LEXICAL]) / share)
            parts[i, DENSE_SHARE] = share
        directory = tree.files.directory[windows[i, 0]]
        weight = parent_share(directory, weights, scope)
        at = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
        parent = np.float64(scratch.directories[DIRECTORY_FINAL, at])
        smoothed = smooth(node, around[1], around[2], weights.neighbours)
        parts[i, NODE] = node
        parts[i, SMOOTHED] = smoothed
        parts[i, PARENT] = parent
        parts[i, PARENT_SHARE] = weight
        parts[i, TITLE_BONUS] = title
        parts[i, FINAL] = final_score(smoothed, parent, weight, title)
    return parts, best
