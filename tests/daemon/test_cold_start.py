"""The first start after an install, which compiles kernels and may be interrupted."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from viking_kernels import _jit

from tests.commands import serve
from vikingd.client import Client, Draft
from vikingd.daemon import kernel_warm_up

SCAN = "from vikingd.daemon.kernel_warm_up import _jit, _scan; _scan(); print(_jit.why_not_kept())"
"""A program that compiles one small kernel and prints why the kernel is not cached."""


class Daemon:
    """A daemon with its own kernel cache and a record of its stderr."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            serve(path / "store", "--provider", "none"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_CACHE_HOME": str(path / "cache"), "TMPDIR": str(path / "tmp")},
        )
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)

    def address(self) -> str:
        """Return the address, as soon as the daemon serves."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()[-1]

    def wait(self) -> str:
        """Return the stderr of the daemon, after all its processes have ended."""
        self.process.wait()
        self._listener.join()
        return "".join(self.said)


@contextmanager
def serving(path: Path) -> Iterator[Daemon]:
    """Yield a daemon, and terminate it at the end."""
    daemon = Daemon(path)
    try:
        yield daemon
    finally:
        daemon.process.terminate()
        daemon.wait()


def compiled(path: Path) -> dict[str, int]:
    """Return the modification time of each file of compiled code."""
    return {file.name: file.stat().st_mtime_ns for file in path.rglob("*.nbc")}


@pytest.mark.deep
@pytest.mark.timeout(1800)  # on a busy machine the compiler takes minutes
def test_a_first_start_says_what_it_does_and_may_be_broken_off(tmp_path: Path) -> None:
    """A killed start leaves no processes or directories, and the next start continues its work."""
    (tmp_path / "tmp").mkdir()
    cache = tmp_path / "cache"
    killed = Daemon(tmp_path)
    while len(compiled(cache)) < 10 and killed.process.poll() is None:
        time.sleep(0.1)
    killed.process.send_signal(signal.SIGKILL)
    said = killed.wait()  # the compiling processes hold stderr open
    assert "compiling kernels" in said
    assert "Traceback" not in said
    assert list((tmp_path / "tmp").iterdir()) == []
    before = compiled(cache)
    (next(cache.rglob("kernels-*/*/")) / "broken.nbc.tmp.0").touch()

    with serving(tmp_path) as daemon, Client(daemon.address()) as client:
        client.put([Draft("viking://resources/a.md", content="a text")])
        assert client.find("text").total == 1
        assert client.retrieve("text").items
        client.optimize()
    said = daemon.wait()
    assert re.search(r"compiling kernels: \d+ of \d+ after", said)
    assert (done := re.search(r"compiled (\d+) kernels", said))
    assert 0.8 < int(done[1]) / kernel_warm_up._KERNELS < 1.25
    after = compiled(cache)
    assert before.items() <= after.items()
    assert len(after) == int(done[1])  # the daemon itself compiled none
    assert not list(cache.rglob("*.tmp.*"))

    damaged = next(cache.rglob("wire.scan*.nbc"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 255
    damaged.write_bytes(content)
    with serving(tmp_path) as daemon, Client(daemon.address()) as client:
        assert client.find("text").total == 1
    said = daemon.wait()
    assert re.search(r"compiled \d+ kernels", said)
    assert "Traceback" not in said
    changed = {name for name, time in compiled(cache).items() if after[name] != time}
    assert changed == {damaged.name}

    with serving(tmp_path) as daemon:
        daemon.address()
    assert "compil" not in daemon.wait()


@pytest.mark.deep
def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    """A kernel compiles without a writable cache, and the reason is reported."""

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for home, prepare, why in (
        (os.devnull, None, "Not a directory"),
        (tmp_path, fill, "too large"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", SCAN],
            env={**os.environ, "XDG_CACHE_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=prepare,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert why in done.stdout


def test_a_start_whose_cache_cannot_be_written_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A start without a writable cache reports the reason and that its own process compiles."""
    monkeypatch.setattr(_jit, "CACHE_DIRECTORY", Path(os.devnull) / "cache")
    said: list[str] = []
    kernel_warm_up.compile_kernels(said.append)
    assert any("Not a directory" in line for line in said)
    assert "this process compiles" in said[-1]


@pytest.mark.deep
def test_code_that_is_no_pickle_is_compiled_anew(tmp_path: Path) -> None:
    """Damaged files in the kernel cache are compiled again."""

    def scan() -> None:
        done = subprocess.run(
            [sys.executable, "-c", SCAN],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")

    scan()
    for damage in (b"", b"nothing of the kind"):
        for suffix in ("nbi", "nbc"):
            damaged = next(tmp_path.rglob(f"*.{suffix}"))
            damaged.write_bytes(damage)
            scan()
            assert damaged.read_bytes() != damage
