"""Plans of queries by rules on the wording of a request in English or Chinese.

The rules read the text after NFKC. The plan has the text unchanged.
"""

from __future__ import annotations

from vikingd.domain.contexts import ContextType
from vikingd.domain.search_query import TypedQuery
from vikingd.domain.text import normalized
from vikingd.models.intent import plan_words as words


def plan(query: str) -> tuple[tuple[TypedQuery, ...], str]:
    """Return the queries by priority, and a few words on the kind of the request.

    The request itself is always one of the queries, except for chit-chat, which has none.
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
    """Return True if a text has only greetings, thanks and the like, such as "hi, thanks!"."""
    text = normalized(query).casefold().replace("’", "'")
    at = 0
    while at < len(text):  # no backtracking, so it takes linear time
        found = words.CHIT_CHAT.match(text, at)
        if not found:
            return False
        at = found.end()
    return True


def is_personal(query: str) -> bool:
    """Return True if a request is about its user or earlier conversations, as in "my address"."""
    return words.PERSONAL.search(normalized(query).casefold()) is not None


def action_of(query: str) -> str:
    """Return the work that a text asks for, without polite words; "" if it asks for none.

    For "could you please translate this page?" it is "translate this page".
    """
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
