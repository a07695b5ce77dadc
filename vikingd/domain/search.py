"""The domain of Search: a task with its session, the plan and its result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from vikingd.domain.contexts import ContextType
from vikingd.domain.find import FindQuery, FindResult, Match, Rerank
from vikingd.domain.stages import Stage


class SearchMode(IntEnum):
    """Who has the last word on the order: scores by meaning and words, or a reranker."""

    QUICK = 1
    THINKING = 2


class PlanSource(IntEnum):
    """Who planned a search."""

    MODEL = 1
    RULES = 2
    NONE = 3


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """One message of a session."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SearchSession:
    """What was said before a search."""

    summary: str = ""
    messages: tuple[SessionMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """One query of a plan; UNSPECIFIED looks everywhere, priority 1 is the most important of 5."""

    query: str
    context_type: ContextType
    intent: str = ""
    priority: int = 3


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What a task needs to know, by priority; without queries there is nothing to look up.

    `notes` say what was left out of the session and of the plan; `model` is "" where none is
    configured, or there is no session.
    """

    source: PlanSource
    reason: str
    queries: tuple[TypedQuery, ...]
    notes: tuple[str, ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A task with its session, checked; see SearchRequest in the proto for each field."""

    text: str
    session: SearchSession
    find: FindQuery  # what each query of the plan has from the request, with an empty text


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a task needs to know: one result a URI, by falling score, ties by URI.

    `found` are the answers to the plan's queries, in its order.
    """

    plan: QueryPlan
    found: tuple[FindResult, ...]
    matches: tuple[Match, ...]
    revision: int
    rerank: Rerank
    stages: tuple[Stage, ...]
    degraded: tuple[str, ...] = ()
