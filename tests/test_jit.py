"""The cache of compiled kernels, with processes that compile at the same time."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path

import pytest
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


def test_another_copy_of_the_kernels_has_a_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so has one that was installed again: none of the code that is there could be used."""

    def directory_of(copy: str) -> Path:
        monkeypatch.setattr(_jit, "__file__", str(tmp_path / copy / "_jit.py"))
        return _jit._cache_directory()

    here = Path(_jit.__file__).parent
    for copy in ("a", "b"):
        shutil.copytree(here, tmp_path / copy, ignore=shutil.ignore_patterns("__pycache__"))
    first = directory_of("a")
    assert directory_of("a") == first
    assert directory_of("b") != first
    os.utime(tmp_path / "a" / "find.py", (1, 1))
    assert directory_of("a") != first
