"""The plugin for OpenCode, in node: what it tells the hook, and what it gives to OpenCode."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemons import serving
from tests.hooks.hook_helpers import HOOK, Machine, texts_below, until
from tests.programs import needed
from vikingd.client import Client
from vikingd.ctl.agent_files import HookCommand, plugin

HOST = Path(__file__).with_name("plugin_host.mjs")
PROMPTS = ("Which tea do I like?", "And coffee?")
STUB = """#!/bin/sh
printf '%s %s\\n' "$3" "$(cat)" >> "$LOG"
echo "{\\"context\\": \\"at $3\\"}"
"""


def run(directory: Path, version: str, command: HookCommand, *prompts: str, **more: str) -> Any:
    """Run the plugin in its host; return what the host tells."""
    text = plugin(command).decode()
    for old, new in more.items():
        text = text.replace(old, new)
    file = directory / "vikingd.mjs"
    file.write_text(text)
    done = subprocess.run(
        [needed("node"), HOST, file, version, *prompts],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def script(directory: Path, text: str) -> HookCommand:
    """Return the command of a script in the place of vikingctl."""
    path = directory / "vikingctl"
    path.write_text(text)
    path.chmod(0o755)
    env = {"LOG": str(directory / "log")}
    return HookCommand((str(path), "hook", "opencode"), ("--start",), env)


def logged(directory: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the events that the script was told, with their JSON."""
    lines = (directory / "log").read_text().splitlines()
    return [(line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in lines]


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_events_of_a_session_are_told(version: str, tmp_path: Path) -> None:
    """Each event has its session and directory; a subagent's words are not the user's."""
    run(tmp_path, version, script(tmp_path, STUB), *PROMPTS)
    told = logged(tmp_path)
    names = [name for name, _ in told]
    assert names == ["start", *("prompt", "stop") * 2, "compact", "start", "end"]
    assert {given["session"] for _, given in told} == {"main"}
    assert {given["directory"] for _, given in told} == {str(tmp_path)}
    by_name = {name: [given for each, given in told if each == name] for name, _ in told}
    assert [one["prompt"] for one in by_name["prompt"]] == [*PROMPTS]
    assert [one["response"] for one in by_name["stop"]] == ["Oolong it is."] * 2
    assert [one["source"] for one in by_name["start"]] == ["startup", "compact"]


def test_memories_reach_the_model_of_opencode_1(tmp_path: Path) -> None:
    """A start's text is in the system prompt; a prompt's is the last part of its message."""
    turns = run(tmp_path, "1", script(tmp_path, STUB), *PROMPTS)["turns"]
    for turn in turns[:2]:
        assert turn["system"] == ["You are OpenCode.", "at start"]
        *_, last, added = turn["parts"]
        assert added["id"] > last["id"]
        del added["id"]
        assert added == {
            "sessionID": "main",
            "messageID": "msg_1",
            "type": "text",
            "synthetic": True,
            "text": "at prompt",
        }
    assert turns[2]["system"] == ["You are OpenCode."]
    assert len(turns[2]["parts"]) == 2


def test_memories_reach_the_model_of_opencode_2(tmp_path: Path) -> None:
    """Each message of the user has its memories in later requests, too; a cache of it holds."""
    first, second, child = run(tmp_path, "2", script(tmp_path, STUB), *PROMPTS)["turns"]
    texts = [
        [[part["text"] for part in message["content"]] for message in turn["messages"]]
        for turn in (first, second)
    ]
    assert texts[0] == [[PROMPTS[0], "at prompt"]]
    assert texts[1] == [*texts[0], ["Oolong it is."], [PROMPTS[1], "at prompt"]]
    assert [part["text"] for part in second["system"]] == ["You are OpenCode.", "at start"]
    assert len(child["system"]) == len(child["messages"][0]["content"]) == 1


BROKEN = {
    "absent": None,
    "hangs": "#!/bin/sh\nexec sleep 60\n",
    "fails": "#!/bin/sh\nexit 3\n",
    "babbles": "#!/bin/sh\ncat > /dev/null; echo not JSON\n",
    "another form": "#!/bin/sh\ncat > /dev/null; echo '{\"context\": 5}'\n",
    "a list": "#!/bin/sh\ncat > /dev/null; echo '[]'\n",
}


@pytest.mark.deep_after(2)
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("case", BROKEN)
def test_opencode_works_on_whatever_the_hook_does(case: str, version: str, tmp_path: Path) -> None:
    """A hook that is absent, hangs or says nonsense adds nothing, and no error reaches OpenCode."""
    text = BROKEN[case]
    command = HookCommand(("/no/vikingctl",)) if text is None else script(tmp_path, text)
    turns = run(tmp_path, version, command, "Tea?", **{"LONGEST = 3000": "LONGEST = 50"})["turns"]
    assert [len(turn["system"]) for turn in turns] == [1, 1]
    for turn in turns:
        assert len(turn.get("parts", [1, 2])) == 2
        assert all(len(message["content"]) == 1 for message in turn.get("messages", ()))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a daemon that knows something of the user."""
    with serving("--provider", "none") as where:
        with Client(where) as client:
            client.remember("Likes oolong.", "preferences")
        yield where


def test_the_plugin_and_the_hook_work_together(address: str, tmp_path: Path) -> None:
    """With the real hook and a daemon the model gets the memories, and the turn is committed."""
    machine = Machine(tmp_path, address)
    names = ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
    env = {name: machine.environment[name] for name in names}
    words = (*map(str, HOOK), "opencode")
    command = HookCommand(words, ("--address", address), env)
    [turn, _] = run(tmp_path, "1", command, "I moved to Lyon.")["turns"]
    assert "Likes oolong." in turn["system"][1]
    machine.wait()
    until(lambda: "Lyon" in str(texts_below(address, "viking://")), lambda: machine.log)
    told = str(texts_below(address, "viking://"))
    assert "Look for tea" not in told
    assert machine.log == ""
