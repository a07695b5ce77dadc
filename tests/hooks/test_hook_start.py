"""The daemon of a user, started by a hook."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hooks.hook_helpers import Machine, Talk, until
from vikingd.client import Client

@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Yield a machine without a daemon; one that is started ends with the test."""
    made = Machine(tmp_path, "user")
    (tmp_path / "run").mkdir(mode=0o700)
    made.environment |= {
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "VIKINGD_EMBEDDING__PROVIDER": "none",
    }
    yield made
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(tmp_path / "data").encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGTERM)
        except OSError:  # it has ended
            continue


def test_a_start_starts_the_daemon(machine: Machine, tmp_path: Path) -> None:
    """The answer is empty at once; a little later the daemon answers, and commits go on."""
    talk = Talk(machine, machine.checkout("moon"), "one")
    socket = tmp_path / "run" / "vikingd" / "socket"
    event = talk.event("SessionStart", source="startup")
    assert machine.hook(event, "--start") == ""
    assert "it is started" in machine.log
    until(socket.exists, lambda: machine.log)
    talk.say("user", "I prefer oolong to coffee.", "2026-03-02T10:00:00Z")
    machine.hook(talk.event("Stop"), "--start")
    machine.wait()
    with Client(f"unix:{socket}") as client:
        assert list(client.tree("viking://projects"))
    two = Talk(machine, machine.home / "work" / "moon", "two")
    assert "oolong" in two.start(VIKINGD_KEY="vk_of_another_daemon")
