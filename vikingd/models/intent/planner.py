"""The planner of searches: a model, or rules if the model fails or is too slow."""

from __future__ import annotations

from collections.abc import Callable

from vikingd.domain.contexts import ContextType
from vikingd.domain.search_query import PlanSource, QueryPlan, SearchSession, TypedQuery
from vikingd.models.chat.chat_model import ChatModel, NotAnswered
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.intent import plan_rules
from vikingd.models.intent.planner_question import question, read_answer


class Planner:
    """Plans searches, concurrently on one event loop.

    Args:
        record_call: a callback for metrics. It gets the outcome (DONE or FAILED) and the duration
            in seconds of each call of the model.

    Raises:
        ValueError: a setting of the model is missing; the message names it.

    Attributes:
        model: the model that plans; the extractor asks it, too.
    """

    def __init__(
        self,
        settings: PlannerSettings,
        record_call: Callable[[str, float], None] = lambda _outcome, _seconds: None,
    ) -> None:
        self.model = ChatModel(settings, record_call)

    async def plan(self, query: str, session: SearchSession, seconds: float | None) -> QueryPlan:
        """Return the queries for a task within `seconds` and the time-out of the settings.

        If the model fails, rules make the plan. No error is raised except CancelledError.
        """
        if not session.messages and not session.summary.strip():
            everywhere = TypedQuery(query, ContextType.UNSPECIFIED, priority=1)
            reason = "no session: the query is searched as it stands"
            return QueryPlan(PlanSource.NONE, reason, (everywhere,))
        model = self.model
        asked, notes = question(query, session)
        try:
            answer = await model.ask(asked, read_answer, seconds, model.timeout)
        except NotAnswered as failure:
            queries, kind = plan_rules.plan(query)
            reason = f"{failure}: planned by rules ({kind})"
            return QueryPlan(PlanSource.RULES, reason, queries, notes, model.name)
        notes += answer.notes
        return QueryPlan(PlanSource.MODEL, answer.reason, answer.queries, notes, model.name)

    async def close(self) -> None:
        """Cancel running calls and close connections, on the loop of the calls."""
        await self.model.close()
