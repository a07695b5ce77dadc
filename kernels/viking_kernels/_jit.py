"""The compiler flags of kernels and their cache.

A kernel that Python calls is compiled as a whole: its parts (the kernels that it calls) are typed
and lowered, then LLVM optimizes all of it once. numba would optimize each part alone, then again in
each caller, and would make for each part the code that unpacks Python's arguments: twice the work
for the same result.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite.binding
import numba
from numba import types
from numba.core import codegen
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]  # it is in C
from numba.core.typed_passes import NativeLowering

from viking_kernels import host, simd

_KEPT = 30 * 24 * 3600  # seconds that unused code of other versions of the sources is kept
_CHECKSUM = 4  # bytes at the end of each file of the cache

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _cache_directory() -> Path:
    # numba's cache tracks the file of a function, not the files of its callees. One directory for
    # each version of all sources keeps stale machine code from being loaded. numba also rejects
    # code of another copy of the sources, of other modification times or for another processor, so
    # the key includes these. A home directory or a volume may serve several machines.
    digest = hashlib.sha256(f"{numba.__version__} {simd.PATH} {_processor()}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{source} {source.stat().st_mtime_ns}".encode())
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "vikingd" / f"kernels-{digest.hexdigest()[:16]}"


def _processor() -> str:
    """Return the processor's name and features, for which numba compiles."""
    name, features = numba.config.CPU_NAME, numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if name is None:
        name = llvmlite.binding.get_host_cpu_name()
    if features is None:
        features = codegen.get_host_cpu_features()
    return f"{name} {features}"


CACHE_DIRECTORY = _cache_directory()
numba.config.CACHE_DIR = str(CACHE_DIRECTORY)  # type: ignore[attr-defined]  # set by name

_failures: list[OSError] = []


class CacheFile(IndexDataCacheFile):
    """The file with the compiled code of one kernel, which ends with a checksum."""

    def save(self, key: Any, data: Any) -> None:
        """Add the code of one signature of the kernel to the file, under a lock."""
        # numba reads an index, extends it and writes it. Without the lock, two processes could give
        # different code the same file, and a third one would run the wrong code.
        with _locked("lock"):
            super().save(key, data)

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # a damaged pickle may raise any exception
            return {}

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getbuffer())
            # numba reads pickles, which mark their own end.
            file.write(zlib.crc32(content.getbuffer()).to_bytes(_CHECKSUM, "little"))


class _Locator(UserProvidedCacheLocator):
    """A locator for numba that always uses CACHE_DIRECTORY, even if it is read-only."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _CacheImpl(CompileResultCacheImpl):
    _locator_classes = (_Locator,)

    def reduce(self, cres: Any) -> Any:
        """Return the form of a compiled kernel to cache: its machine code, without LLVM bitcode.

        numba would parse the bitcode at each load. It is for callers of the kernel, which use
        `_Part` here. A stub in its place tells numba which function the machine code defines.
        """
        (name, kind, (machine_code, _)), *others = super().reduce(cres)
        entry = cres.fndesc.llvm_cpython_wrapper_name
        stub = llvmlite.binding.parse_assembly(f'define void @"{entry}"() {{ unreachable }}')
        return ((name, kind, (machine_code, stub.as_bitcode())), *others)


class _Cache(FunctionCache):
    """The cache of one kernel. If reading it fails, the kernel is compiled again."""

    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CacheFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # numba's own method first imports all that the compiler may need.
        _add_runtime()
        try:
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except Exception:  # of any kind, from a damaged file
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _failures.append(error)


@cache
def _add_runtime() -> None:
    """Register the C functions of numba's runtime, which cached machine code calls."""
    for name, address in _nrt_python.c_helpers.items():
        symbol = name if name.startswith("_") else f"NRT_{name}"
        llvmlite.binding.add_symbol(symbol, address)


_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    # No fastmath: with the arithmetic of IEEE 754, equal operands give equal bits in every kernel
    # and on every processor, whatever the width of its vectors. `simd_scores` has the long sums.
    "fastmath": False,
}
_CALLED: dict[str, Any] = {**_OPTIONS, "_nrt": False}
_INLINED: dict[str, Any] = {**_CALLED, "forceinline": True}


class _PartLibrary(JITCodeLibrary):
    """The LLVM IR of a part of a kernel. The kernels that call the part optimize and compile it.

    The IR is simplified once here, which saves each caller time and much memory.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:  # numba would run its passes over these as well
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """A pass of numba that translates a part (see `_Part`) to LLVM IR, and does not compile it."""

    _name = "viking_part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_cpython_wrapper = True
        state.flags.no_compile = True
        super().run_pass(state)
        # numba finds the code of a call by this key, which is else the address of the function.
        key = object()
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return True


class _PartCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_PartLowering, about) if step is NativeLowering else (step, about)
            for step, about in passes.passes
        ]
        passes.finalize()
        return [passes]


class _Part(CPUDispatcher):
    """The form of a kernel that other kernels call. Python cannot call it."""

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres


class _Kernel(CPUDispatcher):
    """The form of a kernel that Python calls."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options)
        self._part = _Part(function, targetoptions=options, pipeline_class=_PartCompiler)
        self._cache = _Cache(function)

    def _compilation_chain_init_hook(self) -> None:
        """Do nothing, so that numba does not search all installed packages for its extensions."""

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self._part)  # the callee of other kernels


def njit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a kernel that Python may call. It runs without the GIL and is cached on disk.

    It is never parallel: numba's threads abort if several threads call a parallel kernel.
    """
    return cast("Callable[_P, _R]", _Kernel(function, _OPTIONS))


def called(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a part of a kernel as a function of its own, without reference counts of arrays.

    A call of an `njit` kernel counts references to all arrays in its arguments, which takes time.
    Neither the part nor the kernels that it calls can allocate arrays.
    """
    return cast("Callable[_P, _R]", _Kernel(function, _CALLED))


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a part of a kernel into each of its callers; it cannot allocate arrays.

    A real call would pass each array of the arguments and count a reference to it. That would take
    longer than the part itself.
    """
    return cast("Callable[_P, _R]", _Kernel(function, _INLINED))


def is_compiled() -> bool:
    """Return True if the cache has the undamaged code of all kernels.

    If a file is damaged, delete it, and the file that marks the cache as complete.
    """
    damaged = [path for path in CACHE_DIRECTORY.rglob("*.nb[ci]") if not _is_sound(path)]
    with suppress(OSError):
        for path in (_mark(), *damaged) if damaged else ():
            path.unlink(missing_ok=True)
    return not damaged and _mark().exists()


def compiled() -> int:
    """Return the number of files with compiled code in the cache."""
    return sum(1 for _ in CACHE_DIRECTORY.rglob("*.nbc"))


def mark_compiled() -> None:
    """Write the file that marks the cache as complete, so that later processes need not compile.

    Raises:
        OSError: it can't be written, because the disk is full, for example.
    """
    _mark().touch()


def why_not_kept() -> OSError | None:
    """Return the first error with which this process failed to write to the cache; None without."""
    return _failures[0] if _failures else None


@contextmanager
def compiling() -> Iterator[None]:
    """Hold the lock for compiling during the block; other processes wait.

    If this process dies, the system releases the lock.

    Raises:
        OSError: the cache can't be written.
    """
    with _locked("compiling"):
        with _locked("lock"):  # no process is writing, so these files are of killed ones
            for path in CACHE_DIRECTORY.rglob("*.tmp.*"):
                path.unlink(missing_ok=True)
        yield


@contextmanager
def _locked(name: str) -> Iterator[None]:
    CACHE_DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (CACHE_DIRECTORY / name).open("w") as lock:
        host.lock(lock.fileno())
        yield


def _mark() -> Path:
    return CACHE_DIRECTORY / "complete"


def _is_sound(path: Path) -> bool:
    with suppress(OSError):
        content = memoryview(path.read_bytes())
        checksum = zlib.crc32(content[:-_CHECKSUM]).to_bytes(_CHECKSUM, "little")
        return bool(content[-_CHECKSUM:] == checksum)
    return False


def keep_cache() -> None:
    """Update the cache's time of last use; delete caches of other versions unused for a month.

    A process whose cache is deleted keeps the kernels that it has loaded, and compiles the others.
    """
    # The cache may be missing or read-only, or another process removes the same files.
    with suppress(OSError):
        os.utime(CACHE_DIRECTORY)
        for path in CACHE_DIRECTORY.parent.glob("kernels-*"):
            if time.time() - path.stat().st_mtime > _KEPT:
                shutil.rmtree(path, ignore_errors=True)
