"""vikingd.open: a client with a daemon of its own, which never outlives it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import vikingd
from vikingd.client import Client, ClientError, StoreInUse, daemon_starts, local_daemon
from vikingd.client.local_daemon import LocalClient

COFFEE = "viking://user/memories/coffee.md"


def opened(path: Path, **options: str) -> LocalClient:
    """Open a directory without an embedder."""
    return vikingd.open(path, provider="none", **options)  # type: ignore[arg-type]


def is_gone(pid: int, seconds: float = 20) -> bool:
    """Return True if a process ends in time; one that waits for its parent has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def program(path: Path, body: str) -> subprocess.Popen[str]:
    """Start a program that opens a directory, prints the daemon's id, and runs `body`."""
    text = f"""
import gc, os, signal, sys, threading, time, vikingd
client = vikingd.open({str(path)!r}, provider="none")
client.add("Drinks coffee black.", at={COFFEE!r})
print(client._daemon.pid, flush=True)
{body}
"""
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def daemon_of(running: subprocess.Popen[str]) -> int:
    """Return the process id that a program prints first."""
    assert running.stdout is not None
    line = running.stdout.readline()
    if not line:
        assert running.stderr is not None
        pytest.fail(running.stderr.read())
    return int(line)


def test_a_directory_is_opened_closed_and_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added stays; one daemon has the directory, for its owner, until close or with."""
    path = tmp_path / "new" / "data"
    (tmp_path / "numba.py").write_text("raise SystemExit('foreign code ran')")
    monkeypatch.chdir(tmp_path)
    client = opened(path)
    pid = client._daemon.pid
    assert client.add("Drinks coffee black.", at=COFFEE).uri == COFFEE
    assert client.find("coffee")[0].uri == COFFEE
    assert client.path == path
    socket = path / "socket"
    assert client.address == f"unix:{socket}"
    assert os.stat(socket).st_mode & 0o077 == 0
    with pytest.raises(StoreInUse, match="this process, which has opened it"):
        opened(path)
    client.close()
    client.close()
    assert is_gone(pid, 0.5)
    with pytest.raises(ValueError, match="the client is closed"):
        client.stats()
    with opened(path) as again:
        pid = again._daemon.pid
        assert again.get(COFFEE).content == "Drinks coffee black."
    assert is_gone(pid, 0.5)


@pytest.mark.deep
def test_only_its_owner_reaches_the_daemon(tmp_path: Path) -> None:
    """The daemon listens on a socket of its owner; a long path has a loopback port instead."""
    with opened(tmp_path / "data") as client:
        socket = client.address.removeprefix("unix:")
        assert socket == str(tmp_path / "data" / "socket")
        assert os.stat(socket).st_mode & 0o077 == 0
        with Client(client.address) as other:
            assert other.stats().revision == client.stats().revision
    with opened(tmp_path / ("long" * 30)) as client:
        assert client.address.startswith("127.0.0.1:")
        assert client.stats().embedder.provider == "none"


@pytest.mark.deep
def test_the_daemon_goes_with_the_garbage(tmp_path: Path) -> None:
    """A client that nothing refers to ends its daemon; a copy of it keeps the daemon."""
    client = opened(tmp_path)
    pid = client._daemon.pid
    copy = client.with_timeout(5)
    del client
    gc.collect()
    assert copy.stats().embedder.provider == "none"
    del copy
    gc.collect()
    assert is_gone(pid, 0.5)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise RuntimeError", 1),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("threading.Thread(target=client.stats).start()", 0),
    ],
)
def test_the_daemon_goes_with_the_process(tmp_path: Path, body: str, code: int) -> None:
    """However a process ends, its daemon ends too, and its data are there."""
    running = program(tmp_path, body)
    pid = daemon_of(running)
    running.communicate(timeout=60)
    assert running.returncode == code
    assert is_gone(pid)
    with opened(tmp_path) as client:
        assert client.exists(COFFEE)


@pytest.mark.deep
def test_a_daemon_that_a_thread_started_outlives_the_thread(tmp_path: Path) -> None:
    """The end of the thread that opened a directory is not the end of the daemon."""

    async def work() -> None:
        async with await vikingd.open_async(tmp_path, provider="none") as client:
            pid = client._daemon.pid
            await client.add("Drinks coffee black.", at=COFFEE)
            assert (await client.find("coffee"))[0].uri == COFFEE
        assert is_gone(pid, 0.5)

    asyncio.run(work())


@pytest.mark.deep
def test_a_fork_neither_ends_nor_keeps_the_daemon(tmp_path: Path) -> None:
    """A fork that exits leaves the daemon; a fork that stays does not keep it."""
    body = """
child = os.fork()
if child == 0:
    client._daemon.stop()
    sys.exit()
os.waitpid(child, 0)
print(client.exists("viking://user/memories/coffee.md"), flush=True)
child = os.fork()
if child == 0:
    os.close(1)
    os.close(2)
    time.sleep(600)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    running = program(tmp_path, body)
    pid = daemon_of(running)
    assert running.stdout is not None
    assert running.stdout.readline() == "True\n"
    child = int(running.stdout.readline())
    try:
        assert is_gone(pid)
    finally:
        os.kill(child, signal.SIGKILL)
        running.communicate()


def test_ctrl_c_ends_the_program_and_then_the_daemon(tmp_path: Path) -> None:
    """Ctrl-C reaches the program alone; the daemon is ended by it."""
    running = program(tmp_path, "print('ready', flush=True); time.sleep(600)")
    pid = daemon_of(running)
    assert running.stdout is not None
    running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert "Exception ignored" not in err
    assert is_gone(pid)


@pytest.mark.deep
def test_a_directory_in_use_names_its_holder(tmp_path: Path) -> None:
    """A second opener is told which process has the directory, and how to share it."""
    running = program(tmp_path, "sys.stdin.readline()")
    pid = daemon_of(running)
    with pytest.raises(StoreInUse) as caught:
        opened(tmp_path)
    for part in (str(tmp_path), f"process {running.pid} ", "python", "vikingd serve --path"):
        assert part in str(caught.value)
    assert caught.value.reason == "STORE_IN_USE"
    assert caught.value.metadata["pid"] == str(pid)
    running.communicate("\n", timeout=60)
    assert is_gone(pid)
    with opened(tmp_path), pytest.raises(StoreInUse, match="this process, which has opened it"):
        opened(tmp_path)


@pytest.mark.deep
def test_a_lock_that_the_system_does_not_list_is_in_use_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without its locks in /proc/locks, the error is the same."""
    with opened(tmp_path):
        monkeypatch.setattr(local_daemon, "_check_free", lambda _: None)
        with pytest.raises(StoreInUse, match="is in use by another process; end it"):
            opened(tmp_path)


def test_a_failed_start_says_why(tmp_path: Path) -> None:
    """A wrong provider, a wrong configuration and a file in place of a directory are named."""
    with pytest.raises(ClientError, match="did not start") as caught:
        vikingd.open(tmp_path / "data", provider="foo")
    assert caught.value.reason == "SERVER_NOT_STARTED"
    assert "embedding.provider" in str(caught.value)
    with pytest.raises(ClientError, match=r"cannot read the configuration .*none\.toml"):
        vikingd.open(tmp_path / "data", config=tmp_path / "none.toml")
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ValueError, match=r"is the file .*takes a directory"):
        vikingd.open(file)
    wrong: dict[str, object] = {"path": 3}
    with pytest.raises(TypeError, match=r'path is an int \(3\); give .*"\./data"'):
        vikingd.open(**wrong)  # type: ignore[arg-type]


def test_the_configuration_the_log_and_the_environment_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file configures the daemon; its log goes to a file; a key for others is not sent."""
    config, log = tmp_path / "config.toml", tmp_path / "daemon.log"
    config.write_text('log_level = "debug"\n[embedding]\nprovider = "none"\n')
    monkeypatch.setenv("VIKINGD_KEY", "vk_of_another_daemon")
    monkeypatch.setenv("VIKINGD_ADDRESS", "127.0.0.1:1")
    with vikingd.open(str(tmp_path / "data"), config=config, log=log, timeout=7) as client:
        assert client.stats().embedder.provider == "none"
        assert client.timeout == 7
    assert "event=" in log.read_text()


def test_a_note_is_for_a_terminal_and_a_long_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The note names the directory, after a while and on a terminal alone."""
    monkeypatch.setattr(daemon_starts, "_PATIENCE", 0.01)
    main, side = os.openpty()
    with open(side, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with daemon_starts.note(f"a daemon for {tmp_path}"):
            assert os.read(main, 100).startswith(b"vikingd: starting a daemon for")
    os.close(main)
    with daemon_starts.note(f"a daemon for {tmp_path}"):
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


@pytest.mark.deep
def test_a_long_start_is_told_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal a note comes after a while; elsewhere nothing is written."""
    text = f"""
import sys, vikingd
from vikingd.client import daemon_starts
daemon_starts._PATIENCE = 0.01
vikingd.open({str(tmp_path / "a")!r}, provider="none").close()
"""
    main, side = os.openpty()
    subprocess.run([sys.executable, "-c", text], stderr=side, check=True)
    os.close(side)
    assert b"vikingd: starting a daemon for" in os.read(main, 10_000)
    os.close(main)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True)
    assert done.stderr == b""


def test_the_address_of_the_environment_is_the_default(
    daemon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client reads VIKINGD_ADDRESS; an argument wins; an empty variable is none."""
    monkeypatch.setenv("VIKINGD_ADDRESS", daemon)
    with Client() as client:
        assert client.address == daemon
        assert client.stats().embedder.provider == "none"
    with Client("127.0.0.1:1") as client:
        assert client.address == "127.0.0.1:1"
    monkeypatch.setenv("VIKINGD_ADDRESS", "")
    with Client() as client:
        assert client.address == "127.0.0.1:7716"
