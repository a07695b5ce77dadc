"""The question to the model: a constant prompt, and the session as data."""

from __future__ import annotations

import json
from importlib.resources import files

from vikingd.domain.search import SearchSession
from vikingd.models.chat.question import STRING, record, schema

PROMPT = "prompt_v1.md"
"""The file of the prompt; a new wording gets a new file."""

SYSTEM = files("vikingd.models.intent").joinpath(PROMPT).read_bytes().decode()

MAX_SUMMARY_CHARS = 30_000
MAX_MESSAGE_CHARS = 8_000
LAST_MESSAGES = 5
MAX_TOKENS = 2048


_QUERY = record(
    {
        "query": STRING,
        "context_type": {"type": "string", "enum": ["memory", "resource", "skill"]},
        "intent": STRING,
        "priority": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    }
)
RESPONSE_FORMAT = schema(
    "query_plan", {"reason": STRING, "queries": {"type": "array", "items": _QUERY}}
)


def question(query: str, session: SearchSession) -> tuple[str, tuple[str, ...]]:
    """Return the user message, and notes on parts of the session that it leaves out.

    The message is a JSON object with the query, the end of the summary and the beginnings of the
    last five messages.
    """
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
    return json.dumps(data, ensure_ascii=False), tuple(notes)
