"""Plans without a model: what the form of a query, English or Chinese, says about what it needs.

A query is compared after NFKC. What is returned stands as it was given.
"""

from __future__ import annotations

from vikingd.domain.contexts import ContextType
from vikingd.domain.search import TypedQuery
from vikingd.domain.text import normalized
from vikingd.models.intent import words


def plan(query: str) -> tuple[tuple[TypedQuery, ...], str]:
    """The queries by priority, and what kind of a query it is, in a few words.

    The query itself is always among them, except for chit-chat, which needs none.
    """
    if is_chit_chat(query):
        return (), "chit-chat: nothing to look up"
    queries, kinds = [], []
    if action := action_of(query):
        queries.append(TypedQuery(action, ContextType.SKILL, "how the work is done", 1))
        kinds.append("work to be done")
    if is_personal(query):
        queries.append(
            TypedQuery(query, ContextType.MEMORY, "what is known of the user and of before", 1)
        )
        kinds.append("about the user")
    priority = 3 if queries else 1
    queries.append(TypedQuery(query, ContextType.RESOURCE, "what is written about it", priority))
    return tuple(queries), " and ".join(kinds) or "a question or a topic"


def is_chit_chat(query: str) -> bool:
    """Whether there is nothing in it but greetings, thanks, acknowledgements and the like."""
    text = normalized(query).casefold().replace("’", "'")
    at = 0
    while at < len(text):  # always the longest: no way back, so it takes linear time
        found = words.CHIT_CHAT.match(text, at)
        if not found:
            return False
        at = found.end()
    return True


def is_personal(query: str) -> bool:
    """Whether it is about the one who asks, or about what was before."""
    return words.PERSONAL.search(normalized(query).casefold()) is not None


def action_of(query: str) -> str:
    """The work that it asks for, a verb first, without the polite parts around; "" for none."""
    text = query.strip()
    told = False
    while lead := words.LEAD.match(text):
        told = told or lead.lastgroup == "told"
        text = text[lead.end() :]
    if not (words.TOLD if told else words.UNTOLD).match(text):
        return ""
    return _without_tail(text)


def _without_tail(text: str) -> str:
    while True:
        text = text.rstrip(words.TAIL_SIGNS)
        tail = next((tail for tail in words.TAILS if text[-len(tail) :].lower() == tail), "")
        if not tail:
            return text
        text = text[: -len(tail)]
