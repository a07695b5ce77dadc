"""The budget of an answer, in tokens estimated without a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pydantic import BaseModel

from vikingd.domain.text import approximate_tokens

ENVELOPE = 80
"""The tokens of an answer beside its items: the first line, the keys and the note on the rest."""

Item = TypeVar("Item", bound=BaseModel)


def tokens(text: str) -> int:
    """Return the estimated tokens of a text, with a quarter added to be safe.

    Keys, URIs and escapes of JSON have more tokens than plain text of the same length.
    """
    return approximate_tokens(text) * 5 // 4 + 1


def cost(item: BaseModel) -> int:
    """Return the tokens of an item as JSON, which is longer than its text form."""
    return tokens(item.model_dump_json(exclude_defaults=True))


def beginning(text: str, most: int) -> str:
    """Return the beginning of a text with at most this many tokens, and at least one character.

    It ends at a line end if that drops less than half of it.
    """
    part = text[: 4 * most]
    while tokens(part) > most and len(part) > 1:
        part = part[: len(part) * 7 // 8]
    if len(part) == len(text):
        return part
    line_end = part.rfind("\n") + 1
    return part[:line_end] if line_end > len(part) // 2 else part


def fill(items: Iterable[Item], max_tokens: int, *longer: Callable[[Item], Item]) -> list[Item]:
    """Return the first items that fit into a budget, up to the first that does not.

    Args:
        items: the items in their shortest form, best first.
        max_tokens: the budget of the whole answer.
        longer: functions that return a longer form of an item. The first one replaces items, the
            best first, by longer forms that fit into the rest of the budget; then the next one.
    """
    left = max_tokens - ENVELOPE
    taken: list[Item] = []
    costs: list[int] = []
    for item in items:
        needed = cost(item)
        if needed > left:
            break
        left -= needed
        taken.append(item)
        costs.append(needed)
    for lengthen in longer:
        for at, item in enumerate(taken):
            form = lengthen(item)
            needed = cost(form)
            if needed - costs[at] <= left:
                left -= needed - costs[at]
                taken[at], costs[at] = form, needed
    return taken
