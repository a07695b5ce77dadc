"""Gemini CLI: hooks of settings.json, as docs/hooks/reference.md of version 0.61 states them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from vikingd.hooks.agent_events import AgentEvent, EventKind, Message
from vikingd.hooks.event_fields import text_of

NAME = "gemini"

ADDS_AT = frozenset({EventKind.START, EventKind.PROMPT})
"""The events at which the agent takes a text for the model's context."""

_KINDS = {
    "SessionStart": EventKind.START,
    "BeforeAgent": EventKind.PROMPT,
    "AfterAgent": EventKind.STOP,
    "PreCompress": EventKind.COMPACT,
    "SessionEnd": EventKind.END,
}

_ADDED = re.compile(r"\A(?:<hook_context>.*?</hook_context>\s*)+", re.DOTALL)
"""The texts of hooks at a start, which a run without a terminal puts before its prompt."""


def parse(given: Mapping[str, Any], name: str) -> AgentEvent:
    """Return an event; see `AgentProtocol.parse`.

    AfterAgent repeats the prompt of its turn, which BeforeAgent gave already. It is left out.
    """
    name = text_of(given, "hook_event_name") or name
    kind = _KINDS.get(name, EventKind.OTHER)
    prompt = text_of(given, "prompt") if kind is EventKind.PROMPT else ""
    return AgentEvent(
        NAME,
        kind,
        session=text_of(given, "session_id"),
        directory=text_of(given, "cwd"),
        prompt=_ADDED.sub("", prompt),
        response=text_of(given, "prompt_response"),
        source=text_of(given, "source"),
        name=name,
    )


def render(event: AgentEvent, text: str) -> str:
    """Return the answer to an event; see `AgentProtocol.render`."""
    if not text or event.kind not in ADDS_AT:
        return "{}"
    added = {"hookEventName": event.name, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": added})


def message(record: Mapping[str, Any]) -> Message | None:  # noqa: ARG001
    """Return None: the form of Gemini CLI's transcript is not documented."""
    return None
