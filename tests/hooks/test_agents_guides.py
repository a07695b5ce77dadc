"""The guides of coding agents, tried from their text alone, up to the first remembered fact."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import serving
from tests.hooks.agents_recorded import RECORDED, added
from tests.hooks.hook_helpers import Machine, texts_below, until
from tests.programs import needed
from tests.project.guide_commands import ROOT, commands, lines
from vikingd.client import Client
from vikingd.ctl.agent_files import AGENTS

GUIDES = {name: ROOT / "vikingd" / "hooks" / "agents" / f"{name}.md" for name in AGENTS}
LINK = re.compile(r"\]\(([^)#]+)\)")
FACT = "I prefer oolong to coffee."
TURN = {
    "claude-code": ("SessionStart.startup", "UserPromptSubmit", "Stop", "SessionEnd"),
    "codex": ("SessionStart.startup", "UserPromptSubmit", "Stop", "SessionEnd"),
    "gemini": ("SessionStart.startup", "BeforeAgent", "AfterAgent", "SessionEnd.exit"),
    "cursor": (
        *("sessionStart", "beforeSubmitPrompt", "afterAgentResponse"),
        *("stop.completed", "sessionEnd"),
    ),
}
"""The events of a session with one turn, in their order."""


def block(name: str) -> str:
    """Return the commands of a guide that lead to the first fact."""
    text = GUIDES[name].read_text("utf-8")
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]


def script() -> str:
    """Return the commands of all guides; the tests below run them."""
    inline = [
        command
        for path in GUIDES.values()
        for command in commands(path.read_text("utf-8"))
        if command.startswith("vikingctl")
    ]
    return "\n".join([*map(block, GUIDES), *inline])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a daemon."""
    with serving("--provider", "none") as where:
        yield where


class User(Machine):
    """A user who follows a guide with a daemon of an address, and then uses the agent."""

    def shell(self, command: str, given: str = "") -> str:
        """Run a command as a shell does; return what it prints. It succeeds."""
        beside = Path(sys.executable).parent
        done = subprocess.run(
            ["sh", "-c", command],
            input=given,
            cwd=self.home,
            env={
                **self.environment,
                "PATH": f"{beside}:{os.environ['PATH']}",
                "VIKINGCTL_ADDRESS": self.address,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    def hooks(self, agent: str) -> dict[str, str]:
        """Return the command of each event in the settings of the agent."""
        path, _ = AGENTS[agent].paths(project=False)
        found: dict[str, Any] = json.loads(path.read_text())["hooks"]
        first = {event: entries[0] for event, entries in found.items()}
        if agent != "cursor":
            first = {event: group["hooks"][0] for event, group in first.items()}
        return {event: entry["command"] for event, entry in first.items()}

    def session(self, agent: str, name: str, said: str) -> str:
        """Have a session with one turn; return what the model got at its start."""
        if agent == "opencode":
            return self._opencode(said)
        texts = []
        recorded = {".".join(filter(None, one[1:3])): one for one in RECORDED if one.agent == agent}
        transcript = self.home / f"{name}.jsonl"
        for event in TURN[agent]:
            one = recorded[event]
            value = one.given
            key = "conversation_id" if agent == "cursor" else "session_id"
            text = one.text.replace(value[key], name).replace("/home/ana/lantern", str(self.home))
            value = json.loads(text.replace("Which tea do I like?", said))
            if agent in ("claude-code", "codex"):
                value["transcript_path"] = str(transcript)
            texts.append(added(agent, self.shell(self.hooks(agent)[one.name], json.dumps(value))))
            if value.get("prompt"):
                written = ROOT / "tests/hooks/recorded/transcripts" / f"{agent}.jsonl"
                if written.exists():
                    turn = written.read_text().replace("Which tea do I like?", said)
                    transcript.write_text(turn)
        return texts[0]

    def _opencode(self, said: str) -> str:
        path, _ = AGENTS["opencode"].paths(project=False)
        plugin = self.home / "plugin.mjs"  # node takes a .js file for another kind of module
        plugin.write_text(path.read_text())
        host = Path(__file__).with_name("plugin_host.mjs")
        words = [needed("node"), str(host), str(plugin), "1", said]
        told = json.loads(self.shell(shlex.join(words)))
        return str(told["turns"][0]["system"][1:])


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("agent", ["claude-code", "opencode", "codex", "gemini", "cursor"])
def test_three_commands_lead_to_the_first_fact(
    agent: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of the guide install the memory; what one session is told the next one knows.

    The first one installs the package, which the environment of the test has. The last one starts
    the agent; the test does what the agent does then, by the commands in the agent's own settings.
    """
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with Client(address) as client:
        for top in client.list():
            client.delete(top.uri)
    user = User(tmp_path, address)
    package, install, start = lines(block(agent))
    assert package.startswith("python3 -m pip install ")
    assert start.split()[0] == AGENTS[agent].program
    assert "has vikingd now" in user.shell(install)
    assert "oolong" not in user.session(agent, "monday", FACT)
    user.wait()
    until(lambda: "oolong" in str(texts_below(address, "viking://user/memories")), lambda: user.log)
    # An answer that a busy machine does not make within two seconds is the empty one.
    days = (f"tuesday-{n}" for n in itertools.count())
    until(lambda: "oolong" in user.session(agent, next(days), "Good morning."), lambda: user.log)
    user.wait()
    assert all("TimeoutError" in line for line in user.log.splitlines())
    before = {path for path in tmp_path.rglob("*") if path.suffix == ".bak"}
    [remove] = [c for c in commands(GUIDES[agent].read_text()) if "uninstall" in c]
    user.shell(remove)
    left = [path for path in AGENTS[agent].paths(project=False) if path.exists()]
    assert (left, before) == ([], set())


@pytest.mark.parametrize("agent", AGENTS)
def test_a_guide_tells_what_a_user_must_know(agent: str) -> None:
    """It is short; it has the files, the version, what is sent, the way out, and what cannot be."""
    text = GUIDES[agent].read_text("utf-8")
    assert len(text.splitlines()) <= 80
    for heading in ("each event", "sent where", "Switching it off", "not possible"):
        assert re.search(rf"^## .*{heading}", text, re.MULTILINE)
    assert "VIKINGD_HOOKS=off" in text
    assert re.search(r"\b2026\b", text)
    for path in AGENTS[agent].paths(project=False):
        assert path.name in text
    for target in LINK.findall(text):
        assert (GUIDES[agent].parent / target).exists(), target
