"""Claude Code: https://code.claude.com/docs/en/hooks, as of version 2.1.

The form of the transcript is not documented. Kinds of records and their fields are those of
version 2.1; what is not known is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from vikingd.hooks.agent_events import AgentEvent, EventKind, Message
from vikingd.hooks.event_fields import text_of

NAME = "claude-code"

ADDS_AT = frozenset({EventKind.START, EventKind.PROMPT})
"""The events at which the agent takes a text for the model's context."""

_KINDS = {
    "SessionStart": EventKind.START,
    "UserPromptSubmit": EventKind.PROMPT,
    "Stop": EventKind.STOP,
    "StopFailure": EventKind.STOP,
    "PreCompact": EventKind.COMPACT,
    "SessionEnd": EventKind.END,
}
_NOT_SAID = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
"""Fields of records of the harness, of subagents, of summaries and of errors."""

_HARNESS = re.compile(
    r"<(?:command-|local-command-|bash-|task-notification|cross-session-message|teammate-message)"
    r"|\[Request interrupted by user|Caveat: The messages below"
)
"""The beginning of a text that the harness wrote in the place of the user."""

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def parse(given: Mapping[str, Any], name: str) -> AgentEvent:
    """Return an event; see AgentProtocol.

    Cursor can run the hooks of Claude Code besides its own, which report the same events. Then only
    Cursor's own hooks count.
    """
    event = parsed(NAME, given, name)
    return event._replace(kind=EventKind.OTHER) if "cursor_version" in given else event


def parsed(agent: str, given: Mapping[str, Any], name: str) -> AgentEvent:
    """Return an event of an agent whose JSON has the form of Claude Code."""
    name = name or text_of(given, "hook_event_name")
    kind = _KINDS.get(name, EventKind.OTHER)
    if given.get("agent_id"):  # of a subagent: neither the user's words nor a whole turn
        kind = EventKind.OTHER
    prompt = text_of(given, "prompt") if kind is EventKind.PROMPT else ""
    return AgentEvent(
        agent,
        kind,
        session=text_of(given, "session_id"),
        directory=text_of(given, "cwd"),
        prompt="" if _HARNESS.match(prompt) else prompt,
        # After a failure of the API this is the text of the error.
        response=text_of(given, "last_assistant_message") if name != "StopFailure" else "",
        transcript=text_of(given, "transcript_path"),
        source=text_of(given, "source"),
        name=name,
    )


def render(event: AgentEvent, text: str) -> str:
    """Return the answer to an event; see AgentProtocol. The agent ignores an empty answer."""
    if not text:
        return ""
    added = {"hookEventName": event.name, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": added}, ensure_ascii=False)


def message(record: Mapping[str, Any]) -> Message | None:
    """Return the message of a record of the transcript; see AgentProtocol."""
    kind = record.get("type")
    said = record.get("message")
    if kind == "attachment":  # a prompt that the user typed while a turn ran
        said = record.get("attachment")
        if not isinstance(said, dict) or said.get("commandMode") != "prompt":
            return None
        origin = said.get("origin")
        if said.get("isMeta") or (isinstance(origin, dict) and origin.get("kind") != "human"):
            return None
        said = {"content": said.get("prompt")}
        kind = "user"
    if kind not in ("user", "assistant") or not isinstance(said, dict):
        return None
    if any(map(record.get, _NOT_SAID)):
        return None
    text = _written_text(said.get("content"), from_user=kind == "user")
    return Message(kind, text, seconds(record.get("timestamp"))) if text else None


def seconds(stamp: object) -> float:
    """Convert ISO 8601 to seconds since 1970; 0 for any other value."""
    from datetime import datetime  # it takes a millisecond, and commits alone need it

    try:
        return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0


def _written_text(content: object, *, from_user: bool) -> str:
    """Return the text that the user or the assistant wrote, in a message's content.

    Tool results, thinking and text that the program added give "".
    """
    texts = list[str]()
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, dict):
            if block.get("type") == "tool_result":
                return ""
            block = block.get("text") if block.get("type") == "text" else None
        if isinstance(block, str):
            texts.append(block)
    if not from_user:
        return "\n".join(texts).strip()
    texts = [_REMINDER.sub("", text).strip() for text in texts]
    return "\n".join(text for text in texts if text and not _HARNESS.match(text))
