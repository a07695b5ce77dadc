"""Codex: https://developers.openai.com/codex/hooks, and its schemas, as of October 2026.

The transcript is the rollout of the session. Its events have what the user typed and what the
assistant showed. Its other records have the context that Codex adds by itself, and tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vikingd.hooks.agent_events import AgentEvent, EventKind, Message
from vikingd.hooks.protocols import claude_code

NAME = "codex"

ADDS_AT = frozenset({EventKind.START, EventKind.PROMPT})
"""The events at which the agent takes a text for the model's context."""

_ROLES = {
    "user_message": "user",
    "agent_message": "assistant",
    "UserMessage": "user",  # of an item, as of 0.171
    "AgentMessage": "assistant",
}
_ADDED = ("# Context from my IDE setup:", "# Files mentioned by the user:")
"""The beginnings of what an editor puts before a prompt."""

_REQUEST = "## My request for Codex:"
_HARNESS = ("# AGENTS.md instructions", "<environment_context>", "<user_instructions>")


def parse(given: Mapping[str, Any], name: str) -> AgentEvent:
    """Return an event; see AgentProtocol. The fields are those of Claude Code, and `turn_id`."""
    event = claude_code.parsed(NAME, given, name)
    if event.prompt:
        event = event._replace(prompt=_typed(event.prompt))
    if event.name == "Interrupt" and not given.get("agent_id"):
        return event._replace(kind=EventKind.STOP)
    return event


def render(event: AgentEvent, text: str) -> str:
    """Return the answer to an event; see AgentProtocol. The agent ignores an empty answer."""
    return claude_code.render(event, text)


def message(record: Mapping[str, Any]) -> Message | None:
    """Return the message of a record of the rollout; see AgentProtocol."""
    said = record.get("payload")
    if record.get("type") != "event_msg" or not isinstance(said, dict):
        return None
    kind, text = said.get("type"), said.get("message")
    if kind == "item_completed" and isinstance(item := said.get("item"), dict):
        kind, text = item.get("type"), _shown(item.get("content"))
    role = _ROLES.get(str(kind))
    if role is None or not isinstance(text, str):
        return None
    text = _typed(text) if role == "user" else text.strip()
    return Message(role, text, claude_code.seconds(record.get("timestamp"))) if text else None


def _shown(content: object) -> str:
    """Return the texts of a message, without images and other parts."""
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _typed(text: str) -> str:
    """Return the part of a prompt that the user typed, without text that the program added."""
    if text.startswith(_HARNESS):
        return ""
    if text.startswith(_ADDED):
        text = text.partition(_REQUEST)[2]
    return text.strip()
