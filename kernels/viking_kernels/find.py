"""A find: the kernels that answer one query over one scope, in the order of their calls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels import answer_features, bm25, final_scores, second_stage, select, walk
from viking_kernels import directory_scoring as opening
from viking_kernels import scope as scopes
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    DIRECTORIES,
    DIRECTORY_FINAL,
    DIRECTORY_PARTS,
    F32,
    F64,
    FILES,
    FINAL,
    I32,
    I64,
    NODE,
    U8,
    RawQuery,
    Scope,
    Scratch,
    Search,
    SubtreeStats,
    Terms,
    Texts,
    Tree,
    Vectors,
    Weights,
    decode_file,
    is_file,
)
from viking_kernels.dense import PREFETCH_VECTORS, prepare
from viking_kernels.node_scores import best_passages, file_score
from viking_kernels.other_script import BEST_BY_WORDS, other_script_cap
from viking_kernels.simd import prefetch
from viking_kernels.titles import forget_titles, score_titles

EXHAUSTIVE = 1
BEST_FIRST = 2
EXACT = 3

BLOCK = 256
"""Texts whose codes are multiplied before their scores are computed."""

MAX_DEPTH = 128  # a directory has fewer ancestors

NO_ROWS, NO_FACTORS = np.zeros(0, np.int32), np.zeros(0, np.float32)
ALL_FILES = NO_FILES = np.zeros(0, np.uint8)

_is_file = inlined(is_file)
_decode_file = inlined(decode_file)


class Plan(NamedTuple):
    """The method of a find, its limits and its filter.

    It is flat, because each bundle that Python passes to a kernel takes half a microsecond.
    """

    method: int  # EXHAUSTIVE, BEST_FIRST or EXACT
    threshold: float  # scores must be above it; at least 0
    alpha: float  # in [0, 1]; below 0: adaptive
    start_points: int  # BEST_FIRST: number of best directories to start from, besides the root
    passages: int  # best passages to return for each file
    all_directories: bool  # exact scores of all, not only of those around files
    k: int  # results wanted, at least 1
    in_round: int  # BEST_FIRST: this and the next two, see opening.Limits
    patience: int
    max_directories: int
    keeps_words: bool = False  # scratch stays for score_nodes; the caller calls `forget` later
    all_files: bool = False  # EXHAUSTIVE: node scores of all files in scratch, not only of the best
    near: I32 = NO_ROWS  # BEST_FIRST: rows of texts that an inverted file proposes
    allowed: U8 = ALL_FILES  # [files of the scope], 0 if a filter forbids the file; [0] allows all
    adjusted: int = 0  # best files with a second stage, at least second_stage.FIRST; 0: none
    named: U8 = NO_FILES  # [files of the scope], 1 if the query names the file's day; [0]: no day
    factors: F32 = NO_FACTORS  # [files of the scope], of the file's kind; [0]: none is preferred
    more: I32 = NO_ROWS  # positions of files that get the second stage besides the best


class Found(NamedTuple):
    """The result of a find. Positions are those of `scope.place`."""

    rows: I32  # [n] the k best files, best first, with all that tie with the last one
    parts: F64  # [n, PARTS] of their scores, see arrays.DENSE
    best_text: I32  # [n] rows
    passages: I32  # [n, Plan.passages] rows of texts, best first, -1 none
    passage_scores: F32  # [n, Plan.passages] their node scores
    directories: F32  # [DIRECTORY_PARTS, d] of Scratch; the node score is -1 outside the scope
    start_points: I32  # BEST_FIRST: positions of directories
    opened: I32  # BEST_FIRST: positions of directories in the order of opening
    known: float  # share of the query's terms that the scope has, see answer_features
    cosine: float  # with the first files, see answer_features.cosines
    usual: float
    floor_factor: float  # of the lexical scores of texts, see bm25.rescale_to_floor
    files_per_directory: float  # of the sample
    icc: float
    gate: float
    parent_weight: float
    below_root_weight: float
    neighbour_weight: float
    other_script: float  # cap of the texts in another script, inf: none
    sample_files: int
    scored_texts: int
    rescored: int  # candidates, which were scored again in fp32
    rounds: int
    stop: int

    @property
    def weights(self) -> Weights:
        """The weights of the final scores, as one bundle."""
        return Weights(
            self.parent_weight, self.below_root_weight, self.neighbour_weight, self.other_script
        )


def scratch(directories: int, files: int, texts: int) -> Scratch:
    """Return working memory for a tree with these numbers of rows."""
    return Scratch(
        lexical=np.zeros(texts, np.float32),
        titles=np.zeros(files, np.float32),
        code_scores=np.empty(texts, np.float32),
        code_errors=np.empty(texts, np.float32),
        products=np.empty((2, BLOCK), np.int32),
        dir_lexical=np.empty(directories, np.float32),
        dir_tf=np.zeros(directories, np.float32),
        touched=np.empty(directories + 1, np.int32),
        directories=np.empty((DIRECTORY_PARTS, directories), np.float32),
        dir_errors=np.empty(directories, np.float32),
        is_exact=np.empty(directories, np.uint8),
        chain=np.empty(MAX_DEPTH, np.int32),
        file_scores=np.empty(files, np.float32),
        file_errors=np.empty(files, np.float32),
        best=np.empty(files, np.int32),
        sampled=np.empty(directories, np.uint8),
        unchanged=np.empty(directories, np.uint8),
        listed=np.empty(files, np.int32),
        seen=np.empty(directories, np.uint8),
        queue=np.empty(directories, np.int32),
        opened=np.empty(directories, np.int32),
        candidates=np.empty(files, np.int32),
        upper_bounds=np.empty(files, np.float32),
    )


@njit
def find(
    tree: Tree,
    vectors: Vectors,
    stats: SubtreeStats,
    raw: RawQuery,
    scope: Scope,
    terms: Terms,
    plan: Plan,
    scratch: Scratch,
) -> Found:
    """Score the files and directories of a scope as the plan says.

    Args:
        tree, vectors, stats: of a snapshot.
        raw: the query.
        scope: the directory to search.
        terms: of the query; none if raw.use_lexical is false.
        plan: the method and its limits.
        scratch: for all rows of the tree; no other find may use it at the same time.
    """
    directories, exact = tree.directories, plan.method == EXACT
    # Constants in variables: for a literal, numba would compile a second variant of each callee.
    never = plan.method < 0
    search = Search(tree, vectors, stats, prepare(raw), scope, scratch, np.inf)
    inside = scopes.tail_directories(directories, scope)
    d = scope.dir_high - scope.dir_low + inside.shape[0]
    scratch.dir_lexical[:d] = 0
    scratch.sampled[:d] = 0
    ranges = bm25.ranges_of(terms, scope)
    _, _, gains = bm25.score_scope(search, inside, terms, ranges)
    floor_factor = bm25.rescale_to_floor(tree.texts, scope, raw.script, scratch.lexical)
    score_titles(tree.texts, scope, inside, terms, ranges, scratch.titles)
    cap = other_script_cap(search)
    search = Search(tree, vectors, stats, search.query, scope, scratch, cap)
    walks = plan.method == BEST_FIRST
    final_scores.directory_scores(inside, not exact, search)

    counts = stats.counts[stats.slot[scope.root]]
    sample = final_scores.sample_directories(
        directories, counts[FILES], counts[DIRECTORIES], scope, inside
    )
    texts = 0
    for i in range(sample.shape[0]):
        at = scopes.place(sample[i], scope.dir_low, scope.dir_high, scope.base_dirs)
        scratch.sampled[at] = 1
        row = np.int64(sample[i])
        opening.code_directory(row, search)
        texts += opening.score_files(row, never, search)
    icc, sample_files, sampled = final_scores.intraclass_correlation(sample, search)
    if exact:  # the sample, too, is scored from vectors then
        scratch.sampled[:d] = 0
        texts = 0
    gate = final_scores.gate_of(icc)
    files_per_directory = sample_files / max(1, sampled)
    weight = final_scores.parent_weight(gate, files_per_directory)
    share = final_scores.NEIGHBOUR_WEIGHT * gate
    if plan.alpha >= 0:
        weight, share = 1.0 - plan.alpha, 0.0
    weights = Weights(weight, final_scores.root_weight(stats, scope, weight), share, cap)
    final_scores.propagate(d, weights, search)

    # The threshold selects by the last scores, so the second stage takes files of any score.
    wanted, least = plan.k, plan.threshold
    if plan.adjusted > 0:
        wanted, least = max(plan.k, plan.adjusted), 0.0
    best = opening.none_yet(wanted)
    limits = opening.Limits(plan.in_round, plan.patience, plan.max_directories)
    rules = opening.Opening(weights, exact, plan.all_files, limits, plan.allowed, best)
    starts = np.empty(0, np.int32)
    opened = rounds = stop = 0
    if walks:
        starts = _start_points(d, plan.start_points, scope, scratch)
        opened, rounds, stop, more = walk.best_first(starts, search, rules)
        texts += more
    else:
        texts += opening.open_all(d, search, rules)
    candidates = _candidates(best, least, scratch)
    if walks:
        candidates = _with_proposed(candidates, plan.near, tree, scope, plan.allowed, scratch)
        for i in range(candidates.shape[0]):
            file = scopes.row_at(candidates[i], scope.file_low, scope.file_high, scope.base_files)
            final_scores.rescore_exactly(np.int64(tree.files.directory[file]), weights, search)
    if plan.more.shape[0] > 0:
        candidates = _distinct(np.concatenate((candidates, plan.more)))
        for i in range(plan.more.shape[0]):
            file = scopes.row_at(plan.more[i], scope.file_low, scope.file_high, scope.base_files)
            final_scores.rescore_exactly(np.int64(tree.files.directory[file]), weights, search)
    if plan.all_directories:
        for position in range(d):
            if scratch.directories[NODE, position] >= 0:
                row = scopes.row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
                final_scores.rescore_exactly(row, weights, search)
    windows = final_scores.neighbour_windows(candidates, tree.files, scope)
    _rescore_files(windows, share > 0, never, search)
    parts, best_text = final_scores.parts_of_files(windows, weights, search)
    kept = select.best_rows(parts[:, FINAL], wanted, least)
    if plan.adjusted > 0:
        kept = _adjusted(kept, windows, parts, best_text, gains, terms, ranges, plan, search)
    passages = np.empty((kept.shape[0], plan.passages), np.int32)
    passage_scores = np.empty((kept.shape[0], plan.passages), np.float32)
    for i in range(kept.shape[0]):
        best_passages(windows[kept[i], 0], search, passages[i], passage_scores[i])
    known = answer_features.known_share(tree.texts, scope, inside, terms, ranges)
    first = best_text[kept[: _with_ties(answer_features.FIRST, kept, parts)]]
    cosine, usual = answer_features.cosines(first, raw, vectors, scope.revision)
    if not plan.keeps_words:
        _forget(tree.texts, scope, terms, ranges, scratch)
    return Found(
        windows[kept, 0],
        parts[kept],
        best_text[kept],
        passages,
        passage_scores,
        scratch.directories[:, :d],
        starts,
        scratch.opened[:opened].copy(),
        known,
        cosine,
        usual,
        floor_factor,
        files_per_directory,
        icc,
        gate,
        weights.parent,
        weights.below_root,
        weights.neighbours,
        cap,
        sample_files,
        texts,
        windows.shape[0],
        rounds,
        stop,
    )


@inlined
def _with_ties(count: int, kept: I64, parts: F64) -> int:
    """Return how many of `kept` are its `count` best files or tie with the last of these."""
    count = min(count, kept.shape[0])
    while 0 < count < kept.shape[0] and parts[kept[count], FINAL] == parts[kept[count - 1], FINAL]:
        count += 1
    return count


@njit
def forget(texts: Texts, scope: Scope, terms: Terms, scratch: Scratch) -> None:
    """Reset a scratch for the next query, after a find that kept the lexical scores."""
    _forget(texts, scope, terms, bm25.ranges_of(terms, scope), scratch)


@inlined
def _forget(texts: Texts, scope: Scope, terms: Terms, ranges: I64, scratch: Scratch) -> None:
    bm25.forget(terms, ranges, scope, scratch.lexical)
    forget_titles(texts, scope, terms, ranges, scratch.titles)


@njit
def score_nodes(
    nodes: I32,
    tree: Tree,
    vectors: Vectors,
    stats: SubtreeStats,
    raw: RawQuery,
    scope: Scope,
    weights: Weights,
    scratch: Scratch,
) -> F64:
    """Return the exact final scores of living nodes of the scope, after a find in it.

    Args:
        nodes: [n] see arrays.encode_file.
        tree, vectors, stats, raw, scope: of the find.
        weights: Found.weights.
        scratch: of the find; scratch.lexical must still have its lexical scores.

    Returns:
        [n] scores in [0, 1].
    """
    search = Search(tree, vectors, stats, prepare(raw), scope, scratch, weights.other_script)
    never = weights.parent < 0  # see `find` for constants
    scores = np.empty(nodes.shape[0], np.float64)
    files = np.empty(nodes.shape[0], np.int32)
    count = 0
    for i in range(nodes.shape[0]):
        directory = np.int64(nodes[i])
        if _is_file(nodes[i]):
            file = _decode_file(nodes[i])
            files[count] = scopes.place(file, scope.file_low, scope.file_high, scope.base_files)
            count += 1
            directory = np.int64(tree.files.directory[file])
        final_scores.rescore_exactly(directory, weights, search)
        at = scopes.place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
        scores[i] = scratch.directories[DIRECTORY_FINAL, at]
    windows = final_scores.neighbour_windows(files[:count], tree.files, scope)
    _rescore_files(windows, weights.neighbours > 0, never, search)
    parts, _ = final_scores.parts_of_files(windows, weights, search)
    count = 0
    for i in range(nodes.shape[0]):
        if _is_file(nodes[i]):
            scores[i] = parts[count, FINAL]
            count += 1
    return scores


@njit
def _adjusted(
    kept: I64,
    windows: I32,
    parts: F64,
    best_text: I32,
    gains: F64,
    terms: Terms,
    ranges: I64,
    plan: Plan,
    search: Search,
) -> I64:
    """Return the k best of the files `kept` and plan.more, after the second stage of scoring.

    The plan.adjusted best files of `kept` with their ties, and plan.more, get the second stage. The
    scores of the others are multiplied by one factor: they keep their order and rank below these.
    """
    scope, named, factors = search.scope, plan.named, plan.factors
    count = _with_ties(plan.adjusted, kept, parts)
    chosen = np.empty(count + plan.more.shape[0], np.int64)
    chosen[:count] = kept[:count]
    # Files of `more` that are among the best have their place; both lists are without repeats.
    is_best = np.zeros(windows.shape[0], np.uint8)
    is_best[kept[:count]] = 1
    size = count
    for i in range(plan.more.shape[0]):
        file = scopes.row_at(plan.more[i], scope.file_low, scope.file_high, scope.base_files)
        at = 0
        while windows[at, 0] != file:
            at += 1
        if is_best[at] == 0 and parts[at, FINAL] > 0.0:
            chosen[size] = at
            size += 1
    following = parts[kept[count], FINAL] if count < kept.shape[0] else 0.0
    second_stage.adjust(
        chosen[:size], windows, parts, best_text, gains, named, factors, terms, ranges, search
    )
    all_of, lowest = np.empty(kept.shape[0] + size - count, np.int64), 1.0
    all_of[:size] = chosen[:size]
    for i in range(count):
        lowest = min(lowest, parts[kept[i], FINAL])
    scale = min(1.0, lowest / following) if following > 0.0 else 1.0
    total = size
    for i in range(count, kept.shape[0]):
        at = kept[i]
        is_more = False
        for j in range(count, size):
            is_more = is_more or chosen[j] == at
        if not is_more:
            parts[at, FINAL] *= scale
            all_of[total] = at
            total += 1
    finals = np.empty(total, np.float64)
    for i in range(total):
        finals[i] = parts[all_of[i], FINAL]
    return all_of[:total][select.best_rows(finals, plan.k, plan.threshold)]


@njit
def _start_points(count: int, wanted: int, scope: Scope, scratch: Scratch) -> I32:
    """Return where a walk starts: positions of the best of `count` directories, then the root."""
    best = select.best_positions(scratch.directories[DIRECTORY_FINAL, :count], wanted)
    starts = np.empty(best.shape[0] + 1, np.int32)
    for i in range(best.shape[0]):
        starts[i] = best[i]
    starts[best.shape[0]] = scopes.place(scope.root, scope.dir_low, scope.dir_high, scope.base_dirs)
    return starts


@njit
def _candidates(best: opening.Best, threshold: float, scratch: Scratch) -> I32:
    """Return the ascending positions of files that may be among the k best above a threshold."""
    count = best.candidates[0]
    full = best.held[0] == best.top.shape[0]
    floor = best.top[0] if full else np.float32(0)
    found = np.empty(count, np.int32)
    size = 0
    for i in range(count):
        # In fp32, because a score just above the threshold may be rounded down to it.
        upper_bound = scratch.upper_bounds[i]
        if upper_bound >= floor and upper_bound >= np.float32(threshold):
            found[size] = scratch.candidates[i]
            size += 1
    select.sort_rising(found[:size])
    return found[:size]


@njit
def _with_proposed(
    candidates: I32, near: I32, tree: Tree, scope: Scope, allowed: U8, scratch: Scratch
) -> I32:
    """Return the union of the candidates, the files of the best texts by words, and of `near`."""
    size = scope.text_high - scope.text_low + tree.texts.file.shape[0] - scope.base_texts
    by_words = select.best_positions(scratch.lexical[:size], np.int64(BEST_BY_WORDS))
    found = np.empty(candidates.shape[0] + by_words.shape[0] + near.shape[0], np.int32)
    count = candidates.shape[0]
    for i in range(count):
        found[i] = candidates[i]
    for i in range(by_words.shape[0] + near.shape[0]):
        if i < by_words.shape[0]:
            if scratch.lexical[by_words[i]] <= 0:
                continue
            row = scopes.row_at(by_words[i], scope.text_low, scope.text_high, scope.base_texts)
        else:
            row = np.int64(near[i - by_words.shape[0]])
        file = tree.texts.file[row]
        if tree.texts.tombstoned[row] > scope.revision and file >= 0:
            at = scopes.place(file, scope.file_low, scope.file_high, scope.base_files)
            if allowed.shape[0] == 0 or allowed[at]:
                found[count] = at
                count += 1
    return _distinct(found[:count])


@njit
def _distinct(values: I32) -> I32:
    """Sort `values` in place, and return the distinct ones."""
    select.sort_rising(values)
    count = 0
    for i in range(values.shape[0]):
        if i == 0 or values[i] != values[i - 1]:
            values[count] = values[i]
            count += 1
    return values[:count]


@njit
def _rescore_files(windows: I32, neighbours: bool, coded: bool, search: Search) -> None:
    """Compute the exact node scores of files, and of their neighbours if these count."""
    scope, scratch = search.scope, search.scratch
    each = 3 if neighbours else 1
    rows = np.empty(windows.shape[0] * each, np.int32)
    for i in range(rows.shape[0]):
        rows[i] = windows[i // each, i % each]
    rows = _distinct(rows)
    for i in range(rows.shape[0]):
        ahead = np.int64(rows[min(i + PREFETCH_VECTORS, rows.shape[0] - 1)])
        if 0 <= ahead < scope.base_files:
            prefetch(search.vectors.base_raw, np.int64(search.tree.files.texts[ahead, 0]))
        if rows[i] >= 0:
            at = scopes.place(rows[i], scope.file_low, scope.file_high, scope.base_files)
            score, _, text, _ = file_score(rows[i], coded, search)
            scratch.file_scores[at] = score
            scratch.file_errors[at] = 0
            scratch.best[at] = text
