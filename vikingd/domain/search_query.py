"""The domain of Search: a task with the conversation before it, and the queries planned for it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import IntEnum

from vikingd.domain.contexts import ContextType
from vikingd.domain.find_query import FindQuery


class SearchMode(IntEnum):
    """The ranking: by scores of meaning and words (QUICK), or by a reranker (THINKING)."""

    QUICK = 1
    THINKING = 2


class PlanSource(IntEnum):
    """The maker of a plan: a model, the rules, or none."""

    MODEL = 1
    RULES = 2
    NONE = 3


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """One message of a session; `time` is in microseconds since the epoch, None if unknown."""

    role: str
    content: str
    time: int | None = None


SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of the id of a session."""


def id_of(begun: SessionMessage) -> str:
    """Return an id for a session that has none: a hash of its first message."""
    return hashlib.sha256(f"{begun.role}\0{begun.content}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class SearchSession:
    """The conversation before a search; `id` is its name, or ""."""

    summary: str = ""
    messages: tuple[SessionMessage, ...] = ()
    id: str = ""


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """One query of a plan. UNSPECIFIED searches all types; priority 1 comes first, 5 last."""

    query: str
    context_type: ContextType
    intent: str = ""
    priority: int = 3


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The queries for a task, sorted by priority; none if nothing needs to be looked up."""

    source: PlanSource
    reason: str
    queries: tuple[TypedQuery, ...]
    notes: tuple[str, ...] = ()  # parts of the session and of the plan that were left out
    model: str = ""  # "" if no model is configured, or the task has no session


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A checked task with its session; SearchRequest in the proto documents each field.

    `find` has the settings that all queries of the plan share; its text is empty.
    """

    text: str
    session: SearchSession
    find: FindQuery
