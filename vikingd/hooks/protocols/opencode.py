"""OpenCode: events of the plugin in `vikingd/hooks/agents/opencode_plugin.js`, in its own form.

OpenCode has no hooks that are commands. The plugin runs one for each event, names the event as
`EventKind` does, and writes `session`, `directory`, and `source`, `prompt` or `response`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from vikingd.hooks.agent_events import AgentEvent, EventKind, Message
from vikingd.hooks.event_fields import text_of

NAME = "opencode"

ADDS_AT = frozenset({EventKind.START, EventKind.PROMPT})
"""The events at which the agent takes a text for the model's context."""

_QUOTED = re.compile(r'\A"((?:[^"\\]|\\.)*)"\Z', re.DOTALL)
"""A prompt of `opencode run`, which puts an argument with blanks between quotes."""

_KINDS = {kind.value: kind for kind in EventKind}


def parse(given: Mapping[str, Any], name: str) -> AgentEvent:
    """Return an event; see `AgentProtocol.parse`."""
    prompt = text_of(given, "prompt")
    if quoted := _QUOTED.match(prompt):
        prompt = quoted[1].replace('\\"', '"')
    return AgentEvent(
        NAME,
        _KINDS.get(name, EventKind.OTHER),
        session=text_of(given, "session"),
        directory=text_of(given, "directory"),
        prompt=prompt,
        response=text_of(given, "response"),
        source=text_of(given, "source"),
        name=name,
    )


def render(event: AgentEvent, text: str) -> str:
    """Return the answer to an event; see `AgentProtocol.render`."""
    return json.dumps({"context": text}) if text and event.kind in ADDS_AT else "{}"


def message(record: Mapping[str, Any]) -> Message | None:  # noqa: ARG001
    """Return None: OpenCode has no transcript, since the plugin sends the words of both sides."""
    return None
