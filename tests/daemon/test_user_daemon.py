"""The one daemon of a user: its start by the first call, its end, and what is told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from tests.commands import serve
from tests.conftest import Ctl, ctl_runner
from tests.daemons import start
from tests.patience import eventually
from vikingd import __version__
from vikingd.client import AsyncClient, Client, ClientError, users_daemon
from vikingd.system import daemon_lock
from vikingd.system.daemon_lock import Holder
from vikingd.system.user_paths import make_socket_directory, user_log, user_socket, user_store

STARTER = [sys.executable, "-P", "-m", "vikingd.daemon.user_daemon"]
NOTE = "viking://user/memories/coffee.md"
TEXT = "Drinks coffee black."


@contextmanager
def a_user(places: Path) -> Iterator[pytest.MonkeyPatch]:
    """Set the environment of a user without a daemon; in the end their daemon is killed."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RUNTIME_DIR", "DATA_HOME", "STATE_HOME", "CONFIG_HOME"):
            (places / name).mkdir(mode=0o700)
            patch.setenv(f"XDG_{name}", str(places / name))
        patch.setenv("VIKINGD_EMBEDDING__PROVIDER", "none")
        patch.delenv("VIKINGD_CONFIG", raising=False)
        try:
            yield patch
        finally:
            if running := holder():
                os.kill(running.pid, signal.SIGKILL)
                eventually(lambda: holder() is None)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Give the test a user of its own."""
    with a_user(tmp_path) as patch:
        yield patch


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give several tests a user with a daemon that has one text."""
    with a_user(tmp_path_factory.mktemp("u")):
        with Client("user") as client:
            client.add(TEXT, at=NOTE)
        yield


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Return a runner of vikingctl with the address user."""
    monkeypatch.setenv("VIKINGCTL_ADDRESS", "user")
    return ctl_runner(monkeypatch, capsys)


def holder() -> Holder | None:
    """Return the process of the user's daemon."""
    return daemon_lock.holder_in(os.path.dirname(user_socket()))


def starts() -> int:
    """Return how often a daemon was started."""
    return Path(user_log()).read_text().count("the daemon of the user starts")


def test_the_first_call_starts_a_daemon_that_all_share(user: pytest.MonkeyPatch, ctl: Ctl) -> None:
    """Health starts none. Clients and vikingctl share one; it outlives them, until `stop`."""
    code, _, err = ctl("health")
    assert (code, holder()) == (3, None)
    assert "no daemon answers at user" in err
    assert "any call but health starts your daemon" in err
    user.setenv("VIKINGD_KEY", "of another daemon")

    async def found() -> list[str]:
        async with AsyncClient("user") as client:
            return [match.uri for match in await client.find("coffee")]

    assert asyncio.run(found()) == []
    first = holder()
    assert first is not None
    assert first.version == __version__
    with Client("user") as client:
        client.add(TEXT, at=NOTE)
        assert client.health() == "SERVING"
    assert NOTE in ctl("find", "coffee", "-o", "uri")[1]
    assert ctl("health")[0] == 0
    assert (holder(), starts()) == (first, 1)
    assert Path(user_store(), "store.sqlite3").exists()
    assert Path(user_socket()).stat().st_mode & 0o777 == 0o600
    assert os.getsid(first.pid) == first.pid

    assert ctl("stop") == (0, "", "")
    assert holder() is None
    assert ctl("stop") == (0, "", "no daemon of this user runs\n")


def kill() -> None:
    """Kill the user's daemon, which leaves its socket behind."""
    running = holder()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: holder() is None)
    assert Path(user_socket()).is_socket()


@contextmanager
def loss_of(client: Client) -> Iterator[None]:
    """Wait in the end until the client has lost its connection, which its channels share.

    Until then gRPC may take a call that it cannot deliver, and nobody knows if it was sent.
    """
    states: list[grpc.ChannelConnectivity] = []
    client._channel.subscribe(states.append)
    eventually(lambda: grpc.ChannelConnectivity.READY in states)
    yield
    eventually(lambda: states[-1] is not grpc.ChannelConnectivity.READY)
    client._channel.unsubscribe(states.append)


@pytest.mark.usefixtures("user")
def test_a_daemon_that_was_killed_is_started_again() -> None:
    """The socket is taken over. A call that cannot be sent is sent to the next daemon."""
    with Client("user") as client:
        client.add(TEXT, at=NOTE)
        with loss_of(client):
            kill()
        client.optimize()  # a method that is not repeated once it was sent
        assert client.get(NOTE).content == TEXT
    assert starts() == 2


@pytest.mark.deep
@pytest.mark.usefixtures("user")
def test_a_call_without_retries_finds_the_next_daemon() -> None:
    """With retries=False, too, a call that was not sent goes to the next daemon."""

    async def lost(client: AsyncClient) -> None:
        kill()
        while client._channel.get_state() is grpc.ChannelConnectivity.READY:
            await asyncio.sleep(0.002)

    async def calls() -> str:
        async with AsyncClient("user", retries=False) as client:
            await client.add(TEXT, at=NOTE)
            await lost(client)
            await client.put([{"uri": NOTE, "content": "Drinks tea."}])
            await lost(client)
            return (await client.get(NOTE)).content

    assert asyncio.run(calls()) == "Drinks tea."
    assert starts() == 3


@pytest.mark.parametrize("count", [8, pytest.param(20, marks=pytest.mark.deep)])
@pytest.mark.usefixtures("user")
def test_many_starts_at_once_start_one(count: int) -> None:
    """The lock lets one of them start the daemon; the others leave it the socket."""
    starters = [subprocess.Popen(STARTER) for _ in range(count)]
    assert [starter.wait(60) for starter in starters] == [0] * count
    assert starts() == 1
    with Client("user") as client:
        assert client.stats().version == __version__
    assert starts() == 1


@pytest.mark.deep
@pytest.mark.usefixtures("user")
def test_many_clients_at_once_share_one() -> None:
    """Each of twenty threads with a client of its own reads what it wrote."""

    def work(number: int) -> str:
        with Client("user") as client:
            added = client.add(f"text {number}", at=f"viking://resources/{number}.md")
            return client.get(added.uri).content

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(work, range(20))) == [f"text {i}" for i in range(20)]
    assert starts() == 1


def test_a_daemon_that_stops_is_waited_for(user: pytest.MonkeyPatch) -> None:
    """A start waits until the lock is free, which the process holds until its end."""
    user.setenv("VIKINGD_LOG_LEVEL", "wrong")  # the daemon ends at once
    lock = daemon_lock.take(make_socket_directory())
    assert lock is not None
    starter = subprocess.Popen(STARTER)
    with pytest.raises(subprocess.TimeoutExpired):
        starter.wait(0.5)
    assert not Path(user_log()).exists()
    os.close(lock)
    assert starter.wait(60) == 0
    assert starts() == 1


@pytest.mark.usefixtures("user")
def test_a_daemon_that_does_not_start_tells_its_last_words(tmp_path: Path, ctl: Ctl) -> None:
    """The error has the last lines of the log, and names it; so does vikingctl."""
    config = tmp_path / "CONFIG_HOME" / "vikingd" / "config.toml"
    config.parent.mkdir()
    config.write_text("no_such_setting = 1\n")
    with (
        Client("user") as client,
        pytest.raises(ClientError, match=f"(?s)no_such_setting: .*its log: {user_log()}") as raised,
    ):
        client.stats()
    assert raised.value.reason == "SERVER_NOT_STARTED"
    code, _, err = ctl("ls")
    assert code == 1
    assert "the daemon did not start" in err
    assert f"no_such_setting: there is no such setting (from {config})" in err
    assert starts() == 2


@pytest.mark.deep
@pytest.mark.usefixtures("user")
def test_a_store_in_use_names_its_holder(ctl: Ctl) -> None:
    """Another daemon has the store, at another address; the error says what to do."""
    process = start(
        serve(Path(user_store()), "--provider", "none"), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    code, _, err = ctl("ls")
    assert code == 1
    assert f"process {process.pid} has the store" in err
    assert "connect to its address instead of user" in err
    process.kill()
    process.communicate()


@pytest.mark.usefixtures("user")
def test_unsafe_places_are_refused(tmp_path: Path, ctl: Ctl) -> None:
    """Neither the client nor vikingctl nor the start uses the directory of someone else."""
    (tmp_path / "RUNTIME_DIR" / "vikingd").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="is a symbolic link"):
        Client("user")
    code, _, err = ctl("ls")
    assert code == 2
    assert "symbolic link" in err
    started = subprocess.run(STARTER, capture_output=True, text=True)
    assert started.returncode == 1
    assert started.stderr.startswith("vikingd: the directory of the daemon's socket, ")
    (tmp_path / "RUNTIME_DIR" / "vikingd").unlink()


@pytest.mark.deep
@pytest.mark.usefixtures("served")
def test_a_note_tells_of_another_version(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Health warns always, a client on a terminal, and once."""
    assert ctl("health")[2] == ""
    known = holder()
    assert known is not None
    file = Path(user_socket()).with_name("daemon.lock")
    written = file.read_text()
    file.write_text(f"{known.pid} 0.0.9\n")
    code, _, err = ctl("health")
    assert code == 0
    note = f"the daemon of this user is vikingd 0.0.9, and this is {__version__}: `vikingctl stop`"
    assert note in err
    ours, terminal = os.openpty()
    with open(terminal, "w") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        with Client("user") as client:
            client.get(NOTE)
            client.get(NOTE)
            client._user.reach()
    assert os.read(ours, 10_000).decode().count(note) == 1
    os.close(ours)
    file.write_text(written)


@pytest.mark.usefixtures("served")
def test_only_the_daemon_of_the_user_is_stopped(ctl: Ctl) -> None:
    """Another address is refused, and so is a process that is not the daemon's."""
    code, _, err = ctl("stop", "--address", "127.0.0.1:7716")
    assert code == 2
    assert "only the daemon of --address user" in " ".join(err.replace("│", "").split())
    known = holder()
    assert known is not None
    file = Path(user_socket()).with_name("daemon.lock")
    written = file.read_text()
    with subprocess.Popen(["sleep", "60"]) as other:
        file.write_text(f"{other.pid} {__version__}\n")
        code, _, err = ctl("stop")
        assert code == 1
        assert "the process of the daemon at" in err
        assert other.poll() is None
        other.kill()
    file.write_text(written)


@pytest.mark.usefixtures("user")
def test_a_daemon_started_in_another_way_is_used(tmp_path: Path, ctl: Ctl) -> None:
    """A service may serve the socket of the user; no second daemon is started, and none stopped."""
    make_socket_directory()
    command = [sys.executable, "-m", "vikingd.daemon.server", "serve", "--config", os.devnull]
    process = start(
        [*command, "--path", str(tmp_path / "data"), "--listen", f"unix:{user_socket()}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline()
    with Client("user") as client:
        client.add(TEXT, at=NOTE)
    assert subprocess.run(STARTER).returncode == 0
    assert not Path(user_log()).exists()
    code, _, err = ctl("stop")
    assert code == 1
    assert "was not started by the address user" in err
    process.kill()
    process.communicate()


@pytest.mark.deep
def test_calls_around_the_idle_stop_are_answered(user: pytest.MonkeyPatch) -> None:
    """A client that calls just as the daemon stops gets its answers."""
    user.setenv("VIKINGD_STOP_WHEN_IDLE", "0.4s")
    with Client("user") as client:
        for round_ in range(6):  # the daemon looks each .1 s
            client.put([{"uri": NOTE, "content": f"round {round_}"}])
            assert client.get(NOTE).content == f"round {round_}"
            time.sleep(0.42 + 0.02 * round_)
    assert starts() > 2


def test_a_missing_package_is_told(user: pytest.MonkeyPatch) -> None:
    """Without the packages of the daemon the error says how to install them."""
    user.setattr("vikingd.client.daemon_starts._SERVER_MODULES", ("vikingd_is_not_there",))
    with Client("user") as client, pytest.raises(ClientError, match=r"install it with: .*server"):
        client.stats()
    assert users_daemon.stop() is False
