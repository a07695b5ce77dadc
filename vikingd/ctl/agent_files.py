"""The settings files of coding agents that name the hooks or the MCP server of vikingd.

Each agent has files of the user and files of a project. The guides in `vikingd/hooks/agents` name
the versions of the agents whose paths and formats are used here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from vikingd.ctl.agent_hooks import Hooks
from vikingd.mcp.install import NAME, ServerCommand
from vikingd.system.settings_files import (
    Change,
    Entry,
    Part,
    is_in,
    table,
    text_with,
    whole_file,
    with_parts,
    without_parts,
)

_SECONDS = 3  # the longest that an agent waits for a hook, which itself ends earlier
_MARK = b"// The memory of OpenCode's sessions. `vikingctl agents install opencode"
_SETTINGS = re.compile(r"^const SETTINGS = .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HookCommand:
    """The command of a hook, without the name of the event.

    Attributes:
        words: the program and its arguments up to the name of the agent.
        options: the arguments after the name of the agent.
        env: the variables that it needs.
    """

    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """Return the command as a line for a shell."""
        env = [f"{name}={value}" for name, value in self.env.items()]
        return shlex.join([*(["env", *env] if env else []), *self.words, *self.options])


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent, and the paths of its settings files.

    Attributes:
        name: its name in the commands of vikingctl.
        program: the program that starts it.
        home: the directory of its settings, below the home directory.
        variable: the environment variable that names another such directory; "" if there is none.
        hooks_file, mcp_file: the user's files, relative to that directory.
        project_hooks_file, project_mcp_file: the files relative to the directory of a project.
        hooks: a function that returns the hooks, as a part of a settings file, for their command;
            None: the agent has a plugin in place of hooks.
        server: a function that returns the MCP server, as a part of a settings file.
        note: a sentence for the user after an installation; "": none.
    """

    name: str
    program: str
    home: str
    variable: str
    hooks_file: str
    mcp_file: str
    project_hooks_file: str
    project_mcp_file: str
    hooks: Callable[[HookCommand], Part] | None
    server: Callable[[ServerCommand], Part]
    note: str = ""

    def directory(self) -> Path:
        """Return the directory of the user's settings."""
        named = os.environ.get(self.variable, "") if self.variable else ""
        if self.variable in _PARENTS and named:
            return Path(named, _PARENTS[self.variable])
        return Path(named) if named else Path.home() / self.home

    def paths(self, *, project: bool) -> tuple[Path, Path]:
        """Return the file of the hooks, and the file of MCP.

        Args:
            project: return those of the current directory instead of the user's.
        """
        if project:
            here = Path.cwd()
            return here / self.project_hooks_file, here / self.project_mcp_file
        if self.name == "claude-code" and not os.environ.get(self.variable):
            return self.directory() / self.hooks_file, Path.home() / self.mcp_file
        return self.directory() / self.hooks_file, self.directory() / self.mcp_file

    def shown(
        self, hook: HookCommand, server: ServerCommand | None, *, project: bool
    ) -> list[tuple[Path, str]]:
        """Return the files that an installation changes, each with the text of vikingd's part."""
        hooks_path, mcp_path = self.paths(project=project)
        made = [(hooks_path, plugin(hook).decode())] if self.hooks is None else []
        parts = self._parts(hook, server, hooks_path, mcp_path)
        return [*made, *((path, text_with(path, own)) for path, own in parts)]

    def installed(
        self, hook: HookCommand, server: ServerCommand | None, *, project: bool
    ) -> list[Change]:
        """Return the changes that install the hooks and, if a server is given, MCP.

        Raises:
            NotChanged: a file cannot be read as it is.
        """
        made = []
        hooks_path, mcp_path = self.paths(project=project)
        if self.hooks is None:
            made.append(whole_file(hooks_path, plugin(hook), _MARK))
        for path, parts in self._parts(hook, server, hooks_path, mcp_path):
            made.append(with_parts(path, parts))
        return made

    def removed(self, *, project: bool) -> list[Change]:
        """Return the changes that remove all parts of vikingd.

        Raises:
            NotChanged: a file cannot be read as it is.
        """
        made = []
        hooks_path, mcp_path = self.paths(project=project)
        if self.hooks is None:
            made.append(whole_file(hooks_path, None, _MARK))
        for path, parts in self._parts(_NO_HOOK, _NO_SERVER, hooks_path, mcp_path):
            made.append(without_parts(path, parts))
        return made

    def has(self, *, project: bool) -> tuple[bool, bool]:
        """Return (True if the hooks are installed, True if MCP is).

        Raises:
            NotChanged: a file cannot be read.
        """
        hooks_path, mcp_path = self.paths(project=project)
        if self.hooks is None:
            has_hooks = hooks_path.exists()
        else:
            has_hooks = is_in(hooks_path, self.hooks(_NO_HOOK))
        return has_hooks, is_in(mcp_path, self.server(_NO_SERVER))

    def _parts(
        self, hook: HookCommand, server: ServerCommand | None, hooks_path: Path, mcp_path: Path
    ) -> Iterator[tuple[Path, Sequence[Part]]]:
        """Yield each file once, with the parts to write into it."""
        parts: dict[Path, list[Part]] = {}
        if self.hooks is not None:
            parts.setdefault(hooks_path, []).append(self.hooks(hook))
        if server is not None:
            parts.setdefault(mcp_path, []).append(self.server(server))
        yield from parts.items()


_NO_HOOK = HookCommand(("vikingctl",))
_NO_SERVER = ServerCommand("vikingctl", (), {})


def plugin(hook: HookCommand) -> bytes:
    """Return the source of the OpenCode plugin, with the command of the hook filled in."""
    settings = {"command": hook.words, "options": hook.options, "environment": dict(hook.env)}
    source = (files("vikingd.hooks") / "agents" / "opencode_plugin.js").read_text("utf-8")
    written = f"const SETTINGS = {json.dumps(settings, ensure_ascii=False)}"
    return _SETTINGS.sub(lambda _: written, source, count=1).encode()


class _OpenCodeServer:
    """The entry of the MCP server in the settings of OpenCode.

    OpenCode 1 reads it at `mcp.NAME`. OpenCode 2 also reads `mcp.servers.NAME`, but not both in one
    file. So the entry is written below `mcp.servers` only if the file has other servers there.
    """

    def __init__(self, server: ServerCommand) -> None:
        value: dict[str, Any] = {"type": "local", "command": [server.command, *server.args]}
        env = {"environment": dict(server.env)} if server.env else {}
        self._old = Entry(("mcp", NAME), value | {"enabled": True} | env)
        self._new = Entry(("mcp", "servers", NAME), value | env)

    def _form(self, whole: Any) -> Entry:
        servers = table(table(whole, "").get("mcp", {}), "mcp").get("servers", {})
        return self._new if servers and "type" not in table(servers, "servers") else self._old

    def put(self, whole: Any) -> None:
        self._form(whole).put(whole)

    def take(self, whole: Any) -> None:
        self._form(whole).take(whole)

    def is_in(self, whole: Any) -> bool:
        return self._form(whole).is_in(whole)


def _server(section: str, **more: str) -> Callable[[ServerCommand], Part]:
    def made(server: ServerCommand) -> Part:
        value: dict[str, Any] = {**more, "command": server.command, "args": [*server.args]}
        return Entry((section, NAME), value | ({"env": dict(server.env)} if server.env else {}))

    return made


def _hooks(agent: str, *events: str, **more: Any) -> Callable[[HookCommand], Part]:
    def made(hook: HookCommand) -> Part:
        entry = {"type": "command", "command": hook.line(), **more}
        return Hooks(agent, dict.fromkeys(events, entry))

    return made


def _cursor_hooks(hook: HookCommand) -> Part:
    events = (
        *("sessionStart", "beforeSubmitPrompt", "afterAgentResponse"),
        *("stop", "preCompact", "sessionEnd"),
    )
    entry = {"command": hook.line(), "timeout": _SECONDS}
    return Hooks("cursor", dict.fromkeys(events, entry), grouped=False, version=1)


_LIKE_CLAUDE = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")

_PARENTS = {"GEMINI_CLI_HOME": ".gemini", "XDG_CONFIG_HOME": "opencode"}
"""Variables that name the parent of an agent's directory, and its name there."""

AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "claude",
            ".claude",
            "CLAUDE_CONFIG_DIR",
            "settings.json",
            ".claude.json",
            ".claude/settings.local.json",
            ".mcp.json",
            _hooks("claude-code", *_LIKE_CLAUDE, timeout=_SECONDS),
            _server("mcpServers", type="stdio"),
            "Sessions that start from now on have it; /hooks and /mcp show it.",
        ),
        Agent(
            "codex",
            "codex",
            ".codex",
            "CODEX_HOME",
            "hooks.json",
            "config.toml",
            ".codex/hooks.json",
            ".codex/config.toml",
            _hooks("codex", *_LIKE_CLAUDE, timeout=_SECONDS),
            _server("mcp_servers"),
            "Codex runs no new or changed hook before you trust it: start codex and type /hooks.",
        ),
        Agent(
            "gemini",
            "gemini",
            ".gemini",
            "GEMINI_CLI_HOME",
            "settings.json",
            "settings.json",
            ".gemini/settings.json",
            ".gemini/settings.json",
            _hooks(
                "gemini",
                # PreCompress comes in each turn, and AfterAgent commits the turn.
                *("SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"),
                name=NAME,
                timeout=_SECONDS * 1000,
            ),
            _server("mcpServers"),
            "Gemini CLI runs hooks in folders that you trust.",
        ),
        Agent(
            "cursor",
            "cursor",
            ".cursor",
            "",
            "hooks.json",
            "mcp.json",
            ".cursor/hooks.json",
            ".cursor/mcp.json",
            _cursor_hooks,
            _server("mcpServers"),
            "Cursor takes memories at a session's start, and by the tools of MCP; not at a prompt.",
        ),
        Agent(
            "opencode",
            "opencode",
            ".config/opencode",
            "XDG_CONFIG_HOME",
            "plugins/vikingd.js",
            "opencode.json",
            ".opencode/plugins/vikingd.js",
            "opencode.json",
            None,
            _OpenCodeServer,
            "Start OpenCode anew: it loads plugins at its start.",
        ),
    )
}
"""The agents by name."""
