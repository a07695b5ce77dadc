"""The store of LangGraph beside its InMemoryStore: random operations, equal answers."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from vikingd.client import Client
from vikingd.integrations.langgraph import VikingdStore

SEED = int(os.environ.get("TEST_SEED", "20261125"))
OPERATIONS = int(os.environ.get("TEST_OPERATIONS", "2000"))
MANY = 1_000_000
LABELS = ("users", "ana", "a/b", "50%", "%2F", "茶", "é", "a b", "*", "~", "\t", "x" * 40)
KEYS = (*LABELS, "", ".", "..", "a.json", "notes.md", "\n", "\x00", "\x85", "%", "/", "//", "users")
WORDS = ("oolong", "green", "tea", "steep", "water", "cup")
NUMBERS = (0, 1, -3, 2.5, 1.0, 2**70, -(2**63), 1e300, 5e-324)
TEXTS = ("", "1", "a\n", chr(0xD800), "\x00\x85", "茶\u2028", *WORDS)
SCALARS = (None, True, False, *NUMBERS, *TEXTS)
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


class Dice:
    """Random operations."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def namespace(self, shortest: int = 1) -> tuple[str, ...]:
        """Return a namespace; short ones and prefixes of others are frequent."""
        length = self.random.choice((shortest, 1, 1, 2, 2, 3))
        return tuple(self.some(LABELS) for _ in range(length))

    def some(self, values: Sequence[str]) -> str:
        """Return a value; the first ones are frequent."""
        return values[int(self.random.random() ** 4 * len(values))]

    def scalar(self) -> Any:
        """Return a value without parts."""
        return self.random.choice(SCALARS)

    def value(self) -> dict[str, Any]:
        """Return a value with numbers, texts and parts."""
        value: dict[str, Any] = {"n": self.random.choice((0, 1, 2, 2.0, 3.5, 2**60 + 1))}
        for name in self.random.sample(("text", "kind", "deep", "list", "", "a.b"), 3):
            value[name] = {
                "text": " ".join(self.random.choices(WORDS, k=5)),
                "kind": self.random.choice(WORDS[:2]),
                "deep": {"x": self.scalar(), "y": {"z": self.random.randrange(3)}},
                "list": [self.scalar() for _ in range(self.random.randrange(3))],
            }.get(name, self.scalar())
        if self.random.random() < 0.01:
            value["long"] = "long " * 20_000
        return value

    def filter(self) -> dict[str, Any] | None:
        """Return a filter, or none."""
        some = self.random.choice
        return some(
            (
                None,
                {"n": {some(OPERATORS): some((0, 1, 2, 3.5, 2**60 + 1))}},
                {"n": {"$gte": some((0, 1)), "$lt": 3}},
                {"kind": some(WORDS[:2])},
                {"kind": {some(("$eq", "$ne")): some(WORDS[:2])}, "n": some((1, 2))},
                {"deep": {"y": {"z": some((0, 1))}}},
                {"deep": {"x": self.scalar()}},
                {"list": [self.scalar()]},
                {"": self.scalar()},
                {"a.b": self.scalar()},
            )
        )

    def condition(self) -> MatchCondition:
        """Return a condition for namespaces."""
        path = tuple(
            self.random.choice(("*", label)) for label in self.namespace(self.random.randrange(2))
        )
        return MatchCondition(self.random.choice(("prefix", "suffix")), path)

    def operation(self) -> Op:
        """Return one operation."""
        kind = self.random.random()
        if kind < 0.45:
            index = self.random.choice((None, None, False, ["text"], ["list[*]", "deep.x"], ["$"]))
            return PutOp(self.namespace(), self.some(KEYS), self.value(), index)
        if kind < 0.6:
            return PutOp(self.namespace(), self.some(KEYS), None)
        if kind < 0.8:
            return GetOp(self.namespace(), self.some(KEYS))
        if kind < 0.9:
            limit = self.random.choice((MANY, MANY, 3, 0))
            return SearchOp(self.namespace(0), self.filter(), limit, self.random.choice((0, 0, 2)))
        conditions = tuple(self.condition() for _ in range(self.random.randrange(3)))
        depth = self.random.choice((None, None, 1, 2))
        limit, offset = self.random.choice((1000, 1000, 3)), self.random.choice((0, 0, 1))
        return ListNamespacesOp(conditions or None, depth, limit, offset)


def told(result: Any) -> Any:
    """Return what the interface defines of an answer: times and the order of items are free."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value, typed(result.value)
    if isinstance(result, list) and result and isinstance(result[0], Item):
        return sorted((told(item) for item in result), key=repr)
    return result


def typed(value: Any) -> str:
    """Return a value as text, which tells 1 from 1.0 and True."""
    if isinstance(value, dict):
        return repr(sorted((key, typed(part)) for key, part in value.items()))
    return repr([typed(part) for part in value]) if isinstance(value, list) else repr(value)


class Twin(InMemoryStore):
    """The twin, which lists no namespace that has no item: a read or a deletion leaves some."""

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        for namespace in [name for name, items in self._data.items() if not items]:
            del self._data[namespace]
        return super()._handle_list_namespaces(op)


@pytest.mark.parametrize("count", [150, pytest.param(OPERATIONS, marks=pytest.mark.deep)])
def test_random_operations_have_the_answers_of_the_twin(typed: Client, count: int) -> None:
    """Operations in batches of up to 20 have equal answers, at any time."""
    dice = Dice(SEED)
    store, twin = VikingdStore(typed, "viking://resources/agents"), Twin()
    done = 0
    while done < count:
        ops = [dice.operation() for _ in range(dice.random.choice((1, 1, 5, 20)))]
        for op in ops:  # a page is a part of all, and all are the same as those of the twin
            if isinstance(op, SearchOp) and (op.offset or op.limit < MANY):
                [page], [every] = store.batch([op]), store.batch([whole(op)])
                assert page == every[op.offset : op.offset + op.limit], f"{done}: {op}"
        ops = [whole(op) if isinstance(op, SearchOp) else op for op in ops]
        for op, result, wanted in zip(ops, store.batch(ops), twin.batch(ops), strict=True):
            assert told(result) == told(wanted), f"seed {SEED}, operation {done}: {op}"
        done += len(ops)
    [left] = store.batch([SearchOp((), None, MANY)])
    assert told(left) == told(twin.batch([SearchOp((), None, MANY)])[0])
    assert len(left) > min(50, count // 15)


def whole(op: SearchOp) -> SearchOp:
    """Return a search for all items that match."""
    return op._replace(limit=MANY, offset=0)
