"""Filters on metadata, such as {"year": {"$gte": 2020}}; `columns` evaluates them.

Keys of nested objects are dotted paths. A key with a dot means the same as nesting. A list matches
if one of its elements does. Numbers are doubles and compare with numbers only. Strings compare by
code point, with strings only. A bool is not a number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vikingd.domain.errors import InvalidField

MAX_DEPTH = 16
MAX_CLAUSES = 256
MAX_PATH = 256
"""The most characters of a path; metadata at longer paths are not kept and cannot be filtered."""

# A value in the form in which it is compared and hashed: a bool is (True,), because True == 1.0.
Value = str | float | tuple[bool] | None


class NoValue:
    """A value that exists but cannot be compared: an object, an empty list, NaN."""

    def _never(self, _other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _never


NO_VALUE: Final = NoValue()

ORDER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _value(value: object) -> Value | NoValue:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.copysign(math.inf, value > 0 or -1)
        return NO_VALUE if math.isnan(number) else number
    return NO_VALUE


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter whose form is checked.

    `op` is "$and", "$or" or "$not" of `parts`; or "$exists", "$in", "$gt", "$gte", "$lt" or "$lte"
    of the values at `path`. All other operators are built from these.
    """

    op: str
    parts: tuple[Filter, ...] = ()  # one for "$not"
    path: str = ""  # dotted
    operands: tuple[Value, ...] = ()  # any number for "$in", one for a comparison


def flattened(metadata: Mapping[str, Any]) -> dict[str, set[Value]]:
    """Return the values of nested metadata by dotted path, such as {"author.name": {"Ana"}}.

    A path without a comparable value has an empty set.
    """
    found: dict[str, set[Value]] = {}
    below: list[tuple[str, object]] = [("", metadata)]
    while below:
        prefix, value = below.pop()
        if not isinstance(scalar := _value(value), NoValue):
            found[prefix[:-1]].add(scalar)
        elif isinstance(value, list | tuple):
            below.extend((prefix, item) for item in value)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                path = prefix + key
                end = path.find(".", len(prefix))
                while 0 <= end <= MAX_PATH:
                    found.setdefault(path[:end], set())
                    end = path.find(".", end + 1)
                if len(path) <= MAX_PATH:
                    found.setdefault(path, set())
                    below.append((f"{path}.", item))
    return found


def parse(where: Mapping[str, Any]) -> Filter:
    """Convert a filter from its JSON form; an empty one matches everything.

    Raises:
        InvalidField: the filter is invalid. The error names the place, such as
            "where.$and[1].year.$gt".
    """
    found = _filter(where, "where", 1)
    if clauses(found) > MAX_CLAUSES:
        raise InvalidField("where", f"has more than {MAX_CLAUSES} clauses")
    return found


def clauses(where: Filter) -> int:
    """Return the number of comparisons in a filter."""
    return sum(map(clauses, where.parts)) or 1


def _all(parts: list[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else Filter("$and", tuple(parts))


def _negation(part: Filter) -> Filter:
    return Filter("$not", (part,))


def _object(where: object, field: str, depth: int) -> Iterator[tuple[str, Any, str]]:
    """Yield (key, value, field name for errors) of each entry of a JSON object in a filter.

    Raises:
        InvalidField: it is not an object, or is nested too deeply.
    """
    if not isinstance(where, Mapping):
        raise InvalidField(field, "must be an object")
    if depth > MAX_DEPTH:
        raise InvalidField(field, f"is nested deeper than {MAX_DEPTH} levels")
    return ((key, value, f"{field}.{key[:MAX_PATH]}") for key, value in where.items())


def _filter(where: object, field: str, depth: int) -> Filter:
    parts = []
    for key, operand, at in _object(where, field, depth):
        if key in ("$and", "$or"):
            if not isinstance(operand, list | tuple) or not operand:
                raise InvalidField(at, "must be a list of one filter or more")
            below = [_filter(part, f"{at}[{i}]", depth + 1) for i, part in enumerate(operand)]
            parts.append(Filter(key, tuple(below)))
        elif key == "$not":
            parts.append(_negation(_filter(operand, at, depth + 1)))
        elif key.startswith("$"):
            raise InvalidField(at, "is neither $and, $or, $not nor a key")
        elif len(key) > MAX_PATH:
            raise InvalidField(at, f"is longer than {MAX_PATH} characters")
        elif isinstance(operand, Mapping):
            parts.append(_conditions(key, operand, at, depth))
        else:
            parts.append(_clause(key, "$eq", operand, at))
    return _all(parts)


def _conditions(path: str, operators: object, field: str, depth: int) -> Filter:
    parts = []
    for op, operand, at in _object(operators, field, depth):
        if op == "$not":
            parts.append(_negation(_conditions(path, operand, at, depth + 1)))
        else:
            parts.append(_clause(path, op, operand, at))
    if not parts:
        raise InvalidField(field, "needs an operator, such as $eq")
    return _all(parts)


def _clause(path: str, op: str, operand: object, field: str) -> Filter:
    if op in ("$ne", "$nin"):
        return _negation(_clause(path, "$eq" if op == "$ne" else "$in", operand, field))
    if op == "$eq":
        return Filter("$in", path=path, operands=(_scalar(operand, field),))
    if op == "$in":
        if not isinstance(operand, list | tuple) or not operand:
            raise InvalidField(field, "must be a list of one value or more")
        values = (_scalar(value, f"{field}[{i}]") for i, value in enumerate(operand))
        return Filter("$in", path=path, operands=tuple(dict.fromkeys(values)))
    if op == "$exists":
        if not isinstance(operand, bool):
            raise InvalidField(field, "must be true or false")
        found = Filter("$exists", path=path)
        return found if operand else _negation(found)
    if op not in ORDER:
        raise InvalidField(field, "is no operator; a nested key is written with a dot")
    value = _scalar(operand, field)
    if not isinstance(value, str | float):
        raise InvalidField(field, "must be a number or a string")
    return Filter(op, path=path, operands=(value,))


def _scalar(operand: object, field: str) -> Value:
    value = _value(operand)
    if isinstance(value, NoValue):
        raise InvalidField(field, "must be a string, a number, true, false or null")
    return value
