"""The cache of compiled kernels under concurrent processes, and the choice of instructions."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import time
from pathlib import Path

import numba
import pytest
from numba.core.registry import cpu_target
from viking_kernels import _jit, simd

from tests.commands import serve
from vikingd.daemon import kernel_warm_up

PROCESSES, KERNELS = 4, 25


def cache(path: Path) -> _jit.CacheFile:
    """Return the cache of one function."""
    return _jit.CacheFile(str(path), "kernel", ("stamp",))


def compile_kernels(path: Path, process: int) -> None:
    """Save like a process that compiles one function for several kinds of arguments."""
    for kernel in range(KERNELS):
        cache(path).save((process, kernel), f"code {process}/{kernel}")


def test_processes_that_compile_at_once_lose_no_code_and_mix_none_up(tmp_path: Path) -> None:
    """Processes that save at once lose no code, and each kind of arguments loads its own."""
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
    """Another copy or another installation of the kernels has a cache of its own."""

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


def test_another_processor_has_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is complete for one processor is not taken for that of another one."""
    here = _jit._cache_directory()
    monkeypatch.setattr(numba.config, "CPU_NAME", "x86-64-v3")
    level = _jit._cache_directory()
    monkeypatch.setattr(numba.config, "CPU_FEATURES", "+avx2")
    assert len({here, level, _jit._cache_directory()}) == 3


def test_the_key_of_the_cache_is_the_processor_that_numba_compiles_for() -> None:
    """The name and the features in the key are those by which numba finds its code."""
    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    assert _jit._processor() == f"{name} {features}"


def test_code_that_nobody_uses_any_more_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start removes caches that are unused for a month, and marks its own as used."""
    mine, old, recent, foreign = (
        tmp_path / name for name in ("kernels-mine", "kernels-old", "kernels-recent", "else")
    )
    for path, days in ((mine, 90), (old, 31), (recent, 29), (foreign, 90)):
        path.mkdir()
        cache(path).save("arguments", "code")
        os.utime(path, (time.time() - days * 86_400,) * 2)
    (mine / "complete").touch()
    monkeypatch.setattr(_jit, "CACHE_DIRECTORY", mine)
    kernel_warm_up.compile_kernels(pytest.fail)  # each start calls this; here is nothing to compile
    assert {path.name for path in tmp_path.iterdir()} == {"kernels-mine", "kernels-recent", "else"}
    assert time.time() - mine.stat().st_mtime < 3600
    assert (mine / "kernel.1.nbc").exists()


def test_damaged_code_is_removed_and_not_complete_until_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged code is removed, and the cache counts as incomplete, also when asked again."""
    monkeypatch.setattr(_jit, "CACHE_DIRECTORY", tmp_path)
    cache(tmp_path).save("arguments", "code")
    _jit.mark_compiled()
    assert _jit.is_compiled()
    damaged = tmp_path / "kernel.1.nbc"
    content = bytearray(damaged.read_bytes())
    content[0] ^= 255
    damaged.write_bytes(content)
    for _ in range(2):
        assert not _jit.is_compiled()
    assert not damaged.exists()
    assert (tmp_path / "kernel.nbi").exists()


def test_a_daemon_without_the_instructions_asked_for_says_so(tmp_path: Path) -> None:
    """A daemon refuses unavailable instructions at its start, and names the available ones."""
    done = subprocess.run(
        serve(tmp_path),
        env={**os.environ, "VIKING_KERNELS_SIMD": "neon"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    there = ", ".join(simd.paths())
    assert done.stderr == f"vikingd: VIKING_KERNELS_SIMD is 'neon', this machine has {there}\n"
    assert done.returncode == 2
