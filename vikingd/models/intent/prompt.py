"""What the model is asked: a constant prompt, and the session as data beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from vikingd.domain.search import SearchSession

PROMPT = "prompt_v1.md"
"""The prompt's file; another wording is another file."""

SYSTEM = files("vikingd.models.intent").joinpath(PROMPT).read_bytes().decode()

MAX_SUMMARY_CHARS = 30_000
MAX_MESSAGE_CHARS = 8_000
LAST_MESSAGES = 5

# Strict schemas know no bounds of lengths at many servers: what is too much is dropped afterwards.
RESPONSE_FORMAT: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "query_plan",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "reason": {"type": "string"},
                "queries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "query": {"type": "string"},
                            "context_type": {
                                "type": "string",
                                "enum": ["memory", "resource", "skill"],
                            },
                            "intent": {"type": "string"},
                            "priority": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
                        },
                        "required": ["query", "context_type", "intent", "priority"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["reason", "queries"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, slots=True)
class Question:
    """The user message, a JSON object, and notes on what of the session is not in it."""

    text: str
    notes: tuple[str, ...]


def question(query: str, session: SearchSession) -> Question:
    """The query with the summary's end and the last five messages, each from its beginning."""
    notes = []
    summary = session.summary[-MAX_SUMMARY_CHARS:]
    if cut := len(session.summary) - len(summary):
        notes.append(
            f"the summary has {len(session.summary):,} characters: the first {cut:,} were left out"
        )
    first = max(len(session.messages) - LAST_MESSAGES, 0)
    messages = []
    for number, message in enumerate(session.messages[first:], first + 1):
        content = message.content[:MAX_MESSAGE_CHARS]
        if cut := len(message.content) - len(content):
            notes.append(
                f"message {number} of the session has {len(message.content):,} characters: "
                f"the last {cut:,} were left out"
            )
        messages.append({"role": message.role, "content": content})
    data = {"summary": summary, "messages": messages, "query": query}
    return Question(json.dumps(data, ensure_ascii=False), tuple(notes))
