"""The checks of the form of a model's answer; its evidence is checked elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vikingd.domain.extract import MAX_MEMORIES, MemoryKind, Proposal, Refusal
from vikingd.domain.text import without_invisible
from vikingd.models.chat.answer import Garbage, plain, read_json
from vikingd.models.extract.prompt import Known

MAX_TEXT_CHARS = 4_000
_KINDS = {kind.name.lower(): kind for kind in MemoryKind}


def reader(
    known: Sequence[Known],
) -> Callable[[str], tuple[tuple[Proposal, ...], tuple[Refusal, ...]]]:
    """Return the function that reads an answer as proposals and refused ones.

    It raises Garbage if there is no list of memories.
    """

    def read(text: str) -> tuple[tuple[Proposal, ...], tuple[Refusal, ...]]:
        answer = read_json(text)
        given = answer.get("memories") if isinstance(answer, dict) else None
        if not isinstance(given, list):
            raise Garbage("without a list of memories")
        proposals: dict[str, Proposal] = {}
        refused: list[Refusal] = []
        for item in given:
            made = _read(item, known)
            if isinstance(made, Refusal):
                refused.append(made)
            elif len(proposals) == MAX_MEMORIES:
                why = f"only {MAX_MEMORIES} memories are taken from one call"
                refused.append(Refusal(made.kind, made.text, made.evidence, why))
            else:
                proposals.setdefault("".join(made.text.casefold().split()), made)
        if given and not proposals and all(one.kind is None for one in refused):
            raise Garbage("without a memory that can be used")
        return tuple(proposals.values()), tuple(refused[:MAX_MEMORIES])

    return read


def _read(item: Any, known: Sequence[Known]) -> Proposal | Refusal:
    fields = item if isinstance(item, dict) else {}
    text = without_invisible(plain(fields.get("text")))
    kind = _KINDS.get(plain(fields.get("kind")).casefold())
    given = fields.get("evidence")
    numbers = given if isinstance(given, list) else []
    evidence = tuple(
        dict.fromkeys(number for number in numbers if type(number) is int and number >= 0)
    )
    if kind is None:
        return Refusal(None, text, (), "the kind is unknown")
    if not text:
        return Refusal(kind, "", (), "the text is empty")
    if len(text) > MAX_TEXT_CHARS:
        why = f"the text has {len(text):,} characters, more than {MAX_TEXT_CHARS:,}"
        return Refusal(kind, text, (), why)
    if len(evidence) != len(numbers):
        return Refusal(kind, text, (), "the evidence is no list of different numbers of messages")
    number: Any = fields.get("replaces")
    is_known = isinstance(number, int) and 1 <= number <= len(known)
    replaces = known[number - 1].id if is_known else 0
    return Proposal(kind, text, evidence, plain(fields.get("section")), replaces)
