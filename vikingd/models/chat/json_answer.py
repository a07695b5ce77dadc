"""The errors of a call to a model, and its answer as JSON."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

_FENCED = re.compile(r"```[A-Za-z]*[ \t]*\r?\n(.*)\n```", re.DOTALL)

# Includes marks of text direction, and surrogates, which UTF-8 cannot encode.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


# No message of these errors quotes the model or its endpoint.


class Garbage(Exception):
    """A reply that cannot be used."""


class Refused(Exception):
    """A refusal by the model, or by a filter before it."""


class CallFailed(Exception):
    """A call without an answer.

    Attributes:
        wait: seconds before a retry; None: a retry would not help.
        pause: seconds that the endpoint asked to wait; None: it asked for none.
    """

    def __init__(self, message: str, wait: float | None = None, pause: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait
        self.pause = pause


def read_json(text: str) -> Any:
    """Return the value of a JSON text, bare or in one fenced block.

    Raises:
        Garbage: the text is not JSON, or nested too deeply.
    """
    text = text.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError):
        raise Garbage("not JSON") from None


def _not_json(constant: str) -> NoReturn:
    raise ValueError(constant)


def plain(value: Any) -> str:
    """Return a string without control characters; "" for any other value."""
    return _CONTROL.sub(" ", value).strip() if isinstance(value, str) else ""
