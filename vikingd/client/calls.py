"""The check of a call's arguments: a wrong one is named, with an example of a right one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, SupportsFloat, SupportsIndex, TypeVar

from vikingd.client.words import unknown_argument

P = ParamSpec("P")
T = TypeVar("T")

_EXAMPLES = {
    "query": '"how hot for oolong?"',
    "text": '"Drinks oolong."',
    "content": '"Oolong: 90 degrees."',
    "at": '"viking://resources/notes/"',
    "uri": '"viking://resources/notes/tea.md"',
    "uris": '"viking://resources/notes/tea.md"',
    "source": '"viking://resources/notes"',
    "destination": '"viking://resources/old"',
    "target_uri": '"viking://resources"',
    "where": '{"year": {"$gte": 2024}}',
    "metadata": '{"year": 2024}',
    "memory_type": '"preferences"',
    "project": '"moon"',
    "user": '"ana"',
    "pattern": '"**/*.md"',
    "limit": "10",
    "top_k": "10",
    "ids": "17",
    "max_tokens": "2000",
    "score_threshold": "0.3",
    "title": '"Tea"',
    "address": '"127.0.0.1:7716"',
    "key": '"vk_..."',
}
_BY_KIND = {"str": '"..."', "int": "1", "float": "0.5", "bool": "True"}
_KINDS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


def described(value: object) -> str:
    """Return the type of a value and its beginning, such as "an int (3)"; None is "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    text = repr(value)
    shown = text if len(text) <= 40 else f"{text[:40]}..."
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name} ({shown})"


def wrong_type(name: str, value: object, wanted: str, example: str = "") -> TypeError:
    """Return the error for an argument of a wrong type.

    Args:
        name: the argument.
        value: its value.
        wanted: the types that it may have, such as "a str".
        example: a right value; "": that of the argument's name.
    """
    shown = example or _EXAMPLES.get(name, "")
    such = f", such as {name}={shown}" if shown else ""
    return TypeError(f"{name} is {described(value)}; give {wanted}{such}")


def checked(function: Callable[P, T], name: str = "") -> Callable[P, T]:
    """Return a function that checks the names and the simple types of its arguments first.

    Arguments that are annotated as str, int, float or bool are checked. None for an argument that
    is given by its name means its default, unless its annotation allows None.

    Args:
        function: its annotations are strings.
        name: the name of the function in errors; "": its own.
    """
    call = name or function.__name__
    parameters = {
        key: one
        for key, one in inspect.signature(function).parameters.items()
        if key != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD
    }
    takes_self = "self" in inspect.signature(function).parameters
    named = [k for k, one in parameters.items() if one.kind is not inspect.Parameter.VAR_POSITIONAL]
    known = frozenset(named)
    positional = [
        k for k, one in parameters.items() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    kinds = {key: one.annotation for key, one in parameters.items() if one.annotation in _KINDS}
    nullable = {
        key: one.annotation.removesuffix(" | None")
        for key, one in parameters.items()
        if isinstance(one.annotation, str) and one.annotation.removesuffix(" | None") in _KINDS
    }
    defaults = {
        key
        for key, one in parameters.items()
        if one.default is not inspect.Parameter.empty
        and one.default is not None
        and not str(one.annotation).endswith("| None")
    }
    rest = next(
        (k for k, one in parameters.items() if one.kind is inspect.Parameter.VAR_POSITIONAL), ""
    )

    def check(key: str, value: Any) -> None:
        kind = nullable.get(key)
        if kind is None or (value is None and key not in kinds):
            return
        if not _fits(kind, value):
            article = "an" if kind == "int" else "a"
            example = _EXAMPLES.get(key) or _BY_KIND[kind]
            fault = wrong_type(key, value, f"{article} {kind}", example)
            raise TypeError(f"{call}(): {fault}")

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        given = args[1:] if takes_self else args
        if not kwargs.keys() <= known:
            raise unknown_argument(call, next(k for k in kwargs if k not in known), named)
        if len(given) > len(positional) and not rest:
            by_name = ", ".join(k for k in named if k not in positional)
            raise TypeError(
                f"{call}() takes {_counted(positional)} without a name, and {len(given)} are "
                f"given; give the others by name: {by_name or 'there are none'}"
            )
        for i, value in enumerate(given):
            check(positional[i] if i < len(positional) else rest, value)
        for key, value in list(kwargs.items()):
            if value is None and key in defaults:
                del kwargs[key]
            else:
                check(key, value)
        return function(*args, **kwargs)

    return run


def _counted(names: list[str]) -> str:
    return f"at most {len(names)} argument{'s' * (len(names) != 1)}"


def _fits(kind: str, value: Any) -> bool:
    """Return True if a value is of a simple type, or is a number of numpy that stands for it."""
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool) or type(value).__name__ == "bool_"
    if isinstance(value, bool):
        return False
    if kind == "int":
        return isinstance(value, SupportsIndex)
    return isinstance(value, SupportsFloat)
