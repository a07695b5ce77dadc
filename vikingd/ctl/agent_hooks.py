"""The hooks of vikingd in the settings of coding agents, as parts of a file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vikingd.system.settings_files import table

_PROGRAMS = ("vikingctl", "vikingd.ctl.main")


class Hooks:
    """The part of a settings file that makes the agent run `vikingctl hook` at events.

    Other hooks stay. A hook of vikingd is recognized by its command, so an older one is replaced.
    """

    def __init__(
        self,
        agent: str,
        entries: Mapping[str, Mapping[str, Any]],
        *,
        grouped: bool = True,
        version: int | None = None,
    ) -> None:
        """Declare hooks.

        Args:
            agent: the name of the agent in the command.
            entries: the entry of each event, with its `command`.
            grouped: True if the agent has entries in groups, each with a list `hooks`.
            version: the value that the key `version` of the file must have; None: no such key.
        """
        self._agent, self._entries = agent, entries
        self._grouped, self._version = grouped, version

    def put(self, whole: Any) -> None:
        """Write the hooks into `whole`, the parsed settings file of the agent.

        They take the place of older ones of vikingd. Hooks of others stay. See `Part.put`.

        Raises:
            ValueError: the settings have a wrong form.
        """
        if self._version is not None:
            table(whole, "").setdefault("version", self._version)
        hooks = table(table(whole, "").setdefault("hooks", {}), "hooks")
        for event in [*hooks]:
            if event not in self._entries:
                self._take(hooks, event)
        for event, entry in self._entries.items():
            found = _list(hooks.setdefault(event, []), event)
            at = next((i for i, one in enumerate(found) if self._ours(one)), len(found))
            own = {"hooks": [dict(entry)]} if self._grouped else dict(entry)
            before = len(found[:at])
            kept = self._others(found)
            hooks[event] = [*kept[:before], own, *kept[before:]]

    def take(self, whole: Any) -> None:
        """Remove the hooks of vikingd from `whole`, the parsed settings; see `Part.take`.

        Raises:
            ValueError: the settings have a wrong form.
        """
        if "hooks" in table(whole, ""):
            hooks = table(whole["hooks"], "hooks")
            for event in [*hooks]:
                self._take(hooks, event)
            if not hooks:
                del whole["hooks"]
        if self._version is not None and whole == {"version": self._version}:
            del whole["version"]

    def is_in(self, whole: Any) -> bool:
        """Return True if `whole`, the parsed settings, has at least one hook of vikingd."""
        hooks = table(table(whole, "").get("hooks", {}), "hooks")
        return any(
            self._ours(one) for found in hooks.values() if isinstance(found, list) for one in found
        )

    def _take(self, hooks: Any, event: str) -> None:
        if isinstance(hooks[event], list):
            hooks[event] = self._others(hooks[event])
            if not hooks[event]:
                del hooks[event]

    def _others(self, found: Sequence[Any]) -> list[Any]:
        """Return the entries or groups of an event without vikingd's."""
        if not self._grouped:
            return [one for one in found if not self._ours(one)]
        others = []
        for group in found:
            if not self._ours(group):
                others.append(group)
            elif left := [one for one in group["hooks"] if not self._is_own(one)]:
                others.append({**group, "hooks": left})
        return others

    def _ours(self, one: Any) -> bool:
        """Return True for a hook of vikingd, or for a group that contains one."""
        if not self._grouped:
            return self._is_own(one)
        inner = one.get("hooks") if isinstance(one, dict) else None
        return isinstance(inner, list) and any(map(self._is_own, inner))

    def _is_own(self, entry: Any) -> bool:
        command = entry.get("command") if isinstance(entry, dict) else None
        return isinstance(command, str) and is_hook(command, self._agent)


def is_hook(command: str, agent: str) -> bool:
    """Return True for a shell command `vikingctl hook AGENT`, with any path of vikingctl."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return any(
        words[i].rpartition("/")[2] in _PROGRAMS and words[i + 1 : i + 3] == ["hook", agent]
        for i in range(len(words))
    )


def _list(value: Any, name: str) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"{name} is no list")
    return value
