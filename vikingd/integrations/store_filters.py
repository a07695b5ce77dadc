"""The filters of LangGraph's stores, with the meaning that its InMemoryStore gives them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

_ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_EQUAL = {"$eq": operator.eq, "$ne": operator.ne}


_JOINING = {"$and": all, "$or": any}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return True if each key of a filter matches the value of this key.

    `$and` and `$or` have lists of filters, of which all match, or one at least.

    Raises:
        ValueError: the filter has an unknown operator, or compares by order with what is no number.
    """
    # All parts are checked, so that a wrong one raises even if another one does not match.
    verdicts = [_matches(value, key, part) for key, part in (wanted or {}).items()]
    return all(verdicts)


def _matches(value: Mapping[str, Any], key: str, part: Any) -> bool:
    if key in _JOINING:
        if not isinstance(part, list | tuple) or not all(isinstance(one, dict) for one in part):
            raise ValueError(f"filter[{key!r}] is {part!r}; give a list of filters")
        return _JOINING[key]([matches(value, one) for one in part])
    if key.startswith("$"):
        known = ", ".join(_JOINING)
        raise ValueError(
            f"filter has the operator {key!r}, which joins no filters; those are {known}, and "
            "others stand below a key"
        )
    return _holds(value.get(key), part, key)


def _holds(value: Any, wanted: Any, key: str) -> bool:
    match wanted:
        case dict() if any(name.startswith("$") for name in wanted):
            verdicts = [_compared(value, name, other, key) for name, other in wanted.items()]
            return all(verdicts)
        case dict():
            return isinstance(value, dict) and all(
                _holds(value.get(name), part, f"{key}.{name}") for name, part in wanted.items()
            )
        case list() | tuple():
            return (
                isinstance(value, list)
                and len(value) == len(wanted)
                and all(_holds(one, part, key) for one, part in zip(value, wanted, strict=True))
            )
        case _:
            return bool(value == wanted)


def _compared(value: Any, name: str, other: Any, key: str) -> bool:
    if name in _EQUAL:
        return bool(_EQUAL[name](value, other))
    if name not in _ORDER:
        known = ", ".join((*_EQUAL, *_ORDER))
        raise ValueError(f"filter[{key!r}] has the operator {name!r}; the operators are {known}")
    bound = _number(other)
    if bound is None:
        raise ValueError(f"filter[{key!r}][{name!r}] is {other!r}; give a number")
    number = _number(value)
    return number is not None and bool(_ORDER[name](number, bound))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def names_match(namespace: Sequence[str], kind: str, path: Sequence[str]) -> bool:
    """Return True if a namespace begins (kind "prefix") or ends (kind "suffix") with a path.

    `*` in the path stands for any one label.

    Raises:
        ValueError: the kind is neither "prefix" nor "suffix".
    """
    if kind not in ("prefix", "suffix"):
        raise ValueError(f"match_type is {kind!r}; give 'prefix' or 'suffix'")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
