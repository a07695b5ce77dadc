"""The question to a model for a plan of queries, and the check of its answer.

The session is in the question as data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vikingd.domain.contexts import ContextType
from vikingd.domain.search_query import SearchSession, TypedQuery
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

SYSTEM = prompt_of("vikingd.models.intent")

LAST_MESSAGES = 5
MAX_TOKENS = 2048

MAX_QUERIES = 5
MAX_QUERY_CHARS = 1000
MAX_INTENT_CHARS = 200
MAX_REASON_CHARS = 500
MAX_NOTES = 10
DEFAULT_PRIORITY = 3

_TYPES = {
    "memory": ContextType.MEMORY,
    "resource": ContextType.RESOURCE,
    "skill": ContextType.SKILL,
}

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


def question(query: str, session: SearchSession) -> tuple[Question, tuple[str, ...]]:
    """Return the question, and notes for people on parts of the session that it leaves out.

    Its text is a JSON object with the query, the end of the summary and the beginnings of the last
    five messages.
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
    text = json.dumps(data, ensure_ascii=False)
    return Question(SYSTEM, text, RESPONSE_FORMAT, MAX_TOKENS), tuple(notes)


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked plan; `notes` say what was dropped or changed."""

    reason: str
    queries: tuple[TypedQuery, ...]
    notes: tuple[str, ...]


def read_answer(text: str) -> Answer:
    """Parse the plan in a model's answer: a JSON object, which may be in a fenced block.

    Raises:
        Garbage: there is no plan, or none of its queries can be used.
    """
    plan = read_json(text)
    if not isinstance(plan, dict):
        raise Garbage("not a JSON object")
    given = plan.get("queries")
    if not isinstance(given, list):
        raise Garbage("without a list of queries")
    notes: list[str] = []
    queries = list(_usable(given, notes))
    if given and not queries:
        raise Garbage("without a query that can be used")
    queries.sort(key=lambda numbered: numbered[1].priority)
    seen: dict[tuple[ContextType, str], TypedQuery] = {}
    for number, query in queries:
        words = "".join(query.query.casefold().split())
        if seen.setdefault((query.context_type, words), query) is not query:
            notes.append(f"query {number} was dropped: another asks the same")
    chosen = list(seen.values())
    if len(notes) > MAX_NOTES:
        more = len(notes) - MAX_NOTES + 1
        notes[MAX_NOTES - 1 :] = [f"{more} more queries were dropped or changed"]
    if len(chosen) > MAX_QUERIES:
        notes.append(
            f"{len(chosen)} queries were planned: the first {MAX_QUERIES} by priority stay"
        )
    reason = plain(plan.get("reason"))[:MAX_REASON_CHARS]
    if not reason:
        reason = "the model gave no reason" if chosen else "nothing to look up"
    return Answer(reason, tuple(chosen[:MAX_QUERIES]), tuple(notes))


def _usable(given: list[Any], notes: list[str]) -> Iterator[tuple[int, TypedQuery]]:
    """Yield (number in the answer, query) of each query that can be used."""
    for number, item in enumerate(given, 1):
        fields = item if isinstance(item, dict) else {}
        text = plain(fields.get("query"))
        kind = _TYPES.get(plain(fields.get("context_type")).casefold())
        if not text:
            notes.append(f"query {number} was dropped: it has no text")
        elif kind is None:
            notes.append(f"query {number} was dropped: its type is not memory, resource or skill")
        elif len(text) > MAX_QUERY_CHARS:
            notes.append(
                f"query {number} was dropped: it has {len(text):,} characters, "
                f"more than {MAX_QUERY_CHARS:,}"
            )
        else:
            priority = fields.get("priority")
            if type(priority) is not int or not 1 <= priority <= 5:  # True is an int too
                notes.append(f"query {number} has no priority from 1 to 5: {DEFAULT_PRIORITY}")
                priority = DEFAULT_PRIORITY
            intent = plain(fields.get("intent"))[:MAX_INTENT_CHARS]
            yield number, TypedQuery(text, kind, intent, priority)
