"""A coding agent for tests: it writes a transcript, and runs hooks as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from vikingd.client import Client

HOOK = [Path(sys.executable).with_name("vikingctl"), "hook"]


class Machine:
    """A home directory, with checkouts and the files of the hooks."""

    def __init__(self, home: Path, address: str) -> None:
        self.home, self.address = home, address
        self.state = home / "state" / "vikingd"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("VIKING")},
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_RUNTIME_DIR": str(home / "none"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "TZ": "Etc/UTC",
        }

    def checkout(self, name: str, origin: str = "") -> Path:
        """Return a new checkout."""
        made = self.home / "work" / name
        (made / ".git").mkdir(parents=True)
        config = f'[remote "origin"]\n\turl = {origin}\n' if origin else ""
        (made / ".git" / "config").write_text(config)
        return made

    def hook(
        self,
        event: Mapping[str, Any] | bytes,
        *arguments: str,
        address: str | None = None,
        **environment: str,
    ) -> str:
        """Run a hook; return what it says. It never fails."""
        where = ["--address", self.address if address is None else address]
        done = subprocess.run(
            [*HOOK, *arguments, *where],
            input=event if isinstance(event, bytes) else json.dumps(event).encode(),
            capture_output=True,
            env={**self.environment, **environment},
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b""), done
        return done.stdout.decode()

    @property
    def log(self) -> str:
        """The text of the log."""
        path = self.state / "hooks.log"
        return path.read_text() if path.exists() else ""

    def is_waiting(self) -> bool:
        """Return True if anything waits to be committed."""
        pending = self.state / "hooks" / "pending"
        return pending.exists() and any(pending.iterdir())

    def wait(self) -> None:
        """Wait until nothing waits to be committed."""
        until(lambda: not self.is_waiting(), lambda: self.log)


class Talk:
    """A session of Claude Code."""

    def __init__(self, machine: Machine, checkout: Path, session: str) -> None:
        self.machine, self.session = machine, session
        self.transcript = machine.home / f"{session}.jsonl"
        self._base = {
            "session_id": session,
            "cwd": str(checkout),
            "transcript_path": str(self.transcript),
            "permission_mode": "default",
        }

    def event(self, name: str, **more: object) -> dict[str, Any]:
        """Return the JSON of an event."""
        return {**self._base, "hook_event_name": name, **more}

    def start(self, source: str = "startup", **more: str) -> str:
        """Begin the session; return the text for the model."""
        return added(self.machine.hook(self.event("SessionStart", source=source), **more))

    def start_with(self, *words: str, **more: str) -> str:
        """Begin the session until the text for the model has these words; return it.

        An answer that a busy machine does not make within two seconds is the empty one.
        """
        said = [""]

        def has_all() -> bool:
            said[0] = self.start(**more)
            return all(word in said[0] for word in words)

        until(has_all, lambda: (said, self.machine.log))
        return said[0]

    def prompt(self, text: str, **more: str) -> str:
        """Send a prompt; return the text for the model. The transcript does not have it yet."""
        return added(self.machine.hook(self.event("UserPromptSubmit", prompt=text), **more))

    def record(self, **fields: object) -> None:
        """Append a record to the transcript."""
        with self.transcript.open("a") as file:
            file.write(json.dumps({"sessionId": self.session, **fields}) + "\n")

    def say(self, role: str, text: str, when: str) -> None:
        """Write a message into the transcript."""
        content: object = text if role == "user" else [{"type": "text", "text": text}]
        self.record(type=role, timestamp=when, message={"role": role, "content": content})

    def stop(self, name: str = "Stop", **more: Any) -> None:
        """End a turn; what was said is committed in the background."""
        environment = {key: more.pop(key) for key in list(more) if key.isupper()}
        address = more.pop("address", None)
        said = self.machine.hook(self.event(name, **more), address=address, **environment)
        assert said == ""


def added(said: str) -> str:
    """Return the text that an answer adds to the context."""
    return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""


def until(done: Callable[[], bool], told: Callable[[], object] = str) -> None:
    """Wait for a process in the background; a test that waits for ever fails by its timeout."""
    end = (
        time.monotonic() + 240
    )  # less than the timeout of pytest, which does not say what was told
    while not done():
        assert time.monotonic() < end, told()
        time.sleep(0.02)


def embedded(client: Client) -> None:
    """Wait until all texts have vectors: the confidence of a recall depends on them."""
    until(lambda: client.stats().embedder.backlog == 0)


def texts_below(address: str, uri: str) -> dict[str, str]:
    """Return the contents of the files below a directory by URI."""
    with Client(address) as client:
        if not client.exists(uri):
            return {}
        files = [one.uri for one in client.tree(uri) if not one.is_directory]
        return {one: client.get(one).content for one in files}


def at(text: str) -> float:
    """Return a time in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
