"""The question to a model for the memories in a conversation, and the check of its answer's form.

The evidence in an answer is checked elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vikingd.domain.extract import MAX_MEMORIES, MemoryKind, Proposal, Refusal
from vikingd.domain.search_query import SearchSession
from vikingd.domain.text import without_invisible
from vikingd.models.chat.call_errors import Garbage
from vikingd.models.chat.chat_question import (
    MAX_MESSAGE_CHARS,
    MAX_SUMMARY_CHARS,
    STRING,
    Question,
    prompt_of,
    record,
    schema,
)
from vikingd.models.chat.json_answer import plain, read_json

SYSTEM = prompt_of("vikingd.models.extract")

MAX_CHARS = 200_000
"""The most characters of all messages of a question together."""
CONTEXT_MESSAGES = 10
"""The most earlier messages that a question shows before the first one to read."""
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
    """Return the question, and notes for people on parts of the session that it leaves out.

    Messages are numbered by their indices. Known memories are numbered from 1.
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


MAX_TEXT_CHARS = 4_000
_KINDS = {kind.name.lower(): kind for kind in MemoryKind}


def reader(
    known: Sequence[Known],
) -> Callable[[str], tuple[tuple[Proposal, ...], tuple[Refusal, ...]]]:
    """Return a function that parses an answer into (proposals, refused proposals).

    It raises Garbage if the answer has no list of memories, or no usable memory.
    """

    def read(text: str) -> tuple[tuple[Proposal, ...], tuple[Refusal, ...]]:
        answer = read_json(text)
        given = answer.get("memories") if isinstance(answer, dict) else None
        if not isinstance(given, list):
            raise Garbage("without a list of memories")
        proposals: dict[str, Proposal] = {}
        refused: list[Refusal] = []
        for item in given:
            made = _read(item, known)
            if isinstance(made, Refusal):
                refused.append(made)
            elif len(proposals) == MAX_MEMORIES:
                why = f"only {MAX_MEMORIES} memories are taken from one call"
                refused.append(Refusal(made.kind, made.text, made.evidence, why))
            else:
                proposals.setdefault("".join(made.text.casefold().split()), made)
        if given and not proposals and all(one.kind is None for one in refused):
            raise Garbage("without a memory that can be used")
        return tuple(proposals.values()), tuple(refused[:MAX_MEMORIES])

    return read


def _read(item: Any, known: Sequence[Known]) -> Proposal | Refusal:
    fields = item if isinstance(item, dict) else {}
    text = without_invisible(plain(fields.get("text")))
    kind = _KINDS.get(plain(fields.get("kind")).casefold())
    given = fields.get("evidence")
    numbers = given if isinstance(given, list) else []
    evidence = tuple(
        dict.fromkeys(number for number in numbers if type(number) is int and number >= 0)
    )
    if kind is None:
        return Refusal(None, text, (), "the kind is unknown")
    if not text:
        return Refusal(kind, "", (), "the text is empty")
    if len(text) > MAX_TEXT_CHARS:
        why = f"the text has {len(text):,} characters, more than {MAX_TEXT_CHARS:,}"
        return Refusal(kind, text, (), why)
    if len(evidence) != len(numbers):
        return Refusal(kind, text, (), "the evidence is no list of different numbers of messages")
    number: Any = fields.get("replaces")
    is_known = isinstance(number, int) and 1 <= number <= len(known)
    replaces = known[number - 1].id if is_known else 0
    return Proposal(kind, text, evidence, plain(fields.get("section")), replaces)
