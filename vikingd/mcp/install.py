"""The configuration of MCP clients: the entry for vikingd, shown or merged into a file."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from vikingd.system import platform
from vikingd.system.regular_files import read_regular

NAME = "vikingd"
"""The name of the server in a configuration."""


class NotInstalled(Exception):
    """A file that cannot be changed; it is as it was. The message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The command that a client starts, and its environment."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """The configuration of one client.

    Attributes:
        path: the file, below the home directory (with ~) or the current one.
        section: the key of the servers in it.
        extra: keys of an entry besides command, args and env.
        hint: a sentence on other places.
    """

    path: str
    section: str
    extra: Mapping[str, str]
    hint: str = ""

    @property
    def file(self) -> Path:
        """Return the absolute path of the file."""
        return Path(self.path).expanduser().absolute()

    def entry(self, entry: Entry) -> dict[str, Any]:
        """Return the entry in the form of this client."""
        written: dict[str, Any] = {**self.extra, "command": entry.command, "args": [*entry.args]}
        return written | ({"env": dict(entry.env)} if entry.env else {})

    def text(self, entry: Entry) -> str:
        """Return a configuration with this entry alone."""
        return self._changed("", entry)

    def write(self, entry: Entry) -> Path | None:
        """Merge the entry into the file; return the copy of the file as it was, None if it is new.

        All other settings stay. A file with the same entry is not written.

        Raises:
            NotInstalled: the file is not valid, or cannot be written.
        """
        path = self.file.resolve()  # a link stays a link
        try:
            before = read_regular(path) if path.exists() else None
            after = self._changed((before or b"").decode("utf-8-sig"), entry).encode()
            if after == before:
                return None
            path.parent.mkdir(parents=True, exist_ok=True)
            backup = None if before is None else _copied(path)
            _replace(path, after)
        except UnicodeDecodeError:
            raise NotInstalled(f"{path} is not UTF-8 text; it was not changed") from None
        except OSError as error:
            raise NotInstalled(f"{path} cannot be written: {error.strerror}") from None
        return backup

    def _changed(self, text: str, entry: Entry) -> str:
        """Return the text of the file with the entry in it."""
        is_toml = self.path.endswith(".toml")
        change = _changed_toml if is_toml else _changed_json
        parse: Callable[[str], Any] = tomllib.loads if is_toml else json.loads
        try:
            changed = change(text, self.section, self.entry(entry))
            before = parse(text) if text.strip() else {}
            if self._others(before) != self._others(parse(changed)):
                raise ValueError("a setting would be lost")
            return changed
        except (ValueError, TOMLKitError, RecursionError) as error:
            raise NotInstalled(
                f"{self.file} was not changed, since it cannot be read as it is: {error}. Mend it, "
                "or put the entry in by hand"
            ) from None

    def _others(self, whole: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration without the entry."""
        servers = dict(whole.get(self.section, {}))
        servers.pop(NAME, None)
        return {**whole, self.section: servers}


TARGETS: dict[str, Target] = {
    "claude": Target(
        ".mcp.json",
        "mcpServers",
        {"type": "stdio"},
        "This is for one project. For all projects: claude mcp add --scope user vikingd -- COMMAND",
    ),
    "cursor": Target("~/.cursor/mcp.json", "mcpServers", {}),
    "vscode": Target(".vscode/mcp.json", "servers", {"type": "stdio"}),
    "codex": Target("~/.codex/config.toml", "mcp_servers", {}),
}
"""The clients by name."""


def _changed_json(text: str, section: str, entry: dict[str, Any]) -> str:
    whole = json.loads(text, object_pairs_hook=_unique) if text.strip() else {}
    servers = _table(whole, "").setdefault(section, {})
    _merge(_table(servers, section), entry, dict)
    return json.dumps(whole, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a repeated key would be lost."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"it has {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return made


def _changed_toml(text: str, section: str, entry: dict[str, Any]) -> str:
    whole = tomlkit.parse(text)
    if section not in whole:
        whole[section] = tomlkit.table(is_super_table=True)
    _merge(_table(whole[section], section), entry, tomlkit.table)
    return tomlkit.dumps(whole)


def _merge(servers: Any, entry: dict[str, Any], table: Callable[[], Any]) -> None:
    """Set the entry; keys and variables that it does not have stay."""
    if NAME not in servers:
        servers[NAME] = table()
    own = _table(servers[NAME], NAME)
    for key, value in entry.items():
        if key == "env":
            if "env" not in own:
                own["env"] = table()
            _table(own["env"], "env").update(value)
        elif own.get(key) != value:
            own[key] = value


def _table(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{name or 'the file'} is no {'table' if name else 'object'}")
    return value


def _copied(path: Path) -> Path:
    """Copy a file to a backup, and return the path of the backup."""
    number, backup = 1, path.with_name(f"{path.name}.bak")
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.bak{number}")
    shutil.copy2(path, backup)
    return backup


def _replace(path: Path, content: bytes) -> None:
    """Write a file at once, with the permissions that it had."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            platform.sync(file.fileno())
        if path.exists():
            shutil.copymode(path, part)
        else:
            os.chmod(part, 0o644 & ~_umask())
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
