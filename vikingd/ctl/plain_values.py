"""Values of the command line that need no conversion by typer.

Newer versions of typer convert with pydantic, also what is not given. Its import and its validators
take .1 s of processor time, as much as gRPC. Texts, whole numbers, names of a choice and defaults
are converted here. Typer converts all other values, and reports wrong ones.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import partial
from typing import Any

_UNKNOWN = object()
_WHOLE = re.compile("[0-9]{1,18}")


def convert_plainly(params: list[Any]) -> list[Any]:
    """Set the parameters of a command to convert plain values without typer; return them."""
    for param in params:
        if "process_value" not in vars(param):
            param.process_value = partial(_processed, param, param.process_value)
    return params


def _processed(param: Any, process: Any, context: Any, value: Any) -> Any:
    found = _plain(param, value)
    if found is _UNKNOWN:
        return process(context, value)
    return found if param.callback is None else param.callback(context, param, found)


def _plain(param: Any, value: Any) -> Any:
    """Return the value of a parameter, or _UNKNOWN if typer must convert it."""
    described = getattr(param, "type_descriptor", None)  # older versions have none, nor pydantic
    if described is None or param.nargs != 1:
        return _UNKNOWN
    if value is None and not param.required:
        return () if param.multiple else None
    kind, info = described.annotation, described.parameter_info
    if param.multiple or info.parser is not None or not isinstance(kind, type):
        return _UNKNOWN
    if kind is str or isinstance(value, Enum):
        return value if isinstance(value, kind) else _UNKNOWN
    if issubclass(kind, Enum):
        return next((one for one in kind if one.value == value), _UNKNOWN)
    if kind is int and _WHOLE.fullmatch(str(value)):
        number = int(value)
        is_within = (info.min is None or info.min <= number) and (
            info.max is None or number <= info.max
        )
        return number if is_within else _UNKNOWN
    return _UNKNOWN
