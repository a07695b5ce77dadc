"""The signature of a command, from which typer reads the command's options and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature, signature
from typing import Any


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function except `**`, with annotations as types, not strings."""
    found = signature(function, eval_str=True).parameters.values()
    return [one for one in found if one.kind is not Parameter.VAR_KEYWORD]


def declare(command: Callable[..., Any], parameters: Iterable[Parameter]) -> None:
    """Set the signature of a command to keyword-only parameters, which typer then offers."""
    given = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = Signature(given)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in given}
