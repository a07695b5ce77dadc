"""Cursor: hooks.json of version 1, as cursor.com/docs/hooks states it in 2026."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vikingd.hooks.agent_events import AgentEvent, EventKind, Message
from vikingd.hooks.event_fields import text_of

NAME = "cursor"

ADDS_AT = frozenset({EventKind.START})
"""The events at which the agent takes a text for the model's context; not at a prompt."""

_KINDS = {
    "sessionStart": EventKind.START,
    "beforeSubmitPrompt": EventKind.PROMPT,
    "afterAgentResponse": EventKind.RESPONSE,
    "stop": EventKind.STOP,
    "preCompact": EventKind.COMPACT,
    "sessionEnd": EventKind.END,
}


def parse(given: Mapping[str, Any], name: str) -> AgentEvent:
    """Return an event; see `AgentProtocol.parse`.

    The directory is the first one of the workspace. Cursor's sessions always start anew.
    """
    name = text_of(given, "hook_event_name") or name
    kind = _KINDS.get(name, EventKind.OTHER)
    roots = given.get("workspace_roots") or []
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise ValueError("workspace_roots is no list of texts")
    return AgentEvent(
        NAME,
        kind,
        session=text_of(given, "conversation_id") or text_of(given, "session_id"),
        directory=roots[0] if roots else "",
        prompt=text_of(given, "prompt"),
        response=text_of(given, "text") if kind is EventKind.RESPONSE else "",
        source="startup" if kind is EventKind.START else "",
        name=name,
    )


def render(event: AgentEvent, text: str) -> str:
    """Return the answer to an event; see `AgentProtocol.render`.

    For a prompt, the text is dropped: Cursor takes no text there.
    """
    if event.kind is EventKind.PROMPT:
        return '{"continue": true}'
    if not text or event.kind not in ADDS_AT:
        return "{}"
    return json.dumps({"additional_context": text})


def message(record: Mapping[str, Any]) -> Message | None:  # noqa: ARG001
    """Return None: the form of Cursor's transcript is not documented."""
    return None
