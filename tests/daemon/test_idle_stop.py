"""A daemon that stops when nobody uses it: what counts as use, and how it ends."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.commands import serve_only
from tests.daemons import start
from tests.models.embed_helpers import Endpoint
from vikingd.client import Client, Stopping, Unreachable
from vikingd.client.client_errors import ClientError
from vikingd.client.messages import MessageClient
from vikingd.config import ConfigError, load
from vikingd.pb.contexts_pb2 import GetRequest

IDLE = ("--stop-when-idle", "0.5s")
NOTE = "viking://user/memories/coffee.md"


@contextmanager
def serving(
    directory: Path, *options: str, provider: str = "none", **environment: str
) -> Iterator[tuple[Any, str]]:
    """Run a daemon on a unix socket; yield its process and its address."""
    socket = f"unix:{directory / 'socket'}"
    command = serve_only(directory / "data", "--listen", socket, "--provider", provider, *options)
    with (directory / "log").open("w") as log:
        process = start(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | environment
        )
    try:
        assert process.stdout.readline(), (directory / "log").read_text()
        yield process, socket
    finally:
        process.kill()
        process.communicate()


def test_health_does_not_keep_a_daemon(tmp_path: Path) -> None:
    """Without calls it stops cleanly, whoever asks for its health, and removes its socket."""
    with serving(tmp_path, *IDLE) as (process, address), Client(address) as client:
        client.add("Drinks coffee black.", at=NOTE)
        while process.poll() is None:
            try:
                client.health()
            except Unreachable:
                break
        assert process.wait(60) == 0
        assert not (tmp_path / "socket").exists()
        log = (tmp_path / "log").read_text()
        assert 'event="no call came for stop_when_idle" seconds=0.5' in log
        assert "event=stopped" in log
    with serving(tmp_path) as (process, address), Client(address) as client:
        assert client.get(NOTE).content == "Drinks coffee black."
        assert "not closed cleanly" not in (tmp_path / "log").read_text()


def test_a_running_call_keeps_a_daemon(tmp_path: Path) -> None:
    """A call that takes longer than the time ends as it should, and the daemon stops after it."""
    with serving(tmp_path, *IDLE) as (process, address), MessageClient(address, 2.5) as client:
        with pytest.raises(ClientError) as raised:
            client._send(client._stubs.contexts.Get, GetRequest(uri="viking://", min_revision=99))
        assert raised.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert process.wait(60) == 0


@pytest.mark.deep
def test_texts_that_wait_for_vectors_keep_a_daemon(tmp_path: Path, endpoint: Endpoint) -> None:
    """While the embedder works the daemon stays; it stops when all texts have their vectors."""
    asked, go_on = threading.Event(), threading.Event()

    def hold(request: dict[str, Any], _: list[Any]) -> None:
        if any("coffee" in text for text in request["input"]):
            asked.set()
            go_on.wait()

    endpoint.misbehave = hold
    settings = {
        "VIKINGD_EMBEDDING__OPENAI_BASE_URL": endpoint.url,
        "VIKINGD_EMBEDDING__OPENAI_MODEL": "test",
    }
    with serving(tmp_path, *IDLE, provider="openai", **settings) as (process, address):
        with Client(address) as client:
            client.add("Drinks coffee black.", at=NOTE)
        assert asked.wait(60)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        go_on.set()
        assert process.wait(60) == 0


def test_a_call_during_the_stop_is_refused_in_words(tmp_path: Path) -> None:
    """Calls go on until the process has ended: each is answered, or may be repeated."""
    ends = []
    with (
        serving(tmp_path, *IDLE) as (process, address),
        Client(address, retries=False) as client,
    ):
        client.add("Drinks coffee black.", at=NOTE)
        log = tmp_path / "log"
        while "event=stopping" not in log.read_text():  # a look takes no time of the daemon
            pass
        while process.poll() is None:
            try:
                client.get(NOTE)
            except ClientError as error:
                ends.append(type(error))
        assert process.wait(60) == 0
    assert set(ends) <= {Stopping, Unreachable}
    assert "Traceback" not in log.read_text()


@pytest.mark.deep
def test_a_daemon_that_nobody_can_reach_stops(tmp_path: Path) -> None:
    """The system removes the runtime directory after a logout, and the socket with it."""
    with serving(tmp_path, "--stop-when-idle", "24h") as (process, address):
        with Client(address) as client:
            client.add("Drinks coffee black.", at=NOTE)
        (tmp_path / "socket").unlink()
        assert process.wait(60) == 0
        assert "the unix socket was removed" in (tmp_path / "log").read_text()


def test_the_time_is_a_number_or_a_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds and durations are taken from each source; another text is named with the forms."""
    file = tmp_path / "config.toml"
    for text, seconds in (('"24h"', 86_400), ("90", 90), ('"1.5 m"', 90), ('"7d"', 604_800)):
        file.write_text(f"stop_when_idle = {text}\n")
        assert load(file).settings.stop_when_idle == seconds
    assert load(Path(os.devnull)).settings.stop_when_idle == 0
    monkeypatch.setenv("VIKINGD_STOP_WHEN_IDLE", "2h")
    assert load(file).settings.stop_when_idle == 7200
    assert load(file, {"stop_when_idle": "3s"}).settings.stop_when_idle == 3
    with pytest.raises(ConfigError, match=r"'soon' is no duration: give seconds, .*--stop-when-id"):
        load(file, {"stop_when_idle": "soon"})
    monkeypatch.delenv("VIKINGD_STOP_WHEN_IDLE")
    file.write_text("stop_when_idle = -1\n")
    with pytest.raises(ConfigError, match="stop_when_idle"):
        load(file)
