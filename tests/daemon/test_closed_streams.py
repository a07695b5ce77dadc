"""The daemon with closed standard streams, and its end with its terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import serve_only
from tests.patience import eventually
from vikingd.client import Client, ClientError

START = "from vikingd.daemon.entry_points import vikingd; vikingd()"


@contextmanager
def started(directory: Path, redirected: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon by a shell that redirects its streams, and wait until it serves."""
    arguments = serve_only(directory / "store", "--listen", f"unix:{directory}/s", *options)[3:]
    shell = f'exec "$@" {redirected}'
    command = ["sh", "-c", shell, "sh", sys.executable, "-c", START, *arguments]
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(
        command,
        **streams,
        stderr=(directory / "stderr").open("wb"),
        start_new_session=True,
    ) as process:
        try:
            eventually(lambda: serves(process, directory))
            yield process
        finally:
            process.kill()


def serves(process: subprocess.Popen[bytes], directory: Path) -> bool:
    """Return True if the daemon serves.

    Raises:
        AssertionError: it has ended.
    """
    assert process.poll() is None, (directory / "stderr").read_text()
    try:
        with Client(f"unix:{directory}/s", 5) as client:
            return client.health() == "SERVING"
    except ClientError:
        return False


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    "redirected", ["1>&- 2>&-", "1>&-", "2>&-", "0>&- 1>&- 2>&-", "1>/dev/full"]
)
def test_a_daemon_without_streams_serves_and_ends(tmp_path: Path, redirected: str) -> None:
    """It serves without stdin, stdout or stderr, and ends at SIGTERM with 0."""
    with started(tmp_path, redirected) as process:
        with Client(f"unix:{tmp_path}/s") as client:
            written = client.add("Oolong.", at="viking://resources/notes/")
            assert client.get(written.uri).content == "Oolong."
        process.send_signal(signal.SIGTERM)
        assert process.wait(8) == 0  # a stop that hangs ends by itself after nine seconds


@pytest.mark.deep
def test_a_closed_terminal_ends_the_daemon(tmp_path: Path) -> None:
    """SIGHUP ends it with 0, even if it comes twice, as from a shell and the terminal."""
    with started(tmp_path, "") as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        assert process.wait(8) == 0
        assert "event=stopped" in (tmp_path / "stderr").read_text()


@pytest.mark.deep
def test_under_nohup_it_serves_on(tmp_path: Path) -> None:
    """An ignored SIGHUP stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with started(tmp_path, "") as process:
            signal.signal(signal.SIGHUP, before)
            for _ in range(3):
                os.kill(process.pid, signal.SIGHUP)
            with Client(f"unix:{tmp_path}/s") as client:
                assert client.health() == "SERVING"
            process.send_signal(signal.SIGTERM)
            assert process.wait(8) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
