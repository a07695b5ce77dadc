"""The URL parameters of a request; unknown and repeated ones are errors."""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import parse_qsl

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from starlette.requests import Request

from vikingd.gateway.http_errors import Fault

DEFAULT_TIMEOUT = 30.0
"""The seconds of a call whose URL names no `timeout`."""

LONGEST_TIMEOUT = 24 * 3600.0
"""The most seconds that the parameter `timeout` may have."""

_MOST = 100  # parameters


class Query:
    """The URL parameters of a request, as a context manager.

    Each method takes a parameter out. The end of the block raises Fault if some are left.

    Raises:
        Fault: the parameters cannot be decoded.
    """

    def __init__(self, request: Request) -> None:
        self._values: dict[str, list[str]] = {}
        try:
            text = request.scope["query_string"].decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST)
        except UnicodeDecodeError:
            raise Fault(400, "is not valid UTF-8", field="query") from None
        except ValueError:
            raise Fault(400, f"has more than {_MOST} parameters", field="query") from None
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    def one(self, name: str) -> str | None:
        """Take the value of a parameter; None if it is missing.

        Raises:
            Fault: the parameter is given twice.
        """
        values = self._values.pop(name, None)
        if values is None:
            return None
        if len(values) > 1:
            raise Fault(400, "is there twice", field=name)
        return values[0]

    def flag(self, name: str) -> bool:
        """Take a parameter that is "true" or "false"; False if it is missing."""
        return _bool(name, self.one(name) or "false")

    def timeout(self, default: float | None = DEFAULT_TIMEOUT) -> float | None:
        """Take the parameter `timeout` in seconds; return `default` if it is missing."""
        text = self.one("timeout")
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text):
            raise Fault(400, "is not a number of seconds", field="timeout")
        seconds = float(text)
        if not 0 < seconds <= LONGEST_TIMEOUT:
            raise Fault(400, f"must be above 0, at most {LONGEST_TIMEOUT:g}", field="timeout")
        return seconds

    def fields(self, message: Descriptor, aliases: dict[str, str]) -> dict[str, object]:
        """Take the parameters that are scalar fields of a message; return them in JSON form.

        Args:
            message: the type of the message.
            aliases: further names of parameters, with the fields that they stand for.
        """
        found: dict[str, object] = {}
        for given in list(self._values):
            name = aliases.get(given, given)
            field = message.fields_by_name.get(name) or message.fields_by_camelcase_name.get(name)
            if field is None or field.message_type is not None:
                continue
            if field.name in found:
                raise Fault(400, "is there twice, under two names", field=given)
            if field.is_repeated:
                found[field.name] = self._values.pop(given)
            else:
                text = self.one(given) or ""
                is_bool = field.type == FieldDescriptor.TYPE_BOOL
                found[field.name] = _bool(given, text) if is_bool else text
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for name in self._values if kind is None else ():
            raise Fault(400, "is not a parameter here: see /v1/openapi.json", field=name)


def _bool(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise Fault(400, "must be true or false", field=name)
    return text == "true"
