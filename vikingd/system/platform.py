"""The operating system: everything that Linux and macOS do in different ways.

No other module of the daemon or the client asks for the system. Where macOS lacks a service, the
function says what happens there.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import os
import platform
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MOST_FILES = 10_240  # OPEN_MAX of macOS; its hard limit is infinite, and cannot be set

PROC = Path("/proc")
"""The files in which Linux tells of processes; there are none on macOS."""

CGROUPS = Path("/sys/fs/cgroup")
"""The files in which Linux tells of control groups; there are none on macOS."""

# Of prctl(2), seccomp(2) and the kernel's filters.
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO_EACCES = 0x7FFF0000, 0x00050000 | 13
_CALL_AT, _MACHINE_AT = 0, 4
# The kernel's number of a machine, and of socket, socketpair, execve and execveat on it.
_CALLS = {
    "x86_64": (0xC000003E, (41, 53, 59, 322)),
    "aarch64": (0xC00000B7, (198, 199, 221, 281)),
}

_LOOK = 0.5  # seconds between two looks for the parent

# glibc keeps freed memory in an arena for each thread, and returns only the end of an arena.
_trim: Callable[[int], Any] = getattr(ctypes.CDLL(None), "malloc_trim", int)  # int(0) does nothing


# Files


def sync(file: int) -> None:
    """Wait until the content of an open file or directory is on disk.

    On macOS fsync(2) leaves the content in the cache of the disk, and F_FULLFSYNC empties that.
    Some file systems there, such as those of a network, support fsync(2) alone.
    """
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
            return
    os.fsync(file)


def allocate(file: int, size: int) -> None:
    """Reserve `size` bytes of disk space for an open file.

    Raises:
        OSError: the disk has no room.
    """
    if sys.platform == "linux":
        os.posix_fallocate(file, 0, size)
        return
    for at in range(os.fstat(file).st_size, size, 1 << 20):
        os.pwrite(file, bytes(min(1 << 20, size - at)), at)


def lock(file: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file until it is closed; return False if it is locked already.

    With `wait`, wait for the lock instead.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(
            file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        )
    except BlockingIOError:
        return False
    return True


def lock_byte(file: int, at: int, *, shared: bool = False) -> bool:
    """Lock one byte of an open file for this process; return False if another process has it.

    When this process closes any descriptor of the file, POSIX releases all its locks on the file.
    """
    try:
        fcntl.lockf(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1, at)
    except (BlockingIOError, PermissionError):  # POSIX allows both
        return False
    return True


def holder_of(path: Path) -> int | None:
    """Return the id of the process that has locked a file; None if unknown (always on macOS)."""
    try:
        status = path.stat()
        locks = (PROC / "locks").read_text(encoding="ascii")
    except OSError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in locks.splitlines():
        # 1: FLOCK  ADVISORY  WRITE 4711 08:01:131077 0 EOF
        words = line.split()
        if device in words and "FLOCK" in words and "->" not in words:
            return int(words[words.index(device) - 1])
    return None


# Descriptors


def raise_file_limit(most: int | None = None) -> int:
    """Raise the limit of open files to the hard limit, or to `most`; return the new limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sys.platform != "linux":
        hard = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    limit = hard if most is None else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def file_limit() -> int:
    """Return this process's limit of open files."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def most_files() -> float:
    """Return the highest limit of open files that this process may set; infinite without one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return math.inf if hard == resource.RLIM_INFINITY else hard


def open_files() -> int:
    """Return the number of open files of this process."""
    return sum(1 for _ in Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir())


# Processors and priorities


def processors() -> int:
    """Return the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_processors() -> int:
    """Return how many processors this process can keep busy: its processors, within its quota.

    On Linux the control groups of a container or a service may have a quota of processor time.
    """
    return max(1, math.floor(min(processors(), _quota())))


def _quota() -> float:
    """Return the smallest quota of this process's control groups, in processors; else infinity."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return math.inf
    quotas = [math.inf]
    for line in lines:
        _, names, path = line.split(":", 2)
        if names and "cpu" not in names.split(","):
            continue
        group = (CGROUPS / "cpu" if names else CGROUPS) / path.lstrip("/")
        groups = (group, *group.parents)
        quotas += [_quota_of(one) for one in groups if one.is_relative_to(CGROUPS)]
    return min(quotas)


def _quota_of(group: Path) -> float:
    with contextlib.suppress(OSError, ValueError):
        most, period = (group / "cpu.max").read_text().split()
        return math.inf if most == "max" else int(most) / int(period)
    with contextlib.suppress(OSError, ValueError):
        most, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(most) / int(period) if int(most) > 0 else math.inf
    return math.inf


def spreads_connections() -> bool:
    """Return True if the system spreads the connections of a port over its processes.

    On macOS one process gets all of them.
    """
    return sys.platform == "linux"


def processor_flags() -> set[str]:
    """Return the processor's features as in /proc/cpuinfo on x86; an empty set if unknown."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", (PROC / "cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return set()
    return set(flags[1].split()) if flags else set()


def lower_thread(by: int) -> None:
    """Lower the priority of the calling thread by adding to its nice value.

    On macOS only processes have a nice value, so nothing happens there.
    """
    if sys.platform != "linux":
        return
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + by)


def lower_process(by: int) -> None:
    """Lower the priority of all threads of this process by adding to their nice values.

    On Linux they also no longer preempt other threads.
    """
    if sys.platform != "linux":
        os.nice(by)
        return
    lower = os.getpriority(os.PRIO_PROCESS, 0) + by
    # On Linux each thread has its own priority, and numpy has already started threads.
    for thread in (PROC / "self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), lower)
            # A SCHED_BATCH thread does not preempt others when it wakes up.
            os.sched_setscheduler(int(thread.name), os.SCHED_BATCH, os.sched_param(0))


# Processes


def end_with_parent(ending: signal.Signals, parent: int | None = None) -> None:
    """Send this process a signal when its parent ends.

    On Linux the kernel sends it when the parent's thread that started this process ends. Elsewhere
    a thread of this process checks twice a second whether its parent still runs.

    Args:
        ending: the signal.
        parent: the process id of the parent. If that process has already ended, this process exits
            at once. None: the present parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, ending, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        sys.exit(1)
    if sys.platform != "linux":
        known = os.getppid() if parent is None else parent
        threading.Thread(target=look_for_parent, args=(ending, known), daemon=True).start()


def look_for_parent(ending: signal.Signals, parent: int) -> None:
    """Wait until `parent` is no longer this process's parent, then signal this process."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), ending)


def processor_seconds(pid: int | None) -> float | None:
    """Return the processor time of a process in seconds; None if it ended (always on macOS)."""
    try:
        user, system = _fields(pid)[11:13]
    except (OSError, ValueError):
        return None
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def parent_of(pid: int) -> int | None:
    """Return the parent's id of a process; None if the process ended (always on macOS)."""
    try:
        return int(_fields(pid)[1])
    except (OSError, ValueError, IndexError):
        return None


def command_of(pid: int) -> str:
    """Return the command line of a process; "" if the process ended (always on macOS)."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words if word)


def _fields(pid: int | None) -> list[str]:
    """Return the fields of /proc/PID/stat after the process's name; the first one is its state."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


# Memory, and a process without rights


def trim() -> None:
    """Return free memory of the C library to the operating system, where glibc is used."""
    _trim(0)


def confine(memory: int) -> None:
    """Limit this process to `memory` bytes; forbid it to write files, open sockets, run programs.

    On macOS the system does not enforce the limit of memory, and sockets and programs stay
    possible.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _forbid_sockets_and_programs()


class _Filter(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.POINTER(_Filter))]


def _forbid_sockets_and_programs() -> None:
    """Install a seccomp filter: system calls for sockets and programs fail with EACCES.

    It cannot be undone. Nothing happens on macOS and unknown processors.
    """
    known = _CALLS.get(platform.machine())
    if sys.platform != "linux" or known is None:
        return
    machine, calls = known
    rules = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _ERRNO_EACCES),  # calls of another machine, such as those of 32 bits
        (_LOAD, 0, 0, _CALL_AT),
        *((_EQUAL, len(calls) - i, 0, call) for i, call in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO_EACCES),
    ]
    filters = (_Filter * len(rules))(*(_Filter(*rule) for rule in rules))
    program = _Program(len(rules), filters)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")
