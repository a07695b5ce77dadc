"""The question to the model: a constant prompt, and the conversation as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from vikingd.domain.extract import MemoryKind
from vikingd.domain.search import SearchSession
from vikingd.models.chat.question import STRING, Question, record, schema

PROMPT = "prompt_v1.md"
"""The file of the prompt; a new wording gets a new file."""

SYSTEM = files("vikingd.models.extract").joinpath(PROMPT).read_bytes().decode()

MAX_SUMMARY_CHARS = 30_000
MAX_MESSAGE_CHARS = 8_000
MAX_CHARS = 200_000
"""Characters of all messages."""
CONTEXT_MESSAGES = 10
"""Messages before the first to read, at most."""
MAX_TOKENS = 4096

_NUMBER = {"type": "integer"}
_MEMORY = record(
    {
        "kind": {"type": "string", "enum": [kind.name.lower() for kind in MemoryKind]},
        "text": STRING,
        "evidence": {"type": "array", "items": _NUMBER},
        "section": STRING,
        "replaces": _NUMBER,
    }
)
RESPONSE_FORMAT = schema("memories", {"memories": {"type": "array", "items": _MEMORY}})


@dataclass(frozen=True, slots=True)
class Known:
    """An older memory that the model may replace."""

    id: int
    kind: MemoryKind
    uri: str
    text: str


def question(
    session: SearchSession, first: int, known: Sequence[Known]
) -> tuple[Question, tuple[str, ...]]:
    """Return the question, and notes on the parts of the session that it leaves out.

    Messages have their indices as numbers. Known memories are numbered from 1.
    """
    notes = []
    summary = session.summary[-MAX_SUMMARY_CHARS:]
    if cut := len(session.summary) - len(summary):
        notes.append(f"the first {cut:,} characters of the summary were left out")
    begin = max(first - CONTEXT_MESSAGES, 0)
    messages, left, shortened = [], MAX_CHARS, 0
    for number in range(len(session.messages) - 1, begin - 1, -1):
        message = session.messages[number]
        content = message.content[:MAX_MESSAGE_CHARS]
        if len(content) > left:
            if number >= first:
                notes.append(f"the model did not read messages {first} to {number}: too long")
            break
        left -= len(content)
        shortened += number >= first and len(content) < len(message.content)
        one = {"number": number, "role": message.role, "content": content}
        messages.append(one | ({"context": True} if number < first else {}))
    if shortened:
        notes.append(
            f"of {shortened} messages the first {MAX_MESSAGE_CHARS:,} characters were read"
        )
    data = {
        "summary": summary,
        "messages": messages[::-1],
        "known": [
            {"number": i, "kind": one.kind.name.lower(), "text": one.text}
            for i, one in enumerate(known, start=1)
        ],
    }
    text = json.dumps(data, ensure_ascii=False)
    return Question(SYSTEM, text, RESPONSE_FORMAT, MAX_TOKENS), tuple(notes)
