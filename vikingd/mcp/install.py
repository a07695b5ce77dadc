"""The configuration of MCP clients: the entry for vikingd, shown or merged into a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vikingd.system.settings_files import Change, Entry, with_parts

NAME = "vikingd"
"""The name of the server in a configuration."""


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """The command that a client starts, and its environment."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Target:
    """The configuration file of one MCP client.

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
        """Return the absolute path of the configuration file of this client."""
        return Path(self.path).expanduser().absolute()

    def entry(self, server: ServerCommand) -> Entry:
        """Return the entry in the form of this client."""
        value: dict[str, Any] = {
            **self.extra,
            "command": server.command,
            "args": [*server.args],
        }
        env = {"env": dict(server.env)} if server.env else {}
        return Entry((self.section, NAME), value | env)

    def change(self, server: ServerCommand) -> Change:
        """Return the change that adds the entry to the file; see `with_parts`."""
        return with_parts(self.file, [self.entry(server)])


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
