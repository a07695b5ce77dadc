"""`vikingctl mcp --install`: the configuration of clients, shown and merged."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters

from tests.conftest import Ctl
from tests.daemons import serving
from tests.mcp.mcp_helpers import environment, told
from vikingd.client import Client as Daemon
from vikingd.client import Draft
from vikingd.mcp.install import TARGETS, ServerCommand, Target
from vikingd.system.settings_files import NotChanged, merged

SERVER = ServerCommand("/bin/vikingctl", ("mcp", "--read-only"), {"VIKINGD_KEY_FILE": "/k"})
FILES = {
    "claude": "work/.mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": "work/.vscode/mcp.json",
    "codex": ".codex/config.toml",
}


@pytest.fixture(scope="module")
def keyed() -> Iterator[tuple[str, str]]:
    """Yield the address of a daemon with a file, and its key."""
    with serving("--provider", "none") as where:
        with Daemon(where) as first:
            secret = first.create_key(operator=True).secret
        with Daemon(where, key=secret) as client:
            client.put([Draft("viking://resources/tea.md", content="Oolong.")])
        yield where, secret


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home directory, with a working directory in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def parsed(path: Path) -> dict[str, Any]:
    """Return the settings in a file."""
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else dict(json.loads(text))


def section(name: str) -> str:
    """Return the key of the servers of a client."""
    return TARGETS[name].section


@pytest.mark.parametrize("name", FILES)
def test_the_configuration_is_shown_and_written(name: str, home: Path, ctl: Ctl) -> None:
    """Without --write the text is printed and no file made; with it, the same is in the file."""
    file = home / FILES[name]
    code, out, err = ctl("mcp", "--install", name, "--read-only", "--tenant", "acme")
    assert code == 0
    assert str(file) in err
    assert not file.exists()
    shown = tomllib.loads(out) if name == "codex" else json.loads(out)
    [(key, entry)] = shown[section(name)].items()
    assert key == "vikingd"
    assert entry["args"][-4:] == ["mcp", "--tenant", "acme", "--read-only"]
    assert os.path.isabs(entry["command"])
    code, out, _ = ctl("mcp", "--install", name, "--read-only", "--tenant", "acme", "--write")
    assert code == 0
    assert str(file) in out
    assert parsed(file) == shown
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.deep
@pytest.mark.parametrize("name", FILES)
def test_a_client_starts_what_its_configuration_says(
    name: str,
    keyed: tuple[str, str],
    home: Path,
    ctl: Ctl,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command of the file, with its environment alone, reaches the daemon with the key."""
    where, secret = keyed
    (home / "key").write_text(secret)
    monkeypatch.setenv("VIKINGD_KEY_FILE", "../key")
    assert ctl("mcp", "--install", name, "--address", where, "--write")[0] == 0
    text = (home / FILES[name]).read_text()
    assert secret not in text
    entry = parsed(home / FILES[name])[section(name)]["vikingd"]

    async def main() -> None:
        parameters = StdioServerParameters(
            command=entry["command"],
            args=entry["args"],
            env=environment(**entry["env"]),
            cwd="/",
        )
        async with Client(parameters) as client:
            read = await told(client, "read", uri="viking://resources/tea.md")
            assert read["content"] == "Oolong."

    asyncio.run(main())


def test_no_key_is_written(home: Path, ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key on the command line is refused, and one in the environment is not written."""
    code, _, err = ctl("mcp", "--install", "cursor", "--key", "vk_secret", "--write")
    assert code == 2
    assert "--key-file" in err
    monkeypatch.setenv("VIKINGD_KEY", "vk_secret")
    for more in ((), ("--write",)):
        code, out, err = ctl("mcp", "--install", "cursor", *more)
        assert code == 0
        assert "VIKINGD_KEY is not written" in err
        assert "vk_secret" not in out + err
    assert "vk_secret" not in (home / FILES["cursor"]).read_text()


OTHERS: dict[str, str] = {
    "claude": '{"mcpServers": {"other": {"command": "x", "env": {"A": "1.10"}}}, "n": 1.10}',
    "cursor": '\ufeff{"mcpServers": {"vikingd": {"command": "old", "disabled": true,'
    ' "env": {"B": "2"}}}}',
    "vscode": '{"inputs": [{"id": "k"}], "servers": {}}',
    "codex": '# mine\nmodel = "m"  # the best\n[mcp_servers.other]\ncommand = "x"\n[tui]\na = 1\n',
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_merge_loses_nothing(name: str, home: Path) -> None:
    """All other settings stay, comments of TOML too; the old file is beside the new one."""
    target, file = TARGETS[name], home / FILES[name]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(OTHERS[name], encoding="utf-8")
    file.chmod(0o600)
    backup = target.change(SERVER).make()
    assert backup
    assert backup.read_text(encoding="utf-8") == OTHERS[name]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    settings = parsed(file)
    entry = settings[target.section].pop("vikingd")
    assert (entry["command"], entry["args"]) == (SERVER.command, [*SERVER.args])
    assert entry["env"]["VIKINGD_KEY_FILE"] == "/k"
    if name == "cursor":
        assert (entry["disabled"], entry["env"]["B"]) == (True, "2")
    if name == "codex":
        assert "# mine" in file.read_text()
        assert "# the best" in file.read_text()
        before = tomllib.loads(OTHERS[name])
    else:
        before = json.loads(OTHERS[name].removeprefix("\ufeff"))
    before[target.section].pop("vikingd", None)
    assert settings == before
    assert not target.change(SERVER).is_needed
    changed = ServerCommand(SERVER.command, ("mcp",), {})
    second = target.change(changed).make()
    assert second
    assert second != backup
    assert backup.read_text(encoding="utf-8") == OTHERS[name]


BROKEN: dict[str, tuple[str, bytes]] = {
    "cut": ("cursor", b'{"mcpServers": {'),
    "comments": ("vscode", b'{\n  // mine\n  "servers": {}\n}'),
    "list": ("cursor", b"[1]"),
    "wrong section": ("cursor", b'{"mcpServers": []}'),
    "wrong entry": ("cursor", b'{"mcpServers": {"vikingd": 5}}'),
    "wrong env": ("cursor", b'{"mcpServers": {"vikingd": {"env": 5}}}'),
    "repeated key": ("cursor", b'{"a": 1, "a": 2}'),
    "no number": ("cursor", b'{"a": 1e999}'),
    "deep": ("cursor", b'{"a":' * 100_000),
    "not text": ("cursor", b'{"a": "\xff"}'),
    "cut toml": ("codex", b"[mcp_servers"),
    "no table": ("codex", b"mcp_servers = 5\n"),
    "repeated toml": ("codex", b"a = 1\na = 2\n"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_cannot_be_read_stays_as_it_is(case: str, home: Path, ctl: Ctl) -> None:
    """A broken file is told with its path and the fault, and stays as it is, without a copy."""
    name, content = BROKEN[case]
    file = home / FILES[name]
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    code, out, err = ctl("mcp", "--install", name, "--write")
    assert code == 1
    assert out == ""
    assert "not changed" in err
    assert str(file) in err
    assert "Traceback" not in err
    assert file.read_bytes() == content
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_link_stays_a_link(home: Path) -> None:
    """A file that is a link is changed where it is; the link stays."""
    real = home / "dotfiles.json"
    real.write_text("{}")
    link = home / FILES["cursor"]
    link.parent.mkdir()
    link.symlink_to(real)
    TARGETS["cursor"].change(SERVER).make()
    assert link.is_symlink()
    assert "vikingd" in real.read_text()


def test_a_failed_write_leaves_the_old_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the new file cannot take its place, the old one is whole and no part of a file is left."""
    file = home / FILES["cursor"]
    file.parent.mkdir()
    file.write_text('{"a": 1}')

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(NotChanged, match="No space left"):
        TARGETS["cursor"].change(SERVER).make()
    assert file.read_text() == '{"a": 1}'
    assert {path.name for path in file.parent.iterdir()} == {"mcp.json", "mcp.json.bak"}


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SETTINGS = st.dictionaries(NAMES, VALUES, max_size=5)


@given(SETTINGS, st.dictionaries(NAMES, SETTINGS, max_size=3), st.sampled_from([*TARGETS]))
def test_any_settings_survive(settings: dict[str, Any], servers: dict[str, Any], name: str) -> None:
    """Whatever is in a file is there after a merge, or the merge is refused."""
    target = TARGETS[name]
    whole = {**settings, target.section: servers}
    of_toml = name == "codex"
    dumped: Callable[[Any], str] = tomlkit.dumps if of_toml else json.dumps
    try:
        changed = merged(target.file, dumped(whole), [target.entry(SERVER)])
    except NotChanged:
        assert "inf" in repr(whole)  # which JSON has not
        return
    after = (tomllib.loads if of_toml else json.loads)(changed)
    entry = after[target.section].pop("vikingd")
    assert entry["command"] == SERVER.command
    servers.pop("vikingd", None)
    assert after == whole


def test_every_client_has_its_file() -> None:
    """The files are those of the clients' own documentation."""
    assert {name: target.path for name, target in TARGETS.items()} == {
        "claude": ".mcp.json",
        "cursor": "~/.cursor/mcp.json",
        "vscode": ".vscode/mcp.json",
        "codex": "~/.codex/config.toml",
    }
    assert all(isinstance(target, Target) for target in TARGETS.values())
