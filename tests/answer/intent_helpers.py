"""A chat endpoint for tests of the planner, with its scripts and replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.scripted import Reply, Request, ScriptedServer
from vikingd.domain.contexts import ContextType
from vikingd.domain.search_query import (
    PlanSource,
    QueryPlan,
    SearchSession,
    SessionMessage,
    TypedQuery,
)
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.intent.planner import Planner

T = TypeVar("T")

SESSION = SearchSession("They write an RFC.", (SessionMessage("user", "It is about caching."),))
TASK = "Create an RFC document"
PLANNED = {
    "query": "Create RFC document",
    "context_type": "skill",
    "intent": "to write it",
    "priority": 1,
}


def completion(content: Any, **message: Any) -> dict[str, Any]:
    """Return a chat completion with this text; `message` sets other fields or `finish_reason`."""
    finish = message.pop("finish_reason", "stop")
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def planned(*queries: Any, **fields: Any) -> Reply:
    """Return a reply with a well-formed plan."""
    plan = {"reason": "because", "queries": list(queries or [PLANNED]), **fields}
    return Reply(completion(json.dumps(plan)))


def planning(*queries: tuple[str, str], reason: str = "because") -> Callable[[Request], Reply]:
    """Return the script of a model that plans these (type, query), the most important first."""
    plan = [
        {"query": query, "context_type": kind, "intent": "to know", "priority": priority}
        for priority, (kind, query) in enumerate(queries, 1)
    ]
    reply = Reply(completion(json.dumps({"reason": reason, "queries": plan})))
    return lambda _: reply


def in_turn(*replies: Reply) -> Callable[[Request], Reply]:
    """Return a script that answers with each reply in turn, and then always with the last."""
    left = list(replies)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


MODEL, RULES, NONE = PlanSource.MODEL, PlanSource.RULES, PlanSource.NONE
SKILL, RESOURCE = ContextType.SKILL, ContextType.RESOURCE

BY_MODEL = (TypedQuery("Create RFC document", SKILL, "to write it", 1),)
BY_RULES = [(SKILL, TASK, 1), (RESOURCE, TASK, 3)]
GARBAGE = Reply(completion("Sure, here is the plan!"))
NO_SCHEMA = Reply({"error": {"message": "response_format is not supported"}}, 400)


@dataclass
class Asked:
    """An endpoint of planners, with the outcomes and times of their calls."""

    server: ScriptedServer
    took: list[tuple[str, float]] = field(default_factory=list)

    def settings(self, **changes: Any) -> PlannerSettings:
        """Return the settings of a planner that calls this endpoint."""
        return PlannerSettings(**{"base_url": f"{self.server.url}/v1", "model": "m", **changes})

    def planner(self, **changes: Any) -> Planner:
        """Return a planner that calls this endpoint and reports its times."""
        return Planner(self.settings(**changes), lambda *told: self.took.append(told))

    def run(self, work: Callable[[Planner], Awaitable[T]], **changes: Any) -> T:
        """Run some work with a new planner."""

        async def main() -> T:
            planner = self.planner(**changes)
            try:
                return await work(planner)
            finally:
                await planner.close()

        return asyncio.run(main())

    def plan(
        self,
        query: str = TASK,
        session: SearchSession = SESSION,
        seconds: float | None = None,
        **changes: Any,
    ) -> QueryPlan:
        """Return one plan of a new planner."""
        return self.run(lambda planner: planner.plan(query, session, seconds), **changes)


def fell_back(plan: QueryPlan, reason: str) -> None:
    """Check that rules planned, for this reason, after the model was asked."""
    assert plan.source is RULES
    assert plan.reason == f"{reason}: planned by rules (work to be done)"
    assert [(q.context_type, q.query, q.priority) for q in plan.queries] == BY_RULES
    assert plan.model == "m"
