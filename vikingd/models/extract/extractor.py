"""The extractor of memories: a model, or rules if the model does not answer in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from vikingd.domain.extract import Extracted, ExtractSource, Proposal
from vikingd.domain.search_query import SearchSession, SessionMessage
from vikingd.memory.statements import MAX_READ
from vikingd.models.chat.chat_model import ChatModel, NotAnswered
from vikingd.models.extract.memory_proposals import Known, question, reader

PATIENCE = 6.0
"""Times the timeout of a plan: a list of memories is a longer answer, and nobody waits for it."""


class Extractor:
    """Proposes the memories of a conversation.

    Args:
        model: the model of the planner.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def has_model(self) -> bool:
        """True if a model is configured."""
        return bool(self._model.name)

    async def propose(
        self,
        session: SearchSession,
        first: int,
        known: Sequence[Known],
        seconds: float | None,
        said: Callable[[Sequence[SessionMessage], int], Awaitable[tuple[Proposal, ...]]],
    ) -> Extracted:
        """Return the memories that messages[first:] say; the model has `seconds`.

        If the model fails, rules take what the user says outright: `said` applies them.
        """
        if first >= len(session.messages):
            return Extracted(ExtractSource.NONE, "there is no message to read")
        if not self.has_model:
            found = await said(session.messages, first)
            return _by_rules(session, first, found, "no model is configured")
        asked, notes = question(session, first, known)
        timeout = PATIENCE * self._model.timeout
        try:
            proposals, refused = await self._model.ask(asked, reader(known), seconds, timeout)
        except NotAnswered as failure:
            found = await said(session.messages, first)
            return replace(_by_rules(session, first, found, str(failure)), failed=True)
        reason = "; ".join(("proposed by the model", *notes))
        return Extracted(ExtractSource.MODEL, reason, proposals, refused)


def _by_rules(
    session: SearchSession, first: int, said: tuple[Proposal, ...], why: str
) -> Extracted:
    """Return what the rules took, for the reason `why`."""
    long = sum(len(m.content) > MAX_READ for m in session.messages[first:])
    reason = f"{why}: taken by rules from what the user says outright"
    if long:
        reason += f"; of {long} messages the first {MAX_READ:,} characters were read"
    return Extracted(ExtractSource.RULES, reason, said)
