"""The extractor of memories from a conversation: a model, or rules if the model fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vikingd.domain.extract import Extracted, ExtractSource, Proposal
from vikingd.domain.search_query import SearchSession
from vikingd.memory.statements import MAX_READ
from vikingd.models.chat.chat_model import ChatModel, NotAnswered
from vikingd.models.extract.memory_proposals import Known, question, reader

PATIENCE = 6.0
"""The timeout as a multiple of that of a plan: the answer is longer, and nobody waits for it."""


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
        by_rules: Sequence[Proposal],
    ) -> Extracted:
        """Return proposals for the memories in messages[first:].

        The model must answer within `seconds`. If it fails, the result is `by_rules`: proposals
        that rules made of what the user said explicitly.
        """
        if first >= len(session.messages):
            return Extracted(ExtractSource.NONE, "there is no message to read")
        if not self.has_model:
            return _by_rules(session, first, by_rules, "no model is configured")
        asked, notes = question(session, first, known)
        timeout = PATIENCE * self._model.timeout
        try:
            proposals, refused = await self._model.ask(asked, reader(known), seconds, timeout)
        except NotAnswered as failure:
            return replace(_by_rules(session, first, by_rules, str(failure)), failed=True)
        reason = "; ".join(("proposed by the model", *notes))
        return Extracted(ExtractSource.MODEL, reason, proposals, refused)


def _by_rules(
    session: SearchSession, first: int, by_rules: Sequence[Proposal], why: str
) -> Extracted:
    """Return the proposals of the rules; `why` says why no model made them."""
    long = sum(len(m.content) > MAX_READ for m in session.messages[first:])
    reason = f"{why}: taken by rules from what the user says outright"
    if long:
        reason += f"; of {long} messages the first {MAX_READ:,} characters were read"
    return Extracted(ExtractSource.RULES, reason, tuple(by_rules))
