"""A model's answer: the errors of a call, and the checks of the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from vikingd.domain.contexts import ContextType
from vikingd.domain.search import TypedQuery

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
_FENCED = re.compile(r"```[A-Za-z]*[ \t]*\r?\n(.*)\n```", re.DOTALL)

# Includes marks of text direction, and surrogates, which UTF-8 cannot encode.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


# No message of these errors quotes the model or its endpoint.


class Garbage(Exception):
    """A reply that is not a plan."""


class Refused(Exception):
    """A refusal by the model, or by a filter before it."""


class CallFailed(Exception):
    """A call without an answer.

    Attributes:
        wait: seconds before a retry; None: a retry would not help.
        pause: seconds that the endpoint asked to wait; None: it asked for none.
    """

    def __init__(self, message: str, wait: float | None = None, pause: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait
        self.pause = pause


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked plan; `notes` tell what was dropped or changed."""

    reason: str
    queries: tuple[TypedQuery, ...]
    notes: tuple[str, ...]


def read_answer(text: str) -> Answer:
    """Return the plan in a model's answer: one JSON object, bare or in one fenced block.

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
    reason = _plain(plan.get("reason"))[:MAX_REASON_CHARS]
    if not reason:
        reason = "the model gave no reason" if chosen else "nothing to look up"
    return Answer(reason, tuple(chosen[:MAX_QUERIES]), tuple(notes))


def read_json(text: str) -> Any:
    """Return the value of a JSON text, bare or in one fenced block.

    Raises:
        Garbage: the text is not JSON, or nested too deeply.
    """
    text = text.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        raise Garbage("not JSON") from None


def _not_json(constant: str) -> NoReturn:
    raise ValueError(constant)


def _usable(given: list[Any], notes: list[str]) -> Iterator[tuple[int, TypedQuery]]:
    """Yield each usable query with its number in the answer."""
    for number, item in enumerate(given, 1):
        fields = item if isinstance(item, dict) else {}
        text = _plain(fields.get("query"))
        kind = _TYPES.get(_plain(fields.get("context_type")).casefold())
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
            intent = _plain(fields.get("intent"))[:MAX_INTENT_CHARS]
            yield number, TypedQuery(text, kind, intent, priority)


def _plain(value: Any) -> str:
    """Return a string without control characters; "" for any other value."""
    return _CONTROL.sub(" ", value).strip() if isinstance(value, str) else ""
