"""`vikingctl agents`: what is shown, merged, replaced and taken out of the files of agents."""

from __future__ import annotations

import copy
import json
import os
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Ctl, ctl_runner
from vikingd.ctl.agent_files import AGENTS, HookCommand
from vikingd.ctl.agent_hooks import is_hook
from vikingd.mcp.install import ServerCommand
from vikingd.system import settings_files
from vikingd.system.settings_files import Change, NotChanged, merged

USER = {
    "claude-code": (".claude/settings.json", ".claude.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "cursor": (".cursor/hooks.json", ".cursor/mcp.json"),
    "opencode": (".config/opencode/plugins/vikingd.js", ".config/opencode/opencode.json"),
}
PROJECT = {
    "claude-code": (".claude/settings.local.json", ".mcp.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "cursor": (".cursor/hooks.json", ".cursor/mcp.json"),
    "opencode": (".opencode/plugins/vikingd.js", "opencode.json"),
}
JSON_HOOKS = [name for name in USER if name != "opencode"]
EVENTS = {
    "claude-code": ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"],
    "codex": ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"],
    "gemini": ["SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"],
    "cursor": [
        *("sessionStart", "beforeSubmitPrompt", "afterAgentResponse"),
        *("stop", "preCompact", "sessionEnd"),
    ],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home directory, with a working directory in it."""
    for name in (
        *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"),
        *(name for name in os.environ if name.startswith("VIKING")),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def ctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Return a runner of vikingctl; no daemon is there."""
    return ctl_runner(monkeypatch, capsys)


def settings(path: Path) -> Any:
    """Return the settings in a file."""
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def server(agent: str, path: Path) -> dict[str, Any]:
    """Return the entry of MCP in a file."""
    section = {"codex": "mcp_servers", "opencode": "mcp"}.get(agent, "mcpServers")
    entry: dict[str, Any] = settings(path)[section]["vikingd"]
    return entry


def commands(agent: str, path: Path) -> dict[str, list[str]]:
    """Return the commands of each event in a file with hooks."""
    hooks = settings(path)["hooks"]
    if agent == "cursor":
        return {event: [one["command"] for one in found] for event, found in hooks.items()}
    return {
        event: [one["command"] for group in found for one in group["hooks"]]
        for event, found in hooks.items()
    }


def snapshot(home: Path) -> dict[str, bytes]:
    """Return the content of each file by its path."""
    return {str(p.relative_to(home)): p.read_bytes() for p in home.rglob("*") if p.is_file()}


@pytest.mark.parametrize("agent", USER)
def test_an_installation_is_shown_written_once_and_taken_out(
    agent: str, home: Path, ctl: Ctl
) -> None:
    """Without --write nothing is written; a second run changes nothing; nothing is left at last."""
    code, shown, err = ctl("agents", "install", agent)
    assert code == 0
    assert "--write" in err
    for name in USER[agent]:
        assert str(home / name) in shown
    assert snapshot(home) == {}
    code, _, err = ctl("agents", "install", agent, "--write")
    assert code == 0
    assert err.strip() == AGENTS[agent].note
    before = snapshot(home)
    assert set(before) == set(USER[agent])
    assert ctl("agents", "install", agent, "--write")[0] == 0
    assert snapshot(home) == before
    code, told, _ = ctl("agents", "uninstall", agent)
    assert code == 0
    assert all(str(home / name) in told for name in USER[agent])
    assert snapshot(home) == before
    assert ctl("agents", "uninstall", agent, "--write")[0] == 0
    left = snapshot(home)
    assert all(name.endswith(".bak") for name in left)
    assert ctl("agents", "uninstall", agent, "--write")[0] == 0
    assert snapshot(home) == left


@pytest.mark.parametrize("agent", USER)
def test_the_hooks_and_the_server_have_the_documented_form(
    agent: str, home: Path, ctl: Ctl
) -> None:
    """Each event runs the absolute vikingctl, and MCP uses the user's daemon, too."""
    assert ctl("agents", "install", agent, "--write")[0] == 0
    hooks, mcp = (home / name for name in USER[agent])
    entry = server(agent, mcp)
    line = [entry["command"], *entry["args"]] if agent != "opencode" else entry["command"]
    assert os.path.isabs(line[0])
    assert line[-3:] == ["mcp", "--address", "user"]
    assert entry.get("type") == {"claude-code": "stdio", "opencode": "local"}.get(agent)
    if agent == "opencode":
        text = hooks.read_text()
        assert json.dumps([*line[:-3], "hook", "opencode"]) in text
        assert '"options": ["--start"]' in text
        return
    found = commands(agent, hooks)
    assert list(found) == EVENTS[agent]
    wanted = shlex.join([*line[:-3], "hook", agent, "--start"])
    assert all(each == [wanted] for each in found.values())
    own = settings(hooks)
    assert own.get("version") == (1 if agent == "cursor" else None)
    first = own["hooks"][EVENTS[agent][0]][0]
    timeout = (first if agent == "cursor" else first["hooks"][0])["timeout"]
    assert timeout == (3000 if agent == "gemini" else 3)


@pytest.mark.parametrize("agent", PROJECT)
def test_a_project_has_files_of_its_own(agent: str, home: Path, ctl: Ctl) -> None:
    """With --project the files are in the current directory, and the user's are not touched."""
    assert ctl("agents", "install", agent, "--write", "--project")[0] == 0
    assert set(snapshot(home)) == {f"work/{name}" for name in PROJECT[agent]}
    code, out, _ = ctl("agents", "list", "--json")
    assert code == 0
    [row] = [row for row in json.loads(out)["agents"] if row["agent"] == agent]
    assert (row["hooks"], row["mcp"]) == (["project"], ["project"])


@pytest.mark.parametrize("agent", JSON_HOOKS)
def test_hooks_alone(agent: str, home: Path, ctl: Ctl) -> None:
    """With --hooks-only no server of MCP is written."""
    assert ctl("agents", "install", agent, "--write", "--hooks-only")[0] == 0
    assert "mcp" not in str(snapshot(home)).lower()
    assert list(commands(agent, home / USER[agent][0])) == EVENTS[agent]


def test_other_directories_of_agents(home: Path, ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables by which agents find their settings elsewhere are followed."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home / name))
    for agent in USER:
        assert ctl("agents", "install", agent, "--write")[0] == 0
    assert set(snapshot(home)) == {
        "CLAUDE_CONFIG_DIR/settings.json",
        "CLAUDE_CONFIG_DIR/.claude.json",
        "CODEX_HOME/hooks.json",
        "CODEX_HOME/config.toml",
        "GEMINI_CLI_HOME/.gemini/settings.json",
        ".cursor/hooks.json",
        ".cursor/mcp.json",
        "XDG_CONFIG_HOME/opencode/plugins/vikingd.js",
        "XDG_CONFIG_HOME/opencode/opencode.json",
    }


def test_options_reach_both_commands_and_a_key_does_not(
    home: Path, ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is absolute, a key stays in its file, and no program is started elsewhere."""
    given = ("--address", "unix:../a socket", "--key-file", "my key", "--tenant", "acme")
    assert ctl("agents", "install", "claude-code", "--write", *given)[0] == 0
    hooks, mcp = (home / name for name in USER["claude-code"])
    [line] = commands("claude-code", hooks)["Stop"]
    words = shlex.split(line)
    assert words[:3] == ["env", f"VIKINGD_KEY_FILE={home}/work/my key", "VIKINGD_TENANT=acme"]
    assert words[4:] == ["hook", "claude-code", "--address", f"unix:{home}/a socket"]
    assert is_hook(line, "claude-code")
    args = server("claude-code", mcp)["args"]
    assert args[args.index("--address") + 1] == f"unix:{home}/a socket"
    assert args[args.index("--key-file") + 1] == f"{home}/work/my key"
    before = snapshot(home)
    for wrong in (
        ("--key", "vk_secret"),
        ("--address", "vikings://a:1"),
        ("--address", "https://a"),
    ):
        code, _, err = ctl("agents", "install", "claude-code", "--write", *wrong)
        assert code == 2
        assert ("--key-file" in err) == (wrong[0] == "--key")
    assert snapshot(home) == before
    monkeypatch.setenv("VIKINGD_KEY", "vk_secret")
    monkeypatch.setenv("VIKINGCTL_ADDRESS", "127.0.0.1:7000")
    code, _, err = ctl("agents", "install", "cursor", "--write")
    assert code == 0
    assert "VIKINGD_KEY is not written" in err
    assert b"vk_secret" not in b"".join(snapshot(home).values())
    assert "--address 127.0.0.1:7000" in commands("cursor", home / ".cursor/hooks.json")["stop"][0]


OLD = "/old/bin/vikingctl hook {} --start"
OTHER = "/usr/bin/other hook {0}; echo vikingctl hook {0}x"


def of_others(agent: str) -> dict[str, Any]:
    """Return settings with hooks of others, and with older ones of ours among them."""
    old, other = OLD.format(agent), OTHER.format(agent)
    first, second, *_ = EVENTS[agent]
    if agent == "cursor":
        hooks: dict[str, Any] = {
            first: [{"command": other}, {"command": old, "timeout": 9}, {"command": "after"}],
            second: [{"command": old}, {"command": old}],
            "beforeReadFile": [{"command": old}, {"command": "read"}],
        }
        return {"version": 1, "hooks": hooks, "more": 1.5}
    entry = {"type": "command", "command": other}
    hooks = {
        first: [
            {"matcher": "startup", "hooks": [entry]},
            {"matcher": "", "hooks": [{"type": "command", "command": old}, entry]},
            {"hooks": []},
        ],
        second: [
            {"hooks": [{"type": "command", "command": old}]},
            {"hooks": [{"type": "command", "command": old, "timeout": 60}]},
        ],
        "PreToolUse": [{"hooks": [{"type": "command", "command": old}]}],
        "Notification": [{"hooks": [entry]}],
    }
    return {"model": "m", "hooks": hooks, "more": [1, {"a": None}]}


@pytest.mark.parametrize("agent", JSON_HOOKS)
def test_other_hooks_stay_and_older_ones_of_ours_are_replaced(
    agent: str, home: Path, ctl: Ctl
) -> None:
    """Of an event there is one hook of ours, where the first one was, and all others are there."""
    path = home / USER[agent][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    before = of_others(agent)
    path.write_text("\ufeff" + json.dumps(before), encoding="utf-8")
    path.chmod(0o600)
    assert ctl("agents", "install", agent, "--write", "--hooks-only")[0] == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.with_name(f"{path.name}.bak").read_text("utf-8-sig")) == before
    found = commands(agent, path)
    for event in EVENTS[agent]:
        [ours] = [command for command in found[event] if is_hook(command, agent)]
        assert not ours.startswith("/old/")
    others = OTHER.format(agent)
    first = found[EVENTS[agent][0]]
    assert first.count(others) == (1 if agent == "cursor" else 2)
    if agent == "cursor":
        assert is_hook(first[1], agent)
        assert first[2] == "after"
        assert found["beforeReadFile"] == ["read"]
    else:
        assert "PreToolUse" not in found
        assert found["Notification"] == [others]
        assert settings(path)["hooks"][EVENTS[agent][0]][0]["matcher"] == "startup"
    once = path.read_bytes()
    assert ctl("agents", "install", agent, "--write", "--hooks-only")[0] == 0
    assert path.read_bytes() == once
    assert ctl("agents", "uninstall", agent, "--write")[0] == 0
    left = settings(path)
    assert {key: value for key, value in left.items() if key != "hooks"} == {
        key: value for key, value in before.items() if key != "hooks"
    }
    assert not any(is_hook(c, agent) for found in commands(agent, path).values() for c in found)


def test_a_newer_form_of_opencode_is_kept(home: Path, ctl: Ctl) -> None:
    """A file with servers as OpenCode 2 has them gets ours there; one without, as both read it."""
    path = home / USER["opencode"][1]
    path.parent.mkdir(parents=True)
    other = {"type": "local", "command": ["x"]}
    path.write_text(json.dumps({"mcp": {"servers": {"other": other}}}))
    assert ctl("agents", "install", "opencode", "--write")[0] == 0
    own = settings(path)["mcp"]
    assert list(own) == ["servers"]
    assert own["servers"]["other"] == other
    assert list(own["servers"]["vikingd"]) == ["type", "command"]
    assert ctl("agents", "uninstall", "opencode", "--write")[0] == 0
    assert settings(path) == {"mcp": {"servers": {"other": other}}}
    path.write_text(json.dumps({"mcp": {"servers": other}}))  # the name of a server
    assert ctl("agents", "install", "opencode", "--write")[0] == 0
    assert settings(path)["mcp"]["vikingd"]["enabled"] is True


BROKEN: dict[str, tuple[str, int, bytes]] = {
    "cut": ("claude-code", 0, b'{"hooks": {'),
    "comments": ("gemini", 0, b'{\n  // mine\n  "hooks": {}\n}'),
    "list": ("cursor", 0, b"[1]"),
    "wrong hooks": ("codex", 0, b'{"hooks": []}'),
    "wrong event": ("cursor", 0, b'{"hooks": {"stop": {}}}'),
    "repeated key": ("claude-code", 1, b'{"a": 1, "a": 2}'),
    "not text": ("cursor", 1, b'{"a": "\xff"}'),
    "cut toml": ("codex", 1, b"[mcp_servers"),
    "deep": ("claude-code", 1, b'{"a":' * 100_000),
    "jsonc": ("opencode", 1, b'{"mcp": {},}'),
    "plugin of others": ("opencode", 0, b"export default {}\n"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_cannot_be_read_stops_all(case: str, home: Path, ctl: Ctl) -> None:
    """It is told with its path, and no file is written, the others of the agent neither."""
    agent, which, content = BROKEN[case]
    file = home / USER[agent][which]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    for command in ("install", "uninstall"):
        code, out, err = ctl("agents", command, agent, "--write")
        if command == "uninstall" and case == "wrong event":
            continue  # nothing of ours can be there
        assert (code, out) == (1, ""), command
        assert str(file) in err
        assert "not changed" in err
        assert "Traceback" not in err
        assert snapshot(home) == {USER[agent][which]: content}
    code, out, _ = ctl("agents", "list", "--json")
    assert code == 0
    [row] = [row for row in json.loads(out)["agents"] if row["agent"] == agent]
    assert case in ("wrong event", "plugin of others") or str(file) in row["unreadable"]


def test_a_file_that_others_write_meanwhile_is_not_overwritten(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes its settings between our reading and writing loses nothing."""
    path = home / ".claude.json"
    path.write_text('{"a": 1}')
    change = settings_files.with_parts(path, [settings_files.Entry(("b",), {"c": 1})])
    path.write_text('{"a": 2}')
    with pytest.raises(NotChanged, match="meanwhile"):
        change.make()
    assert path.read_text() == '{"a": 2}'

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NotChanged, match="No space left"):
        Change(path, b'{"a": 2}', b"{}").make()
    assert path.read_text() == '{"a": 2}'


def test_links_stay_links(home: Path, ctl: Ctl) -> None:
    """A file that is a link into somebody's dotfiles is changed where it is."""
    (home / "dotfiles.json").write_text('{"theme": "dark"}')
    link = home / ".claude/settings.json"
    link.parent.mkdir()
    link.symlink_to(home / "dotfiles.json")
    assert ctl("agents", "install", "claude-code", "--write", "--hooks-only")[0] == 0
    assert link.is_symlink()
    assert settings(home / "dotfiles.json")["theme"] == "dark"
    assert "vikingctl" in (home / "dotfiles.json").read_text()


def test_the_list(home: Path, ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which agents are there, and what of vikingd is installed for whom."""
    monkeypatch.setenv("PATH", "/nowhere")
    (home / ".gemini").mkdir()
    assert ctl("agents", "install", "codex", "--write", "--hooks-only")[0] == 0
    code, out, _ = ctl("agents", "list", "--json")
    assert code == 0
    rows = {row["agent"]: row for row in json.loads(out)["agents"]}
    assert list(rows) == list(USER)
    assert [name for name, row in rows.items() if row["here"]] == ["codex", "gemini"]
    assert (rows["codex"]["hooks"], rows["codex"]["mcp"]) == (["user"], [])
    assert rows["gemini"]["hooks"] == []
    code, out, _ = ctl("agents", "list")
    assert code == 0
    assert [line.split() for line in out.splitlines()][1] == ["codex", "yes", "user", "no"]


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("vikingctl hook gemini", True),
        ("'/a b/vikingctl' hook gemini --start", True),
        ("env A=b /x/vikingctl hook gemini", True),
        ("/usr/bin/python3 -m vikingd.ctl.main hook gemini", True),
        ("vikingctl hook codex", False),
        ("vikingctl mcp", False),
        ("echo hook gemini", False),
        ("my-vikingctl hook gemini", False),
        ("vikingctl hook gemini 'unclosed", False),
    ],
)
def test_our_commands_are_known(command: str, ours: bool) -> None:
    """A hook of ours is known by its words, wherever vikingctl is."""
    assert is_hook(command, "gemini") is ours


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
LINES = st.sampled_from([OLD, OTHER, "x"])


@given(st.data(), st.sampled_from(JSON_HOOKS), st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_settings_survive(data: st.DataObject, agent: str, whole: dict[str, Any]) -> None:
    """Whatever is in the files of an agent is there after a merge, or the merge is refused.

    A merge of what is merged changes nothing, and taking it out gives what was there.
    """
    entry = LINES.map(lambda line: {"command": line.format(agent)})
    group = entry if agent == "cursor" else st.lists(entry, max_size=3).map(lambda e: {"hooks": e})
    events = st.sampled_from([*EVENTS[agent], "Other"])
    hooks = st.dictionaries(events, st.lists(group, max_size=4), max_size=4)
    whole = {**whole, "hooks": data.draw(hooks)}
    hook, command = HookCommand(("/b/vikingctl", "hook", agent)), ServerCommand("/b/v", (), {})
    parts = [AGENTS[agent].hooks(hook)]  # type: ignore[misc]
    section, path = "mcpServers", Path("/x.json")
    whole[section] = data.draw(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES), max_size=2))
    if agent in ("claude-code", "gemini"):  # the others have two files
        parts.append(AGENTS[agent].server(command))
    text = json.dumps(whole)
    try:
        once = merged(path, text, parts)
    except NotChanged:
        assert "inf" in repr(whole)  # which JSON has not
        return
    assert merged(path, once, parts) == once
    left = json.loads(merged(path, once, parts, take=True))
    others = copy.deepcopy(whole)
    for part in parts:
        part.take(others)
    if "version" not in whole:
        left.pop("version", None)  # Cursor's file must have one
    assert left == others
    assert not any(part.is_in(left) for part in parts)
    for key, value in whole.items():
        if key not in ("hooks", section, "version"):
            assert left[key] == value


def test_comments_of_toml_stay(home: Path, ctl: Ctl) -> None:
    """The settings of Codex keep their comments and their order, through a merge and back."""
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    text = '# mine\nmodel = "m"  # the best\n\n[mcp_servers.other]\ncommand = "x"\n\n[tui]\na = 1\n'
    path.write_text(text)
    assert ctl("agents", "install", "codex", "--write")[0] == 0
    changed = path.read_text()
    assert changed.startswith(text[: text.index("[tui]")].rstrip())
    assert tomlkit.parse(changed)["mcp_servers"]["vikingd"]["args"][0] == "mcp"  # type: ignore[index]
    assert ctl("agents", "uninstall", "codex", "--write")[0] == 0
    assert tomllib.loads(path.read_text()) == tomllib.loads(text)
    assert "# the best" in path.read_text()
