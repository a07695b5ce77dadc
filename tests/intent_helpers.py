"""A chat endpoint for tests of the planner: what it is told, what it answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from scripted import Reply, Request, ScriptedServer

from vikingd.domain.contexts import ContextType
from vikingd.domain.search import PlanSource, QueryPlan, SearchSession, SessionMessage, TypedQuery
from vikingd.models.intent.planner import Planner
from vikingd.models.intent.settings import PlannerSettings

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
    """A chat completion with this text; `finish_reason` and fields of the message may be given."""
    finish = message.pop("finish_reason", "stop")
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def planned(*queries: Any, **fields: Any) -> Reply:
    """A well-formed plan, as an endpoint sends it."""
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
    """Answers with one after the other, then always with the last."""
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
    """Planning with a server: what came of it."""

    server: ScriptedServer
    took: list[tuple[str, float]] = field(default_factory=list)

    def settings(self, **changes: Any) -> PlannerSettings:
        """Of a planner that asks this server."""
        return PlannerSettings(**{"base_url": f"{self.server.url}/v1", "model": "m", **changes})

    def planner(self, **changes: Any) -> Planner:
        """A planner that asks this server and tells how long that took."""
        return Planner(self.settings(**changes), lambda *told: self.took.append(told))

    def run(self, work: Callable[[Planner], Awaitable[T]], **changes: Any) -> T:
        """Does some work with a planner of its own."""

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
        """One plan."""
        return self.run(lambda planner: planner.plan(query, session, seconds), **changes)


def fell_back(plan: QueryPlan, reason: str) -> None:
    """Asserts that rules planned, for this reason, after the model was asked."""
    assert plan.source is RULES
    assert plan.reason == f"{reason}: planned by rules (work to be done)"
    assert [(q.context_type, q.query, q.priority) for q in plan.queries] == BY_RULES
    assert plan.model == "m"
