"""The recorded events of coding agents, and the schemas of the answers that their documents allow.

The events of Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0 and OpenCode 1.18.34 (of its
plugin) were recorded from these programs. Kinds that a run without a terminal does not have, and
all events of Cursor, are as their documents state them. A file is named for its event.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from vikingd.hooks.agent_events import EventKind

START, PROMPT, RESPONSE, STOP, COMPACT, END, OTHER = EventKind

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_SILENT = ("claude-code", "codex")
"""Agents for which no output is an answer that does nothing."""


class Recorded(NamedTuple):
    """An event as an agent writes it."""

    agent: str
    name: str  # of the event
    variant: str  # the rest of the file's name
    text: str

    @property
    def id(self) -> str:
        """The name in a list of tests."""
        return "-".join(filter(None, (self.agent, self.name, self.variant)))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of `vikingctl hook`; OpenCode's events have their name there."""
        return (self.agent, self.name) if self.agent == "opencode" else (self.agent,)

    @property
    def given(self) -> dict[str, Any]:
        """The JSON of the event."""
        value: dict[str, Any] = json.loads(self.text)
        return value


def _read() -> list[Recorded]:
    files = sorted(Path(__file__).with_name("recorded").glob("*/*.json"))
    return [
        Recorded(path.parent.name, name, variant, path.read_text("utf-8"))
        for path in files
        for name, _, variant in [path.stem.partition(".")]
    ]


RECORDED = _read()


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


def _adding(event: str) -> dict[str, Any]:
    """Return the schema of hookSpecificOutput with a text for the context."""
    required = ("hookEventName",)
    return _object(required, hookEventName={"const": event}, additionalContext=_TEXT)


_CODEX = {"continue": _FLAG, "stopReason": _TEXT, "suppressOutput": _FLAG, "systemMessage": _TEXT}
_CLAUDE = {**_CODEX, "terminalSequence": _TEXT}
_BLOCK = {"decision": {"const": "block"}, "reason": _TEXT}
_GEMINI = {**_CODEX, "decision": {"enum": ["allow", "deny", "block"]}, "reason": _TEXT}


def _answers(common: dict[str, Any], adding: tuple[str, ...], *others: str) -> dict[str, Any]:
    """Return the schemas by event: of those that add a text, and of those that cannot."""
    return {
        **{name: _object(**common, hookSpecificOutput=_adding(name)) for name in adding},
        **{name: _object(**common) for name in others},
    }


_LIKE_CLAUDE = ("Stop", "PreCompact", "SessionEnd")
ANSWERS: dict[str, dict[str, Any]] = {
    "claude-code": _answers(
        {**_CLAUDE, **_BLOCK},
        ("SessionStart", "UserPromptSubmit"),
        *(*_LIKE_CLAUDE, "StopFailure", "PreToolUse"),
    ),
    "codex": {
        **_answers(_CODEX, ("SessionStart",), "PreCompact", "SessionEnd"),
        **_answers({**_CODEX, **_BLOCK}, ("UserPromptSubmit",), "Stop"),
    },
    "gemini": _answers(
        _GEMINI,
        ("SessionStart", "BeforeAgent"),
        *("AfterAgent", "PreCompress", "SessionEnd", "BeforeTool"),
    ),
    "cursor": {
        "sessionStart": _object(env={"type": "object"}, additional_context=_TEXT),
        "beforeSubmitPrompt": _object(**{"continue": _FLAG}, user_message=_TEXT),
        "stop": _object(followup_message=_TEXT),
        "preCompact": _object(user_message=_TEXT),
        **{name: _object() for name in ("afterAgentResponse", "afterAgentThought", "sessionEnd")},
    },
    "opencode": {
        **{name: _object(context=_TEXT) for name in ("start", "prompt")},
        **{name: _object() for name in ("stop", "compact", "end")},
    },
}
"""JSON schemas of the answers by agent and event, from the documents that the guides name."""

ADDED = {
    "claude-code": ("hookSpecificOutput", "additionalContext"),
    "codex": ("hookSpecificOutput", "additionalContext"),
    "gemini": ("hookSpecificOutput", "additionalContext"),
    "cursor": ("additional_context",),
    "opencode": ("context",),
}
"""The place of the text for the context in an answer."""


def added(agent: str, answer: str) -> str:
    """Return the text for the context in an answer; "" without one."""
    value: Any = json.loads(answer) if answer else {}
    for key in ADDED[agent]:
        value = value.get(key, {})
    return value or ""


def check(recorded: Recorded, answer: str) -> None:
    """Check the form of an answer to an event."""
    from jsonschema import validate

    if answer == "":
        assert recorded.agent in _SILENT
        return
    validate(json.loads(answer), ANSWERS[recorded.agent][recorded.name])
