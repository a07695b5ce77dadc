"""The cache of compiled kernels, with processes that compile at the same time."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from numba.core.caching import IndexDataCacheFile
from viking_kernels import _jit

PROCESSES, KERNELS = 4, 25


def cache(path: Path) -> IndexDataCacheFile:
    """The cache of one function."""
    return IndexDataCacheFile(str(path), "kernel", ("stamp",))


def compile_kernels(path: Path, process: int) -> None:
    """Saves as a process does that compiles one function for several kinds of arguments."""
    for kernel in range(KERNELS):
        cache(path).save((process, kernel), f"code {process}/{kernel}")


def test_processes_that_compile_at_once_lose_no_code_and_mix_none_up(tmp_path: Path) -> None:
    """Each kind of arguments is found with its own code."""
    assert IndexDataCacheFile.save is _jit._save_alone
    fork = multiprocessing.get_context("fork")
    running = [fork.Process(target=compile_kernels, args=(tmp_path, i)) for i in range(PROCESSES)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0
    for process in range(PROCESSES):
        for kernel in range(KERNELS):
            assert cache(tmp_path).load((process, kernel)) == f"code {process}/{kernel}"
