"""The choice of enum members by their names, in any case and number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypeAlias, TypeVar

from vikingd.client.calls import described

E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")

Many: TypeAlias = E | str | Iterable[E | str]
"""One member, or several; a str is the name of one."""


def one_of(kind: type[E], value: E | str | int, name: str) -> E:
    """Return the member of an enum that a value names.

    Args:
        kind: the enum.
        value: a member, its number, or its name in any case ("resource", "Best-First"); singular
            and plural are one.
        name: the argument, for errors.

    Raises:
        ValueError: no member has this name or number.
        TypeError: the value is neither.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        wanted = re.sub(r"[\s-]+", "_", value.strip()).upper()
        singular = wanted.removesuffix("S"), re.sub("IES$", "Y", wanted)
        plural = f"{wanted}S", re.sub("Y$", "IES", wanted)
        for form in (wanted, *singular, *plural):
            for member in kind:
                if form in (member.name, f"{kind.__name__.upper()}.{member.name}"):
                    return member
        raise ValueError(f"{name} is {value[:40]!r}; give {_names(kind)}")
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"{name} is {value}; give {_names(kind)}") from None
    raise TypeError(f"{name} is {described(value)}; give {_names(kind)}")


def many_of(kind: type[E], values: Many[E], name: str) -> list[E]:
    """Return the members of an enum that one value or several name; see `one_of`."""
    if isinstance(values, (str, int)) or not isinstance(values, Iterable):
        return [one_of(kind, values, name)]
    return [one_of(kind, value, name) for value in values]


def each(values: Any, one: type[T] | tuple[type[T], ...], name: str, wanted: str) -> list[T]:
    """Return several values, or one that is given alone, as a list.

    Raises:
        TypeError: a value is of another type.
    """
    if isinstance(values, one):
        return [values]
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {described(values)}; give {wanted}")
    out = list(values)
    for i, value in enumerate(out):
        if not isinstance(value, one):
            raise TypeError(f"{name}[{i}] is {described(value)}; give {wanted}")
    return out


def flat(given: Iterable[Any], one: type[T], name: str, wanted: str) -> list[T]:
    """Return one list of values, with the values of lists among them in their place.

    Raises:
        TypeError: a value is of another type.
    """
    return [value for some in given for value in each(some, one, name, wanted)]


def _names(kind: type[IntEnum]) -> str:
    *others, last = [repr(member.name.lower()) for member in kind if member.name != "UNSPECIFIED"]
    return f"{', '.join(others)} or {last}" if others else last
