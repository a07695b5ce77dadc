"""The parsing of a model's answer as JSON, and of the strings in it."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from vikingd.models.chat.call_errors import Garbage

# Matches an answer in a fenced block: "```json", a line with {"a": 1}, "```".
_FENCED = re.compile(r"```[A-Za-z]*[ \t]*\r?\n(.*)\n```", re.DOTALL)

# Includes marks of text direction, and surrogates, which UTF-8 cannot encode.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def read_json(text: str) -> Any:
    """Parse a JSON text, which may be in one fenced block of Markdown.

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
    """Return a string with control characters as spaces; "" for a value of another type."""
    return _CONTROL.sub(" ", value).strip() if isinstance(value, str) else ""
