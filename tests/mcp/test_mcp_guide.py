"""The guide of MCP: its commands run, its configuration and its errors are real."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.conftest import Ctl
from tests.mcp.mcp_helpers import failed, run
from tests.mcp.test_mcp_choice import MEASURED
from tests.project.test_documents import BLOCK, ROOT
from vikingd.client import Client as Daemon
from vikingd.client import Draft
from vikingd.mcp.mcp_server import WRITING
from vikingd.mcp.tool import DESCRIPTIONS

GUIDE = (ROOT / "vikingd" / "mcp" / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the one block of the guide in a language."""
    [text] = [found[2] for found in BLOCK.finditer(GUIDE) if found[1] == language]
    return str(text)


def test_the_commands_of_the_guide_run(
    tmp_path: Path, ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each vikingctl command of the guide succeeds; the last one leaves the file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line, comments=True) for line in block("sh").splitlines()]
    ran = [ctl(*words[1:])[0] for words in commands if words[0] == "vikingctl"]
    assert ran == [0, 0]
    assert (tmp_path / ".mcp.json").exists()


def test_the_configuration_of_the_guide_is_what_is_written(
    ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shown entry is that of `--install claude --read-only`, but for the path of vikingctl."""
    monkeypatch.delenv("VIKINGCTL_ADDRESS")
    monkeypatch.setenv("VIKINGD_KEY_FILE", "/home/ana/ana.key")
    code, out, _ = ctl("mcp", "--install", "claude", "--read-only")
    assert code == 0
    written = json.loads(out)
    entry = written["mcpServers"]["vikingd"]
    entry["args"] = entry["args"][entry["args"].index("mcp") :]
    assert Path(entry["command"]).is_absolute()
    entry["command"] = "vikingctl"
    assert json.dumps(written, indent=2) + "\n" == block("json")


def test_the_errors_of_the_guide_are_real(typed: Daemon) -> None:
    """Each error of the guide is the answer to a call."""
    on_call = "viking://resources/operations/on-call.txt"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"uri": "viking://agent/skills/rfc/SKILL.md"}),
        ("write", {"uri": on_call, "content": "New."}),
        ("find", {"query": "tea", "limit": 500}),
    ]

    async def test(client: Client) -> None:
        told = [await failed(client, tool, **arguments) for tool, arguments in calls]
        assert "\n".join(told) + "\n" == block("text")

    typed.put(
        [
            Draft(on_call, content="Old."),
            Draft("viking://agent/skills/write-an-rfc/SKILL.md", content="Write."),
        ]
    )
    run(test, typed.address)


def test_the_guide_has_all_tools() -> None:
    """The table has each tool once, says which of them write, and the choice has its figures."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| ?(.*?) ?\|$", GUIDE, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(DESCRIPTIONS)
    changes = {name for name, changes in rows if changes}
    assert changes == {*WRITING, "recall"}
    first, among_two = MEASURED
    words = " ".join(GUIDE.split())
    assert f"first in {first} tasks, and among its first two in {among_two} " in words
