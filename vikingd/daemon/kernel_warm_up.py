"""The warm-up: all kernels are compiled, or loaded from the cache, before the first query."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from viking_kernels import _jit, answer_features, arrays, flat, weighted_search, wire
from viking_kernels import find as kernel
from viking_kernels.dense import prepare
from viking_kernels.fusion import rrf
from viking_kernels.postings import of_terms
from viking_kernels.products import products
from viking_kernels.salience import rank
from viking_kernels.scope import place, row_at, tail_directories

from vikingd.context import tokenizers
from vikingd.domain.store_changes import Change, Filled, IndexedText, Remove, Upsert
from vikingd.domain.text import LATIN
from vikingd.index.index import Index
from vikingd.index.lexicon.tokens import query_terms
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot
from vikingd.ingest import frontmatter, markdown
from vikingd.system.platform import end_with_parent
from vikingd.system.scratch import scratch

_DIMENSION = 8
_NOTHING = np.zeros(0, np.uint8)
_NO_ROWS = np.zeros(0, np.int32)


_SAY_EVERY = 5.0  # seconds
_KERNELS = 39  # about, for the progress

_GC_THRESHOLD = 50_000  # the compiler makes many small objects and few cycles
_COMPILE = "from vikingd.daemon.kernel_warm_up import compile_{0}; compile_{0}()"
BESIDE = tuple((sys.executable, "-P", "-c", _COMPILE.format(group)) for group in ("find", "others"))
"""The commands of the child processes that compile; -P keeps the working directory off the path."""


def compile_kernels(progress: Callable[[str], None]) -> None:
    """Compile the kernels in child processes, unless the cache has all of them.

    numba compiles on one core and holds the GIL, so several processes compile, and this one loads
    the results from the cache. If the cache can't be written, this process compiles all kernels
    itself.
    """
    _jit.keep_cache()
    if _jit.is_compiled():
        return
    progress("compiling kernels for this processor, once: about half a minute on two idle cores")
    try:
        with _jit.compiling():
            if _jit.is_compiled() or _compile_beside(progress):
                return
    except OSError as error:
        progress(f"kernels can't be kept in {_jit.CACHE_DIRECTORY}: {error.strerror}")
    progress("this process compiles the missing kernels, which takes longer")
    load_find()
    run_kernels()


def _compile_beside(progress: Callable[[str], None]) -> bool:
    """Compile each group of kernels in a child process; return True if the cache has them all."""
    began = time.monotonic()
    # They end with this process.
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in BESIDE]
    for process in running:
        while process.returncode is None:
            try:
                process.wait(_SAY_EVERY)
            except subprocess.TimeoutExpired:
                seconds = time.monotonic() - began
                progress(
                    f"compiling kernels: {_jit.compiled()} of {_KERNELS} after {seconds:.0f} s"
                )
    if any(process.returncode for process in running):
        return False
    _jit.mark_compiled()
    progress(f"compiled {_jit.compiled()} kernels in {time.monotonic() - began:.0f} s")
    return True


def compile_find() -> None:
    """Compile the kernels of a find. This takes as long as all other kernels together."""
    with _child(), _index() as index:
        _scan()
        _find(index.snapshot)


def compile_others() -> None:
    """Compile the kernels of writes, then those of retrievals."""
    with _child():
        run_kernels(searching=False)
        with _index() as index:
            _retrieve(index.snapshot)


@contextmanager
def _child() -> Iterator[None]:
    """Set up a process that compiles: it ends with its parent and removes its temporary files.

    Raises:
        SystemExit: the parent ended, or the cache can't be written.
    """
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the parent, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_parent(signal.SIGTERM, parent)
    gc.set_threshold(_GC_THRESHOLD)
    yield
    if error := _jit.why_not_kept():
        sys.exit(f"kernels can't be kept in {_jit.CACHE_DIRECTORY}: {error.strerror}")


def load_find() -> None:
    """Load the kernels of a find from the cache, without those of retrievals and writes.

    The main thread calls this before it starts other threads: numba imports modules with its first
    kernels, and a thread may see a half-imported module of another thread.
    """
    _scan()
    _find(_new_index(Path(os.devnull)).snapshot)  # nothing is written


def load_modules() -> None:
    """Import modules that threads need later; called before any thread is started."""
    for room in (markdown, frontmatter, tokenizers):
        room.load()


def run_kernels(*, searching: bool = True) -> None:
    """Load all kernels by writes and compactions on a small tree; with `searching` by finds, too.

    The tree is in a temporary directory, which is removed afterwards.
    """
    with _index() as index:
        # The commits and compactions reach both branches of the kernels: rows in the base and in
        # the tail, late vectors, rows that are gone.
        for revision, changes in enumerate(_commits(), 1):
            index.apply(changes, revision)
            if searching:
                _search(index.snapshot)
            index.compact()
        if searching:
            _search(index.snapshot)


@contextmanager
def _index() -> Iterator[Index]:
    """Open an empty index in a temporary directory, and remove it after the block."""
    with scratch("warm") as path:
        index = _new_index(path)
        yield index
        index.close()
        index.forget()  # it is in a cycle, and its base is mapped


def _new_index(path: Path) -> Index:
    return Index(path, "warm", np.zeros((arrays.SCRIPTS, _DIMENSION), np.float32), IndexSettings())


def _commits() -> Iterator[list[Change]]:
    root = "viking://resources"
    yield [_directory(1, root), _directory(2, f"{root}/a"), _file(3, f"{root}/a/1", b"")]
    vector = np.eye(_DIMENSION, dtype="<f4")
    yield [_file(4, f"{root}/a/2", vector[0].tobytes()), Filled(3, vector[1].tobytes())]
    yield [_file(5, f"{root}/a/3", vector[2].tobytes()), Remove(f"{root}/a/1")]


def _directory(number: int, uri: str) -> Upsert:
    return Upsert(number, uri, True, "", "", {}, (_text(number, b""),))


def _file(number: int, uri: str, vector: bytes) -> Upsert:
    return Upsert(number, uri, False, "number", "", {"number": number}, (_text(number, vector),))


def _text(number: int, vector: bytes) -> IndexedText:
    return IndexedText(number, 1, LATIN, f"a word and the number {number}", vector, True)


def _case(
    snapshot: Snapshot,
) -> tuple[
    arrays.Tree,
    arrays.Vectors,
    arrays.SubtreeStats,
    arrays.RawQuery,
    arrays.Scope,
    arrays.Terms,
    arrays.Scratch,
]:
    """Return the arguments of the kernels of a find, for a query over the whole small tree."""
    scope, centroids, _ = snapshot.scope(0)
    raw = arrays.RawQuery(np.ones(_DIMENSION, np.float32), LATIN, True, True, centroids)
    words = query_terms("word number café")  # with the patterns of all scripts
    terms = snapshot.terms(words.hashes, words.weights)
    scratch = kernel.scratch(*(len(rows.tombstoned) for rows in snapshot.tree))
    return snapshot.tree, snapshot.vectors, snapshot.stats, raw, scope, terms, scratch


def _scan() -> None:
    """Compile the kernel that checks the bytes of requests, by a tiny request."""
    path = np.zeros((2, wire.MAX_DEPTH + 1), np.int32)
    table, budgets = np.full((1, 1, wire.COLUMNS), wire.NONE, np.int64), np.ones(2, np.int64)
    wire.scan(np.frombuffer(b"\x08\0", np.uint8), table, budgets, path)


def _search(snapshot: Snapshot) -> None:
    """Run a find and a retrieval over the whole small tree."""
    _find(snapshot)
    _retrieve(snapshot)


def _find(snapshot: Snapshot) -> None:
    """Run a find by each method, and the small kernels that Python code calls for it."""
    tree, vectors, stats, raw, scope, terms, scratch = _case(snapshot)
    for method in (kernel.EXHAUSTIVE, kernel.BEST_FIRST, kernel.EXACT):
        plan = kernel.Plan(method, 0.0, -1.0, 1, 1, False, 1, 1, 1, 8)
        kernel.find(tree, vectors, stats, raw, scope, terms, plan, scratch)
    snapshot.has_term(int(terms.key[0]), scope)
    of_terms(terms.key, snapshot.tail_postings)
    place(row_at(0, 0, 1, 1), 0, 1, 1)
    weights = arrays.Weights(0.0, 0.0, 0.0)
    kernel.score_nodes(_NO_ROWS, tree, vectors, stats, raw, scope, weights, scratch)
    tail_directories(tree.directories, scope)
    answer_features.features(tree, vectors, raw, scope, terms, _NO_ROWS)
    kernel.forget(tree.texts, scope, terms, scratch)
    products(raw.vector[None], raw.vector[None])


def _retrieve(snapshot: Snapshot) -> None:
    tree, vectors, stats, raw, scope, terms, scratch = _case(snapshot)
    inside = tail_directories(tree.directories, scope)
    counts = snapshot.counts(0)
    found, _ = flat.keyword_top(tree.texts, counts, scope, inside, terms, _NOTHING, 1)
    plan = weighted_search.WeightedPlan(1.0, 0.0, 1, _NO_ROWS, _NOTHING)
    weighted_search.weighted_top(tree, vectors, stats, raw, scope, terms, plan, scratch)
    weighted_search.rank_in_files(tree, vectors, stats, raw, scope, terms, plan, scratch)
    rrf(found, np.array([len(found)]), np.ones(1), 60.0)
    rank(np.ones(1), np.ones((1, 3), np.int64), np.ones(5), 1)
    prepare(raw)
