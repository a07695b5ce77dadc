"""The daemon of a user, started by the commands that an installation gives an agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.hook_helpers import HOOK, Machine, Talk, until
from vikingd.client import Client
from vikingd.system.daemon_lock import holder_in


class Installed(Machine):
    """A machine without a daemon, on which Claude Code has the hooks of vikingd."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, "user")
        (home / "run").mkdir(mode=0o700)
        self.environment |= {
            "XDG_RUNTIME_DIR": str(home / "run"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "VIKINGD_EMBEDDING__PROVIDER": "none",
        }
        self.environment.pop("CLAUDE_CONFIG_DIR", None)
        install = [HOOK[0], "agents", "install", "claude-code", "--write", "--hooks-only"]
        subprocess.run(install, env=self.environment, check=True, capture_output=True)
        self.settings = json.loads((home / ".claude" / "settings.json").read_text())

    def hook(
        self,
        event: Mapping[str, Any] | bytes,
        *_: str,
        address: str | None = None,  # noqa: ARG002  the installed command has none
        **environment: str,
    ) -> str:
        """Run the command that the settings have for an event, as the agent does."""
        assert isinstance(event, Mapping)
        [group] = self.settings["hooks"][event["hook_event_name"]]
        done = subprocess.run(
            ["sh", "-c", group["hooks"][0]["command"]],
            input=json.dumps(event).encode(),
            capture_output=True,
            env={**self.environment, "PATH": "/usr/bin:/bin", **environment},
            check=True,
        )
        assert done.stderr == b""
        return done.stdout.decode()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Installed]:
    """Yield a machine; a daemon that is started on it ends with the test."""
    yield Installed(tmp_path)
    if holder := holder_in(str(tmp_path / "run" / "vikingd")):
        os.kill(holder.pid, signal.SIGTERM)


def test_a_start_starts_the_daemon(machine: Installed, tmp_path: Path) -> None:
    """The answer is empty at once; a little later the daemon answers, and commits go on."""
    talk = Talk(machine, machine.checkout("moon"), "one")
    socket = tmp_path / "run" / "vikingd" / "socket"
    assert talk.start() == ""
    assert "it is started" in machine.log
    until(socket.exists, lambda: machine.log)
    talk.say("user", "I prefer oolong to coffee.", "2026-03-02T10:00:00Z")
    talk.stop()
    machine.wait()
    with Client(f"unix:{socket}") as client:
        assert list(client.tree("viking://projects"))
    two = Talk(machine, machine.home / "work" / "moon", "two")
    two.start_with("oolong", VIKINGD_KEY="vk_of_another_daemon")


@pytest.mark.deep
def test_a_stop_starts_the_daemon(machine: Installed, tmp_path: Path) -> None:
    """What was said before a daemon ran, or while it was killed, is committed by the same stop."""
    talk = Talk(machine, machine.checkout("我的 项目"), "one")
    talk.say("user", "I prefer oolong to coffee.", "2026-03-02T10:00:00Z")
    talk.stop()
    machine.wait()
    holder = holder_in(str(tmp_path / "run" / "vikingd"))
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    talk.say("user", "I prefer trains to planes.", "2026-03-02T10:01:00Z")
    talk.stop()
    machine.wait()
    Talk(machine, machine.home / "work" / "我的 项目", "two").start_with("oolong", "trains")
